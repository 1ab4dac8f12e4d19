"""A systemd unit's lines in the journal, as they are written.

Needs `journalctl`, and group `systemd-journal` or `adm` for a unit of another user. Sees what the
service manager says of the unit, so starts and stops are told apart from silence. What the kernel
says belongs to no unit, so lines of the kernel's log among a unit's are what it printed.

Source of the message ids and of the fields: systemd's src/systemd/sd-messages.h, src/core/unit.c.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpuprobe.events import Event, ProcessCrashed
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.following.base import (
    ABRUPT,
    AGAIN_S,
    Follower,
    arrived,
    find_program,
    plain_environment,
)
from gpuprobe.sources.framing.json_lines import journal_record
from gpuprobe.sources.output import Line
from gpuprobe.sources.threaded import Turn
from gpuprobe.sources.wording.crash_signals import NUMBERS

STARTED: Final = frozenset({"7d4958e842da4a758f6c1cdc7b36dcc5", "39f53479d3a045ac8e11786248231fbf"})
"""SD_MESSAGE_UNIT_STARTING and SD_MESSAGE_UNIT_STARTED."""

STOPPED: Final = {
    "7ad2d189f7e94e70a38c781354912448": "ended",
    "d9b373ed55a64feb8242e02dbe79a49c": "failed",
}
"""SD_MESSAGE_UNIT_SUCCESS and SD_MESSAGE_UNIT_FAILURE_RESULT: the unit is down."""

STOPPING: Final = "de5b426a63be47a7b6ac3eaac82e2f6f"
"""SD_MESSAGE_UNIT_STOPPING: somebody has it stopped, which a failure of its own does not say."""

EXITED: Final = "98e322203f7a4ed290d09fe03c09fe15"
"""SD_MESSAGE_UNIT_PROCESS_EXIT: a process ended otherwise than it should; with EXIT_CODE (`exited`,
`killed`, `dumped`), EXIT_STATUS (a code, or the signal's number) and COMMAND."""

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
        self._code: int | None = None  # of the main process, where it ended by now
        self._asked = False
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
            command = [
                self._program or "journalctl", "--follow",
                *_entries_of(self.unit, user=self._user), place,
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
        last = self._last_line(user=self._user)
        if last is None or self._invocation is not None:
            return
        if last:
            self._invocation = _invocation(last)
            return
        self._invocation = ""
        text = f"no line of {self.unit} is in the journal yet, or none may be read; is the name"
        advice = "right? It is waited for"
        if self._last_line(user=not self._user):
            kind = "the system's units" if self._user else "a user's own units"
            option = "--follow-unit" if self._user else "--follow-user-unit"
            advice = f"right? There is one among {kind}: {option} {self.unit}"
        self._miss(turn, f"{text} {advice}")

    def _last_line(self, *, user: bool) -> Mapping[str, Any] | None:
        """The unit's last line in the journal, empty for none; None where that cannot be told."""
        command = [
            self._program or "journalctl", *_entries_of(self.unit, user=user),
            "--lines=1", "--output=json", "--quiet", "--no-pager",
        ]  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603 - a fixed program, no shell
                command,
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
                self._found(turn)
                self._note_start(turn, fields)
                yield from self._line(turn, fields)
                self._note_stop(turn, fields)

    def _line(self, turn: Turn, fields: Mapping[str, Any]) -> Iterator[Event]:
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
        code = _exit_code(fields)
        if code is None:
            yield from self._reader.add([line], time.monotonic())
            return
        self._reader.keep(line)  # its fields say more than its words
        self._end(turn)
        if _invocation(fields) not in self._earlier:
            self._code = code
        if code - 128 in ABRUPT and not self._asked:
            yield self._crash(found.rest, code)

    def _crash(self, text: str, code: int) -> Event:
        base = self._base(text, self._cursor)
        return ProcessCrashed(**base, signal=NUMBERS[code - 128], process=self.unit)

    def _note_start(self, turn: Turn, fields: Mapping[str, Any]) -> None:
        """A new invocation of the unit: lines from here on are another run's."""
        found = _invocation(fields)
        if found is None or found == self._invocation or found in self._earlier:
            return
        before, self._invocation = self._invocation, found
        self._code, self._asked = None, False
        if before:
            self._earlier.append(before)
        # Where the look was too late, the first one seen may have run for long, unless it is
        # started just now. The manager's word is not enough: a program can be faster than it.
        if before is not None or fields.get("MESSAGE_ID") in STARTED:
            self._life(turn, "started", f"{self.unit} started", who=self.unit)

    def _note_stop(self, turn: Turn, fields: Mapping[str, Any]) -> None:
        message = str(fields.get("MESSAGE_ID"))
        how = STOPPED.get(message)
        # The manager's word of one run can come behind the first line of the next one, as both
        # write on their own ways to the journal: that run has ended by then, and this one goes on.
        if _invocation(fields) in self._earlier:
            return
        self._asked = self._asked or message == STOPPING
        if how is None:
            return
        self._end(turn)
        text = f"{self.unit} {how}: {fields.get('MESSAGE')}"
        code, self._code = self._code, None
        if self._asked or (code == _KILLED and fields.get("UNIT_RESULT") == "timeout"):
            code = None  # what somebody asked for is no failure, nor is a start that took too long
        elif code == _KILLED and fields.get("UNIT_RESULT") == "signal":
            self._give(turn, [self._crash(text, code)])
        self._life(turn, "stopped", text, who=self.unit, code=code)


_KILLED: Final = 128 + 9

_SUFFIXES: Final = (".service", ".scope", ".slice")


def _entries_of(unit: str, *, user: bool) -> list[str]:
    """What has journalctl choose the entries of a unit, and of its manager about it."""
    if not user:
        return [f"--unit={unit}"]
    if os.getuid() != 0:
        return [f"--user-unit={unit}"]
    # That would be root's own (journalctl asks for _UID), of which there are none as a rule.
    name = unit if unit.endswith(_SUFFIXES) else f"{unit}.service"
    fields = ("_SYSTEMD_USER_UNIT", "USER_UNIT", "COREDUMP_USER_UNIT")
    return [word for field in fields for word in ("+", f"{field}={name}")][1:]


def _exit_code(fields: Mapping[str, Any]) -> int | None:
    """How the main process ended, as a shell gives it, where an entry says that; else None."""
    if fields.get("MESSAGE_ID") != EXITED or fields.get("COMMAND") != "ExecStart":
        return None
    status = str(fields.get("EXIT_STATUS"))
    if not status.isdecimal() or len(status) > 3:
        return None
    return int(status) + (0 if fields.get("EXIT_CODE") == "exited" else 128)


def _invocation(fields: Mapping[str, Any]) -> str | None:
    """The run of the unit that a line belongs to: the unit's own, or one of its manager."""
    found = fields.get("_SYSTEMD_INVOCATION_ID")
    if str(fields.get("_PID")) == "1" or "UNIT" in fields or "USER_UNIT" in fields:
        found = fields.get("INVOCATION_ID") or fields.get("USER_INVOCATION_ID")
    return found if isinstance(found, str) else None
