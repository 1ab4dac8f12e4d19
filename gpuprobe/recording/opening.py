"""Opening a recording to read it: never changed, and never trusted.

One that somebody writes is opened read-only beside its writer. One that nobody writes and that
was closed in order is opened where it lies, as a file that does not change; one that was not is
copied, with its `-wal`, to a private folder, and put in order there.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from gpuprobe.errors import RecordingError
from gpuprobe.recording import places, schema, written_here

MAGIC: Final = b"SQLite format 3\x00"

_SHARED_FIRST: Final = 0x40000002
_SHARED_SIZE: Final = 510
"""The bytes on which SQLite's connections to a database in WAL mode hold a lock, always."""

_FLOCK: Final = struct.Struct("hhqqi4x")

LONGEST: Final = 16 << 20
"""Bytes of one value or row that are read at most."""

DEADLINE_S: Final = 120.0
"""How long reading one recording may take, all in all."""

_WHAT_IS_ONE: Final = (
    "A recording is what `gpuprobe record`, `run` or `watch --record` made, a file NAME"
    f"{places.SUFFIX}; logs and reports are read by `gpuprobe diagnose`."
)

_STEPS: Final = 20_000
"""Steps of SQLite's machine between two looks at the deadline."""

DAMAGED: Final = (sqlite3.Error, UnicodeDecodeError, OverflowError)
"""What reading a damaged database raises; the second where SQLite's message quotes bytes of it
that are no UTF-8."""


@dataclass(slots=True)
class Opened:
    """A recording that can be read.

    Attributes:
        path: As it was named.
        connection: The database, read-only.
        meta: What it says of itself.
        live: Somebody is writing it.
        notes: What a reader should know.
        failed: Tables whose last reading ended with an error.
        damaged: Tables of which something could not be read.
        until: When reading is given up, by `time.monotonic`.
    """

    path: Path
    connection: sqlite3.Connection
    meta: dict[str, str] = field(default_factory=dict)
    live: bool = False
    notes: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    until: float = 0.0

    def renew(self) -> None:
        """Let the time that reading may take begin anew."""
        self.until = time.monotonic() + DEADLINE_S

    def rows(
        self, query: str, values: tuple[Any, ...] = (), *, table: str = ""
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a query; where pages are damaged, those before the damage, and a note.

        Args:
            query: Selects from one table.
            values: Its parameters.
            table: The table's name, for the note.

        Raises:
            RecordingError: Reading takes too long.
        """
        for rows in self.lists(query, values, table=table, at_once=1):
            yield from rows

    def lists(
        self, query: str, values: tuple[Any, ...] = (), *, table: str = "", at_once: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        """As `rows`, in lists of at most `at_once`.

        Raises:
            RecordingError: Reading takes too long.
        """
        self.failed.discard(table)
        rows: list[tuple[Any, ...]] = []
        try:
            cursor = self.connection.execute(query, values)
            while True:
                # Unlike `fetchmany`, this keeps what was read before an error.
                rows.extend(islice(cursor, at_once))
                if not rows:
                    return
                yield rows
                rows = []
        except DAMAGED as error:
            if isinstance(error, sqlite3.OperationalError) and "interrupted" in str(error):
                raise RecordingError(
                    f"{self.path}: reading it took more than {DEADLINE_S:.0f} s",
                    hint="Give the logs of the same time instead.",
                ) from error
            if rows:
                yield rows
            self.failed.add(table)
            self.damaged.add(table)
            lost = isinstance(error, sqlite3.OperationalError)
            how = "cannot be read" if lost else "is damaged and was left out"
            self.note(f"part of its table {table} {how} ({error})")

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)


def is_written(path: Path) -> bool:
    """Whether a process has the recording open, found out without a lock of our own."""
    if written_here.is_written_here(path):
        return True
    try:
        import fcntl  # not on Windows
    except ImportError:
        return False
    try:
        with path.open("rb") as file:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SHARED_FIRST, _SHARED_SIZE, 0)
            answer = fcntl.fcntl(file, fcntl.F_GETLK, asked)
    except OSError:
        return False
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """A recording, opened to be read; nothing of it is changed.

    Raises:
        RecordingError: It is none, is of a newer schema, or cannot be read.
    """
    path = Path(path)
    wal = path.with_name(f"{path.name}-wal")
    live = _look(path, wal)
    with tempfile.TemporaryDirectory(prefix="gpuprobe-read-") as private:
        if live:
            uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        elif _has_bytes(wal):
            uri = f"file:{quote(str(_copied(path, wal, Path(private))))}"
        else:
            # A recording is made once and never opened to be written again, so one that nobody
            # writes and that has no WAL does not change. SQLite is told so: else it would make
            # `-wal` and `-shm` beside the file, and fail where it may not. A copy of up to half
            # a gigabyte would buy nothing.
            uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        connection = _connect(uri, path)
        try:
            found = Opened(path, connection, live=live)
            found.renew()
            _note_a_cut(found)
            connection.set_progress_handler(lambda: time.monotonic() > found.until, _STEPS)
            _examine(found, private="immutable" not in uri and not live)
            _say_how_it_ended(found, wal)
            yield found
        finally:
            connection.close()


def _note_a_cut(found: Opened) -> None:
    """Say where a file that nobody writes is shorter than it says itself."""
    if found.live or _has_bytes(found.path.with_name(f"{found.path.name}-wal")):
        return
    with found.path.open("rb") as file:
        head = file.read(100)
        size = os.fstat(file.fileno()).st_size
    page = int.from_bytes(head[16:18], "big")
    whole = int.from_bytes(head[28:32], "big") * (page if page > 1 else 65536)
    if size < whole:
        found.note(f"the file is cut short: {size:,} of {whole:,} bytes")


def _look(path: Path, wal: Path) -> bool:
    """Whether somebody writes it; what cannot be a recording is answered here."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or a pipe"
            raise RecordingError(f"{path} is {what}, no recording", hint=_WHAT_IS_ONE)
        size = status.st_size
        if written_here.is_written_here(path):
            return True
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise RecordingError(
            f"{path}: {error.strerror or error}",
            hint="Check the path, or read it as the user who made it.",
        ) from error
    if size == 0 and not _has_bytes(wal):
        if path.suffix != places.SUFFIX:
            raise RecordingError(f"{path} is empty, and no recording", hint=_WHAT_IS_ONE)
        raise _without_wal(path, "it is empty")
    if size and not head.startswith(MAGIC):
        raise RecordingError(f"{path} is no recording", hint=_WHAT_IS_ONE)
    return is_written(path)


def _has_bytes(wal: Path) -> bool:
    try:
        return wal.stat().st_size > 0
    except OSError:
        return False


def _without_wal(path: Path, why: str) -> RecordingError:
    return RecordingError(
        f"{path}: {why}, and {path.name}-wal is missing",
        hint=f"{path.name}-wal is missing: attach both, or run `gpuprobe report` where it was "
        "made.",
    )


def _copied(path: Path, wal: Path, private: Path) -> Path:
    copy = private / "copy.gpuprobe"
    try:
        shutil.copyfile(path, copy)
        shutil.copyfile(wal, private / f"{copy.name}-wal")
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be copied to be read: {error.strerror or error}",
            hint="Set TMPDIR to a folder with room for a copy of it.",
        ) from error
    return copy


def _connect(uri: str, path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, timeout=2.0, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error
    limits = {
        sqlite3.SQLITE_LIMIT_LENGTH: LONGEST,
        sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
        sqlite3.SQLITE_LIMIT_COLUMN: 100,
        sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
        sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 5,
        sqlite3.SQLITE_LIMIT_ATTACHED: 0,
        sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    }
    for limit, value in limits.items():
        connection.setlimit(limit, value)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _examine(found: Opened, *, private: bool) -> None:
    """Make sure that it is a recording of a schema that is known, and read its `meta`."""
    connection, path = found.connection, found.path
    try:
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        objects = connection.execute(
            "SELECT type, name, sql FROM sqlite_master LIMIT 1000"
        ).fetchall()
    except DAMAGED as error:
        raise _unreadable(path, error, found.notes) from error
    if not objects and not private:
        raise _without_wal(path, "it has no tables")
    if application != schema.APPLICATION_ID:
        raise RecordingError(
            f"{path} is an SQLite database, and no recording",
            hint="A recording is a file that `gpuprobe run`, `record` or `watch --record` made.",
        )
    if version > schema.VERSION:
        raise RecordingError(
            f"{path} is of schema {version}, and this gpuprobe reads up to {schema.VERSION}",
            hint=f"Update gpuprobe: {_maker(connection)}.",
        )
    if private:
        schema.migrate(connection, version)
    _must_be_tables(path, objects)
    try:
        connection.execute("PRAGMA query_only = ON")
        found.meta = dict(_texts(connection.execute("SELECT key, value FROM meta LIMIT 10000")))
    except DAMAGED as error:
        found.note(f"its table meta is damaged ({error})")


def _maker(connection: sqlite3.Connection) -> str:
    """Which gpuprobe made a recording, in words."""
    try:
        row = connection.execute("SELECT value FROM meta WHERE key = 'gpuprobe'").fetchone()
    except DAMAGED:
        row = None
    known = row is not None and isinstance(row[0], str)
    return f"{row[0][:40]} made it" if known else "a newer one made it"


def _texts(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[str, str]]:
    for key, value in rows:
        if isinstance(key, str) and isinstance(value, str):
            yield key, value


def _must_be_tables(path: Path, objects: list[tuple[Any, ...]]) -> None:
    """A view, a virtual table or a computed column in a table's place would run what it likes."""
    there = {name: (kind, str(sql)) for kind, name, sql in objects}
    for name in schema.TABLES:
        kind, sql = there.get(name, ("nothing", ""))
        plain = sql.upper().startswith(f"CREATE TABLE {name.upper()} (")
        if kind != "table" or not plain or " AS (" in sql.upper() or "GENERATED" in sql.upper():
            raise RecordingError(
                f"{path}: where its table {name} should be there is {kind} that gpuprobe did not "
                "make",
                hint="Ask for the file as gpuprobe wrote it.",
            )


def _say_how_it_ended(found: Opened, wal: Path) -> None:
    if found.live:
        found.note("it is still being written; this is what it held just now")
        return
    if "ended" in found.meta:
        return
    last = last_moment(found.connection)
    at = f" at {last}" if last else ""
    found.note(
        f"the recording ends without an end mark{at}: power cut or kill"
        + (
            ""
            if _has_bytes(wal)
            else f"; {wal.name} is not beside it, so up to 10 s may be missing"
        )
    )


def last_moment(connection: sqlite3.Connection) -> str | None:
    """ISO time, UTC, of the newest row, or None."""
    from datetime import UTC, datetime

    found = []
    for table in ("samples", "events", "engine_log"):
        try:
            row = connection.execute(
                f"SELECT at FROM {table} ORDER BY id DESC LIMIT 1"  # noqa: S608 - our own names
            ).fetchone()
        except DAMAGED:
            continue
        if row is not None and isinstance(row[0], int):
            found.append(row[0])
    try:
        return datetime.fromtimestamp(max(found) / 1e9, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None


def _unreadable(path: Path, error: Exception, notes: Sequence[str] = ()) -> RecordingError:
    """The refusal of a damaged file; a note that it is cut short says more than SQLite does."""
    why = "its schema is damaged" if isinstance(error, UnicodeDecodeError) else error
    return RecordingError(
        f"{path} cannot be read: {notes[0] if notes else why}",
        hint="It is damaged or cut short: copy it again, with its -wal where there is one.",
    )
