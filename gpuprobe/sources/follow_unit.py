"""A systemd unit's lines in the journal, as they are written.

Needs `journalctl`, and group `systemd-journal` or `adm` for a unit of another user. Sees what the
service manager says of the unit, so starts and stops are told apart from silence.

Source of the message ids: systemd's src/systemd/sd-messages.h.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpuprobe.events import Event
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.following import (
    AGAIN_S,
    Follower,
    arrived,
    find_program,
    plain_environment,
)
from gpuprobe.sources.framing.json_lines import journal_record
from gpuprobe.sources.output import Line
from gpuprobe.sources.threaded import Turn

STARTED: Final = frozenset({"7d4958e842da4a758f6c1cdc7b36dcc5", "39f53479d3a045ac8e11786248231fbf"})
"""SD_MESSAGE_UNIT_STARTING and SD_MESSAGE_UNIT_STARTED."""

STOPPED: Final = {
    "7ad2d189f7e94e70a38c781354912448": "ended",
    "d9b373ed55a64feb8242e02dbe79a49c": "failed",
}
"""SD_MESSAGE_UNIT_SUCCESS and SD_MESSAGE_UNIT_FAILURE_RESULT: the unit is down."""

EARLIER: Final = 16
"""How many runs of the unit are remembered, so that a late line of one is no new run."""

LOOK_S: Final = 5.0
"""How long a look for the unit's last line may take."""


class UnitFollower(Follower):
    """Follows a unit.

    Args:
        unit: Its name; without a suffix it is a service.
        order: See `ThreadedSource`.
        user: The unit of a user's own service manager.
        journalctl: The program, looked for on the path; None for none.
        wake: See `Follower`.
    """

    def __init__(
        self,
        unit: str,
        order: int = 0,
        *,
        user: bool = False,
        journalctl: str | None = "journalctl",
        wake: threading.Event | None = None,
    ) -> None:
        super().__init__(f"unit {unit}", order, wake=wake)
        self.unit = unit
        self._user = user
        self._program = find_program(journalctl) if journalctl else None
        self._invocation: str | None = None
        self._earlier: deque[str] = deque(maxlen=EARLIER)
        self._cursor: str | None = None

    def available(self) -> Availability:
        """Whether there is a journal to read."""
        if self._program is None:
            return Unavailable(
                Reason.NOT_THERE,
                "journalctl is not installed",
                "Follow the program's log file with --follow-file instead.",
            )
        return Known(f"journalctl of {self.unit}")

    def _run(self, turn: Turn) -> None:
        if not self._begins(turn):
            return
        # Beside the following: what is written while the journal is searched must not be missed.
        threading.Thread(target=self._look, args=(turn,), name="unit", daemon=True).start()
        while not turn.over:
            # journalctl itself may be restarted; the cursor says where it was.
            place = f"--after-cursor={self._cursor}" if self._cursor else "--lines=0"
            unit = f"--{'user-unit' if self._user else 'unit'}={self.unit}"
            command = [
                self._program or "journalctl", "--follow", unit, place,
                "--output=json", "--all", "--no-pager", "--quiet",
            ]  # fmt: skip
            code = self._follow_command(turn, command, lambda lines: self._take(turn, lines))
            if code is not None:
                turn.put(self._changed("gap", f"journalctl ended with code {code}"))
                turn.wait(AGAIN_S)
        self._end(turn)

    def _look(self, turn: Turn) -> None:
        """Learn which run of the unit the journal has last, so that the next one is known as new.

        Where there is nothing of the unit it is said: its name may be wrong.
        """
        last = self._last_line()
        if last is None or self._invocation is not None:
            return
        if last:
            self._invocation = _invocation(last)
            return
        self._invocation = ""
        text = f"no line of {self.unit} is in the journal yet, or none may be read; is the name"
        turn.put(self._changed("gap", f"{text} right? It is waited for"))

    def _last_line(self) -> Mapping[str, Any] | None:
        """The unit's last line in the journal, empty for none; None where that cannot be told."""
        unit = f"--{'user-unit' if self._user else 'unit'}={self.unit}"
        command = [self._program or "journalctl", unit, "--lines=1", "--output=json", "--quiet"]
        try:
            done = subprocess.run(  # noqa: S603 - a fixed program, no shell
                [*command, "--no-pager"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LOOK_S,
                env=plain_environment(),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if not done.stdout.strip():
            return {} if done.returncode == 0 else None
        try:
            found = json.loads(done.stdout)
        except ValueError:
            return None
        return found if isinstance(found, dict) and found else None

    def _take(self, turn: Turn, lines: Iterable[bytes]) -> Iterator[Event]:
        for text in lines:
            try:
                fields = json.loads(text)
            except ValueError:
                if text.strip():
                    words = text[:200].decode("utf-8", "replace")
                    yield self._changed("gap", f"journalctl says: {words}")
                continue
            if isinstance(fields, dict):
                self._note_start(turn, fields)
                yield from self._line(fields)
                self._note_stop(turn, fields)

    def _line(self, fields: Mapping[str, Any]) -> Iterator[Event]:
        found = journal_record(fields, "journal-json")
        if found is None:
            return
        self._cursor = found.ref or self._cursor
        line = Line(
            found.rest.encode("utf-8", "replace"),
            arrived(found.stamp),
            found.source if found.pid is None else f"{found.source}[{found.pid}]",
            found.ref,
        )
        yield from self._reader.add([line], time.monotonic())

    def _note_start(self, turn: Turn, fields: Mapping[str, Any]) -> None:
        """A new invocation of the unit: lines from here on are another run's."""
        found = _invocation(fields)
        if found is None or found == self._invocation or found in self._earlier:
            return
        before, self._invocation = self._invocation, found
        if before:
            self._earlier.append(before)
        # Where the look was too late, the first one seen may have run for long, unless it is
        # started just now. The manager's word is not enough: a program can be faster than it.
        if before is not None or fields.get("MESSAGE_ID") in STARTED:
            self._life(turn, "started", f"{self.unit} started", who=self.unit)

    def _note_stop(self, turn: Turn, fields: Mapping[str, Any]) -> None:
        how = STOPPED.get(str(fields.get("MESSAGE_ID")))
        # The manager's word of one run can come behind the first line of the next one, as both
        # write on their own ways to the journal: that run has ended by then, and this one goes on.
        if how is not None and _invocation(fields) not in self._earlier:
            self._end(turn)
            text = str(fields.get("MESSAGE"))
            self._life(turn, "stopped", f"{self.unit} {how}: {text}", who=self.unit)


def _invocation(fields: Mapping[str, Any]) -> str | None:
    """The run of the unit that a line belongs to: the unit's own, or one of its manager."""
    found = fields.get("_SYSTEMD_INVOCATION_ID")
    if str(fields.get("_PID")) == "1" or "UNIT" in fields or "USER_UNIT" in fields:
        found = fields.get("INVOCATION_ID") or fields.get("USER_INVOCATION_ID")
    return found if isinstance(found, str) else None
