"""What holds for all tests: on a busy machine everything takes longer, and that is no failure."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("gpuprobe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuprobe")

_IN_MEMORY = "/dev/shm"
_ROOM_BYTES = 2 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Keep the tests' folders in memory where there is room, and programs in them may be run.

    A made-up machine has a hundred files and folders, which on a disk take longer to make than
    what reads them takes to read them. `--basetemp` and pytest's own variable go before.
    """
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or config.getoption("basetemp"):
        return
    try:
        there = os.statvfs(_IN_MEMORY)
    except (AttributeError, OSError):  # Windows and macOS
        return
    runs = not there.f_flag & os.ST_NOEXEC
    if runs and there.f_bavail * there.f_frsize > _ROOM_BYTES and os.access(_IN_MEMORY, os.W_OK):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = _IN_MEMORY


def pytest_collection_finish() -> None:
    """Spare each later garbage collection a look through all tests, which live to the end."""
    gc.collect()
    gc.freeze()
