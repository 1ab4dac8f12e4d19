"""One recording's file, as its writer sees it: created, written in transactions, checkpointed.

Until a checkpoint what was written lies in `NAME-wal`. `synchronous=FULL` puts it on the disk
before a transaction ends, so neither a kill nor a power cut loses one that has ended.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gpuprobe.errors import RecordingError
from gpuprobe.recording import schema, written_here
from gpuprobe.recording.rows import Row

BUSY_MS: Final = 250
"""How long another program that locks the file is waited for, before it is tried again later."""

WAL_BYTES: Final = 16 << 20
"""What the WAL is cut back to after a checkpoint."""


def _insert(table: str) -> str:
    names = [name for name in schema.columns(table) if name not in ("id", "repeated")]
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - our own


_INSERTS: Final = {table: _insert(table) for table in schema.TABLES}
_INSERTS["devices"] = (
    "INSERT INTO devices (id, pci, uuid, name) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
    "SET uuid = coalesce(excluded.uuid, uuid), name = coalesce(excluded.name, name)"
)
_META: Final = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"
_READ_UNTIL: Final = "INSERT OR REPLACE INTO read_until VALUES (?, ?, ?, ?)"


class Store:
    """A recording that is being written. Not for several threads at once.

    Args:
        path: A file that does not exist yet.
        log_bytes: How much of the engine's output is kept; the oldest goes first.

    Raises:
        RecordingError: The file cannot be made.
    """

    def __init__(self, path: Path, *, log_bytes: int) -> None:
        self.path = path
        self._log_limit = log_bytes
        self._log: deque[tuple[int, int]] = deque()
        self._log_size = 0
        self._key: tuple[int, int] | None = None
        _create(path)
        try:
            self._key = written_here.begin(path)
            self._db = sqlite3.connect(
                path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
            )
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                f"journal_size_limit = {WAL_BYTES}",
                "mmap_size = 0",
            ):
                self._db.execute(f"PRAGMA {pragma}")
            self._page_bytes: int = self._db.execute("PRAGMA page_size").fetchone()[0]
            self._db.execute("BEGIN IMMEDIATE")
            schema.create(self._db)
            self._db.execute("COMMIT")
            self.checkpoint()
        except (sqlite3.Error, OSError) as error:
            self._let_go()
            # Ours, and empty: left there, it would refuse the next one its name.
            for side in ("", "-wal", "-shm"):
                path.with_name(path.name + side).unlink(missing_ok=True)
            raise _cannot_make(path, error) from error

    @property
    def connection(self) -> sqlite3.Connection:
        """The open database, for what copies from it."""
        return self._db

    def write(
        self,
        rows: Iterable[Row],
        meta: Mapping[str, str] = {},
        read_until: Mapping[tuple[int, str], tuple[int, float | None]] = {},
    ) -> None:
        """Write all of it in one transaction; on the disk when this returns.

        Raises:
            sqlite3.Error: Nothing of it was written.
        """
        tables: dict[str, list[tuple[Any, ...]]] = {}
        for table, values in rows:
            tables.setdefault(table, []).append(values)
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for table, found in tables.items():
                self._db.executemany(_INSERTS[table], found)
            if meta:
                self._db.executemany(_META, meta.items())
            if read_until:
                self._db.executemany(_READ_UNTIL, [(*k, *v) for k, v in read_until.items()])
            self._trim_log(tables.get("engine_log", ()))
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def _trim_log(self, added: Iterable[tuple[Any, ...]]) -> None:
        """Forget the oldest output beyond the limit."""
        size = sum(len(row[-1]) + 32 for row in added)
        if not size:
            return
        last = self._db.execute("SELECT max(id) FROM engine_log").fetchone()[0]
        self._log.append((last, size))
        self._log_size += size
        gone = 0
        while self._log_size > self._log_limit and len(self._log) > 1:
            gone, size = self._log.popleft()
            self._log_size -= size
        if gone:
            self._db.execute("DELETE FROM engine_log WHERE id <= ?", (gone,))

    def checkpoint(self, *, whole: bool = False) -> None:
        """Move what the WAL holds into the file; `whole` waits for readers and empties the WAL."""
        mode = "TRUNCATE" if whole else "PASSIVE"
        self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()

    @property
    def size(self) -> int:
        """Bytes of the file when its WAL is moved into it."""
        pages: int = self._db.execute("PRAGMA page_count").fetchone()[0]
        return pages * self._page_bytes

    @property
    def is_there(self) -> bool:
        """Whether the file is still where it was made: a removed one would be written in vain."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._key

    def close(self) -> None:
        """Close the file. What the WAL holds is moved into it, where that is possible."""
        with contextlib.suppress(sqlite3.Error):
            self.checkpoint(whole=True)
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._key is not None:
            written_here.end(self._key)


def _create(path: Path) -> None:
    """An empty file of our own, that no link leads to, readable by us alone."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, 0o600))
        # A power cut must not lose the name of a file whose content is on the disk.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _cannot_make(path, error) from error


def _cannot_make(path: Path, error: Exception) -> RecordingError:
    if isinstance(error, FileExistsError):
        return RecordingError(
            f"{path} exists already", hint="Name a new file; a recording is never overwritten."
        )
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return RecordingError(
        f"{path} cannot be made: {reason}",
        hint="Name a file in a folder that can be written, or set GPUPROBE_DIR to one.",
    )
