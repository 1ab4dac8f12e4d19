"""What a live source is: something that touches the machine, yields events and judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gpuprobe.events import Event
from gpuprobe.reading import Known, Unavailable

Availability = Known[str] | Unavailable
"""How a source can be used (`Known("/dev/kmsg")`), or why it cannot and what would change that."""


class Source(Protocol):
    """One live source.

    A source never blocks the caller: what can block has a thread or a process of its own, and
    `poll` takes what has arrived. `start` after `stop` begins anew.

    A source may have an attribute `wake`: None, or a `threading.Event` that somebody gave it before
    `start`. It sets that when something has arrived, so that whoever polls can sleep.
    """

    @property
    def name(self) -> str:
        """Short name, as in `origin.input`: `nvml`, `sysfs`, `kernel-log`, `udev`, `host`."""

    def available(self) -> Availability:
        """Whether it can be used here, found out without side effects."""

    def start(self) -> None:
        """Begin to listen or to sample."""

    def poll(self) -> Iterable[Event]:
        """The events that arrived since the last call; returns at once."""

    def stop(self) -> None:
        """Let go of everything within a second, whatever state the machine is in."""
