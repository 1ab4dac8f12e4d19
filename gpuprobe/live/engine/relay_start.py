"""Starting the engine as it would have been started without gpuprobe. Standard library alone.

It gets the environment, working folder, limits, signal dispositions and descriptors that gpuprobe
was given; stdout and stderr are pipes instead, or terminals where those were terminals.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from gpuprobe.live.engine.relay_pumps import PIPE_BYTES
from gpuprobe.live.engine.relay_terminal import Terminal

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
"""Exit codes of a shell for a command that is not there, and one that cannot be run."""

_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these; programs are started with their default action."""


_PIDS: Final = (b"LISTEN_PID", b"WATCHDOG_PID", b"SYSTEMD_EXEC_PID")
"""Variables by which systemd says for which process others are meant."""


class Inherited(NamedTuple):
    """What gpuprobe was started with, taken before anything was changed.

    Attributes:
        environment: As bytes; Python adds to its own in the C locale.
        ignored: Signals that were ignored.
        closed: Which of 0, 1 and 2 were closed.
        others: Descriptors above 2, which are the engine's.
        pid: This process's id.
        unit: Whether systemd started this process as a unit's main one.
        foreground: Whether the terminal is this process's now.
    """

    environment: Mapping[bytes, bytes]
    ignored: frozenset[int]
    closed: frozenset[int]
    others: tuple[int, ...]
    pid: int
    unit: bool
    foreground: bool


class Channel(NamedTuple):
    """Where the engine writes.

    Attributes:
        stream: A place in `relay_frames.STREAMS`.
        numbers: The descriptors of the engine that lead here: 1, 2 or both.
        source: The relay's end.
        end: The engine's end.
        terminal: What stands behind it, if it is one.
    """

    stream: int
    numbers: tuple[int, ...]
    source: int
    end: int
    terminal: Terminal | None = None


class StartError(Exception):
    """The engine could not be started.

    Attributes:
        code: What a shell would end with.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def environment() -> dict[bytes, bytes]:
    """The environment as this process was started with it."""
    try:
        block = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environb)
    pairs = (entry.partition(b"=") for entry in block.split(b"\0") if b"=" in entry[1:])
    return {name: value for name, _, value in pairs}


def inherited() -> Inherited:
    """Take down what this process was started with; call it first.

    Closed standard descriptors are filled with /dev/null, so that nothing else lands on them.
    """
    closed = frozenset(number for number in (0, 1, 2) if not _is_open(number))
    while os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC) in closed:
        pass
    numbers: list[int] = []
    with contextlib.suppress(OSError):
        numbers = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    others = tuple(number for number in numbers if number > 2 and _is_passed_on(number))
    known = environment()
    unit = known.get(b"SYSTEMD_EXEC_PID") == str(os.getpid()).encode()
    # systemd ignores SIGPIPE for its units; elsewhere nobody can tell, for Python ignores it too.
    ours = {signal.SIGXFSZ} if unit else set(_IGNORED_BY_PYTHON)
    ignored = {
        int(number)
        for number in signal.valid_signals()
        if signal.getsignal(number) is signal.SIG_IGN and number not in ours
    }
    foreground = False
    with contextlib.suppress(OSError):
        foreground = os.tcgetpgrp(0) == os.getpgrp()
    return Inherited(known, frozenset(ignored), closed, others, os.getpid(), unit, foreground)


def channels(closed: Iterable[int]) -> list[Channel]:
    """Make what the engine writes into: one where stdout and stderr are the same, else two.

    A terminal leads to a terminal, so that programs still draw their progress bars; it takes the
    keyboard's place too where stdin is the same terminal.
    """
    is_open = [number for number in (1, 2) if number not in closed]
    groups: list[tuple[int, ...]] = [(number,) for number in is_open]
    if len(is_open) == 2 and _identity(1) == _identity(2):
        groups = [(1, 2)]
    found = []
    for numbers in groups:
        stream = 0 if len(numbers) == 2 else numbers[0]
        if os.isatty(numbers[0]):
            keyboard = 1 in numbers and os.isatty(0) and _identity(0) == _identity(1)
            terminal = Terminal(0 if keyboard else numbers[0], keyboard=keyboard)
            found.append(Channel(stream, numbers, terminal.output, terminal.slave, terminal))
        else:
            source, end = os.pipe2(os.O_CLOEXEC)
            with contextlib.suppress(OSError):
                fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            found.append(Channel(stream, numbers, source, end))
    return found


def start(command: Sequence[str], ends: Sequence[Channel], given: Inherited) -> int:
    """Start the engine in a process group of its own.

    Returns:
        Its process id, which is its group's too.

    Raises:
        StartError: It cannot be executed.
    """
    told, tell = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            _become(command, ends, given)
        except StartError as error:
            os.write(tell, f"{error.code} {error}".encode("utf-8", "surrogateescape"))
        finally:
            os._exit(NOT_EXECUTABLE)
    os.close(tell)
    with os.fdopen(told, "rb") as answer:
        said = answer.read()
    if said:
        os.waitpid(pid, 0)
        code, _, text = said.decode("utf-8", "surrogateescape").partition(" ")
        raise StartError(text, int(code))
    return pid


def _become(command: Sequence[str], ends: Sequence[Channel], given: Inherited) -> NoReturn:
    """In the child: put everything in place, and execute."""
    os.setpgid(0, 0)
    # Only now may these numbers be taken: nothing of ours stands on them any more.
    for channel in ends:
        if channel.terminal is not None and channel.terminal.keyboard:
            _take_terminal(channel.end)
            os.dup2(channel.end, 0)
        for number in channel.numbers:
            os.dup2(channel.end, number)
    for number in given.closed:
        os.close(number)
    if 0 not in given.closed:
        os.set_inheritable(0, True)
    for number in given.ignored:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    for number in _IGNORED_BY_PYTHON:
        if number not in given.ignored:
            signal.signal(number, signal.SIG_DFL)
    known = dict(given.environment)
    for name in _PIDS:
        if known.get(name) == b"%d" % given.pid:
            known[name] = b"%d" % os.getpid()
    execute(command, known)


def _take_terminal(slave: int) -> None:
    """Make this process's group the one that the terminal's keys are for."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    os.tcsetpgrp(slave, os.getpid())
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def execute(command: Sequence[str], known: Mapping[bytes, bytes]) -> NoReturn:
    """Execute as a shell would.

    Raises:
        StartError: With what a shell would say, and its exit code.
    """
    name = os.fsencode(command[0])
    arguments = [os.fsencode(argument) for argument in command]
    folders = [b""] if b"/" in name else known.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    reason = errno.ENOENT
    for folder in folders:
        path = name if b"/" in name else (folder or b".") + b"/" + name
        try:
            os.execve(path, arguments, known)  # noqa: S606 - what the user asked for
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # a script without a first line that says by what
                with contextlib.suppress(OSError):
                    script = [b"sh", path, *arguments[1:]]
                    os.execve(b"/bin/sh", script, known)  # noqa: S606 - as a shell does
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                reason = error.errno or errno.EACCES
        except ValueError as error:
            raise StartError(f"{command[0]}: {error}", NOT_EXECUTABLE) from None
    missing = reason == errno.ENOENT
    words = "command not found" if missing and b"/" not in name else os.strerror(reason)
    if reason == errno.EACCES and Path(os.fsdecode(name)).is_dir():
        words = os.strerror(errno.EISDIR)
    raise StartError(f"{command[0]}: {words}", NOT_FOUND if missing else NOT_EXECUTABLE)


def close_others(numbers: Iterable[int]) -> None:
    """Let go of descriptors that only the engine has a use for."""
    for number in numbers:
        with contextlib.suppress(OSError):
            os.close(number)


def set_name(name: str) -> None:
    """Let `ps -o comm` tell the processes apart."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def become_reaper() -> None:
    """Have processes whose parents ended below this one become its children, and no zombies."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        sys.exc_info()  # a convenience: without it they go to init, as ever


def _identity(number: int) -> tuple[int, ...]:
    found = os.fstat(number)
    return (found.st_rdev,) if os.isatty(number) else (found.st_dev, found.st_ino)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _is_passed_on(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:
        return False
