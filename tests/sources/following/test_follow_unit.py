"""Units of systemd, followed by their lines in the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from followed import CUDA, Followed, program

from gpuprobe.events import CudaFailed, EngineChanged, ProcessCrashed, Setting, SourceChanged
from gpuprobe.reading import Unavailable
from gpuprobe.sources.following.unit import UnitFollower


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


MANAGER = {"_PID": "1", "UNIT": "x.service", "INVOCATION_ID": "a" * 32}


def exited(code: str, status: int, command: str = "ExecStart") -> str:
    """What the manager says of a process that did not end as it should."""
    text = f"x.service: Main process exited, code={code}, status={status}/n/a"
    more = {"EXIT_CODE": code, "EXIT_STATUS": str(status), "COMMAND": command}
    return entry(text, "", **MANAGER, **more, MESSAGE_ID="98e322203f7a4ed290d09fe03c09fe15")


def failed(result: str) -> str:
    """What it says of the unit then."""
    text = f"x.service: Failed with result '{result}'."
    identifier = "d9b373ed55a64feb8242e02dbe79a49c"
    return entry(text, "", **MANAGER, UNIT_RESULT=result, MESSAGE_ID=identifier)


@pytest.mark.parametrize(
    ("lines", "code", "crashes"),
    [
        ([exited("exited", 3), failed("exit-code")], 3, []),
        ([exited("dumped", 11), failed("core-dump")], 139, ["SIGSEGV"]),
        ([exited("killed", 15), failed("signal")], 143, []),
        ([exited("killed", 9), failed("signal")], 137, ["SIGKILL"]),
        # It was asked to stop, did not in time, and was killed for it.
        ([exited("killed", 9), failed("timeout")], None, []),
        # ExecStartPost, not the engine.
        ([exited("exited", 3, "ExecStartPost"), failed("exit-code")], None, []),
        ([failed("protocol")], None, []),
    ],
)
def test_how_a_unit_ended(
    lines: list[str],
    code: int | None,
    crashes: list[str],
    tmp_path: Path,
    follow: Callable[..., Followed],
) -> None:
    """Code and signal of its main process by the manager's word, told once, behind its lines."""
    written = "\n".join((entry(CUDA, "a" * 32), *lines))
    journalctl = program(
        tmp_path / "journalctl", f"print({written!r}, flush=True)\ntime.sleep(60)\n"
    )
    seen = follow(UnitFollower("x", journalctl=journalctl))
    seen.until(lambda seen: any(what == "stopped" for what, _ in seen.life))

    assert [one for one in seen.life if one[0] == "stopped"] == [("stopped", code)]
    found = [one for one in seen.found if isinstance(one, ProcessCrashed)]
    assert [one.signal for one in found] == crashes
    assert all(one.setting is Setting.LOG for one in found)
    kinds = [type(one) for one in seen.found]
    assert kinds.index(CudaFailed) < kinds.index(EngineChanged)
    assert [text for _, text in seen.lines] == [
        json.loads(one)["MESSAGE"] for one in written.split("\n")
    ]


def test_a_unit_that_somebody_stops(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """Whatever code it ends with after that, it did not fail."""
    stopping = entry("Stopping x", "", **MANAGER, MESSAGE_ID="de5b426a63be47a7b6ac3eaac82e2f6f")
    lines = [entry("up", "a" * 32), stopping, exited("dumped", 6), failed("core-dump")]
    journalctl = program(
        tmp_path / "journalctl", f"print({chr(10).join(lines)!r}, flush=True)\ntime.sleep(60)\n"
    )
    seen = follow(UnitFollower("x", journalctl=journalctl))
    seen.until(lambda seen: any(what == "stopped" for what, _ in seen.life))

    assert seen.life[-1] == ("stopped", None)
    assert not seen.has(ProcessCrashed)


def test_a_code_belongs_to_one_run(tmp_path: Path, follow: Callable[..., Followed]) -> None:
    """The manager's late word of how an earlier run ended is not held against the next."""
    new = {**MANAGER, "INVOCATION_ID": "b" * 32}
    done = entry("Deactivated", "", **new, MESSAGE_ID="7ad2d189f7e94e70a38c781354912448")
    lines = [entry("one", "a" * 32), entry("two", "b" * 32), exited("exited", 3), done]
    journalctl = program(
        tmp_path / "journalctl", f"print({chr(10).join(lines)!r}, flush=True)\ntime.sleep(60)\n"
    )
    seen = follow(UnitFollower("x", journalctl=journalctl))
    seen.until(lambda seen: any(what == "stopped" for what, _ in seen.life))

    assert seen.life == [("started", None), ("stopped", None)]


@pytest.mark.parametrize(
    ("uid", "asked"),
    [
        (1000, ["--user-unit=x"]),
        # journalctl would give root's own alone.
        (0, ["_SYSTEMD_USER_UNIT=x.service", "+", "USER_UNIT=x.service"]),
    ],
)
def test_a_users_own_unit(
    uid: int,
    asked: list[str],
    tmp_path: Path,
    follow: Callable[..., Followed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One's own is followed, and by root that of any user."""
    monkeypatch.setattr("os.getuid", lambda: uid)
    journalctl = program(
        tmp_path / "journalctl",
        f"if '--follow' not in sys.argv: sys.exit()\n"
        f"json.dump(sys.argv[1:], open({str(tmp_path / 'argv')!r}, 'w'))\n"
        f"print({entry('up', 'a' * 32)!r}, flush=True)\ntime.sleep(60)\n",
    )
    seen = follow(UnitFollower("x", user=True, journalctl=journalctl))
    seen.until(lambda seen: "up" in seen.texts)

    argv = json.loads((tmp_path / "argv").read_text())
    assert argv[1 : 1 + len(asked)] == asked


def test_a_users_unit_where_one_of_the_system_is_asked_for(
    tmp_path: Path, follow: Callable[..., Followed]
) -> None:
    """The option that would find it is named."""
    journalctl = program(
        tmp_path / "journalctl",
        f"if '--follow' in sys.argv: time.sleep(60)\n"
        f"if '--unit=x' not in sys.argv: print({entry('up', 'a' * 32)!r}, flush=True)\n",
    )
    seen = follow(UnitFollower("x", journalctl=journalctl))
    seen.until(lambda seen: len(seen.found) > 1)

    assert seen.found[-1].origin.text.endswith("a user's own units: --follow-user-unit x")


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


def test_a_journalctl_that_ends_is_started_again(
    tmp_path: Path, follow: Callable[..., Followed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on behind the last entry that was read, and the gap is said."""
    monkeypatch.setattr("gpuprobe.sources.following.unit.AGAIN_S", 0.05)
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
