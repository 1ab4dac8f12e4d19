"""The tables of a recording. docs/recording-format.md says what each column means.

`application_id` marks the file, `user_version` numbers the schema. A new schema is one more entry
of `MIGRATIONS`; a recording is never changed where it lies, a copy of it in memory or in a
temporary folder is.
"""

from __future__ import annotations

import sqlite3
from typing import Final

APPLICATION_ID: Final = 0x47505542
"""`GPUB` in the file's bytes 68 to 71."""

VERSION: Final = 1
"""The schema that is written. A reader takes this one and those before it."""

TABLES: Final = {
    "meta": "key TEXT PRIMARY KEY, value TEXT NOT NULL",
    "devices": "id INTEGER PRIMARY KEY, pci TEXT NOT NULL UNIQUE, uuid TEXT, name TEXT",
    "samples": (
        "id INTEGER PRIMARY KEY, at INTEGER NOT NULL, monotonic_s REAL, device INTEGER NOT NULL, "
        "power_w REAL, limit_w REAL, temp_c REAL, memory_temp_c REAL, sm_clock_mhz REAL, "
        "mem_clock_mhz REAL, util_percent REAL, pstate INTEGER, clocks_event_reasons INTEGER, "
        "link_gen INTEGER, link_width INTEGER, memory_used_bytes INTEGER, "
        "memory_total_bytes INTEGER, rx_bytes_per_s REAL, tx_bytes_per_s REAL"
    ),
    "power_samples": (
        "id INTEGER PRIMARY KEY, at INTEGER NOT NULL, monotonic_s REAL, device INTEGER NOT NULL, "
        "count INTEGER NOT NULL, packed BLOB NOT NULL"
    ),
    "counters": (
        "id INTEGER PRIMARY KEY, at INTEGER NOT NULL, monotonic_s REAL, device INTEGER NOT NULL, "
        "input TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL"
    ),
    "events": (
        "id INTEGER PRIMARY KEY, at INTEGER, monotonic_s REAL, kind TEXT NOT NULL, device TEXT, "
        "input TEXT NOT NULL, line INTEGER, text TEXT NOT NULL, more TEXT NOT NULL, "
        "repeated INTEGER NOT NULL DEFAULT 0"
    ),
    "engine_log": (
        "id INTEGER PRIMARY KEY, at INTEGER, input TEXT NOT NULL, stream TEXT NOT NULL, "
        "line INTEGER, text TEXT NOT NULL"
    ),
    "gaps": (
        "id INTEGER PRIMARY KEY, at INTEGER NOT NULL, until INTEGER NOT NULL, what TEXT NOT NULL, "
        "count INTEGER NOT NULL, why TEXT NOT NULL"
    ),
    "diagnoses": "id INTEGER PRIMARY KEY, at INTEGER NOT NULL, document TEXT NOT NULL",
    "read_until": (
        "device INTEGER NOT NULL, input TEXT NOT NULL, at INTEGER NOT NULL, monotonic_s REAL, "
        "PRIMARY KEY (device, input)"
    ),
}
"""Table to columns."""

# No index: rows lie in the order in which they came, so that a time is found by halving the ids.

SAMPLE_COLUMNS: Final = (
    "power_w",
    "limit_w",
    "temp_c",
    "memory_temp_c",
    "sm_clock_mhz",
    "mem_clock_mhz",
    "util_percent",
    "pstate",
    "clocks_event_reasons",
    "link_gen",
    "link_width",
    "memory_used_bytes",
    "memory_total_bytes",
    "rx_bytes_per_s",
    "tx_bytes_per_s",
)
"""The fields of `GpuSampled` that are columns, in their order."""

WHOLE: Final = frozenset(
    {
        "pstate",
        "clocks_event_reasons",
        "link_gen",
        "link_width",
        "memory_used_bytes",
        "memory_total_bytes",
    }
)
"""Those that are whole numbers."""

MIGRATIONS: Final[dict[int, tuple[str, ...]]] = {}
"""Version to the statements that make a recording of the version before it one of this."""


def columns(table: str) -> list[str]:
    """Names of a table's columns, in order."""
    parts = (part.split()[0] for part in TABLES[table].split(", "))
    return [name for name in parts if name.islower() and name.isidentifier()]


def create(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty database."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for name, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a private copy of an older recording to the schema of today."""
    for number in range(version + 1, VERSION + 1):
        for statement in MIGRATIONS.get(number, ()):
            connection.execute(statement)
