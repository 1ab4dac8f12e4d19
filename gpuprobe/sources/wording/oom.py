"""Processes that were ended because the host, or their cgroup, ran out of memory."""

from __future__ import annotations

import re

from gpuprobe.events import OomKilled
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading

# A terminal pads a wrapped line with blanks up to its width, in the middle of a word too.
_PADDING = regex(r" {8,}")
_RSS = regex(r"anon-rss:\s*(?P<kib>\d+)\s*kB")
_KILLED = regex(r"Kill(?:ed)? process (?P<pid>\d+)")
_CGROUP = regex(r"[Mm]emory cgroup|CONSTRAINT_MEMCG|oom_memcg=/\w")


def _is_told(window: Window, lines: int, pid: str | None) -> bool:
    """True when a line nearby tells of the same kill in the form that says most."""
    for record in (*window.after(lines), *window.before(lines)):
        killed = _KILLED.search(record.message)
        if killed is not None and pid in (None, killed["pid"]):
            return True
    return False


def _read_killed(match: re.Match[str], window: Window) -> Reading:
    text = _PADDING.sub("", window.text)
    rss = _RSS.search(text)
    cgroup = _CGROUP.search(text) is not None or any(
        _CGROUP.search(record.message) for record in window.before(6)
        if match["pid"] in record.message
    )  # fmt: skip
    return OomKilled(
        **window.base(),
        pid=int(match["pid"]),
        process=match["process"],
        cgroup=cgroup,
        rss_kib=int(rss["kib"]) if rss else None,
    )


def _read_oom_kill(match: re.Match[str], window: Window) -> Reading:
    text = _PADDING.sub("", window.text)
    task = re.search(r"task=(?P<process>[^,]+),pid=(?P<pid>\d+)", text)
    if _is_told(window, 4, task["pid"] if task else None):
        return None
    return OomKilled(
        **window.base(),
        pid=int(task["pid"]) if task else None,
        process=task["process"] if task else None,
        cgroup="CONSTRAINT_MEMCG" in text,
    )


def _read_reaped(match: re.Match[str], window: Window) -> Reading:
    if _is_told(window, 12, match["pid"]):
        return None
    return OomKilled(**window.base(), pid=int(match["pid"]), process=match["process"])


def _read_invoked(match: re.Match[str], window: Window) -> Reading:
    following = window.after(Window.REACH)
    if any(_KILLED.search(record.message) or "oom-kill:" in record.message for record in following):
        return None
    # The process named is the one that asked for memory, not the one that was killed.
    return OomKilled(**window.base())


def _read_cgroup(match: re.Match[str], window: Window) -> Reading:
    groups = match.groupdict()
    return OomKilled(**window.base(), process=groups.get("who"), cgroup=True)


def _read_earlyoom(match: re.Match[str], window: Window) -> Reading:
    return OomKilled(**window.base(), pid=int(match["pid"]), process=match["process"])


def _read_host(match: re.Match[str], window: Window) -> Reading:
    return OomKilled(**window.base())


def _read_victim(match: re.Match[str], window: Window) -> Reading:
    return OomKilled(**window.base(), process=match["process"], pid=int(match["pid"]))


def _read_refused(match: re.Match[str], window: Window) -> Reading:
    return OomKilled(**window.base(), refused=True)


FAMILY = Family(
    "oom",
    (
        Pattern(
            id="oom-killed-process",
            needles=("Killed process ", "Kill process "),
            regex=regex(
                r"(?:ut of memory[^\n]{0,60}?:\s+|\b)Kill(?:ed)? process (?P<pid>\d+)[,\s]+\((?P<process>[^)\n]{1,64})\)(?=,? *(?:total-vm|score|UID|,|$)|\s)"
            ),
            read=_read_killed,
            examples=(
                "Out of memory: Killed process 4411 (python3) total-vm:63312244kB, anon-rss:30451456kB, file-rss:74816kB, shmem-rss:12296kB, UID:0 pgtables:690kB oom_score_adj:0",
                "Memory cgroup out of memory: Killed process 991 (vllm) total-vm:9000kB, anon-rss:8000kB",
                "Out of memory: Kill process 1234 (java) score 901 or sacrifice child",
                "Out of memory: Killed process 4411 (python3) total-vm:63312244                                                       kB, anon-rss:30451456kB",
            ),
            near=("Killed process group of job 7 (done)",),
            source="linux mm/oom_kill.c",
        ),
        Pattern(
            id="oom-kill-constraint",
            needles=("oom-kill:constraint=",),
            regex=regex(r"oom-kill:constraint="),
            read=_read_oom_kill,
            examples=("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=pod7,mems_allowed=0,oom_memcg=/kubepods/pod7,task_memcg=/kubepods/pod7/c1,task=python,pid=8123,uid=0",),
            near=("the oom-kill:constraint of this pod",),
            source="linux mm/oom_kill.c",
        ),
        Pattern(
            id="oom-reaped",
            needles=("oom_reaper: reaped process ",),
            regex=regex(r"oom_reaper: reaped process (?P<pid>\d+) \((?P<process>[^)\n]+)\)"),
            read=_read_reaped,
            examples=("oom_reaper: reaped process 4411 (python3), now anon-rss:0kB, file-rss:74732kB",),
            source="linux mm/oom_kill.c",
        ),
        Pattern(
            id="oom-invoked",
            needles=(" invoked oom-killer",),
            regex=regex(r"\S invoked oom-killer: "),
            read=_read_invoked,
            examples=("python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",),
            source="linux mm/oom_kill.c",
        ),
        Pattern(
            id="oom-unit",
            needles=("by the OOM killer", "systemd-oomd killed", "with result 'oom-kill'"),
            regex=regex(
                r"(?<!\S)(?P<who>\S{1,200}\.(?:service|scope|slice)): (?:A process of this unit has been killed by the OOM killer|systemd-oomd killed|Failed with result 'oom-kill')"
            ),
            read=_read_cgroup,
            examples=(
                "vllm.service: A process of this unit has been killed by the OOM killer.",
                "train.scope: systemd-oomd killed 4 process(es) in this unit.",
            ),
            source="systemd",
        ),
        Pattern(
            id="oom-systemd-oomd",
            needles=(" due to memory pressure", " due to memory used "),
            regex=regex(r"Killed (?P<who>/\S+) due to memory (?:pressure|used )"),
            read=_read_cgroup,
            examples=("Killed /user.slice/user-1000.slice/train.scope due to memory pressure for /user.slice being 81.20% > 50.00% for > 20s with reclaim activity",),
            source="systemd-oomd",
        ),
        Pattern(
            id="oom-earlyoom",
            needles=("sending SIG",),
            regex=regex(
                r"sending SIG(?:TERM|KILL) to process (?P<pid>\d+)(?: uid \d+)? \"(?P<process>[^\"\n]+)\""
            ),
            read=_read_earlyoom,
            examples=('sending SIGTERM to process 20311 uid 1000 "python3": badness 1303, VmRSS 58811 MiB',),
            near=("sending SIGTERM to workers",),
            source="earlyoom",
        ),
        Pattern(
            id="oom-container",
            needles=("OOMKilled", "oom-kill event", "oom_kill event", "out-of-memory handler", "TaskOOM"),
            regex=regex(
                r"OOMKilled\b(?!\W{0,3}(?:false|False))|Detected \d+ oom[-_]kill event|killed by the cgroup out-of-memory handler|TaskOOM event"
            ),
            read=_read_cgroup,
            examples=(
                "      Reason:       OOMKilled",
                '"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}',
                "slurmstepd: error: Detected 1 oom_kill event in StepId=7711.batch. Some of the step tasks have been OOM Killed.",
            ),
            near=('"OOMKilled": false,',),
            source="Kubernetes, Docker, Slurm",
        ),
        Pattern(
            id="oom-ray",
            needles=("node running low on memory", "killed due to memory pressure (OOM)"),
            regex=regex(
                r"killed due to the node running low on memory|[1-9]\d* Workers \(tasks / actors\) killed due to memory pressure \(OOM\)"
            ),
            read=_read_host,
            examples=(
                "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
                "(raylet) 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 8a1c)",
            ),
            near=("0 Workers (tasks / actors) killed due to memory pressure (OOM), 2 Workers crashed due to other reasons",),
            source="Ray",
        ),
        Pattern(
            id="oom-kubelet",
            needles=("System OOM encountered",),
            regex=regex(
                r"System OOM encountered, victim process: (?P<process>[^,\n]{1,64}), pid: (?P<pid>\d+)"
            ),
            read=_read_victim,
            examples=("Warning  SystemOOM  5m  kubelet  System OOM encountered, victim process: python3, pid: 20117",),
            near=("System OOM encountered never",),
            source="Kubernetes kubelet",
        ),
        Pattern(
            id="oom-jetsam",
            needles=("memorystatus: killing_",),
            regex=regex(
                r"memorystatus: killing_\w+ pid (?P<pid>\d+) \[(?P<process>[^\]\n]{1,64})\]"
            ),
            read=_read_victim,
            examples=("memorystatus: killing_top_process pid 7711 [python3.12] (per-process-limit) 30123456KB",),
            near=("memorystatus: killing nobody",),
            source="macOS, XNU kern_memorystatus.c",
        ),
        Pattern(
            id="oom-batch",
            needles=("LSF memory usage limit", "PBS: job killed: ", "Exceeded job memory limit", "OUT_OF_ME"),
            regex=regex(
                r"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit|PBS: job killed: v?mem |slurmstepd: error: Exceeded job memory limit"
                r"|(?<![A-Z_])OUT_OF_ME(?:MORY|\+)\s+(?:0:125\b|Reason=OutOfMemory)"
            ),
            read=_read_cgroup,
            examples=(
                "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
                "=>> PBS: job killed: mem 2097152kb exceeded limit 1048576kb",
                "slurmstepd: error: Exceeded job memory limit at some point.",
                "771.batch         batch            account         16 OUT_OF_ME+    0:125",
                "   JobState=OUT_OF_MEMORY Reason=OutOfMemory Dependency=(null)",
            ),
            near=("=>> PBS: job killed: walltime 3650 exceeded limit 3600",),
            source="LSF, PBS, Slurm",
        ),
        Pattern(
            id="oom-evicted",
            needles=("low on resource: memory", "container oom ", "had condition: [MemoryPressure]"),
            regex=regex(
                r"(?:The )?node was low on resource: memory|(?:The )?[Nn]ode had condition: \[MemoryPressure\]|\bcontainer oom [0-9a-f]{6,64}\b"
            ),
            read=_read_cgroup,
            examples=(
                "The node was low on resource: memory. Threshold quantity: 100Mi, available: 71Mi.",
                "Pod was rejected: The node had condition: [MemoryPressure].",
                "2026-02-02T08:00:01.123456789Z container oom 5be0aa17 (image=vllm/vllm-openai, name=serve)",
            ),
            near=("The node was low on resource: ephemeral-storage.",),
            source="Kubernetes eviction manager, docker events",
        ),
        Pattern(
            id="oom-refused",
            needles=(
                "paging file is too small",
                "DefaultCPUAllocator: ",
                "Unable to allocate ",
                "model requires more system memory",
                "[Errno 12] Cannot allocate memory",
                "mmap failed: Cannot allocate memory",
                "std::bad_alloc",
            ),
            regex=regex(
                r"paging file is too small for this operation|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
                r"|MemoryError: Unable to allocate [\d.]+ [KMGTPE]iB for an array|model requires more system memory"
                r"|OSError: \[Errno 12\] Cannot allocate memory|error loading model: mmap failed: Cannot allocate memory|what\(\):\s+std::bad_alloc"
            ),
            read=_read_refused,
            examples=(
                "OSError: The paging file is too small for this operation to complete. (os error 1455)",
                "RuntimeError: [enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes.",
                "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 11.2 GiB for an array with shape (1500000000,) and data type float64",
                "Error: 500 Internal Server Error: model requires more system memory (40.1 GiB) than is available (30.2 GiB)",
                "OSError: [Errno 12] Cannot allocate memory",
                "  what():  std::bad_alloc",
                "llama_model_load: error loading model: mmap failed: Cannot allocate memory",
            ),
            near=("Unable to allocate port 8000", "Unable to allocate pinned memory, going on without"),
            source="Windows, PyTorch c10/core/impl/alloc_cpu.cpp, NumPy, Ollama",
        ),
    ),
)  # fmt: skip
"""The OOM killers of kernel, systemd, containers and schedulers, and memory that a host refused."""
