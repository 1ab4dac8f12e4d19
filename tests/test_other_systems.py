"""The post-mortem half needs nothing of Linux: shown by hiding it from gpuprobe.

The standard library is loaded first, as it brings its own way for each system; then what only
Linux has is taken from `os`, `select` and `signal`, and gpuprobe may not import the rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

HIDING = """
import builtins, os, select, signal, sys
import click, rich.console, rich.table
import asyncio, concurrent.futures.process, ctypes, getpass, json, logging, multiprocessing
import platform, shutil, socket, sqlite3, subprocess, tarfile, tempfile, threading, zipfile
SYSTEM = sys.argv.pop(1)
HIDDEN = {"fcntl", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog", "pyudev", "pynvml"}
if SYSTEM == "darwin":
    HIDDEN -= {"fcntl", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog"}
else:
    HIDDEN |= {"hyperscan"}
real = builtins.__import__
def importing(name, globals=None, locals=None, fromlist=(), level=0):
    if name.split(".")[0] in HIDDEN and (globals or {}).get("__name__", "").startswith("gpuprobe"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, globals, locals, fromlist, level)
builtins.__import__ = importing
of_linux = "memfd_create pipe2 pidfd_open eventfd sched_getaffinity O_DIRECT posix_fadvise"
of_unix = (
    "O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_DIRECTORY O_NOCTTY getuid geteuid getgid getpgid setsid "
    "uname fork forkpty openpty mkfifo getloadavg statvfs fchmod chown killpg sysconf pread"
)
for name in (of_linux + (" " + of_unix if SYSTEM == "win32" else "")).split():
    if hasattr(os, name):
        delattr(os, name)
del select.epoll
if SYSTEM == "win32":
    del select.poll
    for name in "SIGHUP SIGPIPE SIGUSR1 SIGUSR2 SIGKILL SIGQUIT SIGCHLD SIGWINCH".split():
        delattr(signal, name)
sys.platform = SYSTEM
from gpuprobe.cli import main
main()
"""

LOG = (
    "[ 8000.500001] NVRM: Xid (PCI:0000:5e:00): 79, pid=1, GPU has fallen off the bus.\n"
    "[ 8000.600000] NVRM: GPU 0000:5e:00.0: GPU has fallen off the bus.\n"
)


def elsewhere(system: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run gpuprobe as if this were another system."""
    command = [sys.executable, "-c", HIDING, system, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_a_log_is_judged(system: str, tmp_path: Path) -> None:
    """The verdict and the exit code are those of Linux."""
    log = tmp_path / "kern.log"
    log.write_text(LOG)

    done = elsewhere(system, "diagnose", "-q", "--format", "json", log)

    assert done.returncode == 79, done.stderr
    assert json.loads(done.stdout)["verdicts"][0]["device"]["pci"] == "0000:5e:00.0"


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_a_report_is_made_and_judged_again(system: str, tmp_path: Path) -> None:
    """`report` and its zip work there too, and a recording's door can be opened."""
    log, out = tmp_path / "kern.log", tmp_path / "report.zip"
    log.write_text(LOG)

    made = elsewhere(system, "report", log, "-o", out)
    again = elsewhere(system, "diagnose", "-q", out)

    assert made.returncode == 0, made.stderr
    assert again.returncode == 79, again.stderr


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_help_and_explanations(system: str) -> None:
    """`--help` names every command, and `explain` answers."""
    assert "diagnose" in elsewhere(system, "--help").stdout
    assert elsewhere(system, "explain", "79").returncode == 0
