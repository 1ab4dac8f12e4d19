"""Counts of unsafe shutdowns as smartctl and nvme-cli print them, each drive by itself."""

from __future__ import annotations

import re
from typing import Final

from gpuprobe.events import UncleanEndFound
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading

_COUNT = regex(r"[Uu]nsafe[ _][Ss]hutdowns\s*:\s*(?P<n>\d[\d,.]{0,30})")
_DRIVE = regex(r"\b(?P<name>nvme\d{1,3})(?:n\d{1,3})?\b")
_SERIAL = regex(r"Serial Number\s{0,20}:\s{0,40}(?=\S{0,40}\d)(?P<serial>[\w.-]{4,40})")


def _read(match: re.Match[str], window: Window) -> Reading:
    # The counter is for life: only a rise between two readings of a drive tells of a lost boot.
    now = _figure(match)
    readings: list[tuple[int, dict[str, str]]] = [(now, _named(window.record.message))]
    for record in window.before(Window.REACH):
        if found := _COUNT.search(record.message):
            readings.append((_figure(found), {}))
        # The head of an output stands above its figures: what is nearest names the drive.
        readings[-1][1].update({**_named(record.message), **readings[-1][1]})
    drive = readings[0][1]
    for earlier, other in readings[1:]:
        if _same(drive, other):
            if earlier >= now:
                return None
            return UncleanEndFound(
                **window.base(), what="nvme", detail=f"unsafe shutdowns {earlier} -> {now}"
            )
    return None


def _figure(match: re.Match[str]) -> int:
    return int(re.sub(r"\D", "", match["n"]))


def _named(text: str) -> dict[str, str]:
    """What a line says of which drive is meant."""
    found = (_DRIVE.search(text), _SERIAL.search(text))
    return {key: value for match in found if match for key, value in match.groupdict().items()}


def _same(drive: dict[str, str], other: dict[str, str]) -> bool:
    """Whether two readings are known to be of one drive: by its serial, else by its name."""
    key = "serial" if "serial" in drive and "serial" in other else "name"
    return key in drive and drive[key] == other.get(key)


PATTERN: Final = Pattern(
    id="nvme-unsafe",
    needles=("nsafe Shutdowns", "nsafe_shutdowns"),
    regex=_COUNT,
    read=_read,
    examples=(
        "/dev/nvme0: Unsafe Shutdowns:                   41\n"
        "/dev/nvme0: Unsafe Shutdowns:                   42",
    ),
    near=(
        "unsafe_shutdowns : 41",
        "Smart Log for NVME device:nvme0 namespace-id:ffffffff\nunsafe_shutdowns : 41\n"
        "Smart Log for NVME device:nvme1 namespace-id:ffffffff\nunsafe_shutdowns : 42",
    ),
    source="smartctl, nvme-cli",
)
