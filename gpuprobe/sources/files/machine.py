"""This machine's own logs: the journal's kernel lines of all boots that are kept, then the units'.

Nothing here needs root. What may not be read is a value with the reason and what would open it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.files.raw_input import RawInput, UnreadableInput
from gpuprobe.sources.files.unpack import BLOCK, Blocks
from gpuprobe.sources.kmsg import KMSG, kmsg_access, open_kmsg, read_kmsg
from gpuprobe.values import Value

KERNEL = "journal:kernel"
"""Path under which the journal's kernel lines are cited."""

UNITS = "journal:units"
"""Path under which the journal's other lines, around an incident, are cited."""

_ACCESS = "Run it with sudo, or join the group: sudo usermod -aG systemd-journal $USER"


def kernel_inputs(*, kmsg: Path = KMSG) -> Iterator[RawInput | UnreadableInput]:
    """The kernel's messages: from the journal, else of this boot from /dev/kmsg.

    Args:
        kmsg: Where the kernel's ring buffer is read.
    """
    if shutil.which("journalctl") is None:
        yield UnreadableInput(KERNEL, "journalctl is not installed", "Give the log files by name.")
    else:
        journal = _journal(KERNEL, ["_TRANSPORT=kernel"])
        yield journal
        if not journal.notes:
            return
    # Without a whole journal, what the kernel still holds of this boot.
    yield _ring_buffer(kmsg)


def boot_id(path: Path = Path("/proc/sys/kernel/random/boot_id")) -> str | None:
    """This boot's id as the journal writes it, or None where the kernel does not tell."""
    try:
        return path.read_text("ascii").strip().replace("-", "") or None
    except (OSError, ValueError):
        return None


def unit_inputs(since: datetime, until: datetime) -> Iterator[RawInput | UnreadableInput]:
    """The journal's other lines between two times, aware."""
    if shutil.which("journalctl") is not None:
        window = [f"--since=@{since.timestamp():.0f}", f"--until=@{until.timestamp():.0f}"]
        others = [f"_TRANSPORT={kind}" for kind in ("stdout", "syslog", "journal")]
        yield _journal(UNITS, [*window, *others])


BOOT_LINES = 50_000
"""Newest kernel lines that are read of one boot: about a second's work. More is a flood of one
message, and its end tells what it came to."""


def buffer_inputs(kmsg: Path = KMSG) -> Iterator[RawInput | UnreadableInput]:
    """What the kernel itself still holds of this boot, where no journal answers."""
    yield _ring_buffer(kmsg)


def boot_inputs(boot: int, *, kmsg: Path = KMSG) -> Iterator[RawInput | UnreadableInput]:
    """One boot's newest kernel messages, and how it was shut down.

    Args:
        boot: 0 this one, -1 the one before it, and so on.
        kmsg: Where the kernel's ring buffer is read, for what the journal lacks of this boot.
    """
    if shutil.which("journalctl") is None:
        yield UnreadableInput(KERNEL, "journalctl is not installed")
        whole = False
    else:
        journal = _journal(
            KERNEL, [_FIELDS, f"--lines={BOOT_LINES}", f"--boot={boot}", "_TRANSPORT=kernel"]
        )
        yield journal
        whole = not journal.notes
        if whole:
            yield _journal(UNITS, [_FIELDS, f"--boot={boot}", *(_SHUTDOWN if boot else _FOUND)])
    if boot == 0 and not whole:
        yield _ring_buffer(kmsg)


def history_inputs(
    boot_id: str, *, beginning: bool = False
) -> Iterator[RawInput | UnreadableInput]:
    """One boot's newest kernel messages, how it was shut down, what it found, and power caps.

    Args:
        boot_id: The journal's id of the boot.
        beginning: Its first kernel lines before them: a flood pushes them out of the newest.
    """
    if shutil.which("journalctl") is None:
        yield UnreadableInput(KERNEL, "journalctl is not installed", "Keep a systemd journal.")
        return
    of = [_FIELDS, f"--boot={boot_id}"]
    if beginning:
        yield _journal(f"{KERNEL}:begin", [*of, "_TRANSPORT=kernel"], at_most=BEGIN_BYTES)
    yield _journal(KERNEL, [*of, f"--lines={BOOT_LINES}", "_TRANSPORT=kernel"])
    yield _journal(UNITS, [*of, *_SHUTDOWN, "+", *_FOUND, "+", "_COMM=nvidia-smi"])


LIST_S = 10.0
"""Seconds for the list of boots: it takes a tenth of one."""

_SHUTDOWN = (
    "MESSAGE_ID=98268866d1d54a499c4e98921d93bc40",  # logind: the system will power off, reboot
    "+",
    *(f"UNIT={target}.target" for target in ("shutdown", "reboot", "poweroff", "halt")),
)
"""Journal matches for the lines of a shutdown in order. Source: systemd's catalog and units."""


_FOUND = ("SYSLOG_IDENTIFIER=systemd-journald", "+", "SYSLOG_IDENTIFIER=systemd-fsck")
"""Journal matches for what a boot finds of the one before: a journal, a file system cut short."""

BEGIN_BYTES = 2 << 20
"""Of a boot's journal as JSON: some thousand lines, which is how a kernel starts."""


_FIELDS = "--output-fields=" + ",".join(
    (
        "MESSAGE",
        "SYSLOG_IDENTIFIER",
        "_BOOT_ID",
        "_COMM",
        "_HOSTNAME",
        "_MACHINE_ID",
        "_PID",
        "_SOURCE_MONOTONIC_TIMESTAMP",
        "_SOURCE_REALTIME_TIMESTAMP",
        "_TRANSPORT",
    )
)
"""What the framing reads of an entry: the rest costs more than it tells on a long boot."""


def list_boots() -> Known[list[JournalBoot]] | Unavailable:
    """The boots that the journal keeps, oldest first."""
    import subprocess  # only where it is needed: saved logs would wait for it

    program = shutil.which("journalctl")
    if program is None:
        return Unavailable(Reason.NOT_THERE, "journalctl is not installed")
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, no shell, arguments of our own
            [program, "--list-boots", "--no-pager", "--quiet"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            timeout=LIST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        late = f"journalctl --list-boots did not answer in {LIST_S:.0f} s"
        return Unavailable(Reason.TIMED_OUT, late)
    except OSError as error:
        return Unavailable(Reason.FAILED, f"journalctl --list-boots: {error}")
    boots = parse_boots(done.stdout.decode("utf-8", "replace"))
    if boots:
        return Known(boots)
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if any("ermission" in line or "not seeing" in line for line in said):
        return Unavailable(Reason.NOT_PERMITTED, said[-1], _ACCESS)
    return Unavailable(Reason.NOT_THERE, said[-1] if said else "the journal keeps no boot")


class JournalBoot(Value):
    """A boot as the journal lists it.

    Attributes:
        boot_id: 32 hex digits. first: Its first entry, UTC. last: Its last entry, UTC.
    """

    boot_id: str
    first: datetime
    last: datetime


_BOOT = re.compile(
    r"^\s*-?\d+ (?P<id>[0-9a-f]{32}) \w{3} (?P<first>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\W+"
    r"\w{3} (?P<last>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC",
    re.MULTILINE,
)


def parse_boots(text: str) -> list[JournalBoot]:
    """What `journalctl --list-boots` prints with TZ=UTC, oldest first; unknown lines are left."""
    found = [
        JournalBoot(match["id"], _utc(match["first"]), _utc(match["last"]))
        for match in _BOOT.finditer(text)
    ]
    return sorted(found, key=lambda boot: boot.first)


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _journal(path: str, arguments: list[str], *, at_most: int | None = None) -> RawInput:
    return RawInput(
        path=path,
        name="journal.json",
        _opener=lambda raw: _run(arguments, raw.notes, at_most),
        format="journal-binary",
    )


def _run(arguments: list[str], notes: list[str], at_most: int | None = None) -> Blocks:
    """What journalctl prints, or its first bytes; its complaints become notes."""
    import atexit
    import subprocess  # only where it is needed: saved logs would wait for it
    import tempfile

    command = [
        shutil.which("journalctl") or "journalctl",
        "--output=json",
        "--no-pager",
        "--all",
        *arguments,
    ]
    environment = {**os.environ, "LC_ALL": "C"}
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(  # noqa: S603 - fixed program, no shell, arguments of our own
            command,
            stdout=subprocess.PIPE,
            stderr=complaints,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        assert process.stdout is not None
        # A reader that is given up at a deadline leaves no program behind.
        atexit.register(process.kill)
        seen = 0
        try:
            while (at_most is None or seen < at_most) and (block := process.stdout.read(BLOCK)):
                seen += len(block)
                yield block
        finally:
            atexit.unregister(process.kill)
            process.stdout.close()
            process.terminate()
            process.wait()
        complaints.seek(0)
        said = complaints.read(4096).decode("utf-8", "replace")
    if "not seeing messages" in said or "Permission denied" in said or "insufficient" in said:
        notes.append(f"only part of the journal may be read. {_ACCESS}")
    elif not seen:
        notes.append(
            "the journal holds nothing here: " + (said.strip().splitlines() or ["it is empty"])[-1]
        )


def _ring_buffer(kmsg: Path) -> RawInput | UnreadableInput:
    access = kmsg_access(kmsg)
    if isinstance(access, Unavailable):
        return UnreadableInput(str(kmsg), access.detail, access.hint)
    return RawInput(str(kmsg), kmsg.name, lambda raw: _records(kmsg, raw.notes), format="kmsg")


def _records(kmsg: Path, notes: list[str]) -> Blocks:
    """Records of this boot, oldest first, until there is no more for now."""
    try:
        descriptor = open_kmsg(kmsg)
    except OSError as error:
        notes.append(f"could not be read ({error.strerror})")
        return
    try:
        for record in read_kmsg(descriptor):
            if record is None:
                notes.append("the kernel's buffer wrapped: its oldest lines are lost")
            else:
                yield record
    finally:
        os.close(descriptor)
