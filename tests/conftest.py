"""What holds for all tests: on a busy machine everything takes longer, and that is no failure."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("gpuprobe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuprobe")

_IN_MEMORY = "/dev/shm"
_ROOM_BYTES = 2 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Have the same surroundings wherever the tests are started."""
    _take_signals()
    _keep_folders_in_memory(config)


def _take_signals() -> None:
    """Programs inherit what `nohup` and a shell's `&` ignore, and many tests send just these."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGHUP", "SIGQUIT"):
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def _keep_folders_in_memory(config: pytest.Config) -> None:
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
