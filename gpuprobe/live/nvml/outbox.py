"""What the NVML child writes: rows of samples wait and go together, anything else goes at once.

Each write wakes the parent, and waking costs more than what is said. So readings of all devices
go once or twice a second in one write, while a loss, an Xid or a failure takes what waits along.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gpuprobe.live.nvml import wire


class Outbox:
    """The pipe to the parent, for all threads.

    Args:
        batch_s: Readings wait this long at most, seconds.
        on_broken: Called when nobody reads the pipe any more.
        descriptor: Where to write.

    Attributes:
        flush_at_ns: When what waits is to be written, nanoseconds of `time.monotonic_ns()`.
    """

    def __init__(self, batch_s: float, on_broken: Callable[[], None], descriptor: int = 1) -> None:
        self._batch_ns = round(batch_s * 1e9)
        self._on_broken = on_broken
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._waiting: list[dict[str, Any]] = []
        self._rows: dict[int, dict[str, Any]] = {}
        self._packed: dict[tuple[int, str], deque[bytes]] = {}
        self._heard_of: set[int] = set()
        self.flush_at_ns = 0

    def send(self, kind: str, **fields: Any) -> None:
        """Write a message now, behind what waits."""
        with self._lock:
            self._take_packed()
            self._waiting.append(_message(kind, fields))
            self._write()

    def put(self, kind: str, **fields: Any) -> None:
        """Write a message with the next rows."""
        with self._lock:
            self._waiting.append(_message(kind, fields))

    def add_row(self, slot: int, row: list[Any], period_ns: int = 0) -> None:
        """Take a row of one device, and write what waits when that is due; a first row at once.

        Args:
            slot: The device's slot.
            row: Its row: its time, then the values in the order of `wire.ROW_NAMES`.
            period_ns: Time to the device's next row.
        """
        layout, packed = wire.pack_row(row)
        with self._lock:
            self._take_packed()
            self._add(slot, layout, packed or row)
            first = slot not in self._heard_of
            if first or row[0] + period_ns // 2 >= self.flush_at_ns:
                self._heard_of.add(slot)
                self._write()

    def of_device(self, slot: int, layout: str) -> deque[bytes]:
        """Where packed rows of a device are put; see `wire`. They go with what is written next.

        The device's thread adds to it without a lock, and looks at `flush_at_ns` itself.
        """
        with self._lock:
            return self._packed.setdefault((slot, layout), deque())

    def _add(self, slot: int, layout: str, row: bytes | list[Any]) -> None:
        message = self._rows.get(slot)
        if message is None or message.get("layout", "") != layout:
            message = self._rows[slot] = _of_rows(slot, layout)
            self._waiting.append(message)
        message["rows"] += row if layout else [row]

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            self._write()

    def _take_packed(self) -> None:
        """Put the rows that devices left into messages."""
        for (slot, layout), rows in self._packed.items():
            while rows:
                self._add(slot, layout, rows.popleft())

    def _write(self) -> None:
        self._take_packed()
        if not self._waiting:
            return
        data = b"".join(map(wire.encode, self._waiting))
        self._waiting = []
        self._rows = {}
        self.flush_at_ns = time.monotonic_ns() + self._batch_ns
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._on_broken()


def _of_rows(slot: int, layout: str) -> dict[str, Any]:
    """A message that rows of this layout are put into."""
    if layout:
        return _message("samples", {"slot": slot, "layout": layout, "rows": bytearray()})
    return _message("rows", {"slot": slot, "rows": []})


def _message(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"t": kind, "m": time.monotonic_ns(), "w": time.time_ns(), **fields}
