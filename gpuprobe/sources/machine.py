"""This machine's own logs: the journal's kernel lines of all boots that are kept, then the units'.

Nothing here needs root. What may not be read is a value with the reason and what would open it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from gpuprobe.sources.raw_input import RawInput, UnreadableInput
from gpuprobe.sources.unpack import BLOCK, Blocks

KERNEL = "journal:kernel"
"""Path under which the journal's kernel lines are cited."""

UNITS = "journal:units"
"""Path under which the journal's other lines, around an incident, are cited."""

KMSG = Path("/dev/kmsg")

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


def unit_inputs(since: datetime, until: datetime) -> Iterator[RawInput | UnreadableInput]:
    """The journal's other lines between two times, aware."""
    if shutil.which("journalctl") is not None:
        window = [f"--since=@{since.timestamp():.0f}", f"--until=@{until.timestamp():.0f}"]
        others = [f"_TRANSPORT={kind}" for kind in ("stdout", "syslog", "journal")]
        yield _journal(UNITS, [*window, *others])


def _journal(path: str, arguments: list[str]) -> RawInput:
    return RawInput(
        path=path,
        name="journal.json",
        _opener=lambda raw: _run(arguments, raw.notes),
        format="journal-binary",
    )


def _run(arguments: list[str], notes: list[str]) -> Blocks:
    """What journalctl prints; its complaints become notes, the missing permission among them."""
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
        seen = False
        try:
            while block := process.stdout.read(BLOCK):
                seen = True
                yield block
        finally:
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
    hint = "Run it with sudo; in a container, give it /dev/kmsg or the host's log files."
    try:
        descriptor = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return UnreadableInput(str(kmsg), error.strerror or str(error), hint)
    os.close(descriptor)
    return RawInput(str(kmsg), kmsg.name, lambda raw: _records(kmsg, raw.notes), format="kmsg")


def _records(kmsg: Path, notes: list[str]) -> Blocks:
    """Records of this boot, oldest first, until there is no more for now."""
    try:
        descriptor = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        notes.append(f"could not be read ({error.strerror})")
        return
    try:
        while True:
            try:
                record = os.read(descriptor, 8192)
            except BrokenPipeError:
                # The oldest records were overwritten while reading; the next read goes on.
                notes.append("the kernel's buffer wrapped: its oldest lines are lost")
                continue
            except (BlockingIOError, PermissionError, OSError):
                return
            if not record:
                return
            yield record
    finally:
        os.close(descriptor)
