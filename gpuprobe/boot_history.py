"""A row a boot over all that this machine's journal keeps."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gpuprobe.boot_rows import BootRow, End, Told, make_rows, rows_of, tell
from gpuprobe.boots import read_timeline
from gpuprobe.checks.report import exit_code
from gpuprobe.diagnosis import Certainty, Kind
from gpuprobe.reading import Known, Reading, Reason, Unavailable
from gpuprobe.sources.files import machine
from gpuprobe.sources.files.machine import JournalBoot
from gpuprobe.timeline import Timeline

__all__ = ["BootRow", "End", "History", "make_rows", "read_history"]

Boot = Reading[tuple[Timeline, list[str]]]
"""One boot's timeline, and what was amiss with its log."""

DEADLINE_S = 120.0
"""Seconds for all boots; a boot of some thousand lines takes a tenth of one."""

BOOT_S = 30.0
"""Seconds for one boot: a journal on a failing disk may not answer at all."""


@dataclass(frozen=True, slots=True)
class History:
    """All boots that are kept, oldest first.

    Attributes:
        rows: One a boot; empty where nothing could be read.
        answer: A verdict kind; of the boot that runs, as `check` speaks of the present.
        notes: What could not be read, and what would open it.
    """

    rows: tuple[BootRow, ...]
    answer: str
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing lasts, 1 a reset is owed, 3 nothing could be read, 79 a GPU is gone."""
        return exit_code(self.answer)


def read_history(
    root: Path = Path("/"),
    *,
    last: int | None = None,
    deadline_s: float = DEADLINE_S,
    progress: Callable[[int, int], None] | None = None,
) -> History:
    """Read this machine's journal; without one, the kernel's buffer gives this boot's row.

    Boots are read one by one, the newest first, so that what time does not allow is the oldest.

    Args:
        root: Where the id of the running boot is looked for.
        last: Only the newest so many boots; None for all.
        deadline_s: Seconds after which older boots get a row without their log.
        progress: Called before each boot with how many are read, and of how many.
    """
    running = _running(root)
    boots = machine.list_boots()
    if isinstance(boots, Unavailable):
        return _of_the_buffer(boots, running, root)
    chosen = boots.value[-last:] if last else boots.value
    told: dict[str, Told] = {}
    notes: list[str] = []
    until = time.monotonic() + deadline_s
    for done, boot in enumerate(reversed(chosen)):
        if progress is not None:
            progress(done, len(chosen))
        reading = _in_time(partial(_read_boot, boot.boot_id), until)
        if isinstance(reading, Unavailable):
            notes.append(_unread(boot, reading))
            told[boot.boot_id] = Told(read=False)
            if time.monotonic() >= until:
                break
            continue
        timeline, said = reading.value
        notes.extend(said)
        told[boot.boot_id] = tell(timeline, timeline.events)
    if len(told) < len(chosen):
        notes.append(
            f"{_older(len(chosen) - len(told))} not read in {deadline_s:.0f} s: "
            "gpuprobe history --last N reads fewer"
        )
    if len(chosen) < len(boots.value):
        notes.append(f"{_older(len(boots.value) - len(chosen))} left out by --last")
    rest = {boot.boot_id: told.get(boot.boot_id, Told(read=False)) for boot in chosen}
    if not any(one.read for one in rest.values()):
        return _of_the_buffer(Unavailable(Reason.TIMED_OUT, "; ".join(notes[:1])), running, root)
    in_part = any("only part" in note for note in notes)
    spans = {boot.boot_id: (boot.first, boot.last) for boot in chosen}
    rows = rows_of(rest, spans, running=running, listed=True, ends_known=not in_part)
    return History(rows, _answer(rows, rest), tuple(dict.fromkeys(notes)))


def _older(number: int) -> str:
    return f"{number} older boot{'s' if number != 1 else ''}"


def _unread(boot: JournalBoot, reading: Unavailable) -> str:
    text = f"boot {boot.boot_id[:8]}: {reading.detail or reading.reason.value}"
    return f"{text}. {reading.hint}".strip() if reading.hint else text


def _in_time(read: Callable[[], Boot], until: float) -> Boot:
    """What `read` gives, unless a journal does not answer."""
    answer: queue.SimpleQueue[Boot] = queue.SimpleQueue()

    def work() -> None:
        try:
            answer.put(read())
        except Exception as error:  # one boot that breaks must not cost the others
            answer.put(Unavailable(Reason.FAILED, f"{type(error).__name__}: {error}"))

    threading.Thread(target=work, name="history", daemon=True).start()
    left = max(0.1, min(BOOT_S, until - time.monotonic()))
    try:
        return answer.get(timeout=left)
    except queue.Empty:
        return Unavailable(Reason.TIMED_OUT, f"its journal did not answer in {left:.0f} s")


def _read_boot(boot_id: str) -> Boot:
    reading = read_timeline(machine.history_inputs(boot_id))
    if isinstance(reading, Unavailable):
        return reading
    timeline, notes = reading.value
    lines = max((item.lines or 0 for item in timeline.inputs), default=0)
    if lines < machine.BOOT_LINES:
        return reading
    # A flood: how the boot began is in none of the newest lines.
    again = read_timeline(machine.history_inputs(boot_id, beginning=True))
    if isinstance(again, Unavailable):
        return reading
    timeline, notes = again.value
    flood = f"boot {boot_id[:8]}: its first and its newest {machine.BOOT_LINES:,} kernel lines"
    return Known((timeline, [*notes, f"{flood} were read, those between were not"]))


def _of_the_buffer(missing: Unavailable, running: str | None, root: Path) -> History:
    """This boot's row by what the kernel still holds."""
    until = time.monotonic() + BOOT_S
    hung = missing.reason is Reason.TIMED_OUT
    inputs = machine.buffer_inputs() if hung else machine.boot_inputs(0)
    reading = _in_time(lambda: read_timeline(inputs), until)
    if isinstance(reading, Unavailable):
        said = missing.detail or reading.detail
        note = f"{said}. {missing.hint or reading.hint}".strip()
        return History((), Kind.CANNOT_TELL.value, (note,))
    timeline, notes = reading.value
    note = f"only this boot: {missing.detail or 'no journal is kept here'}. {missing.hint}".strip()
    notes = [note, *(other for other in notes if other not in note)]
    name = running or "unknown"
    told = {name: tell(timeline, timeline.events)}
    began = _began(root)
    spans = {name: (began, datetime.now(UTC))} if began is not None else {}
    rows = rows_of(told, spans, running=running, listed=False, ends_known=True)
    return History(rows, _answer(rows, told), tuple(dict.fromkeys(notes)))


def _running(root: Path) -> str | None:
    try:
        text = (root / "proc/sys/kernel/random/boot_id").read_text("ascii")
    except OSError:
        return None
    return text.strip().replace("-", "")


def _began(root: Path) -> datetime | None:
    """When the running boot began, by the kernel's own count."""
    try:
        text = (root / "proc/stat").read_text("ascii", "replace")
    except OSError:
        return None
    match = re.search(r"^btime (\d+)$", text, re.MULTILINE)
    return datetime.fromtimestamp(int(match[1]), UTC) if match else None


def _answer(rows: Sequence[BootRow], told: Mapping[str, Told]) -> str:
    """What lasts of the boot that runs: a loss, a hang of firmware, or a reset that is owed."""
    if not rows:
        return Kind.CANNOT_TELL.value
    if rows[-1].end is not End.RUNNING:
        return Kind.NO_FAULT.value
    current = rows[-1]
    if current.losses:
        return Kind.DEVICE_LEFT_BUS.value
    for verdict in current.faults:
        if verdict.kind is Kind.GPU_FIRMWARE_HANG and verdict.certainty is not Certainty.POSSIBLE:
            return verdict.kind.value
    return Kind.GPU_HANG.value if list(told.values())[-1].owed else Kind.NO_FAULT.value
