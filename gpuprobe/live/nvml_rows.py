"""The rows that the NVML child sends at the sampling rate, as the fields of a sample."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

from gpuprobe.events import GpuSampled
from gpuprobe.live.nvml_calls import Group, values

FAST_NAMES: Final = tuple(
    value.name for group in (Group.FAST, Group.CALM) for value in values(group)
)
"""What stands in a row behind its time."""

SAMPLED: Final = frozenset(GpuSampled.__dataclass_fields__)
"""Values that a sample has a field for."""

NUMBERS: Final = frozenset({int, float})
"""What a reading of a sample can be; anything else is no reading."""

_NAMES: Final = tuple(name for name in FAST_NAMES if name in SAMPLED)
_sampled_part = itemgetter(*(place for place, name in enumerate(FAST_NAMES, 1) if name in SAMPLED))
"""The fields of `GpuSampled` in a row."""

_TYPES: Final = tuple(
    NUMBERS if "float" in str(GpuSampled.__dataclass_fields__[name].type) else frozenset({int})
    for name in _NAMES
)


class RowReader:
    """Reads rows; the types of those without anything but readings are remembered."""

    def __init__(self) -> None:
        self._whole: set[tuple[type, ...]] = set()

    def read(self, row: list[Any]) -> dict[str, Any]:
        """The fields of a sample that the row has a reading for.

        Args:
            row: Its time, then a value for each of `FAST_NAMES`.
        """
        part = _sampled_part(row)
        if tuple(map(type, part)) in self._whole:
            return dict(zip(_NAMES, part, strict=True))
        known = {
            name: value
            for name, value, types in zip(_NAMES, part, _TYPES, strict=True)
            if value.__class__ in types
        }
        if len(known) == len(part):
            self._whole.add(tuple(map(type, part)))
        return known


def in_words(known: dict[str, Any]) -> str:
    """The part of a sample that a person asks for first."""
    words = []
    if "power_w" in known:
        limit = f" of {known['limit_w']:.0f}" if "limit_w" in known else ""
        words.append(f"{known['power_w']:.1f}{limit} W")
    if "temp_c" in known:
        words.append(f"{known['temp_c']} C")
    if "sm_clock_mhz" in known:
        words.append(f"{known['sm_clock_mhz']} MHz")
    if "link_gen" in known and "link_width" in known:
        words.append(f"Gen{known['link_gen']} x{known['link_width']}")
    return ", ".join(words)
