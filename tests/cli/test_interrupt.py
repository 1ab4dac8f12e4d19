"""Ctrl-C at moments when nothing of the command runs yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gpuprobe

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def _run(script: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        env={**os.environ, "GPUPROBE_DIR": str(folder)},
    )


def test_while_the_command_line_is_loaded(tmp_path: Path) -> None:
    """It ends as any program does that a Ctrl-C ends, without a traceback."""
    script = """
import os, runpy, signal, sys, time

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "gpuprobe.cli":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
runpy.run_module("gpuprobe", run_name="__main__")
"""
    done = _run(script, tmp_path)

    assert done.returncode == -signal.SIGINT
    assert done.stderr == b""


def test_nothing_that_takes_time_is_loaded_before_that() -> None:
    """What Python loads by itself is all that a Ctrl-C can meet unguarded."""
    script = f"""
import sys

before = set(sys.modules)
sys.path.insert(0, {str(Path(gpuprobe.__file__).parents[1])!r})
import gpuprobe.__main__
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-IS", "-c", script], capture_output=True, check=True)

    assert done.stdout.split() == [b"__future__", b"gpuprobe", b"gpuprobe.__main__"]


def test_what_a_script_starts_in_the_background_ignores_it(tmp_path: Path) -> None:
    """It stays ignored to the command's end."""
    script = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name.startswith("gpuprobe.cli"):
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["gpuprobe", "explain", "79"]
runpy.run_module("gpuprobe", run_name="__main__")
"""
    done = _run(script, tmp_path)

    assert done.returncode == 0
    assert b"79" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the relay needs Linux")
def test_while_run_becomes_the_front(tmp_path: Path) -> None:
    """Between two programs it waits, and then reaches the engine."""
    script = """
import os, signal
from gpuprobe.live.engine import front

signal.signal(signal.SIGINT, signal.default_int_handler)
real = os.execve

def execve(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    real(*arguments)

os.execve = execve
front.become(["sleep", "20"], ["/no/such/probe"])
"""
    done = _run(script, tmp_path)

    assert done.returncode == 128 + signal.SIGINT
    assert b"Traceback" not in done.stderr
