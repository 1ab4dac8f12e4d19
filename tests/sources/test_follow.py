"""Programs that somebody else started, followed: files, units, containers, processes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuprobe.events import (
    CudaFailed,
    EngineChanged,
    Event,
    OutputWritten,
    ProcessCrashed,
    SourceChanged,
)
from gpuprobe.reading import Known, Unavailable
from gpuprobe.sources import follow_container, following
from gpuprobe.sources.follow_container import ContainerFollower
from gpuprobe.sources.follow_file import FileFollower
from gpuprobe.sources.follow_pid import PidFollower
from gpuprobe.sources.follow_unit import UnitFollower
from gpuprobe.sources.following import Follower

CUDA = "RuntimeError: CUDA error: unspecified launch failure"


def no_pidfd(pid: int) -> int:
    raise OSError(errno.ENOSYS, "Function not implemented")


class Followed:
    """A started follower and all that it gave."""

    def __init__(self, source: Follower) -> None:
        self.source = source
        self.found: list[Event] = []
        source.start()

    def until(self, enough: Callable[[Followed], object], limit_s: float = 10.0) -> None:
        end = time.monotonic() + limit_s
        while not enough(self):
            assert time.monotonic() < end, self.found
            time.sleep(0.01)
            self.found.extend(self.source.poll())

    @property
    def lines(self) -> list[tuple[int, str]]:
        return [line for one in self.found if isinstance(one, OutputWritten) for line in one.lines]

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.lines]

    @property
    def life(self) -> list[tuple[str, int | None]]:
        return [(one.what, one.code) for one in self.found if isinstance(one, EngineChanged)]

    def has(self, kind: type[Event]) -> bool:
        return any(isinstance(one, kind) for one in self.found)


@pytest.fixture
def follow() -> Iterator[Callable[[Follower], Followed]]:
    started: list[Followed] = []

    def begin(source: Follower) -> Followed:
        one = Followed(source)
        started.append(one)
        one.until(lambda seen: seen.has(SourceChanged))
        return one

    yield begin
    for one in started:
        one.source.stop()


def add(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as out:
        out.write(text)


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
        assert end.code == number
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


def test_a_process_that_is_not_there() -> None:
    """A number that no process has is refused."""
    assert isinstance(PidFollower(2**22 + 1).available(), Unavailable)


# --- units -----------------------------------------------------------------------------------


def program(path: Path, script: str) -> str:
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{script}")
    path.chmod(0o755)
    return str(path)


def entry(message: str, invocation: str, **more: str) -> str:
    fields = {
        "MESSAGE": message,
        "__REALTIME_TIMESTAMP": "1790000000000000",
        "__CURSOR": f"s=1;i={message[:8]}",
        "_SYSTEMD_INVOCATION_ID": invocation,
        "SYSLOG_IDENTIFIER": "vllm",
        "_PID": "77",
    }
    return json.dumps({**fields, **more})


def test_a_units_lines_and_its_restart(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """Lines with the journal's time and cursor; a stop and a new invocation part two runs."""
    manager = {"_PID": "1", "UNIT": "x.service", "_SYSTEMD_INVOCATION_ID": ""}
    lines = [
        entry("ready", "a" * 32),
        entry(CUDA, "a" * 32),
        entry(
            "x.service: Deactivated successfully.",
            "",
            **manager,
            INVOCATION_ID="a" * 32,
            MESSAGE_ID="7ad2d189f7e94e70a38c781354912448",
        ),
        entry("again", "b" * 32),
        "-- no entries --",
    ]
    journalctl = program(
        tmp_path / "journalctl",
        f"if '--follow' not in sys.argv: sys.exit(print({entry('up', 'a' * 32)!r}))\n"
        f"json.dump(sys.argv[1:], open({str(tmp_path / 'argv')!r}, 'w'))\n"
        f"print({chr(10).join(lines)!r}, flush=True)\ntime.sleep(60)\n",
    )
    seen = follow(UnitFollower("x.service", journalctl=journalctl))
    seen.until(lambda seen: "again" in seen.texts and seen.has(CudaFailed))

    argv = json.loads((tmp_path / "argv").read_text())
    assert argv[:3] == ["--follow", "--unit=x.service", "--lines=0"]
    told = [one for one in seen.found if isinstance(one, (CudaFailed, EngineChanged))]
    assert [getattr(one, "what", "failed") for one in told] == ["failed", "stopped", "started"]
    assert seen.lines[-1] == (1, "again")
    (cuda,) = (one for one in seen.found if isinstance(one, CudaFailed))
    assert cuda.source == "vllm[77]"
    assert cuda.origin.ref == f"s=1;i={CUDA[:8]}"
    assert cuda.stamp is not None
    assert cuda.stamp.wall is not None
    assert cuda.stamp.wall.timestamp() == 1_790_000_000


def test_the_first_start_of_a_unit(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """A unit that starts while it is followed is told; one that runs already is not."""
    start = entry("Starting", "", _PID="1", UNIT="x", INVOCATION_ID="a" * 32)
    started = {**json.loads(start), "MESSAGE_ID": "7d4958e842da4a758f6c1cdc7b36dcc5"}
    for first, expected in ((json.dumps(started), ["started"]), (entry("up", "a" * 32), [])):
        lines = "\n".join((first, entry("ready", "a" * 32)))
        journalctl = program(
            tmp_path / "journalctl", f"print({lines!r}, flush=True)\ntime.sleep(60)\n"
        )
        seen = follow(UnitFollower("x", journalctl=journalctl))
        seen.until(lambda seen: "ready" in seen.texts)

        assert [what for what, _ in seen.life] == expected


def test_a_program_that_is_faster_than_its_manager(
    tmp_path: Path, follow: Callable[..., Followed]
) -> None:
    """Its first line can come before the word that the unit was started; an older run tells."""
    journalctl = program(
        tmp_path / "journalctl",
        f"""
place = {str(tmp_path)!r} + "/"
if "--follow" not in sys.argv:
    print({entry("up", "a" * 32)!r}, flush=True)
    open(place + "looked", "w").close()
    sys.exit()
while not os.path.exists(place + "go"):
    time.sleep(0.02)
print({entry("ready", "b" * 32)!r}, flush=True)
time.sleep(60)
""",
    )
    source = UnitFollower("x", journalctl=journalctl)
    seen = follow(source)
    seen.until(lambda _: (tmp_path / "looked").exists())
    time.sleep(0.5)
    (tmp_path / "go").touch()
    seen.until(lambda seen: "ready" in seen.texts)

    assert [what for what, _ in seen.life] == ["started"]


def test_a_late_word_of_an_earlier_run(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """The manager's line about the end of a run, behind a line of the next: no start and no end."""
    failed = entry(
        "x.service: Failed with result 'exit-code'.",
        "",
        _PID="1",
        UNIT="x.service",
        INVOCATION_ID="a" * 32,
        MESSAGE_ID="d9b373ed55a64feb8242e02dbe79a49c",
    )
    lines = [entry("one", "a" * 32), entry("two", "b" * 32), failed, entry("three", "b" * 32)]
    journalctl = program(
        tmp_path / "journalctl", f"print({chr(10).join(lines)!r}, flush=True)\ntime.sleep(60)\n"
    )
    seen = follow(UnitFollower("x", journalctl=journalctl))
    seen.until(lambda seen: "three" in seen.texts)

    assert [what for what, _ in seen.life] == ["started"]


def test_without_journalctl_there_is_a_reason() -> None:
    """A machine without a journal is told what else can be followed."""
    access = UnitFollower("x", journalctl=None).available()

    assert isinstance(access, Unavailable)
    assert "--follow-file" in access.hint


def test_a_unit_that_nobody_knows_is_told(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """A name with a typing error is said at once, and one with lines in the journal is not."""
    for word, told in (("", True), (f"print({entry('up', 'a' * 32)!r}, flush=True)\n", False)):
        journalctl = program(
            tmp_path / "journalctl",
            f"if '--follow' not in sys.argv:\n    {word or 'pass'}\n    sys.exit(0)\n"
            "time.sleep(0.5)\nprint(json.dumps({'MESSAGE': 'up'}), flush=True)\ntime.sleep(60)\n",
        )
        seen = follow(UnitFollower("x", journalctl=journalctl))
        end = time.monotonic() + 1.5
        seen.until(lambda seen, end=end: time.monotonic() > end)

        gaps = [one for one in seen.found if isinstance(one, SourceChanged) and one.what == "gap"]
        assert [one.origin.text.startswith("no line of x") for one in gaps] == [True] * told


def test_a_file_that_is_not_there_yet_is_told(
    tmp_path: Path, follow: Callable[..., Followed]
) -> None:
    """It is waited for, and somebody who mistyped it reads so."""
    seen = follow(FileFollower(tmp_path / "later.log"))
    seen.until(lambda seen: seen.has(SourceChanged) and len(seen.found) >= 2)

    assert "not there yet" in seen.found[1].origin.text


def test_a_journalctl_that_ends_is_started_again(
    tmp_path: Path, follow: Callable[..., Followed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on behind the last entry that was read, and the gap is said."""
    monkeypatch.setattr("gpuprobe.sources.follow_unit.AGAIN_S", 0.05)
    journalctl = program(
        tmp_path / "journalctl",
        "if '--follow' not in sys.argv: sys.exit(0)\n"
        f"log = open({str(tmp_path / 'argv')!r}, 'a'); print(sys.argv[3], file=log, flush=True)\n"
        f"print({entry('one', 'a' * 32)!r}, flush=True)\n",
    )
    seen = follow(UnitFollower("x", journalctl=journalctl))
    seen.until(lambda seen: len(seen.texts) >= 2)

    assert (tmp_path / "argv").read_text().split("\n")[:2] == [
        "--lines=0",
        "--after-cursor=s=1;i=one",
    ]
    assert any(isinstance(one, SourceChanged) and one.what == "gap" for one in seen.found)


# --- containers ------------------------------------------------------------------------------


def state(began: str, *, running: bool = True, code: int = 0, restarting: bool = False) -> str:
    """What a runtime says of a container, as Docker and Podman both do."""
    return json.dumps(
        {
            "Running": running,
            "Restarting": restarting,
            "OOMKilled": False,
            "ExitCode": code,
            "StartedAt": began,
        }
    )


class Runtime:
    """A command line as Docker's: it says `state`, and gives `log` from where it is asked for.

    `logs --follow` ends when `going` is gone.
    """

    def __init__(self, folder: Path, name: str = "docker") -> None:
        self.folder = folder
        self.path = program(
            folder / name,
            f"""
place = {str(folder)!r} + "/"
if sys.argv[1] == "inspect":
    assert "--format={{{{json .State}}}}" in sys.argv, sys.argv
    if not os.path.exists(place + "state"):
        sys.exit("Error: No such container: web")
    print(open(place + "state").read())
    sys.exit()
asked = [one for one in sys.argv if one.startswith(("--since=", "--tail="))]
open(place + "asked", "a").write(asked[0] + chr(10))
since = asked[0].removeprefix("--since=")
said = 0
while True:
    going = os.path.exists(place + "going")
    lines = open(place + "log").read().splitlines() if os.path.exists(place + "log") else []
    for line in lines[said:]:
        if since == "--tail=0" or line.split()[0] >= since or not line[0].isdigit():
            print(line, flush=True)
    said = len(lines)
    if not going:
        sys.exit(0)
    time.sleep(0.02)
""",
        )

    def say(self, text: str | None) -> None:
        """Set what `inspect` answers; None for no such container."""
        if text is None:
            (self.folder / "state").unlink()
            return
        (self.folder / "new").write_text(text)
        (self.folder / "new").rename(self.folder / "state")

    def log(self, *lines: str) -> None:
        add(self.folder / "log", "".join(f"{line}\n" for line in lines))

    def go(self) -> None:
        (self.folder / "going").touch()

    def end(self) -> None:
        (self.folder / "going").unlink()

    @property
    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(follow_container, "AGAIN_S", 0.05)
    return Runtime(tmp_path)


OLD, LATER, LATEST = (f"{year}-09-22T14:44:58.123456789Z" for year in (2020, 2120, 2121))


def test_a_container_through_its_restart(docker: Runtime, follow: Callable[..., Followed]) -> None:
    """Its lines with the runtime's time, its end with the code, its next run from the last line.

    Docker stamps a run's first line before the time at which it says that the run began.
    """
    docker.say(state(OLD))
    docker.go()
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    seen.until(lambda _: docker.asked)
    docker.log(f"2120-09-22T14:44:58.000000001Z {CUDA}")
    seen.until(lambda seen: seen.has(CudaFailed))
    docker.say(state(OLD, running=False, code=139))
    docker.end()
    seen.until(lambda seen: seen.life)
    docker.log("2120-09-22T14:44:58.000000002Z second run")
    docker.go()
    docker.say(state(LATER))
    seen.until(lambda seen: "second run" in seen.texts)

    assert docker.asked == ["--tail=0", "--since=2120-09-22T14:44:58.000000001Z"]
    assert seen.life == [("stopped", 139), ("started", None)]
    assert [one.signal for one in seen.found if isinstance(one, ProcessCrashed)] == ["SIGSEGV"]
    (cuda,) = (one for one in seen.found if isinstance(one, CudaFailed))
    assert cuda.origin.input == "container web"
    assert cuda.stamp is not None
    assert cuda.stamp.wall is not None
    assert cuda.stamp.wall.isoformat().startswith("2120-09-22T14:44:58")
    assert seen.lines == [(1, CUDA), (1, "second run")]


def test_a_container_that_ran_between_two_looks(
    docker: Runtime, follow: Callable[..., Followed]
) -> None:
    """A run that is over when it is found is told whole: start, lines, end."""
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    docker.log(f"{LATER} {CUDA}")
    docker.say(state(LATER, running=False, code=1))
    seen.until(lambda seen: len(seen.life) == 2)

    assert seen.life == [("started", None), ("stopped", 1)]
    assert seen.texts == [CUDA]


def test_a_container_that_its_runtime_starts_again(
    docker: Runtime, follow: Callable[..., Followed]
) -> None:
    """One that waits for its restart has ended; what was read of the next run is read once."""
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    docker.go()
    docker.say(state(LATER))
    docker.log(f"{LATER} one", f"{LATER} of the next run")
    seen.until(lambda seen: "of the next run" in seen.texts)
    docker.say(state(LATER, code=1, restarting=True))
    docker.end()
    seen.until(lambda seen: ("stopped", 1) in seen.life)
    docker.go()
    docker.log(f"{LATEST} last")
    docker.say(state(LATEST))
    seen.until(lambda seen: "last" in seen.texts)
    # Back at once, before anybody saw it down.
    docker.say(state("2122-01-01T00:00:00Z"))
    docker.end()
    seen.until(lambda seen: len(seen.life) >= 5)

    assert seen.life[:5] == [
        ("started", None),
        ("stopped", 1),
        ("started", None),
        ("stopped", None),
        ("started", None),
    ]
    assert seen.texts == ["one", "of the next run", "last"]


def test_a_container_that_is_removed(docker: Runtime, follow: Callable[..., Followed]) -> None:
    """It has ended, too; a runtime that does not answer for a while is a gap and no end."""
    docker.say(state(OLD))
    docker.go()
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    seen.until(lambda _: docker.asked)
    docker.say("no JSON")
    docker.end()
    seen.until(lambda seen: sum(isinstance(one, SourceChanged) for one in seen.found) > 1)
    assert seen.life == []
    docker.say(None)
    seen.until(lambda seen: seen.life)

    assert seen.life == [("stopped", None)]
    assert any("was removed" in one.origin.text for one in seen.found)


def test_a_log_that_cannot_be_read(docker: Runtime, follow: Callable[..., Followed]) -> None:
    """What the runtime itself says is no line of the engine, and is told once; the end is seen."""
    docker.say(state(OLD))
    docker.log("Error response from daemon: configured logging driver does not support reading")
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    seen.until(lambda seen: sum(isinstance(one, SourceChanged) for one in seen.found) > 2)
    time.sleep(0.5)
    docker.say(state(OLD, running=False, code=3))
    seen.until(lambda seen: seen.life)

    gaps = [one for one in seen.found if isinstance(one, SourceChanged) and one.what == "gap"]
    assert ["does not support" in one.origin.text for one in gaps] == [True, False]
    assert (seen.life, seen.texts) == ([("stopped", 3)], [])


def test_the_runtime_that_knows_the_container_is_used(
    docker: Runtime, tmp_path: Path, follow: Callable[..., Followed]
) -> None:
    """Docker's command is there and has no such container, Podman runs it."""
    (tmp_path / "podman").mkdir()
    podman = Runtime(tmp_path / "podman", "podman")
    seen = follow(ContainerFollower("web", programs=[docker.path, podman.path]))
    podman.go()
    podman.log(f"{LATER} ready")
    podman.say(state(LATER))
    seen.until(lambda seen: "ready" in seen.texts)
    podman.end()
    podman.say(state(LATER, running=False, code=1))
    seen.until(lambda seen: len(seen.life) == 2)

    assert seen.life == [("started", None), ("stopped", 1)]


def test_what_the_runtime_complains_of_is_said_once(
    docker: Runtime, follow: Callable[..., Followed]
) -> None:
    """A container that is not there yet is a gap with the runtime's own words, not a failure."""
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    seen.until(lambda seen: sum(isinstance(one, SourceChanged) for one in seen.found) > 1)
    time.sleep(0.5)
    seen.found.extend(seen.source.poll())

    gaps = [one for one in seen.found if isinstance(one, SourceChanged) and one.what == "gap"]
    assert ["No such container" in one.origin.text for one in gaps] == [True]


def test_without_a_runtime_there_is_a_reason() -> None:
    """Neither docker nor podman: what else can be followed."""
    access = ContainerFollower("web", programs=["no-such-program"]).available()

    assert isinstance(access, Unavailable)
    assert following.find_program("no-such-program") is None
