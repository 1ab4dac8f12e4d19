"""The engine on a terminal: its own one, the size of the user's, with the user's keys."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from relaying import command, python, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the relay needs Linux")


class Screen:
    """A terminal with a process on it, seen from the outside."""

    def __init__(self, argv: Sequence[str], redirected: str = "") -> None:
        self.seen = b""
        if redirected:
            argv = ["sh", "-c", f'exec "$@" {redirected}', "sh", *argv]
        with warnings.catch_warnings():
            # The child only becomes another program, so a worker's other threads do not matter.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded")
            self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # What the tests themselves were started with is no matter of the engine's.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 30, 100, 0, 0))
            os.execv("/usr/bin/env", ["env", *argv])

    def size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.fd)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def until(self, text: bytes, seconds: float = 10.0) -> bytes:
        """Read until `text` was shown; gives what stood before it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0], self.seen
            with contextlib.suppress(OSError):  # nobody writes any more
                if data := os.read(self.fd, 4096):
                    self.seen += data
                    continue
            raise AssertionError(self.seen)
        before, _, self.seen = self.seen.partition(text)
        return before

    def wait(self) -> int:
        """Its exit code, and all that was still shown."""
        with contextlib.suppress(OSError):
            while data := os.read(self.fd, 4096):
                self.seen += data
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


@contextmanager
def screen(argv: Sequence[str], redirected: str = "") -> Iterator[Screen]:
    shown = Screen(argv, redirected)
    try:
        yield shown
    finally:
        with contextlib.suppress(OSError):
            os.killpg(shown.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(shown.pid, 0)
        os.close(shown.fd)


def front(code: str) -> list[str]:
    return command(python(code))


def test_all_three_are_a_terminal_of_the_same_size() -> None:
    """Programs draw their progress bars, and notice when the window changes."""
    code = (
        "import os, signal, time\n"
        "hit = []\n"
        "signal.signal(signal.SIGWINCH, lambda *_: hit.append(1))\n"
        "print([os.isatty(n) for n in range(3)], os.isatty(os.open('/dev/tty', os.O_RDWR)))\n"
        "input()\nhit.clear()\nprint('size', *os.get_terminal_size(), flush=True)\n"
        "while not hit: time.sleep(0.01)\n"
        "print('size', *os.get_terminal_size(), len(hit))"
    )
    with screen(front(code)) as shown:
        shown.until(b"[True, True, True] True\r\n")
        shown.size(20, 80)
        shown.size(31, 101)
        time.sleep(0.2)
        shown.type(b"\r")
        shown.until(b"size 101 31\r\n")
        shown.size(40, 120)

        shown.until(b"size 120 40 ")

        assert shown.wait() == 0


def test_ctrl_c_reaches_the_engine_once() -> None:
    """The engine gets one SIGINT, and its whole foreground group does."""
    code = (
        "import signal, time, os\n"
        "got = []\n"
        "signal.signal(signal.SIGINT, lambda *_: got.append(1))\n"
        "print('up', flush=True)\n"
        "while not got: time.sleep(0.01)\n"
        "time.sleep(0.3); print('got', len(got))"
    )
    with screen(front(code)) as shown:
        shown.until(b"up\r\n")
        shown.type(b"\x03")

        shown.until(b"got 1\r\n")

        assert shown.wait() == 0


def test_ctrl_c_without_a_handler_is_code_130() -> None:
    """As a shell shows it."""
    with screen(command(["sh", "-c", "echo up; exec sleep 20"])) as shown:
        shown.until(b"up\r\n")
        shown.type(b"\x03")

        assert shown.wait() == 130


@pytest.mark.parametrize(
    "end", ["pass", "import os; os.kill(os.getpid(), 9)", "import tty; tty.setraw(0)"]
)
def test_the_users_terminal_is_put_back(end: str) -> None:
    """Raw while the engine has it, and as before when it has ended, however it did."""
    script = f"stty -g; {shlex.join(front(f'input(); {end}'))}; stty -g; echo over"
    with screen(["bash", "-c", script]) as shown:
        before = shown.until(b"\r\n")
        until(lambda: not shown.modes()[3] & termios.ICANON)
        shown.type(b"\r")
        after = shown.until(b"over")

        assert before.split()[0] in after.replace(b"\r\n", b" ").split()


def test_the_last_lines_end_as_all_others() -> None:
    """The user's terminal stays raw until all is out: its own translation would add another CR."""
    write = "import os, sys; sys.stdout.write('line\\n' * 12000); sys.stdout.flush(); os._exit(0)"
    for _ in range(6):
        with screen(front(write)) as shown:
            assert shown.wait() == 0
            assert shown.seen == b"line\r\n" * 12000


def test_ctrl_z_stops_the_job_and_fg_goes_on() -> None:
    """A shell sees the command stop, gets its terminal back, and can continue it."""
    code = "print('up', flush=True); print('read ' + input())"
    with screen(["bash", "--norc", "--noprofile", "-i"]) as shown:
        shown.type(b"PS1='> '; stty -echo\r")
        shown.until(b"> ")
        shown.type(shlex.join(front(code)).encode() + b"\r")
        shown.until(b"up\r\n")
        until(lambda: not shown.modes()[3] & termios.ICANON)
        shown.type(b"\x1a")
        shown.until(b"Stopped")
        shown.type(b"jobs -s | wc -l; fg >/dev/null\r")
        shown.until(b"1\r\n")
        time.sleep(0.3)
        shown.type(b"hello\r")

        shown.until(b"read hello\r\n")


def test_only_what_was_a_terminal_is_one() -> None:
    """With stdout redirected stderr is still a terminal, and lines end as on one."""
    code = "import os, sys; sys.stderr.write(f'{[os.isatty(n) for n in range(3)]}\\n')"
    with screen(front(code), "</dev/null >/dev/null") as shown:
        shown.until(b"[False, False, True]\r\n")

        assert shown.wait() == 0


def test_a_redirected_stdin_leaves_the_users_terminal_alone() -> None:
    """The terminal is not made raw: another member of the pipeline may use it."""
    code = (
        "import os; print([os.isatty(n) for n in range(3)], flush=True); import time; time.sleep(9)"
    )
    with screen(front(code), "</dev/null") as shown:
        before = shown.modes()
        shown.until(b"[False, True, True]\r\n")

        assert before == shown.modes()
        shown.type(b"\x03")
        shown.until(b"KeyboardInterrupt")
        assert shown.wait() in (1, 130)


def test_a_job_in_the_background_takes_no_keys() -> None:
    """`… &` neither stops nor makes the terminal raw, and writes what the engine writes."""
    script = (
        "set -m; " + shlex.join(front("import time; time.sleep(0.2); print('there')")) + " & wait"
    )
    with screen(["bash", "-c", script]) as shown:
        before = shown.modes()
        shown.until(b"there")

        assert before == shown.modes()
        assert shown.wait() == 0


def test_nothing_of_the_terminal_stays_open() -> None:
    """The engine has 0, 1 and 2 and nothing else, as without gpuprobe."""
    with screen(command(["sh", "-c", "echo $(ls /proc/self/fd)"])) as shown:
        shown.until(b"0 1 2 3\r")  # 3 is the folder that `ls` reads

        assert shown.wait() == 0


def test_a_run_that_is_over_leaves_no_process() -> None:
    """Front and relay have gone when the shell goes on."""
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(command(['true']))}; sleep 0.6; ps -o comm= -g $$"],
        capture_output=True,
        text=True,
        start_new_session=True,
    )

    assert "gpuprobe" not in done.stdout
