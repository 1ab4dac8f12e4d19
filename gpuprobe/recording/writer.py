"""The recorder: a thread of its own writes events; the caller never waits for a disk.

A reading is on the disk a second after it was taken, in about one transaction a second; what
happened is there at once, and what happens within 50 ms shares a transaction.
Nothing here raises into the caller once the file is made: what stops the recording is in
`Recorder.problem`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from gpuprobe import __version__
from gpuprobe.diagnosis import Diagnosis, Kind
from gpuprobe.events import Event, GpuSampled, taken_apart
from gpuprobe.recording import faults, next_file, places
from gpuprobe.recording.due import Due
from gpuprobe.recording.pending import Pending, Room
from gpuprobe.recording.rows import Row, Rows, clean, to_ns
from gpuprobe.recording.store import Store
from gpuprobe.sources.files.machine import boot_id

TOGETHER_S: Final = 0.05
"""Events that come within this time share one transaction."""

CHECKPOINT_S: Final = 10.0
CHECKPOINT_APART_S: Final = 1.0
"""A checkpoint after each event, this far apart at least; and at most `CHECKPOINT_S` in all."""

END_S: Final = 5.0
"""How long `end` waits for a slow disk."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large things may grow.

    Attributes:
        file_bytes: A new file is begun beyond this. log_bytes: Output kept in one file.
        repeat_s: Seconds of evidence that the new file repeats of the one before it.
        total_bytes: All recordings of the folder. keep_days: A fault younger than this is kept.
        every_s: Seconds after which a reading is on the disk, counted from when it was taken.
        room: How much may wait for the disk.
    """

    file_bytes: int = 512 << 20
    log_bytes: int = 32 << 20
    repeat_s: float = 600.0
    total_bytes: int = places.TOTAL_BYTES
    keep_days: float = places.KEEP_DAYS
    every_s: float = 1.0
    room: Room = field(default_factory=Room)


class Recorder:
    """Writes a recording.

    Args:
        path: The file to make; its folder must exist. It is made with mode 0600.
        about: What `meta` holds from the start.
        limits: How large things may grow.

    Attributes:
        path: The file that is written now; a long recording goes on in another one.
        problem: Why it stopped recording (full disk, folder gone); None while it records.

    Raises:
        RecordingError: The file cannot be made.
    """

    def __init__(
        self, path: Path, *, about: Mapping[str, str] = {}, limits: Limits | None = None
    ) -> None:
        self.path = Path(path)
        self.problem: str | None = None
        self._first = self.path
        self._limits = limits or Limits()
        self._part = 1
        self._about = {clean(key): clean(value) for key, value in about.items()}
        self._about |= {"gpuprobe": __version__, "id": uuid4().hex, "started": _now_text()}
        if (boot := boot_id()) is not None:
            # The first thing that a reader after a power cut asks, so it is there from the start.
            self._about.setdefault("boot-id", boot)
        self._store = Store(self.path, log_bytes=self._limits.log_bytes)
        self._rows = Rows()
        self._waiting = Pending(self._limits.room)
        self._meta = dict(self._about)
        self._documents: list[Row] = []
        self._changed = threading.Condition()
        self._due = Due(self._limits.every_s, time.monotonic())
        self._put = 0
        self._written = 0
        self._urgent = False
        self._late = False
        self._how: str | None = None
        self._over = False
        self._checked_at = time.monotonic()
        self._urgent_at = 0.0
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    # --- what callers do --------------------------------------------------------------------

    def add(self, events: Iterable[Event]) -> None:
        """Store what can wait a second: samples and output. Returns at once."""
        with self._changed:
            self._take_in(taken_apart(events))

    def commit(self, events: Iterable[Event], timeout_s: float = 0.5) -> bool:
        """Store events and wait until they are on the disk, `timeout_s` at most.

        While the disk stalls, a later call does not wait at all.

        Returns:
            Whether they are there; where not, they are written as soon as that is possible.
        """
        with self._changed:
            self._take_in(events)
            return self._wait(timeout_s)

    def judged(self, diagnosis: Diagnosis, timeout_s: float = 0.5) -> bool:
        """Store a diagnosis as `commit` stores events."""
        from gpuprobe.reporters.json import to_dict

        document = clean(_as_json(to_dict(diagnosis)))
        with self._changed:
            self._documents.append(("diagnoses", (_now_ns(), document)))
            self._meta["answer"] = diagnosis.answer.value
            if diagnosis.answer is not Kind.NO_FAULT:
                self._meta["fault-at"] = _now_text()
            self._put += 1
            return self._wait(timeout_s)

    def describe(self, key: str, value: str) -> None:
        """Add to what `meta` says, or replace it."""
        with self._changed:
            self._about[clean(key)] = self._meta[clean(key)] = clean(value)
            self._put += 1

    def end(self, how: str, *, diagnosis: Diagnosis | None = None) -> None:
        """Store how it ended and close the file; waits `END_S` seconds at most."""
        if diagnosis is not None:
            self.judged(diagnosis, timeout_s=0.0)
        with self._changed:
            self._how = self._how or how
            self._changed.notify_all()
        self._thread.join(END_S)

    def _take_in(self, events: Iterable[Event]) -> None:
        if self.problem is not None or self._how is not None:
            return
        readings = False
        for event in events:
            self._waiting.add(event)
            self._put += 1
            readings = readings or isinstance(event, GpuSampled)
        if readings and self._due.heard(time.monotonic()):
            self._changed.notify_all()

    def _wait(self, timeout_s: float) -> bool:
        target = self._put
        if self.problem is not None or self._over:
            return False
        self._urgent = True
        self._changed.notify_all()
        if self._late:
            return self._written >= target
        self._changed.wait_for(
            lambda: self._written >= target or self.problem is not None or self._over, timeout_s
        )
        done = self._written >= target
        self._late = not done and timeout_s > 0
        return done

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._over is False:
                self._sleep()
                self._turn()
        except Exception as error:  # a recorder must never take the program with it
            self._stop(f"{type(error).__name__}: {error}")
        finally:
            self._over = True
            self._store.close()
            with self._changed:
                self._changed.notify_all()

    def _sleep(self) -> None:
        """Until there is something to write at once, or it is time."""
        with self._changed:
            while not self._urgent and self._how is None:
                left = self._due.at - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            if self._urgent and self._how is None:
                # What comes a moment after an event shares a transaction with what follows it.
                pause = self._urgent_at + TOGETHER_S - time.monotonic()
                if pause > 0:
                    self._changed.wait_for(lambda: self._how is not None, pause)

    def _turn(self) -> None:
        """Write what waits, and see to the file."""
        with self._changed:
            events, rows = self._waiting.take()
            rows += self._documents
            self._documents = []
            meta, self._meta = self._meta, {}
            urgent, self._urgent = self._urgent, False
            self._due.written(time.monotonic())
            put, how = self._put, self._how
        if urgent:
            self._urgent_at = time.monotonic()
        if not self._store.is_there:
            self._stop(f"{self.path} was removed or its folder is gone; recording stopped")
            return
        if any(faults.is_fault(event) for event in events):
            meta["fault-at"] = _now_text()
        for event in events:
            rows.extend(self._rows.of(event))
        if how is not None:
            meta |= {"ended": clean(how), "ended-at": _now_text()}
        if not self._write(rows, meta, ended=how is not None):
            return
        with self._changed:
            self._written = put
            self._late = False
            self._changed.notify_all()
            self._over = how is not None
        if not self._over:
            self._tend(urgent)

    def _write(self, rows: list[Row], meta: dict[str, str], *, ended: bool) -> bool:
        """One transaction; tried again while another program locks the file."""
        until, self._rows.read_until = self._rows.read_until, {}
        give_up = time.monotonic() + END_S
        while rows or meta or until:
            try:
                self._store.write(rows, meta, until)
                break
            except sqlite3.OperationalError as error:
                locked = (error.sqlite_errorcode & 0xFF) in (
                    sqlite3.SQLITE_BUSY,
                    sqlite3.SQLITE_LOCKED,
                )
                with self._changed:
                    ended = ended or self._how is not None
                if not locked or (ended and time.monotonic() > give_up):
                    self._stop(_in_words(self.path, error))
                    return False
                time.sleep(0.05)
            except sqlite3.Error as error:
                self._stop(_in_words(self.path, error))
                return False
        return True

    def _tend(self, urgent: bool) -> None:
        """Checkpoint when one is due, and go on in a new file when this one is large."""
        try:
            passed = time.monotonic() - self._checked_at
            if passed >= CHECKPOINT_S or (urgent and passed >= CHECKPOINT_APART_S):
                self._store.checkpoint()
                self._checked_at = time.monotonic()
            if self._store.size > self._limits.file_bytes:
                self._go_on()
        except sqlite3.Error as error:
            if (error.sqlite_errorcode & 0xFF) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                self._stop(_in_words(self.path, error))

    def _go_on(self) -> None:
        """Begin the next file, which repeats what makes it stand alone."""
        self._part += 1
        path = self._first.with_name(f"{self._first.stem}-{self._part}{self._first.suffix}")
        self._store, self._about = next_file.begin(
            self._store,
            path,
            about=self._about,
            log_bytes=self._limits.log_bytes,
            since=datetime.now(UTC) - timedelta(seconds=self._limits.repeat_s),
        )
        self.path = path
        devices = self._rows.devices
        self._rows = Rows()
        self._rows.devices = devices
        places.make_room(
            path.parent,
            total_bytes=self._limits.total_bytes,
            keep_days=self._limits.keep_days,
            only=None if places.is_ours(path.parent) else self._first.stem,
        )

    def _stop(self, why: str) -> None:
        with self._changed:
            self.problem = self.problem or why
            self._over = True
            self._waiting.take()
            self._changed.notify_all()


def _in_words(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    why = {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_IOERR: "the disk refused to write (full, at a limit, or gone)",
        sqlite3.SQLITE_READONLY: "the disk became read-only",
        sqlite3.SQLITE_CANTOPEN: "its folder is gone or cannot be read",
        sqlite3.SQLITE_CORRUPT: "somebody changed the file",
    }.get(code, str(error))
    return f"{path}: {why}; recording stopped, what was written before is kept"


def _as_json(document: dict[str, Any]) -> str:
    import json

    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))


def _now_ns() -> int:
    return to_ns(datetime.now(UTC))


def _now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
