"""The front starts an engine again where the probe says so: each time as the first time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.live.engine.relaying import ROOT, command, python
from tests.live.engine.test_relay_terminal import screen
from tests.live.nvml_bench import wait_until

_AGAIN = f"""
import json, os, sys
sys.path.insert(0, {str(ROOT)!r})
from gpuprobe.live.engine import relay_frames as f
told = json.loads(sys.argv[1])
starts = int(told["memory"] or 0) + 1
reader = f.FrameReader()
ended = False
while not ended:
    data = os.read(told["frames"], 1 << 18)
    if not data: break
    ended = any(frame.kind == f.ENDED for frame in reader.feed(data))
again = {{pause}} if starts < {{starts}} else None
f.send(told["control"], done=True, code=None, leave=False, again=again, memory=str(starts))
"""


def by(starts: int, pause: float = 0.1) -> list[str]:
    """A probe that has the engine started so often."""
    return [sys.executable, "-I", "-S", "-c", _AGAIN.format(starts=starts, pause=pause)]


def test_each_start_is_as_the_first(tmp_path: Path) -> None:
    """Three starts: same folder, same descriptors, output whole, the last one's code."""
    engine = python(
        "import os, sys\n"
        "print(os.getcwd(), len(os.listdir('/proc/self/fd')), os.fstat(int(sys.argv[1])).st_ino,"
        " flush=True)\n"
        "sys.stderr.write('x'); sys.exit(9)"
    )
    with (tmp_path / "passed on").open("w") as passed:
        engine = [*engine, str(passed.fileno())]
        done = subprocess.run(
            command(engine, by(3), again=True), pass_fds=[passed.fileno()],
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
        )  # fmt: skip

    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert len(set(lines)) == 1
    assert lines[0].startswith(str(tmp_path))
    assert lines[0].endswith(str((tmp_path / "passed on").stat().st_ino))
    assert done.stderr == "xxx"
    assert done.returncode == 9


def test_stdin_goes_on_where_the_last_one_stopped() -> None:
    """What one engine did not read, the next one reads."""
    engine = python("import os; os.write(1, os.read(0, 2)); raise SystemExit(1)")
    done = subprocess.run(
        command(engine, by(3), again=True), input=b"aabbcc", capture_output=True, timeout=30
    )

    assert done.stdout == b"aabbcc"


def test_a_signal_ends_the_pause_at_once() -> None:
    """SIGTERM while nothing runs: no further start, and the code that SIGTERM gives."""
    engine = python("print('up', flush=True); raise SystemExit(1)")
    run = subprocess.Popen(command(engine, by(3, 20.0), again=True), stdout=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stdout.readline() == b"up\n"
    time.sleep(1.0)
    began = time.monotonic()
    run.send_signal(signal.SIGTERM)
    rest, _ = run.communicate(timeout=10)

    assert time.monotonic() - began < 2.0
    assert run.returncode == 128 + signal.SIGTERM
    assert rest == b""


def test_what_the_engine_left_is_ended_before(tmp_path: Path) -> None:
    """A worker that outlives its engine, and ignores SIGTERM, is gone before the next start."""
    worker = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({str(tmp_path)!r} + "/" + str(os.getpid()), "w").close()
time.sleep(60)
"""
    engine = python(
        "import glob, os, subprocess, sys, time\n"
        f"known = glob.glob({str(tmp_path)!r} + '/*')\n"
        "alive = [p for p in known if os.path.exists('/proc/' + os.path.basename(p))]\n"
        "print(len(known), len(alive), flush=True)\n"
        f"subprocess.Popen([sys.executable, '-c', {worker!r}], stdout=subprocess.DEVNULL,"
        " stderr=subprocess.DEVNULL)\n"
        f"while len(glob.glob({str(tmp_path)!r} + '/*')) == len(known): time.sleep(0.01)\n"
        "sys.exit(1)"
    )
    done = subprocess.run(
        command(engine, by(2, 0.5), again=True), capture_output=True, text=True, timeout=30
    )
    left = [int(path.name) for path in tmp_path.iterdir() if Path("/proc", path.name).exists()]
    for pid in left:
        signal.pidfd_send_signal(_pidfd(pid), signal.SIGKILL)

    assert done.stdout.splitlines() == ["0 0", "1 0"]


def test_on_a_terminal_the_next_one_has_the_keys() -> None:
    """One dies in raw mode; the next has a terminal, a sane one, its size, and what is typed."""
    engine = python(
        "import os, sys, termios, tty\n"
        "cooked = bool(termios.tcgetattr(0)[3] & termios.ICANON)\n"
        "print('up', os.isatty(0), os.isatty(1), cooked, os.get_terminal_size()[0], flush=True)\n"
        "line = sys.stdin.readline().strip()\n"
        "print('got', line, flush=True)\n"
        "tty.setraw(0)\n"
        "sys.exit(5)"
    )
    with screen(command(engine, by(2), again=True)) as shown:
        for word in (b"first", b"second"):
            shown.until(b"up True True True 100")
            shown.type(word + b"\n")
            shown.until(b"got " + word)
        assert shown.wait() == 5


def test_ctrl_c_ends_the_pause() -> None:
    """The keys are the front's while nothing runs."""
    engine = python("print('up', flush=True); raise SystemExit(1)")
    with screen(command(engine, by(2, 20.0), again=True)) as shown:
        shown.until(b"up")
        time.sleep(1.0)
        shown.type(b"\x03")
        began = time.monotonic()

        assert shown.wait() == 128 + signal.SIGINT
        assert time.monotonic() - began < 3.0


def _pidfd(pid: int) -> int:
    import os

    return os.pidfd_open(pid)


def test_without_being_asked_to_it_keeps_nothing() -> None:
    """A front that may not start again ignores the word."""
    engine = python("print('up', flush=True); raise SystemExit(4)")
    done = subprocess.run(command(engine, by(3)), capture_output=True, timeout=30)

    assert done.stdout == b"up\n"
    assert done.returncode == 4


def test_the_command_line_says_whether() -> None:
    """The second argument of the front holds both."""
    told = json.loads(command(["true"], by(1), again=True)[5])

    assert told["again"] is True


def test_a_start_that_fails_ends_it(tmp_path: Path) -> None:
    """The program is gone at the second start: a shell's code and words."""
    script = tmp_path / "engine"
    script.write_text(f'#!/bin/sh\nrm "{script}"\nexit 3\n')
    script.chmod(0o755)
    done = subprocess.run(
        command([str(script)], by(3), again=True), capture_output=True, text=True, timeout=30
    )

    assert done.returncode == 127
    assert "engine" in done.stderr
    assert wait_until(lambda: not script.exists(), 0.1)
