"""What a caller can ask of a diagnosis, and how its progress is told."""

from __future__ import annotations

from datetime import datetime

from gpuprobe.identity import PciAddress
from gpuprobe.values import Value


class Options(Value):
    """How to read the inputs of a diagnosis.

    Attributes:
        since: Leave out what is known to be earlier; a time, or text such as `2026-09-22 07:44`,
            `yesterday`, `-2h` (see `spoken_times`).
        until: Leave out what is known to be later; as `since`.
        boot: Only this boot: a journal boot id, or a number (0 the last, -1 the one before it).
        device: Only verdicts about this PCI function.
        timezone: Zone of stamps without one: `Europe/Berlin`, `UTC`, `-07:00`.
        boot_time: When the machine booted, as `since`; places stamps that count from boot.
        host: Host of the inputs that do not name theirs.
        with_machine: Add this machine's journal and recordings to the given inputs.
        jit_caches: Folders of JIT caches that are scanned and weighed with the inputs.
        prefilter: Skip lines that cannot matter by a fast first pass. Changes no answer.
    """

    since: datetime | str | None = None
    until: datetime | str | None = None
    boot: str | None = None
    device: PciAddress | None = None
    timezone: str | None = None
    boot_time: str | None = None
    host: str | None = None
    with_machine: bool = False
    jit_caches: tuple[str, ...] = ()
    prefilter: bool = True


class Progress(Value):
    """How far the reading of the inputs has come.

    Attributes:
        bytes_done: Bytes read so far, of all inputs, as they lie on disk.
        bytes_total: Bytes in all, or None when that is not known (a pipe).
        path: The input being read.
    """

    bytes_done: int
    bytes_total: int | None
    path: str
