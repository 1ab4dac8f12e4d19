"""What NVML says of a card that does not change while it runs, as facts for a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from gpuprobe.events import SystemDescribed

_FLAGS: Final = (("persistence_mode", "persistence"), ("mig_mode", "MIG"), ("ecc_mode", "ECC"))


def described(base: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[SystemDescribed]:
    """Firmware, modes and power limits, as far as the card answers.

    Args:
        base: Origin, stamp and device of the events.
        found: Values of the `once` calls by name; what could not be read is no text and no number.
    """
    texts = {
        "vbios": _text(found.get("vbios")),
        "gsp-firmware": _text(found.get("gsp_firmware")),
        "gpu-modes": ", ".join(_modes(found)),
        "power-limits": _limits(found),
    }
    for key, value in texts.items():
        if value:
            origin = replace(base["origin"], text=f"{key}: {value}")
            yield SystemDescribed(**{**base, "origin": origin}, key=key, value=value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _modes(found: Mapping[str, Any]) -> Iterator[str]:
    for name, words in _FLAGS:
        if found.get(name) in (0, 1):
            yield f"{words} {'on' if found[name] else 'off'}"


def _limits(found: Mapping[str, Any]) -> str:
    """`700 W by default, 200 to 700 W can be set`."""
    parts = []
    default, low, high = (
        found.get(name) for name in ("default_limit_w", "min_limit_w", "max_limit_w")
    )
    if isinstance(default, int | float):
        parts.append(f"{default:g} W by default")
    if isinstance(low, int | float) and isinstance(high, int | float):
        parts.append(f"{low:g} to {high:g} W can be set")
    return ", ".join(parts)
