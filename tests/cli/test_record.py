"""`gpuprobe record`, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuprobe import diagnose, load
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE, TWO

CUDA = "RuntimeError: CUDA error: unspecified launch failure"
LIMIT_S = 40.0

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


class Running:
    """A recorder with its files."""

    def __init__(self, folder: Path, *args: str, **more: Any) -> None:
        self.recording = folder / "r.gpuprobe"
        self.out, self.err = folder / "out", folder / "err"
        more = {"stdout": self.out.open("wb"), "stderr": self.err.open("wb"), **more}
        environment = {**os.environ, **more.pop("env", {}), "GPUPROBE_DIR": str(folder / "dir")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpuprobe", "record", str(self.recording), *args],
            stdin=subprocess.DEVNULL,
            env=environment,
            **more,
        )

    def until(self, enough: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT_S
        while not enough():
            assert time.monotonic() < end, (self.out.read_text(), self.err.read_text())
            assert self.process.poll() is None, self.err.read_text()
            time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def begin(*args: str, nvml: bool = False, **more: Any) -> Running:
        args = args if nvml else ("--no-nvml", *args)
        made.append(Running(tmp_path, *args, **more))
        return made[-1]

    yield begin
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def test_a_followed_file_is_recorded_and_its_events_shipped(
    tmp_path: Path, record: Callable[..., Running]
) -> None:
    """Output and event are in the recording, the event is a JSON line, the end mark says how."""
    log = tmp_path / "e.log"
    log.write_text("")
    running = record("--follow-file", str(log), "--format", "json")
    running.until(lambda: f'"following {log}"' in running.out.read_text())
    log.write_text(f"hello\n{CUDA}\n")
    running.until(lambda: '"cuda-failed"' in running.out.read_text())

    assert running.end() == 0
    (cuda,) = (one for one in json_lines(running.out) if one["kind"] == "cuda-failed")
    assert (cuda["input"], cuda["line"], cuda["fields"]["code"]) == (str(log), 2, 719)
    recording = load(running.recording)
    assert recording.ended == "stopped"
    assert list(recording.engine_log()["text"]) == ["hello", CUDA]
    assert "CudaFailed" in set(recording.events()["kind"])
    assert "recording to" in running.err.read_text()


@needs_compiler
def test_kernel_lines_that_a_server_prints_prove_nothing_for_certain(
    tmp_path: Path, record: Callable[..., Running]
) -> None:
    """Somebody's dmesg in its log: no loss for certain, and none at all once the GPU is sampled."""
    fake = FakeNvml(tmp_path, [ONE, TWO])
    fake.set(power_mw=210_000)
    log = tmp_path / "e.log"
    address = str(ONE).lower()
    log.write_text(
        f"[   12.345678] NVRM: Xid (PCI:{address[:12]}): 79, pid=1, GPU has fallen off the bus.\n"
        f"[   12.345679] NVRM: GPU {address}: GPU has fallen off the bus.\n"
    )
    args = ("--follow-file", str(log), "--from-start", "--metrics", "127.0.0.1:0")
    running = record(*args, nvml=True, env=fake.env)
    running.until(lambda: "metrics on port" in running.err.read_text())
    port = running.err.read_text().partition("metrics on port ")[2].split()[0]

    def series(name: str) -> list[str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = str(answer.read(), "utf-8").splitlines()
        return [line for line in lines if line.startswith(f"gpuprobe_{name}{{")]

    running.until(lambda: len(series("power_watts")) == 2)
    time.sleep(0.5)
    present = series("device_present")

    assert running.end() == 0
    assert "[confirmed]" not in running.out.read_text()
    assert [one[-3:] for one in present] == ["1.0", "1.0"]
    assert diagnose(running.recording).answer == "no-fault"


def test_the_sentence_of_a_verdict_is_written_once(
    tmp_path: Path, record: Callable[..., Running]
) -> None:
    """A second fault adds its own sentence and does not repeat the first."""
    log = tmp_path / "e.log"
    log.write_text("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    running = record("--follow-file", str(log), "--from-start")
    running.until(lambda: "illegal memory access" in running.out.read_text())
    with log.open("a") as more:
        more.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    running.until(lambda: "2.00 GiB" in running.out.read_text())

    assert running.end() == 0
    lines = running.out.read_text().splitlines()
    assert len(lines) == len(set(lines)) == 2


def test_a_reader_that_goes_away_does_not_end_it(record: Callable[..., Running]) -> None:
    """Stdout's pipe breaks: one note, and recording goes on to a clean end."""
    read, write = os.pipe()
    running = record("--format", "json", stdout=write)
    os.close(write)
    os.close(read)
    running.until(lambda: "the recording goes on" in running.err.read_text())
    time.sleep(0.3)

    assert running.end(signal.SIGINT) == 0
    assert load(running.recording).ended == "stopped"


def test_a_reader_that_sleeps_does_not_delay_it(
    tmp_path: Path, record: Callable[..., Running]
) -> None:
    """Nobody reads stdout: metrics and the end come all the same."""
    log = tmp_path / "e.log"
    log.write_text("".join(f"CUDA error: unspecified launch failure {n}\n" for n in range(900)))
    read, write = os.pipe()
    args = ("--format", "json", "--follow-file", str(log), "--from-start")
    running = record(*args, stdout=write)
    os.close(write)
    running.until(lambda: running.recording.exists())
    time.sleep(2.0)

    assert running.end() == 0
    os.close(read)


def test_metrics_and_the_service_manager(tmp_path: Path, record: Callable[..., Running]) -> None:
    """Ready is said when it records, the watchdog is fed, the end is said; metrics are served."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(LIMIT_S)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "900000"}
        running = record("--metrics", "127.0.0.1:0", env=environment)
        said = [manager.recv(4096).decode()]
        while "WATCHDOG=1" not in said:
            said.append(manager.recv(4096).decode())
        running.until(lambda: "metrics on port" in running.err.read_text())
        port = running.err.read_text().partition("metrics on port ")[2].split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert b"gpuprobe_recording_up 1.0" in answer.read()
        running.process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in said:
            said.append(manager.recv(4096).decode())

    assert said[0] == "READY=1"
    assert running.process.wait(LIMIT_S) == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--follow-file", "{tmp}/pipe"], "is no regular file"),
        (["--follow-pid", "4194305"], "no process 4194305"),
        (["--metrics", "nowhere"], "is no HOST:PORT"),
        (["--metrics", "{port}"], "cannot listen on 127.0.0.1"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(
    args: list[str], words: str, tmp_path: Path, record: Callable[..., Running]
) -> None:
    """One clear error with code 2, and no recording left behind."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        running = record(*(one.format(tmp=tmp_path, port=port) for one in args))
        code = running.process.wait(LIMIT_S)

    assert code == 2
    assert words in running.err.read_text()
    assert not running.recording.exists()


def test_nothing_is_done_to_a_followed_process(record: Callable[..., Running]) -> None:
    """No tracer, no signal; it goes on when the recorder has ended."""
    engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        running = record("--follow-pid", str(engine.pid), "--format", "json")
        running.until(lambda: "its output cannot be seen" in running.out.read_text())
        status = Path(f"/proc/{engine.pid}/status").read_text()
        assert running.end() == 0
        assert engine.poll() is None
    finally:
        engine.kill()
        engine.wait()

    assert "TracerPid:\t0" in status


@needs_compiler
def test_a_loss_reaches_disk_shipper_and_metrics(
    tmp_path: Path, record: Callable[..., Running]
) -> None:
    """A verdict on stdout, in the recording, and presence at 0 with no value left; still exit 0."""
    fake = FakeNvml(tmp_path, [ONE, TWO])
    fake.set(power_mw=210_000)
    args = ("--format", "json", "--metrics", "127.0.0.1:0")
    running = record(*args, nvml=True, env=fake.env)
    running.until(lambda: "metrics on port" in running.err.read_text())
    port = running.err.read_text().partition("metrics on port ")[2].split()[0]

    def series() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read(), "utf-8")

    def of(name: str, found: str) -> list[str]:
        return [line for line in found.splitlines() if line.startswith(f"gpuprobe_{name}{{")]

    running.until(lambda: len(of("power_watts", series())) == 2)
    fake.lose(ONE)
    running.until(lambda: any(line.endswith(" 0.0") for line in of("device_present", series())))
    running.until(lambda: '"diagnosed"' in running.out.read_text())

    found = series()
    assert sorted(line[-3:] for line in of("device_present", found)) == ["0.0", "1.0"]
    assert len(of("power_watts", found)) == 1
    assert running.end() == 0
    told = [one for one in json_lines(running.out) if one["kind"] == "diagnosed"]
    assert told[-1]["diagnosis"]["answer"] == "device-left-bus"
    assert diagnose(running.recording).answer == "device-left-bus"


@needs_compiler
def test_nvml_is_released_and_taken(tmp_path: Path, record: Callable[..., Running]) -> None:
    """USR1 and USR2 become events of the NVML source; recording goes on between."""
    fake = FakeNvml(tmp_path, [ONE])
    running = record("--format", "json", nvml=True, env=fake.env)

    def said(what: str) -> bool:
        return f'"fields":{{"name":"nvml","what":"{what}"}}' in running.out.read_text()

    running.until(lambda: said("started"))
    running.process.send_signal(signal.SIGUSR1)
    running.until(lambda: said("released"))
    running.process.send_signal(signal.SIGUSR2)
    running.until(lambda: said("taken"))

    assert running.end() == 0
