"""NVRM's words about the GPU's own firmware: GSP, PMU, FSP."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import FirmwareFaulted
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.shapes import SLOT, hex_or_none, int_or_none

_OPEN = "open kernel modules 515 to 595, kernel_gsp.c"

_INSTANCE = regex(r"\bGPU(\d{1,3})\b")


def _faulted(what: str) -> Callable[[re.Match[str], Window], Reading]:
    """A reader that gives `FirmwareFaulted(what)` with what the match names."""

    def read(match: re.Match[str], window: Window) -> Reading:
        named = match.groupdict()
        # Since 570 the driver starts its messages with its own GPU number: "NVRM: GPU3 _kgsp...".
        head = _INSTANCE.search(window.text)
        return FirmwareFaulted(
            **window.base(named.get("bdf")),
            what=what,
            gpu_instance=int_or_none(named.get("gpu") or (head[1] if head else None)),
            status=hex_or_none(named.get("status")),
        )

    return read


def _read_class(match: re.Match[str], window: Window) -> Reading:
    what = "slow" if match["what"].endswith("slow") else "unresponsive"
    return _faulted(what)(match, window)


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="nvrm-gsp-timeout",
        needles=("waiting for RPC",),
        regex=regex(
            r"Timeout (?:after \d+s of )?waiting for RPC(?: response)? from (?:GPU(?P<gpu>\d+) )?GSP"
        ),
        read=_faulted("rpc-timeout"),
        examples=(
            "NVRM: _kgspRpcRecvPoll: Timeout waiting for RPC from GSP! Expected function 76 (0x0 0x0).",
            "NVRM: Timeout waiting for RPC from GSP1! Expected function 103 (GSP_RM_ALLOC) (0x0 0x0).",
            "Timeout after 45s of waiting for RPC response from GPU2 GSP! Expected function 76 (GSP_RM_CONTROL) sequence 12 (0x20800a4c 0x4).",
        ),
        near=("client: waiting for RPC reply from server",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-gsp-rpc",
        needles=("rpcRecvPoll timed", "GSP RPC timeout detected", "kgspRpcRecvPoll+0x"),
        regex=regex(
            r"rpcRecvPoll timed ?out for fn \d+|Back to back GSP RPC timeout detected"
            r"|_kgspRpcRecvPoll\+0x[0-9a-f]+/0x[0-9a-f]+ \[nvidia\]"
        ),
        read=_faulted("rpc-timeout"),
        examples=(
            "NVRM: _issueRpcAndWait: rpcRecvPoll timedout for fn 103 sequence 611!",
            "NVRM: GPU0 nvAssertFailedNoLog: Assertion failed: Back to back GSP RPC timeout detected! GPU marked for reset @ kernel_gsp.c:2401",
            " _kgspRpcRecvPoll+0x5f1/0x7a0 [nvidia]",
        ),
        near=("static NV_STATUS _kgspRpcRecvPoll(OBJGPU *pGpu)",),
        source=f"{_OPEN}, rpc.c; the driver dumps its stack when a call's wait ends",
    ),
    Pattern(
        id="nvrm-gsp-banner",
        needles=("* GSP Timeout *",),
        regex=regex(r"\*{4,} GSP Timeout \*{4,}"),
        read=_faulted("rpc-timeout"),
        examples=(
            "NVRM: GPU1 _kgspLogRpcTimeout: ****************** GSP Timeout ******************",
        ),
        near=("* GSP Timeout * is a setting",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-gsp-sanity",
        needles=("sanity check failed 0x",),
        regex=regex(
            r"(?:GPU(?P<gpu>\d+) )?sanity check failed 0x(?P<status>[0-9a-fA-F]+) waiting for RPC"
        ),
        read=_faulted("sanity-check"),
        examples=(
            "NVRM: _kgspLogRpcSanityCheckFailure: GPU2 sanity check failed 0xf waiting for RPC response from GSP. Expected function 103",
        ),
        near=("sanity check failed 0x12 in page table",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-gsp-heartbeat",
        needles=("eartbeat timed out",),
        regex=regex(r"(?:kgsp|GSP)[^\n]{0,80}?[Hh]eartbeat timed out"),
        read=_faulted("heartbeat"),
        examples=(
            "NVRM: GPU4 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 91 heartbeat 3",
            "NVRM: _kgspRpcRecvPoll: GSP RM heartbeat timed out",
        ),
        near=("etcd: peer heartbeat timed out",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-gfw-boot",
        needles=("to wait for GFW",),
        regex=regex(
            r"failed to wait for GFW[ _](?:boot|BOOT)(?: complete)?(?:: 0x(?P<status>[0-9a-fA-F]+))?"
        ),
        read=_faulted("gfw-boot"),
        examples=(
            "NVRM: kgspWaitForGfwBootOk_TU102: failed to wait for GFW boot complete: 0x65 VBIOS version 95.02.18.80.87",
            "NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x4)",
        ),
        near=("ready to wait for GFW events",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-wpr2",
        needles=("WPR2 already up",),
        regex=regex(r"unexpected WPR2 already up"),
        read=_faulted("wpr2"),
        examples=(
            "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
        ),
        near=("WPR2 already up and checked",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-crash-cat",
        needles=("CrashCat Report",),
        regex=regex(r"\*{3,} ?(?:GSP|PMU|SEC2|\w+)-CrashCat Report"),
        read=_faulted("crash-cat"),
        examples=("NVRM: kgspHealthCheck_TU102: ************* GSP-CrashCat Report **************",),
        near=("how to read a GSP-CrashCat Report",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-gsp-ratelimit",
        needles=("Rate limiting GSP RPC",),
        regex=regex(
            rf"Rate limiting GSP RPC error prints(?: for GPU at (?:PCI:)?(?P<bdf>{SLOT}))?"
        ),
        read=_faulted("rpc-timeout"),
        examples=(
            "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:65:00 (printing 1 of every 30).  The GPU likely needs to be reset.",
        ),
        near=("Rate limiting GSP RPC is off",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-gsp-class",
        needles=("GSP core unresponsive", "GSP-RM unresponsive", "GSP-RM is slow"),
        regex=regex(r"=+ (?P<what>GSP core unresponsive|GSP-RM unresponsive|GSP-RM is slow)\b"),
        read=_read_class,
        examples=("NVRM: _kgspClassifyGspTimeout: ============= GSP-RM is slow =============",),
        near=("we think the GSP-RM is slow today",),
        source="open kernel modules 595, kernel_gsp.c",
    ),
    Pattern(
        id="nvrm-pmu-halt",
        needles=("PMU has halted",),
        regex=regex(r"Received signal from GSP that PMU has halted"),
        read=_faulted("pmu-halted"),
        examples=(
            "NVRM: GPU0 _kgspRpcGspEventPmuHalted: Received signal from GSP that PMU has halted.",
        ),
        near=("when the PMU has halted, reset",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-gsp-boot-failed",
        needles=("initialize GSP firmware", "FSP boot cmds failed", "GSP ucode image"),
        regex=regex(
            r"Cannot initialize GSP firmware RM|FSP boot cmds failed|failed to execute GSP ucode image"
        ),
        read=_faulted("boot-failed"),
        examples=("NVRM: RmInitAdapter: Cannot initialize GSP firmware RM",),
        near=("how to initialize GSP firmware",),
        source="open kernel modules, osinit.c",
    ),
)
