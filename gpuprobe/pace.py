"""Seconds between two readings of a value, where gpuprobe samples a GPU itself.

What is not named here is read at the sampling rate. Which calls a group holds, and what each
costs, is in `live.nvml.calls`.
"""

from __future__ import annotations

from typing import Final

CALM_S: Final = 1.0
"""What the driver averages itself, changes slowly or costs more: utilisation, memory in use, link
width, memory clock and P-state. At least so far apart; a sample in between repeats the newest."""

SLOW_S: Final = 1.0
"""Limits, remapped rows, memory temperature, and the driver's own power samples."""

RARE_S: Final = 10.0
"""Lifetime counts of ECC errors and of PCIe bytes."""

SELDOM_S: Final = 30.0
"""Lifetime counts that cost milliseconds: those of the link, and the time spent throttled."""

HOST_S: Final = 30.0
"""The host's memory and pressure, as far as they are about the same; more of a change is told
at once."""

USERS_S: Final = 10.0
"""Who uses a GPU, although its memory in use did not change."""
