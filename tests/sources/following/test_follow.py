"""Programs that somebody else started, followed by their log file or their process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from followed import CUDA, Followed, add

from gpuprobe.events import CudaFailed, EngineChanged, ProcessCrashed, SourceChanged
from gpuprobe.reading import Known, Unavailable
from gpuprobe.sources.following.file import FileFollower
from gpuprobe.sources.following.pid import PidFollower


def no_pidfd(pid: int) -> int:
    raise OSError(errno.ENOSYS, "Function not implemented")


# --- files -----------------------------------------------------------------------------------


def test_a_file_is_followed_from_its_end(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """What was there is not given again, and line numbers are those of the file."""
    path = tmp_path / "e.log"
    path.write_text(f"one\n{CUDA}\n")
    seen = follow(FileFollower(path))
    time.sleep(0.3)
    add(path, f"three\n{CUDA}\n")
    seen.until(lambda seen: seen.has(CudaFailed))

    assert seen.lines == [(3, "three"), (4, CUDA)]
    assert [one.origin.line for one in seen.found if isinstance(one, CudaFailed)] == [4]
    assert {one.origin.input for one in seen.found} == {str(path)}


def test_a_file_from_its_start(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """All lines come, numbered from 1, with one that has no end yet when it gets one."""
    path = tmp_path / "e.log"
    path.write_text("one\ntw")
    seen = follow(FileFollower(path, from_start=True))
    add(path, "o\n")
    seen.until(lambda seen: len(seen.lines) == 2)

    assert seen.lines == [(1, "one"), (2, "two")]


def test_a_file_that_appears_later(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """It is waited for, and then read from its begin."""
    path = tmp_path / "later.log"
    source = FileFollower(path)
    assert isinstance(source.available(), Known)
    seen = follow(source)
    time.sleep(0.2)
    path.write_text("first\n")
    seen.until(lambda seen: seen.texts == ["first"])


@pytest.mark.parametrize("how", ["rename", "copytruncate"])
def test_rotation_loses_nothing(how: str, tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """The old file is read to its end, the new one from its begin, with numbers from 1."""
    path = tmp_path / "e.log"
    path.write_text("")
    seen = follow(FileFollower(path))
    time.sleep(0.3)
    add(path, "a somewhat longer line\nb\n")
    if how == "rename":
        path.rename(tmp_path / "e.log.1")
        add(tmp_path / "e.log.1", "late\n")
        path.write_text("c\n")
    else:
        seen.until(lambda seen: len(seen.lines) == 2)
        os.truncate(path, 0)
        add(path, "c\n")
    late = ["late"] if how == "rename" else []
    seen.until(lambda seen: seen.texts == ["a somewhat longer line", "b", *late, "c"])

    assert seen.lines[-1] == (1, "c")


def test_what_is_no_log_file_is_refused(tmp_path: Path) -> None:
    """A pipe and a folder are answered with what to do instead."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        access = FileFollower(path).available()
        assert isinstance(access, Unavailable)
        assert access.hint


def test_a_file_that_is_not_there_yet_is_told(
    tmp_path: Path, follow: Callable[..., Followed]
) -> None:
    """It is waited for, and somebody who mistyped it reads so; that it came is told, too."""
    seen = follow(FileFollower(tmp_path / "later.log"))
    seen.until(lambda seen: seen.has(SourceChanged) and len(seen.found) >= 2)
    (tmp_path / "later.log").write_text("up\n")
    seen.until(lambda seen: seen.texts)

    assert "not there yet" in seen.found[1].origin.text
    assert "can be followed now" in seen.found[2].origin.text


# --- processes -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV])
def test_the_end_of_a_process(number: int, follow: Callable[..., Followed]) -> None:
    """Its end is told at once; how, only where the kernel shows it."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        seen = follow(PidFollower(process.pid))
        time.sleep(0.2)
        assert seen.life == []
        process.send_signal(number)
        seen.until(lambda seen: seen.life)
        (end,) = (one for one in seen.found if isinstance(one, EngineChanged))
    finally:
        process.kill()
        process.wait()

    assert end.what == "stopped"
    assert f"[{process.pid}]" in end.who
    if end.code is None:
        assert "known to its parent alone" in end.origin.text
    else:
        assert end.code == 128 + number  # as a shell has it
        assert seen.has(ProcessCrashed) == (number == signal.SIGSEGV)


def test_a_number_that_was_given_to_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another start time under the same number is the end of the one that was followed."""
    # As where the kernel has no descriptors of processes: /proc is all there is to look at.
    monkeypatch.setattr("os.pidfd_open", no_pidfd, raising=False)
    folder = tmp_path / str(os.getpid())
    folder.mkdir()
    stat = f"{os.getpid()} (a b) c) S " + " ".join(["0"] * 18)
    (folder / "stat").write_text(f"{stat} 111 " + " ".join(["0"] * 31))
    source = PidFollower(os.getpid(), proc=tmp_path)
    seen = Followed(source)
    try:
        (folder / "stat").write_text(f"{stat} 222 " + " ".join(["0"] * 31))
        seen.until(lambda seen: seen.life)
    finally:
        source.stop()

    assert "a b) c[" in seen.found[-1].origin.text


def test_a_process_in_a_container(tmp_path: Path) -> None:
    """Whoever follows it is told what follows its output."""
    folder = tmp_path / str(os.getpid())
    folder.mkdir()
    (folder / "stat").write_text(Path("/proc/self/stat").read_text())
    (folder / "cgroup").write_text(f"0::/system.slice/docker-{'2f' * 32}.scope\n")
    source = PidFollower(os.getpid(), proc=tmp_path)
    seen = Followed(source)
    try:
        seen.until(lambda seen: len(seen.found) > 1)
    finally:
        source.stop()

    assert seen.found[1].origin.text.endswith("(docker): --follow-container 2f2f2f2f2f2f")


def test_a_process_that_is_not_there() -> None:
    """A number that no process has is refused."""
    assert isinstance(PidFollower(2**22 + 1).available(), Unavailable)
