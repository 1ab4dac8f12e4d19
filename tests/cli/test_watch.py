"""`gpuprobe watch` as a program, on a scripted driver."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from gpuprobe.cli import main
from gpuprobe.live import sources as sources_module
from gpuprobe.live.sources import live_sources
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from gpuprobe.testing.sysfs import FakeSysfs
from tests.live.nvml_bench import ONE, TWO, alive, wait_until

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
COMMAND = [sys.executable, "-m", "gpuprobe", "watch"]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    library = FakeNvml(tmp_path, [ONE, TWO])
    library.set(power_mw=210_000, power_limit_mw=400_000, temp_c=61, util_percent=97)
    yield library
    library.heal()


class Running:
    """A running `gpuprobe watch` and the lines it wrote so far."""

    def __init__(self, fake: FakeNvml, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            env={**os.environ, **fake.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def until(self, words: str, timeout_s: float = 15.0) -> None:
        assert wait_until(lambda: any(words in line for line in self.lines), timeout_s), self.lines

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, float]:
        """Its exit code, what it wrote to stderr, and how long it took to end."""
        begin = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(10)
        took = time.monotonic() - begin
        self._reader.join(5)
        assert self.process.stderr is not None
        return self.process.returncode, self.process.stderr.read(), took


@contextlib.contextmanager
def running(fake: FakeNvml, *arguments: str) -> Iterator[Running]:
    found = Running(fake, *arguments)
    try:
        yield found
    finally:
        fake.heal()
        if found.process.poll() is None:
            found.process.kill()
            found.process.wait(5)


# --- lines -----------------------------------------------------------------------------------


@needs_compiler
def test_a_line_for_each_gpu_every_two_seconds(fake: FakeNvml) -> None:
    """In a pipe: plain lines with units; nothing failed, so the exit code is 0."""
    with running(fake) as watch:
        watch.until(f"{ONE} 210/400 W, 61 °C")
        begin = time.monotonic()
        assert wait_until(lambda: sum(f"{ONE} 210/400 W" in line for line in watch.lines) >= 2)
        between = time.monotonic() - begin
        watch.until(f"{TWO} 210/400 W")
        code, errors, _ = watch.end(signal.SIGINT)

    assert code == 0
    assert "Traceback" not in errors
    assert between > 1.0
    assert not any("\x1b" in line for line in watch.lines)


@needs_compiler
def test_a_loss_is_told_at_once_and_in_the_exit_code(fake: FakeNvml) -> None:
    """Event, verdict with its proof, the GPU as lost, the other sampled on; code 79."""
    with running(fake) as watch:
        watch.until(f"{TWO} 210/400 W")
        fake.lose(ONE)
        begin = time.monotonic()
        watch.until("VERDICT [device-left-bus, confirmed]", 3.0)
        took = time.monotonic() - begin
        watch.until(f"{ONE} lost")
        before = sum(f"{TWO} 210/400 W" in line for line in watch.lines)
        assert wait_until(lambda: sum(f"{TWO} 210/400 W" in x for x in watch.lines) > before + 1)
        code, _, _ = watch.end()

    assert code == 79
    assert took < 1.5
    assert sum("VERDICT" in line for line in watch.lines) == 1
    assert any(line.startswith("  proof: nvml") for line in watch.lines)


@needs_compiler
def test_a_hang_does_not_hold_the_exit(fake: FakeNvml) -> None:
    """SIGTERM ends it within two seconds; the child that stays is named and ends by itself."""
    with running(fake) as watch:
        watch.until(f"{ONE} 210/400 W")
        fake.hang()
        watch.until("has not returned for")
        code, errors, took = watch.end()
        pid = int(errors.partition("process ")[2].split()[0])
        outlived = alive(pid)
        fake.heal()
        ended = wait_until(lambda: not alive(pid))

    assert took < 2.5
    assert "is still inside nvml" in errors
    assert code == 3
    assert outlived
    assert ended


@needs_compiler
def test_nvml_is_let_go_of_and_taken_again(fake: FakeNvml) -> None:
    """SIGUSR1: no call is made any more; SIGUSR2: samples come again."""
    with running(fake) as watch:
        watch.until(f"{ONE} 210/400 W")
        watch.process.send_signal(signal.SIGUSR1)
        watch.until("the driver can be unloaded")
        calls = fake.count()
        time.sleep(1.0)
        silent = fake.count() == calls
        fake.set(ONE, power_mw=111_000)
        watch.process.send_signal(signal.SIGUSR2)
        watch.until(f"{ONE} 111/400 W")
        code, _, _ = watch.end()

    assert silent
    assert code == 0


# --- the screen ------------------------------------------------------------------------------


class Terminal:
    """`gpuprobe watch` on a terminal of its own."""

    def __init__(
        self, fake: FakeNvml, columns: int = 120, *, env: dict[str, str] | None = None
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        known = {"TERM": "xterm-256color"} | ({"PYTHONIOENCODING": "utf-8"} if env is None else {})
        env = {**os.environ, **fake.env, **known, **(env or {})}
        env.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            COMMAND, env=env, stdin=slave, stdout=slave, stderr=slave, close_fds=True
        )
        self.text = ""

    def until(self, enough: Callable[[str], bool], timeout_s: float = 15.0) -> bool:
        end = time.monotonic() + timeout_s
        while not enough(self.text):
            if time.monotonic() > end:
                return False
            self.read(0.1)
        return True

    def read(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                self.text += os.read(self.master, 65536).decode("utf-8", "replace")

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(5)
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(fake: FakeNvml) -> Iterator[Terminal]:
    found = Terminal(fake)
    yield found
    fake.heal()
    found.close()


@needs_compiler
def test_the_screen_shows_and_q_leaves_the_verdict(fake: FakeNvml, terminal: Terminal) -> None:
    """Values on the screen, the banner on a loss, the verdict in full after q, the tty as it was."""
    assert terminal.until(lambda text: "210/400 W" in text), terminal.text[-2000:]
    fake.lose(ONE)
    assert terminal.until(lambda text: "[device-left-bus, confirmed]" in text)
    terminal.press("q")
    assert terminal.until(lambda text: "Next steps" in text)
    code = terminal.process.wait(5)

    after = terminal.text.rpartition("\x1b[?1049l")[2]
    assert code == 79
    assert f"GPU {ONE} left the bus" in after
    assert termios.tcgetattr(terminal.slave)[3] == terminal.before[3]


@needs_compiler
def test_p_stops_the_picture_alone(fake: FakeNvml, terminal: Terminal) -> None:
    """Paused, new values are not drawn; p again shows them."""
    assert terminal.until(lambda text: "210/400 W" in text)
    terminal.press("p")
    assert terminal.until(lambda text: "PAUSED" in text)
    fake.set(power_mw=333_000)
    terminal.read(1.5)
    hidden = "333/400 W" not in terminal.text
    terminal.press("p")
    shown = terminal.until(lambda text: "333/400 W" in text)
    terminal.press("q")

    assert hidden
    assert shown
    assert terminal.process.wait(5) == 0


@needs_compiler
def test_a_terminal_that_is_closed_ends_the_watch(fake: FakeNvml) -> None:
    """As with a window that is shut: no traceback, and the program is gone."""
    found = Terminal(fake)
    with tempfile.TemporaryFile() as errors:
        found.process.kill()
        found.process.wait(5)
        found.process = subprocess.Popen(
            COMMAND,
            env={**os.environ, **fake.env, "TERM": "xterm"},
            stdin=found.slave,
            stdout=found.slave,
            stderr=errors,
            start_new_session=True,
        )
        assert found.until(lambda text: "210/400 W" in text)
        os.close(found.slave)
        os.close(found.master)
        found.process.send_signal(signal.SIGHUP)
        found.process.wait(10)
        errors.seek(0)

        assert b"Traceback" not in errors.read()


@needs_compiler
@pytest.mark.parametrize(
    ("env", "shown"),
    [
        ({"TERM": "dumb"}, "210/400 W, 61"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "210/400 W"),
    ],
)
def test_a_terminal_that_can_do_little(
    fake: FakeNvml, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], shown: str
) -> None:
    """Lines where it cannot move its cursor, ASCII where it knows no other letters."""
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    found = Terminal(fake, env=env)
    try:
        assert found.until(lambda text: shown in text), found.text[-2000:]
        assert "Traceback" not in found.text
        assert ("\x1b[?1049h" in found.text) == ("TERM" not in env)
        assert ("\u2026" in found.text) is False
    finally:
        found.close()


# --- once ------------------------------------------------------------------------------------


def run(fake: FakeNvml, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, **fake.env},
        capture_output=True,
        text=True,
        timeout=30,
    )


@needs_compiler
def test_once_reads_everything(fake: FakeNvml) -> None:
    """Every value with unit or reason; code 0."""
    fake.unsupported("field.82", ONE)
    done = run(fake, "--once", "--format", "json")
    document = json.loads(done.stdout)
    first, second = document["gpus"]

    schema = resources.files("gpuprobe.reporters").joinpath("watch.schema.json").read_text()
    jsonschema.validate(document, json.loads(schema))
    assert done.returncode == 0, done.stderr
    assert document["schema"] == "gpuprobe.watch/1"
    assert document["answer"] == "no-fault"
    assert (first["pci"], first["state"]) == (str(ONE), "sampled")
    assert first["nvml"]["power_w"] == {"value": 210.0, "unit": "W"}
    assert first["nvml"]["memory_temp_c"]["unavailable"] == "not-supported"
    assert second["nvml"]["limit_w"] == {"value": 400.0, "unit": "W"}
    assert document["driver"]["driver_version"]["value"]
    assert {source["name"] for source in document["sources"]} >= {"nvml", "sysfs", "host"}


@needs_compiler
def test_once_for_a_person(fake: FakeNvml) -> None:
    """The same, one line a value."""
    done = run(fake, "--once")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[no-fault] 2 GPUs read")
    assert "    power_w                            210 W" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@needs_compiler
def test_once_with_a_lost_gpu(fake: FakeNvml) -> None:
    """A GPU that is lost already: code 79, or 1 for node-problem-detector."""
    fake.lose(ONE)

    assert run(fake, "--once").returncode == 79
    assert run(fake, "--once", "--exit-codes", "npd").returncode == 1


@needs_compiler
def test_once_is_bounded_when_the_library_hangs(fake: FakeNvml) -> None:
    """Everything in NVML hangs: an answer within six seconds all the same."""
    fake.hang()
    begin = time.monotonic()
    done = run(fake, "--once")
    fake.heal()

    assert time.monotonic() - begin < 8
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


# --- machines where there is nothing ----------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command on another machine: an empty folder for a root."""

    def sources(**options: object) -> list:
        return live_sources(**{**options, "root": tmp_path / "root"})

    monkeypatch.setattr(sources_module, "live_sources", sources)
    return tmp_path


@pytest.mark.parametrize("arguments", [(), ("--once",), ("--no-nvml", "--once")])
def test_a_machine_without_a_gpu(elsewhere: Path, arguments: tuple[str, ...]) -> None:
    """What is not available and how to get it, code 3, no traceback."""
    (elsewhere / "root").mkdir()
    done = CliRunner().invoke(main, ["watch", "--no-nvml", *arguments])

    assert done.exit_code == 3
    assert "cannot-tell" in done.output
    assert "mount the host's /sys" in done.output
    assert "Traceback" not in done.output


def test_a_device_that_is_not_there(elsewhere: Path) -> None:
    """It is named, with code 3."""
    FakeSysfs(elsewhere).gpu("0000:04:00.0")
    done = CliRunner().invoke(main, ["watch", "--no-nvml", "--device", "0000:99:00.0"])

    assert done.exit_code == 3
    assert "0000:99:00.0 is not there" in done.output


def test_without_nvml_sysfs_is_watched(elsewhere: Path) -> None:
    """--no-nvml: presence, link and counters, with NVML named as not asked."""
    FakeSysfs(elsewhere).gpu("0000:04:00.0")
    done = CliRunner().invoke(main, ["watch", "--no-nvml", "--once", "--format", "json"])
    document = json.loads(done.output)

    assert done.exit_code == 0, done.output
    assert document["gpus"][0]["state"] == "on the bus"
    assert "nvml" not in {source["name"] for source in document["sources"]}


@pytest.mark.parametrize(
    "arguments",
    [("--format", "json"), ("--exit-codes", "npd"), ("--device", "nowhere"), ("--rate", "0")],
)
def test_usage_errors(arguments: tuple[str, ...]) -> None:
    """Code 2, before anything is started."""
    assert CliRunner().invoke(main, ["watch", *arguments]).exit_code == 2
