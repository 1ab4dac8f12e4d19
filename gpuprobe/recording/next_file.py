"""A recording that has grown large goes on in another file, and each file stands alone."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from gpuprobe.recording import schema
from gpuprobe.recording.rows import to_ns
from gpuprobe.recording.store import Store

FACTS: Final = (
    "BootStarted",
    "BridgeLinked",
    "DeviceIdentified",
    "SourceChanged",
    "SystemDescribed",
    "ThermalReported",
)
"""Kinds of events that say what is what: repeated however old they are."""

FACTS_LIMIT: Final = 5000


def begin(
    old: Store, path: Path, *, about: Mapping[str, str], log_bytes: int, since: datetime
) -> tuple[Store, dict[str, str]]:
    """Make the next file, copy what it needs, and end the old one.

    Args:
        old: The file that has grown large; it is closed.
        path: The new one.
        about: What `meta` holds.
        log_bytes: See `Store`.
        since: What came later is repeated.

    Returns:
        The new file, and what its `meta` holds.

    Raises:
        sqlite3.Error: The disk is full; the old file is still open.
        RecordingError: The new one cannot be made.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    new = Store(path, log_bytes=log_bytes)
    fresh = {**about, "id": uuid4().hex, "started": now, "continues": about.get("id", "")}
    try:
        _copy(old.connection, new, to_ns(since))
        new.write((), fresh)
    except sqlite3.Error:
        new.close()
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    old.write((), {"ended": "continued", "ended-at": now, "continued-in": path.name})
    old.close()
    return new, fresh


def _copy(source: sqlite3.Connection, new: Store, since: int) -> None:
    marks = ", ".join("?" * len(FACTS))
    chosen = {
        "devices": ("SELECT * FROM devices", ()),
        "events": (
            f"SELECT * FROM events WHERE at >= ? OR id IN (SELECT max(id) FROM events "  # noqa: S608
            f"WHERE kind IN ({marks}) GROUP BY kind, device, text LIMIT {FACTS_LIMIT})",
            (since, *FACTS),
        ),
        "samples": ("SELECT * FROM samples WHERE at >= ?", (since,)),
        "power_samples": ("SELECT * FROM power_samples WHERE at >= ?", (since,)),
        "counters": (
            "SELECT * FROM counters WHERE at >= ? OR id IN "
            "(SELECT max(id) FROM counters GROUP BY device, input, name)",
            (since,),
        ),
    }
    target = new.connection
    target.execute("BEGIN IMMEDIATE")
    try:
        for table, (query, values) in chosen.items():
            names = schema.columns(table)
            marks = ", ".join("?" * len(names))
            rows = source.execute(query.replace("*", ", ".join(names), 1), values)
            target.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
        target.execute("UPDATE events SET repeated = 1")
        target.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            target.execute("ROLLBACK")
        raise
