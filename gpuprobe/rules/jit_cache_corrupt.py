"""A file of a JIT cache is truncated, empty, unparsable or for another architecture.

What proves it:
    The traceback that reads the cache: Triton's `get_group` or metadata with a JSONDecodeError, a
    child that the group file names and the folder lacks, a shared library that is too short.

What only supports it:
    "device kernel image is invalid" fits a cut cubin and one built for another GPU: likely. With a
    scan of that cache that found the damaged file it is proof.
    A crash by SIGSEGV or SIGBUS without a word, when a scan finds a cut cubin or library: likely.
    A damaged file that a scan finds without any such crash is worth a line, and never the answer.

Why it matters:
    The poison lies on disk. A restart cannot heal it: the same request dies again each time, after
    a full load of the model. Moving the one entry aside does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import (
    SCANNED,
    CudaFailed,
    EngineChanged,
    Event,
    JitCacheFailed,
    ProcessCrashed,
)
from gpuprobe.rules.base import Finding, Rule, moment
from gpuprobe.timeline import Timeline

_LOADED = (".cubin", ".hsaco", ".so")
"""Files that are mapped and trusted: a cut one ends the process without a word."""

_SILENT = frozenset({"SIGSEGV", "SIGBUS"})
_SILENT_CODES = frozenset({128 + 11, 128 + 7, -11, -7})
_NEAR_LIBRARIES = ("cuda", "triton", "launcher", "ld-", "ld.so", "libc.", "libc-", ".cubin")
"""Where such a crash is seen by the kernel: the driver's library, the launcher, the loader."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for all entries that a program could not use, or that a scan found."""
    fatal = [event for event in timeline.of(JitCacheFailed) if event.fatal]
    told = [event for event in fatal if event.source != SCANNED]
    scanned = [event for event in fatal if event.source == SCANNED]
    if told:
        return [_told(told, scanned)]
    return [_scanned(timeline, scanned)] if scanned else []


def _told(events: list[JitCacheFailed], scanned: list[JitCacheFailed]) -> Finding:
    """A program said it; a scan of the same cache may name the file."""
    root = next((event for event in events if event.sure), events[0])
    seen = [
        event
        for event in scanned
        if event.cache == root.cache and root.key in ("", event.key)
    ]  # fmt: skip
    path = root.path or (seen[0].path if len({event.path for event in seen}) == 1 else "")
    where = f" in {path}" if path else ""
    finding = Finding(
        kind=Kind.JIT_CACHE_CORRUPT,
        certainty=Certainty.CONFIRMED if root.sure or seen else Certainty.LIKELY,
        summary=(
            f"An entry of the {root.cache} cache{where} is broken {moment(root)}".rstrip()
            + f": {root.why}; restarting will not heal it"
        ),
        root=root,
        tags={f"cache-{root.cache}", *(["cache-scanned"] if seen else [])},
    )
    finding.cite(Role.PROOF, [root, *events], root.why)
    for event in seen:
        finding.cite(Role.PROOF, [event], f"a scan finds: {event.why}")
    return finding


def _scanned(timeline: Timeline, events: list[JitCacheFailed]) -> Finding:
    """A scan found it, and the program may have died of it without a word."""
    loaded = [event for event in events if _is_loaded(event)]
    crashes = list(_silent_crashes(timeline)) if loaded else []
    root = (loaded or events)[0]
    more = f" (and {len(events) - 1} more)" if len(events) > 1 else ""
    summary = (
        f"A scan finds a damaged file in the {root.cache} cache: {root.path}: {root.why}{more}"
    )
    if crashes:
        summary += (
            "; loading it ends a process just like this, without a word, and restarting will not "
            "heal it"
        )
    else:
        summary += "; nothing among the inputs shows that a program has met it"
    finding = Finding(
        kind=Kind.JIT_CACHE_CORRUPT,
        certainty=Certainty.LIKELY if crashes else Certainty.POSSIBLE,
        summary=summary,
        root=root,
        background=not crashes,
        never_first=not crashes,
        tags={f"cache-{root.cache}", "cache-scanned"},
    )
    for event in events:
        finding.cite(Role.SUPPORT, [event], event.why)
    finding.cite(Role.CONSEQUENCE, crashes, "ended as by a file that is cut")
    return finding


def _is_loaded(event: JitCacheFailed) -> bool:
    """Whether the damaged file is one that is mapped; in a recording its words alone say which."""
    return event.origin.input.endswith(_LOADED) or event.why.partition(" ")[0].endswith(_LOADED)


def _silent_crashes(timeline: Timeline) -> Iterator[Event]:
    """Ends by SIGSEGV or SIGBUS that no CUDA error and no other library explains."""
    if any(True for _ in timeline.of(CudaFailed)):
        return
    for event in timeline.of(ProcessCrashed, EngineChanged):
        if isinstance(event, ProcessCrashed):
            where = event.in_library.lower()
            if event.signal in _SILENT and (
                not where or any(word in where for word in _NEAR_LIBRARIES)
            ):
                yield event
        elif isinstance(event, EngineChanged) and event.code in _SILENT_CODES:
            yield event


RULE = Rule(Kind.JIT_CACHE_CORRUPT, find)
