"""The kernel's messages as they appear: /dev/kmsg, else the journal, else a named reason.

Cost: nothing while the kernel is silent. Permissions: root or CAP_SYSLOG for /dev/kmsg where
`kernel.dmesg_restrict` is 1; group `systemd-journal` or `adm` for the journal. Lines are read by
the framings and wording that saved logs are read by.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpuprobe.clock import Stamp
from gpuprobe.events import SourceChanged
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.framing import peel
from gpuprobe.sources.kmsg import HINT, KMSG, kmsg_access, open_kmsg, read_kmsg
from gpuprobe.sources.line_reader import LineReader
from gpuprobe.sources.record import Record
from gpuprobe.sources.threaded import ThreadedSource, Turn

JOURNAL = "journal"

_GROUP = "Run it with sudo, or join the group: sudo usermod -aG systemd-journal $USER"

_NOTHING_S = 0.5
"""Pause when the descriptor says that there is more and there is not: no busy loop, ever."""

_LAG_KEPT_S = 600.0
"""How long the smallest delay of a record is believed: the kernel's log clock drifts."""


class KernelLog(ThreadedSource):
    """Follows the kernel's messages.

    Args:
        order: See `ThreadedSource`.
        since_boot: Give what the kernel still holds of this boot first; else from now on.
        kmsg: Where the ring buffer is read.
        root: Where the machine's files are looked for.
        read: Reads a record from a descriptor; `os.read`.
        journalctl: The program, looked for on the path; None for none.
        opened: A descriptor of the ring buffer that somebody placed before; the first turn begins
            there and closes it.
    """

    name = "kernel-log"

    def __init__(
        self,
        order: int = 0,
        *,
        since_boot: bool = False,
        kmsg: Path = KMSG,
        root: Path = Path("/"),
        read: Callable[[int, int], bytes] = os.read,
        journalctl: str | None = "journalctl",
        opened: int | None = None,
    ) -> None:
        super().__init__(order)
        self._since_boot = since_boot
        self._kmsg = kmsg
        self._root = root
        self._read = read
        self._opened = opened
        self._journalctl = shutil.which(journalctl) if journalctl else None

    def available(self) -> Availability:
        """Which of the two can be read, or why neither."""
        access = kmsg_access(self._kmsg)
        if isinstance(access, Known):
            return access
        journal = self._journal_access()
        if isinstance(journal, Known):
            return journal
        return Unavailable(
            access.reason, f"{access.detail}; {journal.detail}", journal.hint or access.hint
        )

    def _journal_access(self) -> Known[str] | Unavailable:
        if self._journalctl is None:
            return Unavailable(Reason.NOT_THERE, "journalctl is not installed", HINT)
        places = [self._root / "run/log/journal", self._root / "var/log/journal"]
        try:
            files = [file for place in places for file in place.glob("*/system*.journal")]
        except OSError:
            files = []
        if any(os.access(file, os.R_OK) for file in files):
            return Known(JOURNAL)
        if files or any(place.is_dir() for place in places):
            return Unavailable(
                Reason.NOT_PERMITTED, "the journal's kernel lines may not be read", _GROUP
            )
        return Unavailable(Reason.NOT_THERE, "no journal is kept here", HINT)

    def _run(self, turn: Turn) -> None:
        opened, self._opened = self._opened, None
        try:
            descriptor = open_kmsg(self._kmsg) if opened is None else opened
        except OSError:
            access = self.available()
            if isinstance(access, Unavailable):
                turn.put(self._changed("unavailable", f"{access.detail}. {access.hint}"))
            else:
                _Journal(self, turn, self._journalctl or "journalctl", self._since_boot).follow()
            return
        try:
            _Kmsg(self, turn, descriptor, self._boot_id()).follow(placed=opened is not None)
        finally:
            os.close(descriptor)

    def _boot_id(self) -> str | None:
        """This boot's id as the journal writes it."""
        with contextlib.suppress(OSError):
            found = (self._root / "proc/sys/kernel/random/boot_id").read_text("ascii")
            return found.strip().replace("-", "") or None
        return None

    def changed(self, what: str, text: str, ref: str | None = None) -> SourceChanged:
        """A note about the source itself."""
        return self._changed(what, text, ref)


class _Kmsg:
    """One turn on the ring buffer."""

    def __init__(self, log: KernelLog, turn: Turn, descriptor: int, boot_id: str | None) -> None:
        self._log = log
        self._turn = turn
        self._descriptor = descriptor
        self._boot_id = boot_id
        self._reader = LineReader(str(log._kmsg), log.order, "kmsg")
        self._clock = KernelClock()
        self._next: int | None = None

    def follow(self, *, placed: bool) -> None:
        turn, reader = self._turn, self._reader
        whence = os.SEEK_SET if self._log._since_boot else os.SEEK_END
        if not placed:
            with contextlib.suppress(OSError):  # a pipe, where a test or a container gives one
                os.lseek(self._descriptor, 0, whence)
        turn.put(self._log.changed("started", f"reading {self._log._kmsg}"))
        if self._log._since_boot:
            self._next = 0
        if placed or self._log._since_boot:
            self._take(live=False)
        while not turn.over:
            mask = turn.wait(reader.due_s(time.monotonic()), self._descriptor)
            # POLLERR with POLLPRI says that records were overwritten: the read tells.
            if mask & (select.POLLIN | select.POLLERR | select.POLLPRI):
                if not self._take(live=True):
                    turn.wait(_NOTHING_S)
            elif mask:
                turn.put(self._log.changed("stopped", f"{self._log._kmsg} ended"))
                break
            for event in reader.read(time.monotonic()):
                turn.put(event)
        for event in reader.read(time.monotonic(), end=True):
            turn.put(event)

    def _take(self, *, live: bool) -> bool:
        """Read what is there; False if that was nothing."""
        found = False
        for data in read_kmsg(self._descriptor, self._log._read):
            found = True
            if self._turn.over:
                break
            if data is not None:
                here = time.monotonic()
                self._reader.add(self._records(data, here, live=live), here)
            elif self._next is None:
                gap = "the kernel's buffer wrapped before its lines were read"
                self._turn.put(self._log.changed("gap", gap))
        return found

    def _records(self, data: bytes, here: float, *, live: bool) -> Iterator[Record]:
        wall = datetime.now(UTC)
        for text in data.decode("utf-8", "replace").splitlines():
            for record in peel(None, text):
                if record.ref is not None and record.ref.isdecimal():
                    self._note_gap(int(record.ref))
                stamps = tuple(self._clock.date(s, here, wall, live=live) for s in record.stamps)
                yield dataclasses.replace(
                    record,
                    line=None,
                    ordinal=next(self._log._numbers),
                    stamps=stamps,
                    boot_id=self._boot_id,
                )

    def _note_gap(self, number: int) -> None:
        """Records have running numbers: what is missing was overwritten before it was read."""
        due, self._next = self._next, max(number + 1, self._next or 0)
        if due is not None and number > due:
            text = f"{number - due} kernel lines were overwritten before they were read"
            self._turn.put(self._log.changed("gap", text, f"{due}-{number - 1}"))


class KernelClock:
    """Dates records by the kernel's own clock.

    That clock drifts against the monotonic one (seconds in a month), so a record that was waited
    for is dated by its arrival, less what it came later than the promptest of late.
    """

    def __init__(self) -> None:
        self._lag: float | None = None
        self._lag_at = 0.0

    def date(self, stamp: Stamp, here: float, wall: datetime, *, live: bool) -> Stamp:
        """The stamp with a date.

        Args:
            stamp: Seconds since boot.
            here: `time.monotonic()` when the record was read.
            wall: The same moment as a date.
            live: The record was waited for; one from before is dated to a second.
        """
        if stamp.monotonic_s is None:
            return stamp
        behind = here - stamp.monotonic_s
        if not live:
            at = wall - timedelta(seconds=max(0.0, behind))
            return dataclasses.replace(stamp, wall=at, resolution_s=1.0)
        if self._lag is None or behind < self._lag or here - self._lag_at > _LAG_KEPT_S:
            self._lag, self._lag_at = behind, here
        at = wall - timedelta(seconds=behind - self._lag)
        return dataclasses.replace(stamp, wall=at, resolution_s=0.01)


class _Journal:
    """One turn on `journalctl --follow`."""

    def __init__(self, log: KernelLog, turn: Turn, program: str, since_boot: bool) -> None:
        self._log = log
        self._turn = turn
        self._lines = "all" if since_boot else "0"
        self._program = program
        self._reader = LineReader(JOURNAL, log.order, "journal-json")

    def follow(self) -> None:
        command = [
            self._program, "--dmesg", "--follow", f"--lines={self._lines}",
            "--output=json", "--all", "--no-pager",
        ]  # fmt: skip
        process = subprocess.Popen(  # noqa: S603 - fixed program, no shell, arguments of our own
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,  # a key pressed at the terminal is not for it
        )
        assert process.stdout is not None
        try:
            self._turn.put(self._log.changed("started", "reading journalctl --dmesg --follow"))
            self._read(process.stdout.fileno())
        finally:
            process.terminate()
            process.stdout.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.3)

    def _read(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        turn, reader, rest = self._turn, self._reader, b""
        while not turn.over:
            if turn.wait(reader.due_s(time.monotonic()), descriptor):
                with contextlib.suppress(BlockingIOError):
                    data = os.read(descriptor, 1 << 16)
                    if not data:
                        turn.put(self._log.changed("stopped", "journalctl ended"))
                        break
                    *lines, rest = (rest + data).split(b"\n")
                    reader.add(self._records(lines), time.monotonic())
            for event in reader.read(time.monotonic()):
                turn.put(event)
        for event in reader.read(time.monotonic(), end=True):
            turn.put(event)

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        for line in lines:
            for record in peel(None, line.decode("utf-8", "replace")):
                # The line is one that journalctl wrote just now: nobody can look there.
                yield dataclasses.replace(
                    record, line=None, ordinal=next(self._log._numbers), raw=record.message
                )
