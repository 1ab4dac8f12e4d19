"""What the tests of `gpuprobe run` share: the command on a fake driver and a fake machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuprobe.testing.nvml import FakeNvml
from gpuprobe.testing.sysfs import FakeSysfs
from tests.live.nvml_bench import wait_until

RUN = [sys.executable, "-m", "gpuprobe", "run"]

ENGINE = """
import os, signal, sys, time
how, trigger = sys.argv[1], sys.argv[2]
print("ready", flush=True)
end = time.monotonic() + 30
while not os.path.exists(trigger) and time.monotonic() < end:
    time.sleep(0.005)
if how == "hang":
    print("waiting for the GPU", flush=True)
    time.sleep(60)
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
if how == "cuda":
    print("RuntimeError: CUDA error: unspecified launch failure", file=sys.stderr, flush=True)
    sys.exit(1)
if how == "worker":
    print("ERROR Worker proc VllmWorker-1 died unexpectedly, shutting down executor.", flush=True)
    time.sleep(60)
if how == "held":
    import ctypes
    print(os.getpid(), flush=True)
    if ctypes.PyDLL(None).vfork() == 0:  # until it ends, the parent is in state D
        time.sleep(60)
        os._exit(0)
if how.startswith("signal"):
    os.kill(os.getpid(), int(how[6:]))
sys.exit(int(how))
"""
"""An engine that works until a file appears, and then ends as its first argument says."""


@dataclass
class Run:
    """A running `gpuprobe run`.

    Attributes:
        folder: Its own. process: The front. began: When what decides was done.
    """

    folder: Path
    process: subprocess.Popen[str]
    began: float = 0.0

    @property
    def output(self) -> str:
        """What the engine wrote to stdout so far."""
        return (self.folder / "out").read_text("utf-8")

    @property
    def words(self) -> str:
        """What stands on stderr so far."""
        return (self.folder / "err").read_text("utf-8")

    @property
    def recordings(self) -> list[Path]:
        """The recordings made."""
        return sorted((self.folder / "recordings").glob("*.gpuprobe"))

    def until_ready(self, fake: FakeNvml | None) -> None:
        """Wait until the engine works and the probe samples."""
        assert wait_until(lambda: "ready" in self.output, 20.0), self.words
        if fake is not None:
            for gpu in fake.gpus:
                fake.wait_for(
                    "nvmlDeviceGetCurrentClocksEventReasons", gpu, times=5, timeout_s=20.0
                )

    def go(self) -> None:
        """Let the engine do what it is to do."""
        self.began = time.monotonic()
        (self.folder / "trigger").touch()

    def verdict_after_s(self, words: str = "gpuprobe: [", timeout_s: float = 5.0) -> float:
        """Seconds from `began` until a verdict stood on stderr."""
        assert wait_until(lambda: words in self.words, timeout_s), self.words
        return time.monotonic() - self.began

    def end(self, timeout_s: float = 15.0) -> int:
        """Its exit code."""
        return self.process.wait(timeout_s)


@contextmanager
def running(
    folder: Path,
    how: str,
    *options: str,
    fake: FakeNvml | None = None,
    tree: FakeSysfs | None = None,
    environment: dict[str, str] | None = None,
    name: str = "run",
) -> Iterator[Run]:
    """A `gpuprobe run` of `ENGINE`, ended whatever happens."""
    own = folder / name
    (own / "recordings").mkdir(parents=True, exist_ok=True)
    (own / "engine.py").write_text(ENGINE)
    root = ["--root", str(tree.root)] if tree is not None else ["--no-nvml"]
    engine = [sys.executable, str(own / "engine.py"), how, str(own / "trigger")]
    env = {**os.environ, "GPUPROBE_DIR": str(own / "recordings"), **(environment or {})}
    if fake is not None:
        env |= fake.env
    with (own / "out").open("w") as out, (own / "err").open("w") as err:
        process = subprocess.Popen(
            [*RUN, *root, *options, "--", *engine],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
            env=env,
        )
    run = Run(own, process)
    try:
        yield run
    finally:
        if fake is not None:
            fake.heal()
        (own / "trigger").touch()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(3.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5.0)
