"""How far apart two readings of a value are, in seconds, where gpuprobe samples a GPU itself.

What is not named here is read at the sampling rate.
"""

from __future__ import annotations

from typing import Final

CALM_S: Final = 1.0
"""What the driver averages itself, changes slowly or costs more: utilisation, memory in use, link
width, memory clock and P-state. At least; a sample between two readings repeats the newest."""

SLOW_S: Final = 1.0
RARE_S: Final = 10.0
SELDOM_S: Final = 30.0

USERS_S: Final = 10.0
"""Who uses a GPU, although its memory in use did not change."""
