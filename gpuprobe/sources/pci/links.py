"""Links and AER counters of functions in sysfs, told when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuprobe.events import CountersSampled, Event, LinkStateReported
from gpuprobe.identity import PciAddress
from gpuprobe.reading import value_or_none
from gpuprobe.sources.kept_file import KeptFile
from gpuprobe.sources.pci.readings import AER_DEVICE, AER_ROOT, aer_counters, read_link
from gpuprobe.sources.pci.tree import asleep, device_path

_SAMPLED_FILES = ("current_link_speed", "current_link_width", *AER_DEVICE, *AER_ROOT)


@dataclass(slots=True)
class _Sampled:
    """Link and counters of one function, as last reported.

    Attributes:
        status: Whether it is awake.
        files: What is read each time; only when a byte of it changed, it is read anew in full.
        raw: What stood in them.
    """

    status: KeptFile
    files: tuple[KeptFile, ...] = ()
    raw: tuple[bytes, ...] = ()
    link: tuple[float | None, int | None] | None = None
    best: tuple[float | None, int | None] = (None, None)
    counters: dict[str, int] = field(default_factory=dict)


class LinkSampler:
    """Reads functions again and again, and tells what changed.

    Args:
        root: Where /sys is looked for.
        at: Gives the fields that an event about a function has, from its address and words.
    """

    def __init__(self, root: Path, at: Callable[[PciAddress, str], dict[str, Any]]) -> None:
        self._root = root
        self._at = at
        self._sampled: dict[PciAddress, _Sampled] = {}

    def forget_files(self, address: PciAddress) -> None:
        """It is gone: what comes back may have other files."""
        if address in self._sampled:
            self._sampled[address].files = ()

    def sample(self, address: PciAddress) -> Iterator[Event]:
        """What changed of one function since it was looked at before; nothing while it sleeps."""
        sampled = self._sampled.get(address)
        if sampled is None:
            status = KeptFile(f"{device_path(address, self._root)}/power/runtime_status")
            sampled = self._sampled[address] = _Sampled(status)
        awake = sampled.status.read(16) == b"active\n"
        if not awake and asleep(device_path(address, self._root)) is not None:
            return
        if not sampled.files:
            sampled.files = _kept(device_path(address, self._root))
        raw = tuple([file.read(8192) for file in sampled.files])
        if raw == sampled.raw:
            return
        sampled.raw = raw
        reading = read_link(address, self._root)
        link = (value_or_none(reading.speed_gts), value_or_none(reading.width))
        best = (value_or_none(reading.max_speed_gts), value_or_none(reading.max_width))
        sampled.best = (best[0] or sampled.best[0], best[1] or sampled.best[1])
        if link != (None, None) and link != sampled.link:
            sampled.link = link
            text = f"{address} link {_link_words(link)}, at best {_link_words(sampled.best)}"
            yield LinkStateReported(
                **self._at(address, text),
                what="sampled",
                speed_gts=link[0],
                width=link[1],
                max_speed_gts=sampled.best[0],
                max_width=sampled.best[1],
            )
        counters = dict(aer_counters(address, self._root))
        if counters and counters != sampled.counters:
            risen = _risen(sampled.counters, counters)
            begun = not sampled.counters
            sampled.counters = counters
            words = "first reading" if begun else ", ".join(risen) or "began anew"
            yield CountersSampled(
                **self._at(address, f"{address} AER counters: {words}"),
                counters=tuple(counters.items()),
            )


def _kept(folder: Path) -> tuple[KeptFile, ...]:
    """Those of the sampled files that a function has; most have no counters."""
    names = [name for name in _SAMPLED_FILES if (folder / name).exists()]
    return tuple(KeptFile(f"{folder}/{name}") for name in names)


def _link_words(link: tuple[float | None, int | None]) -> str:
    speed = "unknown speed" if link[0] is None else f"{link[0]:g} GT/s"
    return f"{speed} x{'?' if link[1] is None else link[1]}"


def _risen(before: dict[str, int], now: dict[str, int]) -> list[str]:
    return [
        f"{name} {before.get(name, 0)} -> {value}"
        for name, value in now.items()
        if value > before.get(name, 0)
    ]
