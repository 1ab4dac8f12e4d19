"""macOS `log show`: time, thread, type, activity, pid, time to live, process."""

from __future__ import annotations

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import iso_stamp

_LINE = regex(
    r"\s*(?P<raw>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}[+-]\d{4}) +0x[0-9a-f]+ +(?:Default|Info|Debug|Error|Fault|Activity|State|Signpost)"
    r" +0x[0-9a-f]+ +(?P<pid>\d{1,10}) +\d+ +(?P<source>[^:]{1,80}): "
)


def _peel(text: str) -> Peeled | None:
    match = _LINE.match(text)
    if match is None:
        return None
    source = match["source"]
    return Peeled(
        text[match.end() :],
        "macos-log",
        iso_stamp(match["raw"]),
        source=source,
        pid=int(match["pid"]),
        kernel=source == "kernel",
    )


FRAMINGS = (Framing("macos-log", "0123456789", _peel),)
