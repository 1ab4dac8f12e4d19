"""`gpuprobe run --restart on-failure`: each story from the first start to the last word."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import gpuprobe
from gpuprobe.live.engine.policy import Cure, Death
from gpuprobe.live.engine.process import descendants
from gpuprobe.recording import past_deaths
from gpuprobe.recording.places import find
from gpuprobe.recording.writer import Recorder
from gpuprobe.testing import jitcache
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from gpuprobe.testing.sysfs import FakeSysfs
from tests.cli.run_bench import RUN
from tests.live.nvml_bench import ONE, TWO, wait_until
from tests.live.session_bench import machine

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))

ENGINE = """
import os, signal, sys, time
folder, *ends = sys.argv[1:]
number = len(os.listdir(folder))
open(os.path.join(folder, str(number)), "w").close()
print("start", number + 1, time.monotonic(), flush=True)
time.sleep(0.3)
how = ends[min(number, len(ends) - 1)]
words = {
    "cuda": "RuntimeError: CUDA error: an illegal memory access was encountered (pid %d)",
    "assert": "RuntimeError: CUDA error: device-side assert triggered (pid %d)",
    "worker": "ERROR Worker proc VllmWorker-%d died unexpectedly, shutting down executor.",
}
if how.startswith("cubin:"):
    path = how[6:]
    if not os.path.exists(path):
        print("serving", flush=True)
        sys.exit(0)
    os.kill(os.getpid(), signal.SIGSEGV)
if how.startswith(("group:", "worker-group:")):
    path = how.partition(":")[2]
    if not os.path.exists(path):
        print("serving", flush=True)
        sys.exit(0)
    key = os.path.basename(os.path.dirname(path))
    sys.stderr.write('''Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/triton/runtime/jit.py", line 569, in run
    kernel = self._do_compile(key, signature, device, constexprs, options, attrs, warmup)
  File "/opt/venv/lib/python3.12/site-packages/triton/compiler/compiler.py", line 269, in compile
    metadata_group = fn_cache_manager.get_group(metadata_filename) or {}
  File "/opt/venv/lib/python3.12/site-packages/triton/runtime/cache.py", line 86, in get_group
    grp_contents = json.loads(grp_filepath.read_text())
  File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
''')
    if how.startswith("group:"):
        sys.exit(1)
    print(words["worker"] % 1, file=sys.stderr, flush=True)
    while os.path.exists(path):
        time.sleep(0.1)
    how = "serve"
if how == "workers":
    for turn in range(100):
        print(words["worker"] % turn, flush=True)
        time.sleep(0.4)
if how == "worker-0":
    print(words["worker"] % 1, flush=True)
    sys.exit(0)
if how == "serve":
    print("serving", flush=True)
    time.sleep(60)
if how in words:
    print(words[how] % os.getpid(), file=sys.stderr, flush=True)
    sys.exit(1)
sys.exit(int(how))
"""
"""An engine that ends as its arguments say, one for each start; the last one stands for all."""


@dataclass
class Story:
    """An engine under `gpuprobe run --restart on-failure`, with its own folders.

    Attributes:
        folder: All of it.
        options: Of `run`.
        env: Beside the usual one.
    """

    folder: Path
    tree: FakeSysfs
    options: Sequence[str] = ("--no-nvml",)
    env: dict[str, str] = field(default_factory=dict)

    def command(self, *ends: str, options: Sequence[str] = ()) -> list[str]:
        starts = self.folder / "starts"
        starts.mkdir(exist_ok=True)
        engine = self.folder / "engine.py"
        engine.write_text(ENGINE)
        given = [*RUN, "--root", str(self.tree.root), "--restart", "on-failure"]
        return [
            *given,
            *self.options,
            *options,
            "--",
            sys.executable,
            str(engine),
            str(starts),
            *ends,
        ]

    @property
    def environment(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        own = {"HOME": str(home), "GPUPROBE_DIR": str(self.folder / "recordings")}
        triton = {"TRITON_CACHE_DIR": str(self.folder / "cache")}
        return {**os.environ, **own, **triton, **self.env}

    def tell(self, *ends: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """From the start to the end."""
        return subprocess.run(
            self.command(*ends, options=options),
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=90,
        )  # fmt: skip

    @property
    def starts(self) -> int:
        return len(list((self.folder / "starts").iterdir()))

    @property
    def recordings(self) -> list[Path]:
        return find(self.folder / "recordings")


@pytest.fixture
def story(tmp_path: Path) -> Story:
    tree = machine(tmp_path)
    return Story(tmp_path, tree)


def pauses(out: str) -> list[float]:
    """Seconds between two starts."""
    times = [float(at) for at in re.findall(r"start \d+ ([\d.]+)", out)]
    return [later - before for before, later in itertools.pairwise(times)]


# --- the four stories ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cubin", "group"])
@pytest.mark.slow
def test_a_poisoned_cache_is_healed(story: Story, how: str) -> None:
    """One death, one repair, one start, then service; the good entries stay where they are."""
    cache = story.folder / "cache"
    good = jitcache.triton_entry(cache, "mul")
    entry = jitcache.triton_entry(cache, "add")
    name = "add.cubin" if how == "cubin" else "__grp__add.json"
    bad = jitcache.damage(entry / name, "half")
    done = story.tell(f"{how}:{bad}")

    assert story.starts == 2
    assert done.returncode == 0, done.stderr
    assert "serving" in done.stdout
    assert done.stderr.count("moved aside: ") == 1
    assert f"moved aside: {entry}" in done.stderr
    assert "jitcache restore" in done.stderr
    assert "the engine is started again in 1 s: its cache entry is out of the way" in done.stderr
    assert gpuprobe.diagnose(story.recordings[0]).answer is gpuprobe.Kind.JIT_CACHE_CORRUPT
    assert good.is_dir()
    assert not entry.exists()


@needs_compiler
@pytest.mark.slow
def test_a_lost_device_is_not_started_again(tmp_path: Path) -> None:
    """No restart, 79, and one sentence that says why."""
    tree = machine(tmp_path)
    fake = FakeNvml(tmp_path, [ONE, TWO])
    story = Story(tmp_path, tree, ("--device", str(ONE)), fake.env)
    run = subprocess.Popen(
        story.command("serve"), env=story.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    fake.wait_for("nvmlDeviceGetCurrentClocksEventReasons", ONE, times=5, timeout_s=20.0)
    fake.lose(ONE)
    tree.lose(ONE)
    time.sleep(1.5)
    (engine,) = [pid for pid in descendants(run.pid) if _is_engine(pid)]
    os.kill(engine, signal.SIGKILL)
    _, words = run.communicate(timeout=30)
    fake.heal()

    assert run.returncode == 79
    assert story.starts == 1
    assert "is not started again: starting it again cannot heal device-left-bus" in words


def _is_engine(pid: int) -> bool:
    line = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"engine.py\0" in line and b"run_probe" not in line


@pytest.mark.slow
def test_an_application_fault_is_tried_three_times(story: Story) -> None:
    """Three deaths in the window, pauses of 1 and 2 s, then the end with the report."""
    report = story.folder / "report.md"
    done = story.tell("cuda", "assert", "cuda", options=("--report", str(report)))

    first, second = pauses(done.stdout)
    assert story.starts == 3
    assert done.returncode == 1
    assert 1.0 <= first < 5.0
    assert 2.0 <= second < 7.0
    assert "not started again: third death within 15 min; report: " in done.stderr
    assert "illegal" in report.read_text()
    assert len(story.recordings) == 3


@pytest.mark.slow
def test_a_fatal_request_stops_at_the_third(story: Story) -> None:
    """Deaths further apart than the window, the same error each time: the third is the last."""
    done = story.tell("cuda", options=("--within", "100ms"))

    assert story.starts == 3
    assert "not started again: third death in a row with the same error" in done.stderr
    assert str(story.recordings[-1]) in done.stderr.partition("not started again")[2]


# --- what else ends it -----------------------------------------------------------------------


def test_a_clean_end_is_the_end(story: Story) -> None:
    """Exit code 0: no second start, no word."""
    done = story.tell("0")

    assert (done.returncode, story.starts, done.stderr) == (0, 1, "")


def test_it_goes_on_after_one_death(story: Story) -> None:
    """Code 3, then 0: the code is that of the last start."""
    done = story.tell("3", "0")

    assert (done.returncode, story.starts) == (0, 2)
    assert "started again in 1 s: 1 of 3 deaths within 15 min" in done.stderr


@pytest.mark.slow
def test_a_signal_of_the_user_ends_it(story: Story) -> None:
    """SIGTERM while it serves: passed on, and no start after it."""
    run = subprocess.Popen(
        story.command("serve"), env=story.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert wait_until(lambda: story.folder.joinpath("starts").exists() and story.starts == 1, 10.0)
    time.sleep(1.0)
    run.send_signal(signal.SIGTERM)
    _, words = run.communicate(timeout=20)

    assert (run.returncode, story.starts, words) == (143, 1, "")


@pytest.mark.slow
def test_workers_that_die_in_vain_end_the_engine(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that replaces its workers: the third death is the end of the engine itself."""
    monkeypatch.setenv("PYTHONPATH", str(story.folder))
    # Deaths of one moment are one; here a moment is short.
    story.folder.joinpath("sitecustomize.py").write_text(
        "import sys\n"
        "if any('run_probe' in word for word in sys.orig_argv):\n"
        "    from gpuprobe.live.engine import deaths\n"
        "    deaths.TOGETHER_S = 1.0\n"
    )
    done = story.tell("workers")

    assert story.starts == 1
    assert "its workers die again and again: third death within 15 min" in done.stderr
    assert "SIGTERM to the engine" in done.stderr
    assert "not started again: third death within 15 min" in done.stderr
    assert done.returncode == 143


@pytest.mark.slow
def test_a_worker_is_healed_while_the_engine_lives(story: Story) -> None:
    """A worker dies of a cache entry: it is moved aside, and the engine's own next worker serves."""
    entry = jitcache.triton_entry(story.folder / "cache", "add")
    bad = jitcache.damage(entry / "__grp__add.json", "half")
    run = subprocess.Popen(
        story.command(f"worker-group:{bad}"), env=story.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert run.stdout is not None
    lines = [run.stdout.readline() for _ in range(2)]
    run.send_signal(signal.SIGTERM)
    _, words = run.communicate(timeout=20)

    assert lines[1] == "serving\n"
    assert (run.returncode, story.starts) == (143, 1)
    assert f"moved aside: {entry}" in words


@pytest.mark.slow
def test_an_end_with_0_right_after_a_workers_death_is_none_in_order(story: Story) -> None:
    """Some servers end with 0 when their workers have died: they are started again."""
    done = story.tell("worker-0", "0")

    assert (done.returncode, story.starts) == (0, 2)


@pytest.mark.slow
def test_a_named_recording_is_numbered(story: Story) -> None:
    """--record FILE: the second start goes to a file of its own beside it."""
    path = story.folder / "run.v1.gpuprobe"
    done = story.tell("3", "0", options=("--record", str(path)))

    assert done.returncode == 0
    assert sorted(one.name for one in find(story.folder)) == [
        "run.v1.2.gpuprobe",
        "run.v1.gpuprobe",
    ]


@pytest.mark.slow
def test_without_a_recording_the_count_and_the_report_are_there(story: Story) -> None:
    """--no-record: three deaths are counted from start to start, and the report is the verdict."""
    report = story.folder / "report.md"
    done = story.tell("cuda", options=("--no-record", "--report", str(report)))

    assert story.starts == 3
    assert "third death within 15 min; report: " in done.stderr
    assert "illegal" in report.read_text()


# --- what is remembered ----------------------------------------------------------------------


@pytest.mark.slow
def test_a_new_gpuprobe_counts_on(story: Story) -> None:
    """Killed with its engine after two deaths: the first death under the next one is the third."""
    run = subprocess.Popen(
        story.command("cuda", "assert", "serve"), env=story.environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert wait_until(lambda: story.folder.joinpath("starts").exists() and story.starts == 3, 30.0)
    time.sleep(1.5)
    for pid in [*descendants(run.pid), run.pid]:
        os.kill(pid, signal.SIGKILL)
    run.wait(10)
    (story.folder / "starts" / "2").unlink()
    (story.folder / "starts" / "1").unlink()
    done = story.tell("cuda", "assert", "serve", options=("--quiet",))

    assert story.starts == 2
    assert "not started again: third death within 15 min" in done.stderr


def test_deaths_are_read_back(tmp_path: Path) -> None:
    """From the newest recording of this engine that says anything, and of no other engine."""
    mine = past_deaths.mark_of(["vllm", "serve", "--api-key", "secret"], {})
    same = past_deaths.mark_of(["vllm", "serve", "--api-key", "other"], {})
    other = past_deaths.mark_of(["vllm", "serve"], {"CUDA_VISIBLE_DEVICES": "1"})
    death = Death(time.time() - 60, 30.0, gpuprobe.Kind.PROCESS_CRASH, Cure.BACK_OFF, "a", ("x",))
    for number, (engine, deaths) in enumerate([(mine, [death]), (mine, None), (other, [])]):
        recorder = Recorder(tmp_path / f"{number}.gpuprobe")
        recorder.describe(past_deaths.ENGINE, engine)
        if deaths is not None:
            recorder.describe(past_deaths.DEATHS, past_deaths.to_text(deaths))
        recorder.end("engine-exited")
        os.utime(tmp_path / f"{number}.gpuprobe", (time.time() + number,) * 2)

    (found,) = past_deaths.read(same, [tmp_path])
    assert (found.kind, found.entries) == (death.kind, death.entries)
    assert past_deaths.read(other, [tmp_path]) == []


@pytest.mark.parametrize("text", ["", "{", "[1]", '[["x"]]', "[[1,2,3,4,5,6,7]]", "null"])
def test_what_is_no_death_is_none(text: str) -> None:
    """A recording that somebody changed decides nothing."""
    assert past_deaths.from_text(text) == []


def test_old_deaths_are_forgotten() -> None:
    """A week later they count no more."""
    death = Death(1000.0, 30.0, gpuprobe.Kind.PROCESS_CRASH, Cure.BACK_OFF, "a")
    text = past_deaths.to_text([death])

    assert past_deaths.from_text(text, 1000.0 + 6 * 86_400)
    assert not past_deaths.from_text(text, 1000.0 + 8 * 86_400)
