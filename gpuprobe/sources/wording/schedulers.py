"""What Slurm, Kubernetes and agents on its nodes say of a node: too few GPUs, failed or rebooted.

Slurm counts device files: a GPU that is gone, a driver that is not loaded and a wrong gres.conf
look the same to it. It knows of the reboots that it was asked for; Kubernetes does not.
"""

from __future__ import annotations

import re

from gpuprobe.events import OtherFailed, UncleanEndFound
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading


def _read_missing(match: re.Match[str], window: Window) -> Reading:
    return OtherFailed(**window.base(), what=match["said"], where="slurm")


def _read_counted(match: re.Match[str], window: Window) -> Reading:
    one, other = re.findall(r"\d+", match["said"])[:2]
    if one == other:
        return None
    return OtherFailed(**window.base(), what=match["said"], where="kubernetes")


def _read_rebooted(match: re.Match[str], window: Window) -> Reading:
    if match["failed"]:
        return OtherFailed(**window.base(), what=match["failed"], where="slurm")
    if match["kubernetes"]:
        return OtherFailed(**window.base(), what=match["kubernetes"], where="kubernetes")
    return UncleanEndFound(**window.base(), what="scheduler", detail=match["slurm"])


FAMILY = Family(
    "schedulers",
    (
        Pattern(
            id="slurm-gpus-missing",
            needles=("gres/gpu", "gres.conf file /dev/nvidia"),
            regex=regex(
                r"(?P<said>gres/gpu:? count (?:reported lower than configured|too low)[^\n(]{0,40}\(?\d+ < \d+"
                r"|(?:Waiting for|can't stat) gres\.conf file /dev/nvidia\d+)"
            ),
            read=_read_missing,
            examples=(
                "   Reason=gres/gpu count reported lower than configured (3 < 4) [slurm@2026-02-02T10:11:12]",
                "slurmctld: error: gres/gpu count too low (7 < 8)",
                "slurmd: fatal: can't stat gres.conf file /dev/nvidia3: No such file or directory",
            ),
            near=(
                "   CfgTRES=cpu=64,mem=1000G,billing=64,gres/gpu=8",
                "slurmd: gres/gpu: count reported as configured",
            ),
            source="SchedMD/slurm, interfaces/gres.c",
        ),
        Pattern(
            id="slurm-node-fail",
            needles=("NODE_FAIL",),
            regex=regex(
                r"(?P<said>\bJobState=NODE_FAIL\b(?: Reason=\w+)?|\bRun time [\d:-]+, NODE_FAIL\b|\bNODE_FAIL +\d+:\d+(?!\d))"
            ),
            read=_read_missing,
            examples=(
                "   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)",
                "email msg to lee: Slurm Job_id=4417 Name=sft Failed, Run time 02:11:09, NODE_FAIL",
                "4417.batch        batch      users         64  NODE_FAIL      0:0",
            ),
            near=("   JobState=RUNNING Reason=None", "requeue on NODE_FAIL is switched on"),
            source="SchedMD/slurm, scontrol(1), sacct(1)",
        ),
        Pattern(
            id="kubelet-gpus-missing",
            needles=("requested number of devices unavailable for ",),
            regex=regex(
                r"(?P<said>requested number of devices unavailable for (?:nvidia|amd)\.com/\w+[\w.-]*\. Requested: \d+, Available: \d+)"
            ),
            read=lambda match, window: OtherFailed(
                **window.base(), what=match["said"], where="kubernetes"
            ),
            examples=(
                "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 4, Available: 3, which is unexpected",
            ),
            near=(
                "requested number of devices unavailable for smarter-devices/fuse. Requested: 1, Available: 0",
            ),
            source="kubernetes, pkg/kubelet/cm/devicemanager",
        ),
        Pattern(
            id="gpu-count-mismatch",
            needles=(
                "nvidia device files were detected",
                "GPUs for this instance type but",
                "gpu count mismatch (",
                "check_gpu_count: ",
            ),
            regex=regex(
                r"(?P<said>DCGM detected \d+ GPUs but \d+ nvidia device files were detected|expected \d+ GPUs for this instance type but only \d+ were detected"
                r"|nvidia gpu count mismatch \(lspci \d+, expected \d+\)|check_gpu_count: .{0,20}?[Ee]xpected \d+ (?:GPUs )?(?:and|but) found \d+)"
            ),
            read=_read_counted,
            examples=(
                "NvidiaDeviceCountMismatch   node/i-0a1b   DCGM detected 7 GPUs but 8 nvidia device files were detected at /dev",
                "expected 4 GPUs for this instance type but only 3 were detected",
                "nvidia gpu count mismatch (lspci 7, expected 8)",
                "ERROR:  nhc:  Health check failed:  check_gpu_count: Expected 8 and found 7",
            ),
            near=(
                "Health check passed:  check_gpu_count: Expected 8 and found 8",
                "checking nvidia gpu counts",
            ),
            source="aws/eks-node-monitoring-agent, dcgm_devices.go; leptonai/gpud, gpu-counts; Azure/azurehpc-health-checks",
        ),
        Pattern(
            id="node-rebooted",
            needles=("unexpectedly rebooted", " has been rebooted, boot id: ", "ode failure on "),
            regex=regex(
                r"(?P<slurm>\bNode (?:[\w.-]+ )?unexpectedly rebooted)|(?P<kubernetes>\bNode [\w.-]+ has been rebooted), boot id: |srun: error: (?P<failed>Node failure on \S+)"
            ),
            read=_read_rebooted,
            examples=(
                "validate_node_specs: Node gpu7 unexpectedly rebooted boot_time=1767323045 last response=1767322745",
                "   Reason=Node unexpectedly rebooted [slurm@2026-02-02T10:11:12]",
                "srun: error: Node failure on gpu7",
                "3m   Warning   Rebooted   node/gpu-7   Node gpu-7 has been rebooted, boot id: 0d1e2f30-4152-6374-8596-a7b8c9daebfc",
            ),
            near=(
                "slurmctld: no node failure on gpu7",
                "node gpu7 returned to service",
                "Node gpu7 rebooted 312 secs ago",
            ),
            source="SchedMD/slurm, slurmctld/node_mgr.c; kubernetes, kubelet_node_status.go",
        ),
    ),
)
"""Batch schedulers."""
