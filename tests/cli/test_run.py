"""`gpuprobe run` as a program: an engine on a scripted driver and a machine in a folder."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuprobe.cli import main
from gpuprobe.live.engine.process import descendants
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from gpuprobe.testing.sysfs import FakeSysfs
from tests.cli.run_bench import RUN, running
from tests.live.nvml_bench import ONE, TWO, wait_until
from tests.live.session_bench import machine

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


@pytest.fixture
def tree(tmp_path: Path) -> FakeSysfs:
    return machine(tmp_path)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    library = FakeNvml(tmp_path, [ONE, TWO])
    library.set(power_mw=210_000, power_limit_mw=400_000, temp_c=61)
    yield library
    library.heal()


# --- losses ----------------------------------------------------------------------------------


@needs_compiler
def test_a_loss_ends_with_79(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """The device goes and the engine dies of its CUDA error: verdict in a second, code 79."""
    with running(tmp_path, "cuda", "--device", str(ONE), fake=fake, tree=tree) as run:
        run.until_ready(fake)
        fake.lose(ONE)
        run.go()
        took = run.verdict_after_s()
        code = run.end()

    assert took < 2.0
    assert code == 79
    assert f"[confirmed] The driver lost GPU {ONE}" in run.words
    assert "CUDA error" in run.words.partition("gpuprobe: [")[2]
    assert "  proof: nvml" in run.words
    assert f"GPU {ONE} (named with --device)" in run.words
    assert f"recording: {run.recordings[0]}" in run.words
    assert run.output == "ready\n"


@pytest.mark.slow
@needs_compiler
def test_a_hanging_engine_is_told_of_at_once(
    tmp_path: Path, tree: FakeSysfs, fake: FakeNvml
) -> None:
    """It does not die: the verdict comes as fast, and it is left alone."""
    with running(tmp_path, "hang", "--device", str(ONE), fake=fake, tree=tree) as run:
        run.until_ready(fake)
        run.go()
        assert wait_until(lambda: "waiting for the GPU" in run.output)
        fake.lose(ONE)
        run.began = time.monotonic()
        took = run.verdict_after_s()
        time.sleep(0.5)
        alive = run.process.poll() is None

    assert took < 2.0
    assert alive
    assert "still running" in run.words
    assert run.words.count("gpuprobe: [") == 1


@pytest.mark.slow
@needs_compiler
def test_stop_on_loss_ends_it(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """It ignores SIGTERM: SIGKILL half a second later, and code 79."""
    options = ("--device", str(ONE), "--stop-on-loss", "500ms")
    with running(tmp_path, "stubborn", *options, fake=fake, tree=tree) as run:
        run.until_ready(fake)
        run.go()
        fake.lose(ONE)
        code = run.end()

    assert code == 79
    assert "SIGTERM to the engine, and SIGKILL in 0.5 s" in run.words
    assert run.words.count("gpuprobe: [") == 1


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("options", [(), ("--keep-exit-code",)])
def test_an_engine_that_the_kernel_holds_is_not_waited_for(
    tmp_path: Path, tree: FakeSysfs, fake: FakeNvml, options: tuple[str, ...]
) -> None:
    """After the loss it hangs in state D: named, and 79; not where its own code is wanted."""
    with running(tmp_path, "held", "--device", str(ONE), *options, fake=fake, tree=tree) as run:
        run.until_ready(fake)
        run.go()
        assert wait_until(lambda: run.output.endswith("\n") and run.output != "ready\n")
        engine = int(run.output.split()[1])
        try:
            fake.lose(ONE)
            run.verdict_after_s()
            left = wait_until(lambda: run.process.poll() is not None, 10.0)
        finally:
            for pid in (engine, *descendants(engine)):
                os.kill(pid, signal.SIGKILL)

    named = f"process {engine} is held in the kernel (state D"
    assert left is not bool(options)
    assert (named in run.words) is not bool(options)
    assert run.process.returncode == (79 if not options else 128 + signal.SIGKILL)


@pytest.mark.slow
@needs_compiler
def test_a_hanging_driver_changes_nothing(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """Every NVML call hangs when the device goes: sysfs has the proof, in time, code 79."""
    with running(tmp_path, "cuda", "--device", str(ONE), fake=fake, tree=tree) as run:
        run.until_ready(fake)
        fake.hang()
        tree.lose(ONE)
        run.go()
        took = run.verdict_after_s()
        code = run.end()

    assert took < 2.0
    assert code == 79
    assert "config space reads all ones" in run.words


@pytest.mark.slow
@needs_compiler
def test_only_the_right_one_is_blamed(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """Two engines on two GPUs, one GPU lost: 79 for its engine, their own code for the other."""
    with (
        running(tmp_path, "cuda", "--device", str(ONE), fake=fake, tree=tree, name="first") as one,
        running(tmp_path, "4", "--device", str(TWO), fake=fake, tree=tree, name="second") as two,
    ):
        one.until_ready(fake)
        two.until_ready(fake)
        time.sleep(1.0)
        fake.lose(ONE)
        one.go()
        first = one.end()
        time.sleep(0.5)
        two.go()
        second = two.end()

    assert (first, second) == (79, 4)
    assert "elsewhere: [confirmed]" in two.words
    assert f"GPU {TWO} (named with --device)" in two.words
    assert "elsewhere" not in one.words


@pytest.mark.slow
@needs_compiler
def test_the_gpu_is_the_one_its_process_is_listed_on(
    tmp_path: Path, tree: FakeSysfs, fake: FakeNvml
) -> None:
    """Nothing named: NVML lists the engine's process on one of two GPUs; the other one is lost."""
    with running(tmp_path, "5", fake=fake, tree=tree) as run:
        run.until_ready(fake)
        (engine,) = [
            pid
            for pid in descendants(run.process.pid)
            if b"trigger" in Path(f"/proc/{pid}/cmdline").read_bytes()
            and b"engine.py\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
            and b"run_probe" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        fake.set(TWO, process=engine)
        time.sleep(2.5)
        fake.lose(ONE)
        time.sleep(1.0)
        run.go()
        code = run.end()

    assert code == 5
    assert f"GPU {TWO} (NVML listed its processes there)" in run.words


@pytest.mark.slow
@needs_compiler
def test_the_code_can_be_kept(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """--keep-exit-code: the engine's own code, the same verdict."""
    options = ("--device", str(ONE), "--keep-exit-code", "--quiet")
    with running(tmp_path, "cuda", *options, fake=fake, tree=tree) as run:
        run.until_ready(fake)
        fake.lose(ONE)
        run.go()
        code = run.end()

    assert code == 1
    said = [line for line in run.words.splitlines() if "CUDA error: " not in line]
    assert len(said) == 1
    assert said[0].startswith("gpuprobe: [confirmed]")


@pytest.mark.slow
@needs_compiler
def test_a_command_is_started_on_a_loss(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """No shell, three variables, once; one that hangs does not hold the verdict."""
    script = tmp_path / "on loss.sh"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$1|$GPUPROBE_DEVICE|$GPUPROBE_RECORDING|$GPUPROBE_VERDICT" >>{tmp_path}/told\n'
        "sleep 2\n"
    )
    script.chmod(0o755)
    options = ("--device", str(ONE), "--on-loss", f"'{script}' $HOME")
    with running(tmp_path, "cuda", *options, fake=fake, tree=tree) as run:
        run.until_ready(fake)
        fake.lose(ONE)
        run.go()
        took = run.verdict_after_s()
        code = run.end()

    (line,) = (tmp_path / "told").read_text().splitlines()
    first, device, recording, verdict = line.split("|")
    assert code == 79
    assert took < 2.0
    assert (first, device, recording) == ("$HOME", str(ONE), str(run.recordings[0]))
    assert verdict.startswith("The driver lost")


@pytest.mark.slow
@needs_compiler
def test_a_command_that_floods_holds_nothing_up(
    tmp_path: Path, tree: FakeSysfs, fake: FakeNvml
) -> None:
    """The engine gets its signal and ends, the verdict is read, and the code is the loss'."""
    options = ("--device", str(ONE), "--on-loss", "timeout --signal=KILL 6 yes")
    with running(tmp_path, "hang", *options, fake=fake, tree=tree) as run:
        run.until_ready(fake)
        fake.lose(ONE)
        run.go()
        took = run.verdict_after_s()
        assert wait_until(lambda: "left out" in run.words)
        run.process.send_signal(signal.SIGTERM)
        run.began = time.monotonic()
        ended = run.verdict_after_s("the engine has ended by SIGTERM")
        code = run.end()

    assert took < 2.0
    assert ended < 2.0
    assert code == 79
    assert "--on-loss timeout: ended with signal 9" in run.words
    assert len(run.words) < 100_000


@pytest.mark.slow
@needs_compiler
def test_a_command_that_is_gone_is_told(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """It was there at the start: the verdict and the code stay what they are."""
    script = tmp_path / "page"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    options = ("--device", str(ONE), "--on-loss", str(script))
    with running(tmp_path, "cuda", *options, fake=fake, tree=tree) as run:
        run.until_ready(fake)
        script.unlink()
        fake.lose(ONE)
        run.go()
        run.verdict_after_s()
        code = run.end()

    assert code == 79
    assert f"--on-loss {script}: No such file or directory" in run.words


@pytest.mark.slow
def test_a_reader_that_sleeps_keeps_no_signal_from_the_engine(tmp_path: Path) -> None:
    """Nobody reads stderr and its pipe is full: the engine is told all the same, and ends."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(write, b"x" * 4096):
            pass
    os.set_blocking(write, True)
    engine = (
        "import signal, sys, time, pathlib\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "def end(*_):\n    (place / 'told').touch()\n    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n(place / 'ready').touch()\n"
        "print('ERROR Worker proc VllmWorker-1 died unexpectedly, shutting down executor.')\n"
        "sys.stdout.flush()\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [*RUN, "--no-nvml", "--no-record", "--", sys.executable, "-c", engine, str(tmp_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=write,
    )
    os.close(write)
    try:
        assert wait_until(lambda: (tmp_path / "ready").exists(), 20.0)
        time.sleep(4.0)  # the verdict is on its way by then
        process.send_signal(signal.SIGTERM)
        told = wait_until(lambda: (tmp_path / "told").exists())
        words = os.read(read, 1 << 20)
        while b"gpuprobe: [" not in words and (more := os.read(read, 1 << 16)):
            words += more
    finally:
        process.kill()
        process.wait()
        os.close(read)

    assert told
    assert b"gpuprobe: [" in words


# --- other ends ------------------------------------------------------------------------------


def test_a_clean_run_says_nothing(tmp_path: Path, tree: FakeSysfs) -> None:
    """Exit code 0, nothing on stderr, one recording."""
    with running(tmp_path, "0", "--no-nvml", tree=tree) as run:
        run.until_ready(None)
        run.go()
        code = run.end()

    assert code == 0
    assert run.words == ""
    assert run.output == "ready\n"
    assert len(run.recordings) == 1
    assert stat.S_IMODE(run.recordings[0].stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("3", 3, "exit code 3"),
        pytest.param("1", 1, "exit code 1", marks=pytest.mark.slow),
        pytest.param("signal11", 139, "SIGSEGV", marks=pytest.mark.slow),
        pytest.param("cuda", 1, "CUDA 719", marks=pytest.mark.slow),
    ],
)
def test_the_engines_own_code(
    tmp_path: Path, tree: FakeSysfs, how: str, code: int, words: str
) -> None:
    """A healthy GPU: the engine's own code, a verdict that is no loss, and never 79."""
    with running(tmp_path, how, "--no-nvml", tree=tree) as run:
        run.until_ready(None)
        run.go()
        got = run.end()

    assert got == code
    assert words in run.words
    assert "left the bus:" not in run.words


def test_a_signal_from_the_user_is_no_crash(tmp_path: Path, tree: FakeSysfs) -> None:
    """SIGTERM is passed on: 143, and no verdict."""
    with running(tmp_path, "hang", "--no-nvml", tree=tree) as run:
        run.until_ready(None)
        time.sleep(1.0)
        run.process.send_signal(signal.SIGTERM)
        code = run.end()

    assert code == 143
    assert run.words == ""


@pytest.mark.slow
def test_a_workers_death_is_told_while_the_engine_lives(tmp_path: Path, tree: FakeSysfs) -> None:
    """The log says that a worker died; the engine goes on and is left alone."""
    with running(tmp_path, "worker", "--no-nvml", tree=tree) as run:
        run.until_ready(None)
        time.sleep(1.0)
        run.go()
        took = run.verdict_after_s()
        alive = run.process.poll() is None

    assert took < 2.5
    assert alive
    assert "VllmWorker-1 died unexpectedly" in run.words


# --- recording -------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written(tmp_path: Path, tree: FakeSysfs) -> None:
    """One message, and the engine goes on."""
    blocked = tmp_path / "file"
    blocked.touch()
    with running(tmp_path, "0", "--no-nvml", "--record", str(blocked / "x"), tree=tree) as run:
        run.until_ready(None)
        assert wait_until(lambda: "nothing is recorded" in run.words)
        run.go()
        code = run.end()

    assert code == 0
    assert len(run.words.splitlines()) == 1


@pytest.mark.slow
def test_no_record_makes_no_file(tmp_path: Path, tree: FakeSysfs) -> None:
    """--no-record: no file, and no word of one in the verdict."""
    with running(tmp_path, "3", "--no-nvml", "--no-record", tree=tree) as run:
        run.until_ready(None)
        run.go()
        run.end()

    assert run.recordings == []
    assert "recording:" not in run.words
    assert "exit code 3" in run.words


# --- the command line ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--stop-on-loss", "soon", "--", "true"],
        ["--on-loss", "'", "--", "true"],
        ["--record", "x", "--no-record", "--", "true"],
        ["--device", "gpu0", "--", "true"],
        [],
    ],
)
def test_mistakes_are_named(arguments: list[str]) -> None:
    """Usage errors end with 2 and start nothing."""
    done = CliRunner().invoke(main, ["run", *arguments])

    assert done.exit_code == 2


def test_what_cannot_be_run_is_as_in_a_shell(tmp_path: Path) -> None:
    """127 for what is not there, 126 for what is no program."""
    env = {**os.environ, "GPUPROBE_DIR": str(tmp_path)}
    plain = tmp_path / "plain"
    plain.write_text("text")
    codes = [
        subprocess.run(
            [*RUN, "--no-nvml", "--", str(command)], env=env, capture_output=True, timeout=30
        ).returncode
        for command in (tmp_path / "nothing", plain)
    ]

    assert codes == [127, 126]


def test_options_of_the_engine_are_its_own() -> None:
    """What stands behind the command goes to it, `--help` too."""
    done = subprocess.run(
        [*RUN, "--no-nvml", "--no-record", sys.executable, "-c", "import sys; print(sys.argv)",
         "--help", "--device", "x"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip

    assert done.stdout == "['-c', '--help', '--device', 'x']\n"
    assert done.returncode == 0


# --- slow: whole stories ---------------------------------------------------------------------

EXAMPLE = Path(__file__).parents[2] / "examples/engine/engine.py"


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("leaf", [0, 1, 2])
def test_three_frames_are_one_story(
    tmp_path: Path, tree: FakeSysfs, fake: FakeNvml, leaf: int
) -> None:
    """The example engine dies in another frame each time; the verdict is the same each time."""
    trigger = tmp_path / "trigger"
    command = [
        *RUN, "--root", str(tree.root), "--device", str(ONE), "--",
        sys.executable, str(EXAMPLE), "--step-s", "0.02", "--leaf", str(leaf),
        "--fail-when", str(trigger),
    ]  # fmt: skip
    env = {**os.environ, **fake.env, "GPUPROBE_DIR": str(tmp_path)}
    run = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    fake.wait_for("nvmlDeviceGetCurrentClocksEventReasons", ONE, times=5, timeout_s=20.0)
    tree.lose(ONE)
    fake.lose(ONE)
    trigger.touch()
    _, errors = run.communicate(timeout=30)

    assert run.returncode == 79
    assert errors.count("gpuprobe: [") == 1
    assert f"gpuprobe: [confirmed] GPU {ONE} left the bus" in errors
    # The loss may be told before the engine has met its error.
    assert "the CUDA error is a consequence" in errors or "the verdict stands" in errors


@pytest.mark.slow
@needs_compiler
def test_the_recording_tells_the_same(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """`diagnose` of the recording: kind, certainty, device and proof as `run` said; complete."""
    import gpuprobe

    with running(tmp_path, "cuda", fake=fake, tree=tree) as run:
        run.until_ready(fake)
        time.sleep(1.5)
        fake.lose(ONE)
        run.go()
        code = run.end()
        lost_at = time.time()

    (path,) = run.recordings
    found = gpuprobe.diagnose(path)
    first = found.verdicts[0]
    samples = gpuprobe.load(path).samples()
    assert code == 79
    assert f"gpuprobe: [{first.certainty}] {first.summary}" in run.words
    assert first.device is not None
    assert first.device.pci == ONE
    last = samples["at"].max().timestamp()
    assert lost_at - last < 3.0


@pytest.mark.slow
@needs_compiler
def test_the_recording_knows_whose_gpu_it_was(
    tmp_path: Path, tree: FakeSysfs, fake: FakeNvml
) -> None:
    """A loss elsewhere stays elsewhere when the recording is diagnosed later."""
    import gpuprobe

    with running(tmp_path, "4", "--device", str(TWO), fake=fake, tree=tree) as run:
        run.until_ready(fake)
        fake.lose(ONE)
        time.sleep(1.0)
        run.go()
        run.end()

    kinds = [str(one.kind) for one in gpuprobe.diagnose(run.recordings[0]).verdicts]
    assert kinds == ["cannot-tell", "device-left-bus"]


@pytest.mark.slow
def test_a_folder_that_vanishes(tmp_path: Path, tree: FakeSysfs) -> None:
    """The recording's folder is removed: one message, and the engine goes on."""
    with running(tmp_path, "0", "--no-nvml", tree=tree) as run:
        run.until_ready(None)
        assert wait_until(lambda: run.recordings)
        time.sleep(2.0)  # it is complete by then
        shutil.rmtree(run.folder / "recordings")
        assert wait_until(lambda: "the engine goes on" in run.words, 20.0)
        alive = run.process.poll() is None
        run.go()
        code = run.end()

    assert alive
    assert code == 0
    assert len(run.words.splitlines()) == 1


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path, tree: FakeSysfs) -> None:
    """Nothing more fits while it records: one message, and the engine goes on."""
    small = tmp_path / "run/recordings"
    small.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs root, to mount a small file system")
    try:
        with running(tmp_path, "0", "--no-nvml", tree=tree) as run:
            run.until_ready(None)
            assert wait_until(lambda: run.recordings)
            with contextlib.suppress(OSError), (small / "filler").open("wb") as filler:
                while filler.write(b"x" * 4096):
                    filler.flush()
            assert wait_until(lambda: "gpuprobe:" in run.words, 30.0)
            alive = run.process.poll() is None
            run.go()
            code = run.end()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)

    assert alive
    assert code == 0
    assert len(run.words.splitlines()) == 1


@pytest.mark.slow
def test_a_probe_that_is_killed(tmp_path: Path, tree: FakeSysfs) -> None:
    """The engine and its exit code do not change; the recording opens and says that it was cut."""
    import gpuprobe

    with running(tmp_path, "3", "--no-nvml", tree=tree) as run:
        run.until_ready(None)
        assert wait_until(lambda: run.recordings)
        time.sleep(1.5)
        probe = next(pid for pid in descendants(run.process.pid) if is_probe(pid))
        os.kill(probe, signal.SIGKILL)
        run.go()
        code = run.end()

    assert code == 3
    assert gpuprobe.load(run.recordings[0]).ended is None


def is_probe(pid: int) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"run_probe" in line and b"front_main" not in line
    except OSError:
        return False


@pytest.mark.slow
@needs_compiler
def test_nvml_is_let_go_of(tmp_path: Path, tree: FakeSysfs, fake: FakeNvml) -> None:
    """`release` with the engine's own pid: no call is made any more; `--take`: again."""
    with running(tmp_path, "0", fake=fake, tree=tree) as run:
        run.until_ready(fake)
        below = max(pid for pid in descendants(run.process.pid) if not is_probe(pid))
        first = release(str(below))
        calls = fake.count()
        time.sleep(1.0)
        silent = fake.count() == calls
        second = release("--take", str(run.process.pid))
        again = wait_until(lambda: fake.count() > calls, 10.0)
        run.go()
        code = run.end()

    assert (first.returncode, first.stdout[:15]) == (0, "NVML is closed;")
    assert silent
    assert second.stdout == "NVML is taken again\n"
    assert again
    assert code == 0
    assert run.words == ""


def release(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuprobe", "release", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_release_where_no_probe_is() -> None:
    """A process without a probe: exit code 2 and what to do."""
    done = CliRunner().invoke(main, ["release", str(os.getpid())])

    assert done.exit_code == 2
    assert "no probe" in done.output


@pytest.mark.slow
def test_on_a_terminal_lines_do_not_mix(tmp_path: Path, tree: FakeSysfs) -> None:
    """The engine leaves half a line; the verdict begins on a line of its own, at its start."""
    master, slave = pty.openpty()
    env = {**os.environ, "GPUPROBE_DIR": str(tmp_path)}
    script = "import sys; print('working', end='', flush=True); sys.exit(3)"
    command = [*RUN, "--no-nvml", "--root", str(tree.root), "--", sys.executable, "-c", script]
    run = subprocess.Popen(
        command, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):
        while data := os.read(master, 65536):
            seen += data
    code = run.wait(20)
    os.close(master)

    assert code == 3
    assert seen.startswith(b"working")
    assert b"\r\ngpuprobe: [cannot tell]" in seen
    assert all(line.endswith(b"\r") for line in seen.split(b"\n")[:-1])


def test_a_command_line_longer_than_one_argument_may_be(tmp_path: Path) -> None:
    """Twenty thousand words are passed on as a shell would; each may have 128 KiB."""
    words = [f"word-{number}" for number in range(20_000)]
    engine = [sys.executable, "-c", "import sys; print(len(sys.argv)); sys.exit(7)", *words]
    done = subprocess.run(
        [*RUN, "--no-nvml", "--", *engine],
        env={**os.environ, "GPUPROBE_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (7, "20001\n")
    assert "exit code 7" in done.stderr
