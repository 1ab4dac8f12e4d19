"""What is told about an engine, and when: a session on a fake driver, an engine of a few lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuprobe.diagnosis import Kind
from gpuprobe.events import (
    CudaFailed,
    EngineChanged,
    GpuSampled,
    LossHinted,
    PresenceTested,
    ProcessCrashed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.engine import watch as engine_watch
from gpuprobe.live.engine.gpus import EngineGpus
from gpuprobe.live.engine.notes import EngineNotes
from gpuprobe.live.engine.watch import EngineWatch, Told
from gpuprobe.live.session import Session
from gpuprobe.sources.pci.sysfs import SysfsSource
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from gpuprobe.testing.sysfs import FakeSysfs
from tests.live.nvml_bench import ONE, TWO
from tests.live.session_bench import machine, probe_on

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


@dataclass
class ScriptedEngine:
    """An engine that does what the test says."""

    code: int | None = None
    ended_s: float | None = None
    asked_to_end: bool = False
    pids: set[int] = field(default_factory=lambda: {100})

    def process_tree(self) -> set[int]:
        return self.pids

    def end(self, code: int) -> None:
        self.code = code
        self.ended_s = time.monotonic()


@dataclass
class Bench:
    """A session, an engine and what was told so far."""

    session: Session
    engine: ScriptedEngine
    notes: EngineNotes
    watch: EngineWatch
    events: list[Any] = field(default_factory=list)
    sampled: set[Any] = field(default_factory=set)
    told: list[tuple[float, Told]] = field(default_factory=list)

    def for_s(self, seconds: float) -> None:
        self.until(lambda: False, seconds)

    def until(self, enough: Any, seconds: float = 10.0) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            update = self.session.poll()
            self.events += update.events
            self.sampled |= {one.device for one in update.samples if isinstance(one, GpuSampled)}
            told = self.watch.take(update)
            if told is not None:
                self.told.append((time.monotonic(), told))
            if enough():
                return True
            time.sleep(0.01)
        return False

    def says(self, kind: type, text: str, **values: Any) -> None:
        """A line of the engine's output."""
        self.notes.put(kind, text, **values)

    def over(self) -> Told:
        assert self.until(lambda: self.watch.over, 3.0)
        return self.told[-1][1]


@contextmanager
def bench(tree: FakeSysfs, fake: FakeNvml | None = None, named: Any = ()) -> Iterator[Bench]:
    notes = EngineNotes(5)
    sources: list[Any] = [SysfsSource(2, root=tree.root), notes]
    if fake is not None:
        sources.insert(0, probe_on(fake, tree.root))
    session = Session(sources, root=tree.root)
    engine = ScriptedEngine()
    gpus = EngineGpus(named, {}, tree.root)
    watch = EngineWatch(session, engine, gpus, notes, root=tree.root)
    session.start()
    made = Bench(session, engine, notes, watch)
    try:
        made.until(lambda: fake is None or {ONE, TWO} <= made.sampled, 5.0)
        made.for_s(0.2)
        yield made
    finally:
        if fake is not None:
            fake.heal()
        session.stop()


@pytest.fixture
def tree(tmp_path: Path) -> FakeSysfs:
    return machine(tmp_path)


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path, [ONE, TWO])


def test_a_clean_end_is_told_at_once(tree: FakeSysfs) -> None:
    """Exit code 0 and no fault: the next look tells it, and nothing is tested or waited for."""
    with bench(tree) as made:
        made.engine.end(0)
        told = made.watch.take(made.session.poll())
        made.for_s(0.2)

    assert told is not None
    assert not told.failed
    assert told.loss is None
    assert not [e for e in made.events if "after the engine's end" in e.origin.text]


@needs_compiler
def test_a_loss_while_the_engine_hangs(tree: FakeSysfs, fake: FakeNvml) -> None:
    """The engine still runs; the verdict comes within a second, once; the end adds nothing."""
    with bench(tree, fake, named=[ONE]) as made:
        fake.lose(ONE)
        begin = time.monotonic()
        assert made.until(lambda: made.told, 3.0)
        at, told = made.told[0]
        made.for_s(1.0)
        count = len(made.told)
        made.engine.end(137)
        last = made.over()

    assert at - begin < 1.0
    assert told.loss is not None
    assert not told.ended
    assert count == 1
    assert last.again
    assert last.loss is not None


@needs_compiler
def test_a_loss_and_the_engines_error(tree: FakeSysfs, fake: FakeNvml) -> None:
    """It dies of its CUDA error: the loss is the answer, the error its consequence."""
    with bench(tree, fake, named=[ONE]) as made:
        tree.lose(ONE)
        fake.lose(ONE)
        made.says(
            CudaFailed, "CUDA error: unspecified launch failure", code=719, name=None,
            message="unspecified launch failure",
        )  # fmt: skip
        made.says(EngineChanged, "exit code 1", what="stopped", code=1)
        made.engine.end(1)
        begin = time.monotonic()
        told = made.over()
        took = time.monotonic() - begin

    assert told.diagnosis.answer is Kind.DEVICE_LEFT_BUS
    assert told.loss is not None
    assert "consequence" in told.diagnosis.verdicts[0].summary
    assert took < 1.0


@needs_compiler
def test_a_loss_elsewhere_is_not_its_own(tree: FakeSysfs, fake: FakeNvml) -> None:
    """The other GPU is lost: the engine that dies of something else is told of both, in order."""
    with bench(tree, fake, named=[TWO]) as made:
        fake.lose(ONE)
        made.until(lambda: made.session.diagnosis is not None and made.session.diagnosis.exit_code)
        made.says(EngineChanged, "exit code 1", what="stopped", code=1)
        made.engine.end(1)
        told = made.over()

    kinds = [one.kind for one in told.diagnosis.verdicts]
    assert kinds == [Kind.CANNOT_TELL, Kind.DEVICE_LEFT_BUS]
    assert told.loss is None
    assert told.diagnosis.verdicts[1].device.pci == ONE


@needs_compiler
def test_a_loss_elsewhere_alone_is_told(tree: FakeSysfs, fake: FakeNvml) -> None:
    """Nothing happened to the engine: the stranger's loss is the only verdict, and not its own."""
    with bench(tree, fake, named=[TWO]) as made:
        fake.lose(ONE)
        made.until(lambda: made.session.diagnosis is not None and made.session.diagnosis.exit_code)
        made.engine.end(0)
        told = made.over()

    assert told.diagnosis.answer is Kind.DEVICE_LEFT_BUS
    assert told.loss is None


@needs_compiler
def test_traces_on_another_gpu_follow_from_our_loss(tree: FakeSysfs, fake: FakeNvml) -> None:
    """Words about another GPU without a fault of its own stay with the engine's verdict."""
    with bench(tree, fake, named=[ONE]) as made:
        fake.lose(ONE)
        made.says(LossHinted, f"{TWO} status 0x0000000f", what="remove-busy", device=TWO)
        made.until(lambda: made.told, 3.0)
        made.engine.end(1)
        told = made.over()

    assert [one.kind for one in told.diagnosis.verdicts] == [Kind.DEVICE_LEFT_BUS]


@needs_compiler
def test_a_hanging_driver_does_not_hold_the_verdict(tree: FakeSysfs, fake: FakeNvml) -> None:
    """NVML hangs and config space reads all ones: told within a second of the engine's end."""
    with bench(tree, fake, named=[ONE]) as made:
        fake.hang()
        tree.lose(ONE)
        made.for_s(0.2)
        made.engine.end(134)
        begin = time.monotonic()
        told = made.over()
        took = time.monotonic() - begin

    assert told.loss is not None
    assert took < 1.0


def test_a_workers_death_is_told_while_the_engine_lives(tree: FakeSysfs) -> None:
    """The log says that a worker exited; the engine goes on."""
    with bench(tree) as made:
        made.says(EngineChanged, "worker exited", what="worker-exited", who="TP1", code=1)
        assert made.until(lambda: made.told, 2.0)
        told = made.told[0][1]

    assert not told.ended
    assert told.diagnosis.answer is Kind.CANNOT_TELL


def test_an_exit_code_without_words_cannot_be_told(tree: FakeSysfs) -> None:
    """Exit code 1, nothing else: cannot tell, with the code; its GPUs were tested."""
    with bench(tree) as made:
        made.says(EngineChanged, "exit code 1", what="stopped", code=1)
        made.engine.end(1)
        told = made.over()

    first = told.diagnosis.verdicts[0]
    assert first.kind is Kind.CANNOT_TELL
    assert "exit code 1" in first.summary
    tests = [e for e in made.events if isinstance(e, PresenceTested) and "end" in e.origin.text]
    assert {test.device for test in tests} == {ONE, TWO}


def test_a_gpu_that_never_was_here_is_not_said_to_be_gone(tree: FakeSysfs) -> None:
    """An address that only the engine's words name: its directory was not there before either."""
    stranger = PciAddress.parse("0000:99:00.0")
    with bench(tree, named=[ONE, stranger]) as made:
        made.says(EngineChanged, "exit code 1", what="stopped", code=1)
        made.engine.end(1)
        told = made.over()

    tests = [e for e in made.events if isinstance(e, PresenceTested) and "end" in e.origin.text]
    assert {test.device for test in tests} == {ONE}
    assert told.loss is None


def test_an_end_that_was_asked_for_is_no_failure(tree: FakeSysfs) -> None:
    """SIGTERM by the user, exit code 143: nothing failed."""
    with bench(tree) as made:
        made.engine.asked_to_end = True
        made.says(EngineChanged, "ended by SIGTERM", what="stopped", code=143)
        made.engine.end(143)
        told = made.over()

    assert not told.failed


def test_a_crash_is_told_by_its_signal(tree: FakeSysfs) -> None:
    """SIGSEGV with a healthy GPU: a crash, and no loss."""
    with bench(tree) as made:
        made.says(ProcessCrashed, "ended by SIGSEGV", signal="SIGSEGV", process="python")
        made.engine.end(139)
        told = made.over()

    assert told.diagnosis.answer is Kind.PROCESS_CRASH
    assert told.loss is None


def test_a_strangers_crash_is_not_the_engines(
    tree: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel names a process that is none of the tree: no verdict of a crash."""
    monkeypatch.setattr(engine_watch, "_counts_as_kernel", lambda: True)
    with bench(tree) as made:
        made.says(ProcessCrashed, "browser[9]: segfault", signal="SIGSEGV", pid=9, source="kernel")
        made.for_s(0.8)
        early = list(made.told)
        made.engine.end(0)
        told = made.over()

    assert early == []
    assert not told.failed


def test_its_own_crash_in_the_kernels_words_is(
    tree: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel names a worker of the tree: told while the engine lives."""
    monkeypatch.setattr(engine_watch, "_counts_as_kernel", lambda: True)
    with bench(tree) as made:
        made.says(
            ProcessCrashed, "python[100]: segfault", signal="SIGSEGV", pid=100, source="kernel"
        )
        told = made.until(lambda: made.told, 2.0) and made.told[0][1]

    assert told
    assert told.diagnosis.answer is Kind.PROCESS_CRASH


def test_workers_that_end_on_request_are_not_told_of(tree: FakeSysfs) -> None:
    """After a SIGTERM that went through, the log's "died" is how this engine ends."""
    with bench(tree) as made:
        made.engine.asked_to_end = True
        made.says(EngineChanged, "worker died", what="worker-exited", who="TP1")
        made.for_s(0.9)

    assert made.told == []


@pytest.mark.parametrize("gpus", [True, False])
def test_where_there_is_no_gpu_no_step_asks_for_it(tmp_path: Path, gpus: bool) -> None:
    """A look at the bus says so, and nobody is sent to look again."""
    tree = machine(tmp_path) if gpus else FakeSysfs(tmp_path)
    tree.write("sys/bus/pci/devices/0000:00:02.0/class", "0x020000\n")
    with bench(tree) as made:
        made.says(EngineChanged, "exit code 4", what="stopped", code=4)
        made.engine.end(4)
        told = made.over()

    steps = told.diagnosis.verdicts[0].next_steps
    assert told.diagnosis.answer is Kind.CANNOT_TELL
    assert any("nvidia-smi" in (step.command or "") for step in steps) is gpus
    assert any(step.command == "gpuprobe record" for step in steps) is gpus
    assert not any("lspci" in (step.command or "") for step in steps)
