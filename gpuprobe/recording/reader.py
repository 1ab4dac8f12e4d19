"""A recording for people who work with pandas: `gpuprobe.load`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from gpuprobe.errors import UsageError
from gpuprobe.recording import schema
from gpuprobe.recording.frames import (
    FLOAT,
    ROWS_AT_ONCE,
    TEXT,
    TIME,
    WHOLE,
    frame,
    frame_of,
)
from gpuprobe.recording.opening import opened
from gpuprobe.recording.tables import Tables

if TYPE_CHECKING:
    import pandas as pd

_SAMPLES: Final = {
    "at": TIME,
    "monotonic_s": FLOAT,
    "device": TEXT,
    **{name: WHOLE if name in schema.WHOLE else FLOAT for name in schema.SAMPLE_COLUMNS},
}
_EVENTS: Final = {
    "at": TIME,
    "monotonic_s": FLOAT,
    "kind": TEXT,
    "device": TEXT,
    "input": TEXT,
    "line": WHOLE,
    "text": TEXT,
    "more": TEXT,
}
_ENGINE_LOG: Final = {"at": TIME, "input": TEXT, "stream": TEXT, "line": WHOLE, "text": TEXT}
_COUNTERS: Final = {"at": TIME, "device": TEXT, "input": TEXT, "name": TEXT, "value": WHOLE}
_GAPS: Final = {"at": TIME, "until": TIME, "what": TEXT, "count": WHOLE, "why": TEXT}


class Recording:
    """An open recording. Close it, or use it in a `with` statement.

    Times are UTC with nanoseconds (`datetime64[ns, UTC]`), numbers `float64`, counts `Int64`,
    texts `string[python]`; what was not read is missing (NaN, NA, NaT), never zero. Rows are in
    the order in which they were written.

    Args:
        path: The file.

    Attributes:
        path: The file. live: It is still being written. notes: What a reader should know.

    Raises:
        RecordingError: It is no recording, is of a newer schema, or cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._open = ExitStack()
        self._recording = self._open.enter_context(opened(self.path))
        self._tables = Tables(self._recording, str(self.path))
        self.live = self._recording.live

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, and of the private copy where there is one."""
        self._open.close()

    # --- what it says of itself -------------------------------------------------------------

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: damage, a missing end, an event of a newer version."""
        return tuple(self._recording.notes)

    @property
    def about(self) -> dict[str, str]:
        """What `meta` holds: keys and values, in docs/recording-format.md."""
        return dict(self._recording.meta)

    @property
    def ended(self) -> str | None:
        """How it ended (`stopped`, `engine-exited`, `device-lost`, `continued`), or None."""
        return self._recording.meta.get("ended")

    @property
    def argv(self) -> list[str] | None:
        """The engine's command line, secrets masked; None where none was recorded."""
        try:
            found = json.loads(self._recording.meta["engine.argv"])
        except (KeyError, ValueError, RecursionError):
            return None
        return [str(word) for word in found] if isinstance(found, list) else None

    @property
    def devices(self) -> tuple[str, ...]:
        """Addresses of the devices that it has rows of, in order."""
        return tuple(str(address) for address in sorted(self._tables.devices.values()))

    def diagnoses(self) -> list[dict[str, Any]]:
        """The diagnoses that were made while it was recorded, as JSON documents, in order."""
        found = []
        self._recording.renew()
        for _, text in self._tables.scan("diagnoses", ("id", "document")):
            try:
                document = json.loads(text)
            except (ValueError, TypeError, RecursionError):
                continue
            if isinstance(document, dict):
                found.append(document)
        return found

    # --- frames -----------------------------------------------------------------------------

    def meta(self) -> pd.DataFrame:
        """Columns `key`, `value`."""
        return frame(self._recording.meta.items(), {"key": TEXT, "value": TEXT})

    def samples(self, *, every: str | None = None, device: str | None = None) -> pd.DataFrame:
        """Readings of the GPUs, a row a device and moment.

        Columns: `at`, `monotonic_s`, `device`, then those of `gpuprobe.events.GpuSampled`, each
        with its unit in its name.

        Args:
            every: Where given (`1s`, `1min`), a row a device and so long a time instead: `at` is
                its begin, `count` how many readings, and each value comes as `NAME_min`,
                `NAME_mean` and `NAME_max` (`float64`). It is made by SQLite, a row at a time.
            device: Only this address.

        Raises:
            UsageError: `every` is no length of time, or `device` is not in the recording.
            RecordingError: Reading takes too long.
        """
        number = self._number_of(device)
        if every is not None:
            return self._buckets(every, number)
        names = ("id", "at", "monotonic_s", "device", *schema.SAMPLE_COLUMNS)
        found = self._lists("samples", names)
        if number is not None:
            found = ([row for row in rows if row[3] == number] for rows in found)
        return frame_of(found, _SAMPLES, words={"device": self._addresses().get})

    def _buckets(self, every: str, number: int | None) -> pd.DataFrame:
        import pandas as pd

        try:
            width = int(pd.Timedelta(every).value)
        except ValueError as error:
            raise UsageError(
                f"{every!r} is no length of time", hint="Write 1s, or 1min."
            ) from error
        if width <= 0:
            raise UsageError(f"{every!r} is no length of time", hint="Write 1s, or 1min.")
        values = [
            f"{made}({name})" for name in schema.SAMPLE_COLUMNS for made in ("min", "avg", "max")
        ]
        query = (
            f"SELECT at / ? * ? AS bucket, device, count(*), {', '.join(values)} "  # noqa: S608
            "FROM samples WHERE ? IS NULL OR device = ? GROUP BY bucket, device"
        )
        self._recording.renew()
        addresses = self._addresses()
        rows = (
            (at, addresses.get(one), *found)
            for at, one, *found in self._recording.rows(
                query, (width, width, number, number), table="samples"
            )
        )
        types = {"at": TIME, "device": TEXT, "count": WHOLE}
        for name in schema.SAMPLE_COLUMNS:
            types |= {f"{name}_{made}": FLOAT for made in ("min", "mean", "max")}
        return frame(rows, types)

    def power_samples(self) -> pd.DataFrame:
        """The driver's own power samples: `at` (by the driver's clock), `device`, `power_w`."""
        self._recording.renew()
        rows = (
            (round(at * 1e9), str(event.device), watts)
            for _, event in self._tables.power()
            for at, watts in event.samples
        )
        return frame(rows, {"at": TIME, "device": TEXT, "power_w": FLOAT})

    def counters(self) -> pd.DataFrame:
        """Counters when they changed: `at`, `device`, `input`, `name`, `value`."""
        found = self._lists("counters", ("id", *_COUNTERS))
        return frame_of(found, _COUNTERS, words={"device": self._addresses().get})

    def events(self) -> pd.DataFrame:
        """What happened; indexed by `id`, which evidence cites as `events:ID`.

        Columns: `at`, `monotonic_s`, `kind` (a class of `gpuprobe.events`), `device`, `input`,
        `line`, `text`, and `more` (JSON: the other fields of that class).
        """
        return self._framed("events", _EVENTS)

    def engine_log(self) -> pd.DataFrame:
        """The last lines of the engine's output: `at`, `input`, `stream`, `line`, `text`."""
        return self._framed("engine_log", _ENGINE_LOG)

    def gaps(self) -> pd.DataFrame:
        """What was left out: `at`, `until`, `what`, `count`, `why`."""
        return self._framed("gaps", _GAPS)

    def _framed(self, table: str, types: dict[str, str]) -> pd.DataFrame:
        found = frame_of(self._lists(table, ("id", *types)), {"id": WHOLE, **types})
        return found.set_index("id")

    def _lists(self, table: str, names: tuple[str, ...]) -> Iterator[list[tuple[Any, ...]]]:
        self._recording.renew()
        return self._tables.lists(table, names, at_once=ROWS_AT_ONCE)

    def _addresses(self) -> dict[Any, str]:
        return {number: str(address) for number, address in self._tables.devices.items()}

    def _number_of(self, device: str | None) -> int | None:
        if device is None:
            return None
        for number, address in self._addresses().items():
            if address == device:
                return int(number)
        known = ", ".join(self.devices) or "none"
        raise UsageError(f"{self.path} holds no device {device}", hint=f"It holds: {known}.")
