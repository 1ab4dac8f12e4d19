"""From the paths a user names to streams of bytes: files, folders, archives, stdin, journals.

What cannot or should not be read is a value as well, with the reason and what to try next.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from gpuprobe.errors import InputUnreadableError
from gpuprobe.recording.written_here import is_written_here
from gpuprobe.sources.files import journal_file
from gpuprobe.sources.files.archives import BOMBS_LIMIT, ZIP_MAGIC, Member, read_tar, read_zip
from gpuprobe.sources.files.folders import refused, walk
from gpuprobe.sources.files.magic import HEAD, Kind, identify
from gpuprobe.sources.files.raw_input import Input, RawInput, RecordingInput, UnreadableInput
from gpuprobe.sources.files.unpack import (
    BLOCK,
    Blocks,
    Budget,
    Notes,
    compression_of,
    decompress,
    peek,
)
from gpuprobe.sources.lines import strip_controls
from gpuprobe.sources.own_output import BESIDE_REPORT, unpacked_beside

__all__ = ["Input", "RawInput", "RecordingInput", "UnreadableInput", "open_inputs"]

ARCHIVE_DEPTH = 4
"""Archives inside archives, and compressions inside compressions, at most."""


def open_inputs(paths: Sequence[str | Path], *, stdin: BinaryIO | None = None) -> Iterator[Input]:
    """What there is to read behind these paths, in order; folders sorted by name.

    Args:
        paths: Files, folders, archives; `-` is stdin.
        stdin: What `-` reads; the process's own when None.
    """
    for found in _found(paths, stdin):
        shown = _shown(found.path)
        if isinstance(found, UnreadableInput):
            yield replace(found, path=shown)
        else:
            found.path = shown
            yield found


def _found(paths: Sequence[str | Path], stdin: BinaryIO | None) -> Iterator[Input]:
    stdin_used = False
    for path in paths:
        text = os.fspath(path)
        if text == "-":
            if stdin_used:
                yield UnreadableInput("-", "stdin was named twice", "Name it once.", expected=True)
                continue
            stdin_used = True
            yield from _stdin(stdin)
        else:
            yield from _named(text)


def _shown(path: str) -> str:
    """A path fit for every output: file names may hold any bytes."""
    return strip_controls(os.fsencode(path).decode("utf-8", errors="backslashreplace"))


def _stdin(stdin: BinaryIO | None) -> Iterator[Input]:
    stream = sys.stdin.buffer if stdin is None else stdin
    budget = Budget()
    yield from _expand("-", "-", budget.count(_blocks(stream, None)), budget, 0)


def _blocks(stream: BinaryIO, limit: int | None) -> Blocks:
    """A stream's blocks, not beyond the size it had when it was opened."""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    left = limit
    while left is None or left > 0:
        block = read(BLOCK if left is None else min(BLOCK, left))
        if not block:
            return
        if left is not None:
            left -= len(block)
        yield block


def _named(path: str) -> Iterator[Input]:
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        yield UnreadableInput(path, "there is no such file", "Check the path's spelling.")
        return
    except (OSError, ValueError) as error:
        yield refused(path, error)
        return
    if stat.S_ISDIR(mode):
        shown_again = unpacked_beside()
        for found in walk(path):
            if isinstance(found, UnreadableInput):
                yield found
            elif not shown_again(found):
                yield from map(_looked_up, _file(found, follow=False))
    elif stat.S_ISFIFO(mode) and _is_descriptor(path):
        # `gpuprobe diagnose <(ssh host dmesg)`: a pipe that somebody is writing to.
        with open(path, "rb") as stream:  # noqa: PTH123 - a descriptor, not a file
            budget = Budget()
            yield from _expand(path, path, budget.count(_blocks(stream, None)), budget, 0)
    else:
        yield from _file(path)


def _looked_up(found: Input) -> Input:
    if isinstance(found, RawInput):
        found.looked_up = True
    return found


def _is_descriptor(path: str) -> bool:
    return path.startswith(("/dev/fd/", "/proc/self/fd/", "/dev/stdin"))


def _open_file(path: str, follow: bool = True) -> BinaryIO:
    """The file, opened without waiting; a FIFO put there meanwhile cannot block."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    flags |= getattr(os, "O_BINARY", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0))
    return os.fdopen(os.open(path, flags), "rb", buffering=0)


_READ = {Kind.TEXT: None, Kind.REPORT: "report"}
"""Kinds that are read as text, and the format that their first bytes settle."""

_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO", "Write what comes out of it to a file, or pipe it in with -."),
    (stat.S_ISSOCK, "a socket", ""),
    (stat.S_ISCHR, "a device", "Save its text first, such as: dmesg > kernel.log"),
    (stat.S_ISBLK, "a block device", ""),
)


def _file(path: str, follow: bool = True) -> Iterator[Input]:
    name = Path(path).name
    if name.endswith((".gpuprobe-wal", ".gpuprobe-shm")):
        return
    if is_written_here(Path(path)):
        # To open and close it here would take its writer's locks away.
        yield RecordingInput(path, Path(path))
        return
    try:
        mode = Path(path).stat(follow_symlinks=follow).st_mode
        for test, reason, hint in _SPECIAL:
            if test(mode):
                yield UnreadableInput(path, reason, hint, expected=not follow)
                return
        stream = _open_file(path, follow)
    except (OSError, ValueError) as error:
        yield refused(path, error)
        return
    with stream:
        try:
            size = os.fstat(stream.fileno()).st_size
            # procfs and sysfs say 0 for files that have text.
            head, _ = peek(_blocks(stream, size or None), HEAD)
        except OSError as error:
            yield refused(path, error)
            return
        # Compressed bytes can look like text, so their magic is asked for first.
        kind = None if compression_of(head) is not None else identify(head, name)
        if kind in _READ:
            opener = _plain_opener(path, follow, size or None)
            yield RawInput(path, name, opener, size=size, format=_READ[kind])
            return
        if kind is Kind.JOURNAL:
            yield _journal_file_input(path, name, path)
            return
        if kind is Kind.RECORDING:
            yield RecordingInput(path, Path(path))
            return
        budget = Budget()
        try:
            stream.seek(0)
        except OSError as error:
            yield refused(path, error)
            return
        blocks = budget.count(_blocks(stream, size or None))
        if compression_of(head) is not None:
            reopen = _compressed_opener(path, follow, size)
            yield from _expand(path, name, blocks, budget, 0, reopen=reopen, size=size)
        else:
            yield from _expand(path, name, blocks, budget, 0, size=size)


def _plain_opener(path: str, follow: bool, size: int | None) -> Callable[[RawInput], Blocks]:
    def opener(_: RawInput) -> Blocks:
        return _closing(_open_file(path, follow), size)

    return opener


def _closing(stream: BinaryIO, size: int | None) -> Blocks:
    with stream:
        yield from _blocks(stream, size)


def _compressed_opener(path: str, follow: bool, size: int) -> Callable[[RawInput], Blocks]:
    """Opens a file that is compressed, maybe more than once, and no archive inside."""

    def opener(raw: RawInput) -> Blocks:
        budget = Budget()
        blocks: Blocks = budget.count(_closing(_open_file(path, follow), size))
        for _ in range(ARCHIVE_DEPTH):
            head, blocks = peek(blocks, HEAD)
            compression = compression_of(head)
            if compression is None:
                break
            blocks = decompress(blocks, compression, raw.notes, budget)
        return blocks

    return opener


def _once(blocks: Blocks, path: str) -> Callable[[RawInput], Blocks]:
    used = False

    def opener(_: RawInput) -> Blocks:
        nonlocal used
        if used:
            raise InputUnreadableError(
                f"{path} can be read only once", hint="Unpack it to a file first."
            )
        used = True
        return blocks

    return opener


def _expand(
    path: str,
    name: str,
    blocks: Blocks,
    budget: Budget,
    depth: int,
    *,
    reopen: Callable[[RawInput], Blocks] | None = None,
    size: int | None = None,
) -> Iterator[Input]:
    """What a stream turns out to be: text, or something with more inputs in it."""
    notes = Notes()
    compressed = False
    while True:
        try:
            head, blocks = peek(blocks, HEAD)
        except (OSError, ValueError) as error:
            yield refused(path, error)
            return
        compression = compression_of(head)
        if compression is None:
            break
        if depth >= ARCHIVE_DEPTH:
            yield _too_deep(path)
            return
        depth += 1
        compressed = True
        blocks = decompress(blocks, compression, notes, budget)
    kind = identify(head, name)
    if kind in _READ:
        if compressed and not head and notes:
            hint = "Copy or download the file again."
            yield UnreadableInput(path, notes[0], hint, in_part=notes.in_part)
            return
        opener = reopen or _once(blocks, path)
        raw = RawInput(path, name, opener, size=size, compressed=compressed, format=_READ[kind])
        if reopen is None:
            raw.notes = notes
        yield raw
    elif kind is Kind.JOURNAL:
        yield _journal_stream(path, name, blocks)
    elif kind is Kind.ARCHIVE:
        if depth >= ARCHIVE_DEPTH:
            yield _too_deep(path)
            return
        members = (
            read_zip(blocks, notes, budget)
            if head.startswith(ZIP_MAGIC)
            else read_tar(blocks, notes, budget)
        )
        may_be_report = head.startswith(ZIP_MAGIC)
        yield from _members(path, members, notes, budget, depth + 1, may_be_report)
    else:
        yield UnreadableInput(path, kind.reason, kind.hint, expected=kind.expected, own=kind.is_own)


def _members(
    path: str,
    members: Iterator[Member],
    notes: Notes,
    budget: Budget,
    depth: int,
    may_be_report: bool,
) -> Iterator[Input]:
    bombs = 0
    report = False
    for number, member in enumerate(members):
        inner = f"{path}!{member.name}"
        if member.problem:
            hint = "Unpack it yourself and name the file." if "link" not in member.problem else ""
            yield UnreadableInput(inner, member.problem, hint, expected="link" in member.problem)
            continue
        size = member.size
        name = member.name.rpartition("/")[2]
        if report and member.name.startswith(BESIDE_REPORT):
            # It shows the same once more, for people.
            continue
        own = Budget()
        for found in _expand(inner, name, own.count(member.blocks), own, depth, size=size):
            is_report = isinstance(found, RawInput) and found.format == "report"
            if may_be_report and number == 0 and is_report:
                report = True
                yield found
            else:
                yield _looked_up(found)
        budget.given += own.given
        bombs += own.spent
        if bombs > BOMBS_LIMIT or not budget.allows(0):
            notes.stopped("too many members expand too much; the others were left out")
            break
    for note in dict.fromkeys(notes):
        hint = "Copy or download the archive again if it is not whole."
        yield UnreadableInput(path, note, hint, in_part=notes.in_part)


def _too_deep(path: str) -> UnreadableInput:
    return UnreadableInput(
        path, f"more than {ARCHIVE_DEPTH} archives inside one another", "Unpack the outer ones."
    )


_NO_JOURNALCTL = "a binary journal, and journalctl is missing here"


def _journal_file_input(path: str, name: str, real_path: str) -> Input:
    """A binary journal file, read through journalctl."""
    if not journal_file.available():
        return UnreadableInput(path, _NO_JOURNALCTL, journal_file.HINT)
    return RawInput(
        path,
        name,
        lambda raw: journal_file.read_blocks(real_path, raw.notes),
        format="journal-binary",
    )


def _journal_stream(path: str, name: str, blocks: Blocks) -> Input:
    """A binary journal inside an archive or a pipe: journalctl needs it as a file."""
    if not journal_file.available():
        return UnreadableInput(path, _NO_JOURNALCTL, journal_file.HINT)
    once = _once(blocks, path)
    return RawInput(
        path,
        name,
        lambda raw: journal_file.read_stream(once(raw), raw.notes),
        format="journal-binary",
    )
