"""What the engine under `gpuprobe run` sees, and what comes out of it."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from relaying import command, frames_to, probe, python, relay_of, run, start, until

from gpuprobe.live.engine import relay_frames
from gpuprobe.live.engine.relay_pumps import BACKLOG, PIPE_BYTES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the relay needs Linux")


@pytest.mark.parametrize(
    "code",
    [
        "import os\nfor n in range(256): os.write(1, bytes([n]))",
        "import os; os.write(1, b'\\0' * 70000 + b'no end')",
        "import os; os.write(2, b'\\x1b[31m\\xff\\xfe\\r'); os.write(1, b'\\r\\n')",
        "pass",
    ],
)
def test_output_is_passed_through_byte_by_byte(code: str) -> None:
    """Whatever bytes the engine writes arrive as they are, on the stream they were written to."""
    plain = subprocess.run(python(code), capture_output=True)

    relayed = run(python(code))

    assert (plain.stdout, plain.stderr) == (relayed.stdout, relayed.stderr)


@pytest.mark.parametrize("size", [300, pytest.param(1600, marks=pytest.mark.slow)])
def test_a_flood_arrives_whole(size: int) -> None:
    """It is complete and in order, whether or not the probe can follow; to a hundred megabytes."""
    code = (
        f"import os\nfor n in range({size}):\n"
        " data = n.to_bytes(4, 'big') * 16384\n"
        " while data: data = data[os.write(1, data):]"
    )
    expected = hashlib.sha256(
        b"".join(number.to_bytes(4, "big") * 16384 for number in range(size))
    ).hexdigest()

    found = run(python(code), probe(on_frame="import time; time.sleep(0.001)"))

    assert found.returncode == 0
    assert expected == hashlib.sha256(found.stdout).hexdigest()


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exit 255", 255)],
)
def test_the_exit_code_is_the_engines(script: str, code: int) -> None:
    """The engine's own code, or 128 and the signal's number."""
    assert code == run(["sh", "-c", script]).returncode


def test_the_probe_may_say_another_code() -> None:
    """The probe's word replaces the engine's code."""
    assert run(["false"], probe(code=79)).returncode == 79


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no-such-command-here", 127, "no-such-command-here: command not found"),
        ("/no/such/command", 127, "/no/such/command: No such file or directory"),
        ("/etc/passwd", 126, "/etc/passwd: Permission denied"),
        ("/etc", 126, "/etc: Is a directory"),
    ],
)
def test_a_command_that_cannot_be_run_is_named_as_a_shell_does(
    name: str, code: int, words: str
) -> None:
    """Exit code 127 or 126 and one line on stderr; no probe is started for it."""
    found = run([name], ["/bin/sh", "-c", "echo a probe ran >&2"])

    assert (code, f"gpuprobe: {words}\n".encode()) == (found.returncode, found.stderr)


def test_a_script_without_a_first_line_is_run_by_the_shell(tmp_path: Path) -> None:
    """As `execvp` and shells do it."""
    script = tmp_path / "script"
    script.write_text('echo "$1"\n')
    script.chmod(0o755)

    assert run([str(script), "hello"]).stdout == b"hello\n"


_LOOK = """
cat /proc/self/status | grep -E '^(Sig(Blk|Ign|Cgt)|Umask|NoNewPrivs)'
cat /proc/self/limits; cat /proc/self/oom_score_adj; cut -d' ' -f19 /proc/self/stat
pwd; ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0; tr '\\0' '\\n' </proc/self/environ
"""


def test_the_engine_inherits_what_it_would_have(tmp_path: Path) -> None:
    """Environment, folder, umask, limits, nice value, signals and descriptors are unchanged."""
    extra = os.open(tmp_path, os.O_RDONLY)

    def prepare() -> None:
        os.umask(0o027)
        os.nice(3)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM,))

    options = {
        "capture_output": True,
        "cwd": tmp_path,
        "env": {"PATH": os.environ["PATH"], "LANG": "C", "ODD": "a=b", "PYTHONPATH": "/x"},
        "pass_fds": (extra,),
        "preexec_fn": prepare,
        "stdin": subprocess.DEVNULL,
        "text": True,
    }
    plain = subprocess.run(["sh", "-c", _LOOK], **options)

    relayed = subprocess.run(command(["sh", "-c", _LOOK]), **options)

    os.close(extra)
    assert plain.stdout
    assert plain.stdout == relayed.stdout


def test_becoming_the_front_leaves_the_environment_alone() -> None:
    """A command line that is itself Python hands on what it was given, not what it made of it."""
    code = (
        f"import sys; from gpuprobe.live.engine.front import become\nbecome(['env'], {probe()!r})"
    )
    env = {"PATH": os.environ["PATH"], "LANG": "C"}

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env)

    assert {b"PATH=" + os.environb[b"PATH"], b"LANG=C"} == set(done.stdout.splitlines())


def test_stdin_is_the_engines_own() -> None:
    """What is piped in reaches the engine, to the end and no further."""
    assert run(["cat"], input=b"one\0two").stdout == b"one\0two"


@pytest.mark.parametrize(
    ("closed", "found"), [("<&-", "1 2 "), (">&-", "0 2 "), ("2>&-", "0 1 "), ("<&- >&-", "2 ")]
)
def test_closed_descriptors_stay_closed(closed: str, found: str, tmp_path: Path) -> None:
    """An engine started without a standard descriptor does not get one."""
    note = tmp_path / "note"
    engine = f"for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && printf '%s ' $n >>{note}; done; true"

    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command(["sh", "-c", engine])])

    assert done.returncode == 0
    assert found == note.read_text()


def test_a_reader_that_leaves_ends_the_engine_by_sigpipe() -> None:
    """`… | head -1` ends an endless writer, as without a relay."""
    piped = subprocess.run(
        ["bash", "-c", '"$@" | head -1; exit ${PIPESTATUS[0]}', "bash", *command(["yes"])],
        capture_output=True,
        timeout=10,
    )

    assert (piped.returncode, piped.stdout) == (141, b"y\n")


def test_stdout_and_stderr_that_are_one_stay_in_order() -> None:
    """With `2>&1` the lines come in the order in which they were written."""
    engine = "for n in 1 2 3 4 5 6 7 8 9; do echo o$n; echo e$n >&2; done"

    found = run(["sh", "-c", engine], capture_output=False, stdout=-1, stderr=subprocess.STDOUT)

    assert found.stdout.split() == [f"{c}{n}".encode() for n in range(1, 10) for c in "oe"]


def test_a_reader_that_does_not_read_holds_up_its_stream_alone() -> None:
    """While stdout is full, stderr goes on."""
    code = (
        "import os, threading\n"
        "threading.Thread(target=lambda: os.write(1, b'x' * 4000000)).start()\n"
        "import time; time.sleep(0.1); os.write(2, b'here')"
    )
    with start(python(code)) as front:
        assert front.stderr is not None
        assert front.stdout is not None

        assert front.stderr.read(4) == b"here"

        assert len(front.stdout.read()) == 4000000


def test_an_engine_that_closes_its_output_goes_on() -> None:
    """The reader sees the end when the engine closes stdout, not when it ends."""
    code = "import os, sys; os.write(1, b'bye'); os.close(1); sys.stdin.read(); sys.exit(4)"
    with start(python(code), stdin=subprocess.PIPE) as front:
        assert front.stdout is not None
        assert front.stdin is not None

        assert front.stdout.read() == b"bye"

        assert front.poll() is None
        front.stdin.close()
        assert front.wait(10) == 4


def test_a_daemon_that_keeps_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    """The front ends with the engine; what the daemon writes later still arrives."""
    hold = tmp_path / "hold"
    os.mkfifo(hold)
    with start(["sh", "-c", f"(read x <{hold}; echo late) & echo early; exit 5"]) as front:
        assert front.stdout is not None

        assert front.wait(20) == 5

        hold.write_text("now")
        assert front.stdout.read() == b"early\nlate\n"


def test_frames_tell_the_probe_everything(tmp_path: Path) -> None:
    """Start, both streams, their ends and how the engine ended, in that order."""
    path = tmp_path / "frames"

    run(["sh", "-c", "echo out; echo err >&2; exit 7"], frames_to(path))

    found = json.loads(path.read_text())
    found = [one for one in found if one[0] != relay_frames.REAPED]  # may come in time, or not
    kinds = [kind for kind, *_ in found]
    assert kinds[0] == relay_frames.STARTED
    assert kinds[-1] == relay_frames.ENDED
    assert {(1, "out\n"), (2, "err\n")} == {
        (stream, text) for kind, stream, _, text in found if kind == relay_frames.OUTPUT
    }
    ended = json.loads(found[-1][3])
    assert (ended["code"], ended["signal"]) == (7, None)


def test_gathered_output_is_told_though_nothing_follows(tmp_path: Path) -> None:
    """Pieces that came fast wait for a moment, and not for more output."""
    note = tmp_path / "note"
    engine = python(
        "import os, sys, time\n"
        "for n in range(20): os.write(1, b'%d\\n' % n); time.sleep(0.001)\n"
        "sys.stdin.read()"
    )
    look = f"open({os.fspath(note)!r}, 'ab').write(frame.data if frame.kind == f.OUTPUT else b'')"
    with start(engine, probe(on_frame=look), stdin=subprocess.PIPE) as front:
        until(lambda: note.exists() and b"\n19\n" in note.read_bytes())
        front.communicate(timeout=20)

    assert note.read_bytes() == b"".join(b"%d\n" % n for n in range(20))


def test_what_a_slow_probe_misses_is_counted_and_the_end_is_kept(tmp_path: Path) -> None:
    """Of a flood beside a stopped probe the oldest is dropped, counted; the newest arrives."""
    path = tmp_path / "frames"
    by = frames_to(path)
    by[-1] = by[-1].replace(
        "while not ended:", f"os.read(os.open({str(path)!r}, 0), 1)\n{'while not ended:'}"
    )
    os.mkfifo(path)
    size = 20 << 20
    code = f"import os, sys\nd = b'x' * {size - 4} + b'last'\nwhile d: d = d[os.write(1, d):]\nsys.stdin.read()"
    with start(python(code), by, stdin=subprocess.PIPE) as front:
        assert front.stdout is not None
        assert front.stdin is not None
        assert len(front.stdout.read(size)) == size
        with path.open("wb") as fifo:
            fifo.write(b"x")
            front.stdin.close()
        with path.open() as fifo:
            found = json.load(fifo)
        assert front.wait(10) == 0

    output = [one for one in found if one[0] in (relay_frames.OUTPUT, relay_frames.CLOSED)]
    text = "".join(one[3] for one in output)
    assert size == len(text) + sum(one[2] for one in output)
    assert len(text) <= BACKLOG + 2 * PIPE_BYTES
    assert text.endswith("last")


def test_nothing_runs_while_nothing_happens() -> None:
    """Front and relay sleep beside a silent engine: not one switch in half a second."""
    with start(["cat"], stdin=subprocess.PIPE) as front:
        relay = until(lambda: relay_of(front.pid))
        time.sleep(0.3)
        before = [_switches(front.pid), _switches(relay)]

        time.sleep(0.5)

        assert before == [_switches(front.pid), _switches(relay)]
        assert front.stdin is not None
        front.stdin.close()


def _switches(pid: int) -> list[str]:
    tasks = sorted(Path(f"/proc/{pid}/task").iterdir())
    return [
        line
        for task in tasks
        for line in (task / "status").read_text().splitlines()
        if "ctxt_switches" in line
    ]
