"""Whoever of gpuprobe dies or hangs: the engine and its output go on."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from relaying import below, command, is_gone, probe, probe_of, python, relay_of, start, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the relay needs Linux")

_ENGINE = (
    "import os, time\n"
    "for n in range(60):\n"
    " os.write(1, n.to_bytes(4, 'big') * 500); os.write(2, b'%d\\n' % n); time.sleep(0.002)\n"
    "os._exit(9)"
)
_OUT = hashlib.sha256(b"".join(n.to_bytes(4, "big") * 500 for n in range(60))).hexdigest()
_ERR = b"".join(b"%d\n" % n for n in range(60))


def _once(how: signal.Signals, whom: str, delay_s: float) -> tuple[int, str, bytes]:
    """Run the engine and send `how` to a process of ours after a moment."""
    with start(python(_ENGINE)) as front:
        probe_pid = until(lambda: probe_of(front.pid) or (front.poll() is not None and -1))
        time.sleep(delay_s)
        victim = front.pid if whom == "front" else probe_pid
        with _ended(probe_pid):
            _send(how, victim)
            out, err = front.communicate(timeout=30)
    return front.returncode, hashlib.sha256(out).hexdigest(), err


@contextmanager
def _ended(pid: int) -> Iterator[None]:
    """End a process of ours that a test stopped or that outlives it."""
    try:
        yield
    finally:
        _send(signal.SIGKILL, pid)


def _send(number: signal.Signals, pid: int) -> None:
    """Send a signal to a process that may end by itself at any moment."""
    if pid > 0 and not is_gone(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_probe_that_dies_or_is_stopped_changes_nothing(how: signal.Signals, rounds: int) -> None:
    """At whatever moment: output whole on both streams, and the engine's own code."""
    moments = random.Random(7)
    delays = [moments.uniform(0, 0.15) for _ in range(rounds)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda delay: _once(how, "probe", delay), delays))

    assert {(9, _OUT, _ERR)} == set(found)


@pytest.mark.parametrize("rounds", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_a_front_that_is_killed_leaves_the_engine_alone(rounds: int) -> None:
    """The engine's output still arrives whole, by the relay."""
    moments = random.Random(8)
    delays = [moments.uniform(0, 0.12) for _ in range(rounds)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda delay: _once(signal.SIGKILL, "front", delay), delays))

    assert {(_OUT, _ERR)} == {(out, err) for _, out, err in found}


def test_the_relay_leaves_after_the_engine_though_all_others_died(tmp_path: Path) -> None:
    """Front and probe killed: the engine ends by itself, and no process is left."""
    note = tmp_path / "note"
    engine = f"import sys, time; sys.stdin.read(); open({str(note)!r}, 'w').write('done')"
    front = start(python(engine), stdin=subprocess.PIPE)
    relay = until(lambda: relay_of(front.pid))
    inside = until(lambda: below(relay))

    os.kill(until(lambda: probe_of(front.pid)), signal.SIGKILL)
    os.kill(front.pid, signal.SIGKILL)
    front.wait()
    assert front.stdin is not None
    time.sleep(0.1)
    assert not any(map(is_gone, inside))
    front.stdin.close()

    until(note.exists)
    until(lambda: is_gone(relay))
    for stream in (front.stdout, front.stderr):
        assert stream is not None
        stream.close()


def test_a_relay_that_is_killed_still_gives_the_engines_code() -> None:
    """The front inherits the engine and waits for it."""
    engine = "import os, sys; os.write(1, b'r'); sys.stdin.read(); sys.exit(6)"
    with start(python(engine), stdin=subprocess.PIPE) as front:
        assert front.stdout is not None
        assert front.stdout.read(1) == b"r"
        relay = until(lambda: relay_of(front.pid))
        until(lambda: probe_of(front.pid))
        os.kill(relay, signal.SIGKILL)
        until(lambda: is_gone(relay))
        assert front.poll() is None
        assert front.stdin is not None
        front.stdin.close()

        assert front.wait(10) == 6


def test_a_probe_that_cannot_be_started_does_not_matter() -> None:
    """The engine runs without it."""
    with start(["echo", "hello"], ["/no/such/probe"]) as front:
        assert front.communicate(timeout=10)[0] == b"hello\n"

    assert front.returncode == 0


def test_a_probe_that_takes_long_to_load_is_waited_for() -> None:
    """On a busy machine an engine can be dead before its probe has come up."""
    by = probe(before="import time; time.sleep(4)", code=79)
    with start(["true"], by) as front:
        assert front.wait(30) == 79


def test_a_probe_that_never_ends_is_waited_for_a_moment_only() -> None:
    """An answer that does not come is waited for, but for some seconds only."""
    loaded = "f.send(told['control'], loaded=True)"
    by = probe(before=loaded, after="import time; time.sleep(60)")
    with start(["true"], by) as front, _ended(until(lambda: probe_of(front.pid))):
        began = time.monotonic()
        assert front.wait(30) == 0
        assert 2.0 < time.monotonic() - began < 15.0


def test_a_probe_may_have_the_front_leave_before_the_engine() -> None:
    """For an engine that the kernel holds: the front ends with the probe's code at once."""
    by = probe(on_frame="break", after="", code=79, leave=True)
    by[-1] = by[-1].replace("while not ended", "while not kept")
    with start(["cat"], by, stdin=subprocess.PIPE) as front:
        relay = until(lambda: relay_of(front.pid))
        assert front.wait(10) == 79
        assert not is_gone(relay)
        assert front.stdin is not None
        front.stdin.close()

    until(lambda: is_gone(relay))


# --- signals -----------------------------------------------------------------------------------

_COUNTS = """
import os, signal, sys, time
got = []
def note(number, frame): got.append(number)
for number in (1, 2, 3, 15, 10, 12, 28): signal.signal(number, note)
child = os.fork()
os.write(1, b'r')
end = time.monotonic() + 20
while 15 not in got and time.monotonic() < end: time.sleep(0.01)
time.sleep(0.1)
if child:
    os.wait()
    os.write(1, b' parent ' + ' '.join(map(str, sorted(got))).encode())
else:
    os.write(1, b' child ' + ' '.join(map(str, sorted(got))).encode())
"""


def test_signals_reach_the_engine_once() -> None:
    """Those that end programs go to its group, SIGUSR1 and SIGUSR2 to its first process."""
    with start(python(_COUNTS)) as front:
        assert front.stdout is not None
        assert front.stdout.read(1) == b"r"
        assert front.stdout.read(1) == b"r"
        for number in (1, 2, 3, 10, 12, 28, 15):
            front.send_signal(number)
            time.sleep(0.03)

        assert front.stdout.read() == b" child 1 2 3 15 28 parent 1 2 3 10 12 15 28"

        assert front.wait(10) == 0


_COUNTS_STOPS = (
    "import os, signal, time\n"
    "got = []\n"
    "signal.signal(15, lambda *_: got.append(1))\n"
    "os.write(1, b'up %d\\n' % (os.environ['LISTEN_PID'] == str(os.getpid())))\n"
    "while not got: time.sleep(0.01)\n"
    "time.sleep(0.4); os.write(1, b'%d' % len(got))"
)


def test_a_unit_is_told_to_stop_once() -> None:
    """systemd signals every process of a unit, ignores SIGPIPE, and hands on sockets by pid."""
    inner = ["sh", "-c", 'grep SigIgn /proc/self/status; exec "$@"', "sh", *python(_COUNTS_STOPS)]
    outer = ["sh", "-c", 'SYSTEMD_EXEC_PID=$$ LISTEN_PID=$$ exec "$@"', "sh", *command(inner)]
    with subprocess.Popen(outer, stdout=subprocess.PIPE) as front:
        assert front.stdout is not None
        assert int(front.stdout.readline().split()[1], 16) >> (signal.SIGPIPE - 1) & 1
        assert front.stdout.readline() == b"up 1\n"
        relay = until(lambda: relay_of(front.pid))
        for pid in (front.pid, relay, *below(relay)):
            os.kill(pid, signal.SIGTERM)

        assert front.stdout.read() == b"1"


def test_what_nohup_ignores_is_not_passed_on() -> None:
    """Under `nohup` a hang-up reaches nobody."""
    engine = "import os, time; os.write(1, b'r'); time.sleep(0.3); os.write(1, b'alive')"
    with subprocess.Popen(
        ["nohup", *command(python(engine))], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as front:
        assert front.stdout is not None
        assert front.stdout.read(1) == b"r"
        front.send_signal(signal.SIGHUP)

        assert front.stdout.read() == b"alive"

    assert front.returncode == 0


def test_a_stop_is_sigterm_and_then_sigkill() -> None:
    """On the probe's word an engine that ignores SIGTERM is killed when its time is over."""
    by = probe(on_frame="frame.kind == f.STARTED and f.send(told['control'], stop=0.3)")
    engine = (
        "import os, signal, time\n"
        "signal.signal(15, lambda *_: os.write(1, b'told'))\n"
        "os.write(1, b'up ')\nwhile True: time.sleep(1)"
    )
    # The stop may come before the handler is there: then SIGTERM ends it, and is asked for again.
    by[-1] = by[-1].replace("frame.kind == f.STARTED", "b'up ' in frame.data")
    with start(python(engine), by) as front:
        out, _ = front.communicate(timeout=10)

    assert (out, front.returncode) == (b"up told", 137)


def test_orphans_inside_leave_no_zombies() -> None:
    """A process that its parent left behind is waited for by the relay."""
    engine = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        " pid = os.fork()\n"
        " if pid: os.write(1, b'%d\\n' % pid); os._exit(0)\n"
        " time.sleep(0.1); os._exit(0)\n"
        "os.wait(); sys.stdin.read()"
    )
    with start(python(engine), stdin=subprocess.PIPE) as front:
        assert front.stdout is not None
        assert front.stdin is not None
        orphan = int(front.stdout.readline())

        until(lambda: not Path(f"/proc/{orphan}").exists())

        front.stdin.close()
        assert front.wait(10) == 0


def test_an_ended_engine_can_be_looked_at_for_a_moment(tmp_path: Path) -> None:
    """When the probe hears of the end, the process is still in /proc, and soon it is not."""
    note = tmp_path / "note"
    after = (
        "import json as j, pathlib as p, time\n"
        "pid = next(k.told()['pid'] for k in kept if k.kind == f.ENDED)\n"
        f"p.Path({str(note)!r}).write_text(p.Path(f'/proc/{{pid}}/comm').read_text())\n"
        "while p.Path(f'/proc/{pid}').exists(): time.sleep(0.01)"
    )
    with start(["true"], probe(after=after)) as front:
        assert front.wait(20) == 0

    assert note.read_text() == "true\n"
