"""Containers, followed by the command line of their runtime."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from followed import CUDA, Followed, add, program

from gpuprobe.events import CudaFailed, OomKilled, ProcessCrashed, SourceChanged
from gpuprobe.reading import Unavailable
from gpuprobe.sources.following import base as following
from gpuprobe.sources.following import container as follow_container
from gpuprobe.sources.following.container import ContainerFollower


def state(
    began: str,
    *,
    running: bool = True,
    code: int = 0,
    restarting: bool = False,
    oom: bool = False,
) -> str:
    """What a runtime says of a container, as Docker and Podman both do."""
    return json.dumps(
        {
            "Running": running,
            "Restarting": restarting,
            "OOMKilled": oom,
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
if sys.argv[1] == "events":
    assert sys.argv[2].startswith("--since=") and sys.argv[3].startswith("--until="), sys.argv
    if os.path.exists(place + "events"):
        print(open(place + "events").read())
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


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ("container kill 41e6 (image=bb, name=web, signal=9)", None),
        ("container stop 41e6 (image=bb, name=web)", None),
        # To read its settings again, say.
        ("container kill 41e6 (image=bb, name=web, signal=1)", 139),
        ("container die 41e6 (exitCode=139, image=bb, name=web)", 139),
    ],
)
def test_a_container_that_somebody_stops(
    event: str, code: int | None, docker: Runtime, follow: Callable[..., Followed]
) -> None:
    """What the runtime was told to end did not fail, whatever its code."""
    (docker.folder / "events").write_text(f"2026-12-01T14:37:03.525563795Z {event}\n")
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    docker.say(state(LATER, running=False, code=139))
    seen.until(lambda seen: len(seen.life) == 2)

    assert seen.life[-1] == ("stopped", code)
    assert seen.has(ProcessCrashed) == (code is not None)
    assert ("somebody had it stopped" in seen.found[-1].origin.text) == (code is None)


def test_a_container_that_is_killed_for_memory(
    docker: Runtime, follow: Callable[..., Followed]
) -> None:
    """The runtime says so beside the exit code, and so does an event."""
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    docker.say(state(LATER, running=False, code=137, oom=True))
    seen.until(lambda seen: len(seen.life) == 2)

    assert seen.life == [("started", None), ("stopped", 137)]
    (killed,) = (one for one in seen.found if isinstance(one, OomKilled))
    assert (killed.process, killed.cgroup) == ("web", True)


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


def test_a_runtime_that_is_restarted(docker: Runtime, follow: Callable[..., Followed]) -> None:
    """It does not answer for a while and the container runs on: away and back are told each time."""
    docker.say(state(OLD))
    docker.go()
    seen = follow(ContainerFollower("web", programs=[docker.path]))
    seen.until(lambda _: docker.asked)

    def told() -> list[str]:
        return [one.what for one in seen.found if isinstance(one, SourceChanged)]

    for times in (1, 2):
        docker.say("no JSON")
        docker.end()
        seen.until(lambda _, times=times: told().count("gap") == times)
        docker.go()
        docker.say(state(OLD))
        seen.until(lambda _, times=times: told().count("started") == 1 + times)
    docker.log(f"{LATER} goes on")
    seen.until(lambda seen: "goes on" in seen.texts)

    assert seen.life == []
    assert told() == ["started", *["gap", "started"] * 2]


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
