"""The hook inside an engine: what passes, what becomes a DeviceLostError, and within which time."""

from __future__ import annotations

import asyncio
import os
import pickle  # noqa: TID251 - as the standard library's pools do
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuprobe
from gpuprobe import Certainty, DeviceLostError, Kind, PciAddress, explain_exception, guard, hook
from gpuprobe.errors import AddressError, UsageError
from gpuprobe.inside import driver
from gpuprobe.live import presence
from gpuprobe.live.presence import take_inventory
from gpuprobe.reading import Known
from gpuprobe.sources.pci import tree as pci_tree
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from gpuprobe.testing.sysfs import FakeSysfs

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
ROOT = Path(__file__).parents[1]
FIRST, SECOND = "0000:21:00.0", "0000:41:00.0"

AcceleratorError = type("AcceleratorError", (RuntimeError,), {"__module__": "torch"})


def launch_failure() -> Exception:
    """What PyTorch raises for a lost GPU, and for a trap on a healthy one."""
    return AcceleratorError("CUDA error: unspecified launch failure")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSysfs]:
    """Two GPUs in a folder, known since the import; no driver library, and no time passes."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pci_tree, "TRIES_OVER_S", 0.0)
    made = FakeSysfs(tmp_path)
    made.gpu(FIRST, bridges=["0000:20:01.0"])
    made.gpu(SECOND, bridges=["0000:40:01.0"])
    monkeypatch.setattr(presence, "AT_IMPORT", take_inventory(made.root))
    yield made
    for _, process, _ in driver._left_behind:
        process.wait(10)
    driver._left_behind.clear()


@pytest.fixture
def nvml(machine: FakeSysfs, tmp_path: Path, monkeypatch) -> Iterator[FakeNvml]:
    """A driver for both, which the child of this process loads."""
    fake = FakeNvml(tmp_path, [FIRST, SECOND])
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    yield fake
    fake.let_go()


def raised(error: BaseException, *device: str) -> BaseException:
    """What comes out of a guard that an error passes."""
    try:
        with guard(*device):
            raise error
    except BaseException as out:
        return out


# --- what is lost ------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "words"), [("lose", "all ones"), ("remove", "directory")])
def test_a_cuda_error_on_a_gpu_that_is_gone_becomes_a_loss(machine, how, words) -> None:
    """It carries the verdict, names the device, and was raised from the original."""
    getattr(machine, how)(FIRST)
    error = launch_failure()
    lost = raised(error)

    assert isinstance(lost, DeviceLostError)
    assert isinstance(lost, RuntimeError)
    assert lost.__cause__ is error
    assert lost.device == PciAddress.parse(FIRST)
    assert lost.present == Known(False)
    assert lost.verdict is not None
    assert (lost.verdict.kind, lost.verdict.certainty) == (
        Kind.DEVICE_LEFT_BUS,
        Certainty.CONFIRMED,
    )
    assert words in str(lost)
    assert "719" in str(lost)
    assert lost.hint
    assert lost.verdict.evidence[0].role == "proof"
    roles = [line.role.value for line in lost.verdict.evidence]
    assert roles == ["proof", "consequence", "context"]


@needs_compiler
def test_a_gpu_that_only_the_driver_lost_is_lost(machine: FakeSysfs, nvml: FakeNvml) -> None:
    """Config space answers, NVML says lost: the words say which, and `present` is True."""
    nvml.lose(SECOND)
    lost = raised(launch_failure())

    assert isinstance(lost, DeviceLostError)
    assert lost.device == PciAddress.parse(SECOND)
    assert lost.present == Known(True)
    assert "config space still answers" in str(lost)


def test_a_loss_that_was_noticed_inside_passes_the_guards_outside(machine: FakeSysfs) -> None:
    """Guards nest, and one guard may be entered again: the innermost speaks."""
    machine.lose(FIRST)
    shared = guard()
    with pytest.raises(DeviceLostError) as caught, shared, guard(), shared:
        raise launch_failure()

    cause = caught.value.__cause__
    assert cause is not None
    assert cause.__cause__ is None
    assert explain_exception(caught.value) is caught.value.verdict


# --- what passes -------------------------------------------------------------------------------


@needs_compiler
def test_a_cuda_error_on_healthy_gpus_passes_untouched(machine: FakeSysfs, nvml: FakeNvml) -> None:
    """The same object with the same traceback and context; explained, it is the program's."""
    error = launch_failure()
    out = raised(error)

    assert out is error
    assert error.__cause__ is error.__context__ is None
    assert [frame.name for frame in traceback.extract_tb(error.__traceback__)] == ["raised"]
    verdict = explain_exception(error)
    assert verdict is not None
    assert (verdict.kind, verdict.certainty) == (Kind.APPLICATION_FAULT, Certainty.POSSIBLE)
    assert "its driver answers" in verdict.summary
    assert verdict.ruled_out[0].kind == "device-left-bus"
    assert verdict.ruled_out[0].figures
    assert verdict.next_steps


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), ValueError("no GPU"), Exception()],
    ids=repr,
)
def test_what_is_no_cuda_error_passes_although_the_gpu_is_gone(machine, error) -> None:
    """Untouched, and nothing to explain."""
    machine.remove(FIRST)

    assert raised(error) is error
    assert explain_exception(error) is None


def test_the_loss_of_a_strangers_gpu_is_not_blamed_on_this_process(machine, monkeypatch) -> None:
    """Neither one that was not given to it, nor one beside the device that was named."""
    machine.lose(FIRST)
    error = launch_failure()
    assert raised(error, SECOND) is error

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert raised(error) is error
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5c9f8a4e-0000-5000-8000-000000000000")
    assert raised(error) is error
    verdict = explain_exception(error)
    assert verdict is not None
    assert (verdict.kind, verdict.certainty) == (Kind.DEVICE_LEFT_BUS, Certainty.LIKELY)
    assert "whose" in verdict.summary


def test_a_sleeping_gpu_cannot_be_told(machine: FakeSysfs) -> None:
    """It reads all ones as well, and must not be woken."""
    machine.suspend(FIRST)
    error = launch_failure()

    assert raised(error, FIRST) is error
    verdict = explain_exception(error, FIRST)
    assert verdict is not None
    assert verdict.kind is Kind.CANNOT_TELL
    assert "suspended" in verdict.summary


@needs_compiler
@pytest.mark.parametrize(
    ("code", "kind"), [(16, Kind.GPU_HANG), (999, Kind.CANNOT_TELL), (28, Kind.CANNOT_TELL)]
)
def test_other_answers_of_the_driver_are_no_loss(machine, nvml, code: int, kind: Kind) -> None:
    """A reset that is owed is a hang; "unknown error" and "not found" tell nothing."""
    nvml.error(code, FIRST)
    error = launch_failure()

    assert raised(error) is error
    verdict = explain_exception(error)
    assert verdict is not None
    assert verdict.kind is kind


@needs_compiler
def test_out_of_memory_starts_no_process(machine: FakeSysfs, nvml: FakeNvml) -> None:
    """Engines live with it: the bus is asked, the driver is not."""
    verdict = explain_exception(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"))

    assert verdict is not None
    assert verdict.kind is Kind.GPU_OUT_OF_MEMORY
    assert nvml.count() == 0


@pytest.mark.parametrize("wrong", [7, "0000:99:00.0"])
def test_a_gpu_that_never_was_is_not_lost(machine: FakeSysfs, wrong) -> None:
    """An index or address that none had passes the error on."""
    error = launch_failure()

    assert raised(error, wrong) is error
    verdict = explain_exception(error, wrong)
    assert verdict is not None
    assert verdict.kind is Kind.CANNOT_TELL


def test_a_fault_of_the_hook_itself_is_not_raised(machine: FakeSysfs, monkeypatch) -> None:
    """The engine's own error passes, whatever breaks in here."""
    monkeypatch.setattr(driver, "ask", lambda *_: 1 / 0)
    error = launch_failure()

    assert raised(error) is error
    assert explain_exception(error) is None


# --- deadlines ---------------------------------------------------------------------------------


@needs_compiler
def test_a_driver_that_hangs_is_left_alone_within_two_seconds(machine, nvml) -> None:
    """The error passes; the child is named, not killed, not doubled, and leaves when let go."""
    nvml.hang()
    error = launch_failure()
    began = time.monotonic()
    assert raised(error) is error
    assert hook.LIMIT_S < time.monotonic() - began < hook.LIMIT_S + 2  # of a busy machine
    assert hook.LIMIT_S < 2

    ((_, child, _),) = driver._left_behind
    assert child.poll() is None
    began = time.monotonic()
    verdict = explain_exception(error)
    assert time.monotonic() - began < 1.0
    assert verdict is not None
    assert verdict.kind is Kind.CANNOT_TELL
    assert any(str(child.pid) in row.why for row in verdict.not_checked)
    assert len(driver._left_behind) == 1

    nvml.let_go()
    assert child.wait(10) == 0


@needs_compiler
def test_one_gpu_that_hangs_keeps_no_other_from_being_lost(machine, nvml, monkeypatch) -> None:
    """A thread a GPU: the answer of the one that is lost comes through."""
    monkeypatch.setattr(hook, "LIMIT_S", 0.8)
    nvml.hang(FIRST)
    nvml.lose(SECOND)
    lost = raised(launch_failure())

    assert isinstance(lost, DeviceLostError)
    assert lost.device == PciAddress.parse(SECOND)
    nvml.let_go()


def test_all_ones_are_believed_within_two_seconds(machine: FakeSysfs, monkeypatch) -> None:
    """With the real pauses between the tries."""
    monkeypatch.setattr(pci_tree, "TRIES_OVER_S", 0.9)
    machine.lose(FIRST)
    began = time.monotonic()

    assert isinstance(raised(launch_failure()), DeviceLostError)
    assert 0.8 < time.monotonic() - began < 4.0


# --- forms -------------------------------------------------------------------------------------


def test_it_decorates_functions_coroutines_and_generators(machine: FakeSysfs) -> None:
    """What they return and yield is theirs; what they raise is looked at."""

    @guard()
    def add(one: int, *, two: int) -> int:
        """Add."""
        return one + two

    @guard()
    def count(error: Exception | None = None):
        got = yield 1
        yield got
        if error:
            raise error
        return 3

    @guard()
    async def later(error: Exception | None = None) -> int:
        await asyncio.sleep(0)
        if error:
            raise error
        return 4

    @guard()
    async def stream(error: Exception | None = None):
        yield 5
        if error:
            raise error

    async def run(error: Exception | None = None) -> list[int]:
        async with guard():
            return [await later(error), *[item async for item in stream(error)]]

    assert add(1, two=2) == 3
    assert (add.__name__, add.__doc__) == ("add", "Add.")
    counting = count()
    assert (next(counting), counting.send(2)) == (1, 2)
    assert asyncio.run(run()) == [4, 5]

    machine.lose(FIRST)
    counting = count(launch_failure())
    next(counting)
    counting.send(None)
    with pytest.raises(DeviceLostError):
        next(counting)
    with pytest.raises(DeviceLostError):
        asyncio.run(run(launch_failure()))

    async def drain() -> None:
        async for _ in stream(launch_failure()):
            pass

    with pytest.raises(DeviceLostError):
        asyncio.run(drain())


def test_misuse_is_said_where_it_stands() -> None:
    """A text that is no address, and `@guard` without parentheses, at once and with a hint."""
    with pytest.raises(AddressError):
        guard("the first")
    with pytest.raises(UsageError) as caught:
        guard(print)  # type: ignore[arg-type]
    assert "guard()" in caught.value.hint


def test_a_loss_can_be_sent_to_another_process(machine: FakeSysfs) -> None:
    """Pickled, as pools do, it keeps its verdict and its hint."""
    machine.lose(FIRST)
    lost = raised(launch_failure())
    back = pickle.loads(pickle.dumps(lost))

    assert isinstance(back, DeviceLostError)
    assert (str(back), back.hint, back.verdict) == (str(lost), lost.hint, lost.verdict)
    assert back.device == lost.device


@needs_compiler
def test_threads_ask_at_the_same_time(machine: FakeSysfs, nvml: FakeNvml) -> None:
    """Sixteen errors at once: each gets its answer, few children ask, and none is left."""
    nvml.lose(FIRST)
    found: list[BaseException] = []
    threads = [
        threading.Thread(target=lambda: found.append(raised(launch_failure()))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [type(one) for one in found] == [DeviceLostError] * 16
    assert len({call.pid for call in nvml.calls()}) < 8
    assert driver._left_behind == []


@needs_compiler
def test_threads_start_no_second_child_for_a_gpu_that_hangs(machine, nvml, monkeypatch) -> None:
    """Eight errors at once, one child, and no thread waits for the others one by one."""
    monkeypatch.setattr(hook, "LIMIT_S", 0.8)
    nvml.hang()
    threads = [threading.Thread(target=raised, args=(launch_failure(),)) for _ in range(8)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert time.monotonic() - began < 3.0
    assert len({call.pid for call in nvml.calls()}) == 1
    assert len(driver._left_behind) == 1
    nvml.let_go()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_worker_notices_the_loss(machine: FakeSysfs) -> None:
    """What was there at the import of the parent is known in the child."""
    machine.remove(FIRST)
    child = os.fork()
    if child == 0:
        os._exit(7 if isinstance(raised(launch_failure()), DeviceLostError) else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# --- excepthook --------------------------------------------------------------------------------


def test_uncaught_errors_end_in_one_sentence(machine: FakeSysfs, tmp_path: Path) -> None:
    """After the traceback, in the main program and in threads, once, and only for CUDA errors."""
    machine.lose(FIRST)
    program = (
        "import sys, threading, gpuprobe\n"
        "sys.excepthook = lambda kind, *_: print('previous', kind.__name__, file=sys.stderr)\n"
        "gpuprobe.install_excepthook(); gpuprobe.install_excepthook()\n"
        "def fail(): raise RuntimeError('CUDA error: unspecified launch failure \\x1b[2J')\n"
        "thread = threading.Thread(target=fail); thread.start(); thread.join()\n"
        "thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()\n"
        "fail()\n"
    )
    environment = {**os.environ, "GPUPROBE_ROOT": str(machine.root)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("gpuprobe: ")]

    assert done.returncode == 1
    assert len(said) == 2
    assert all(f"GPU {FIRST} left the bus" in line for line in said)
    lines = done.stderr.splitlines()
    assert lines[-2:] == ["previous RuntimeError", said[-1]]
    assert "ZeroDivisionError" in done.stderr


# --- what it costs -----------------------------------------------------------------------------

HIDING = """
import sys, time
class Hide:
    def find_spec(self, name, path=None, target=None):
        top = name.partition('.')[0]
        if top != 'gpuprobe' and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError('hidden: ' + name, name=name)
sys.meta_path.insert(0, Hide())
sys.path.append(sys.argv[1])
"""


def test_the_standard_library_is_enough(machine: FakeSysfs) -> None:
    """With everything else hidden a loss is found, and a healthy GPU is not blamed."""
    program = HIDING + (
        "import gpuprobe, os\n"
        "from gpuprobe import guard, DeviceLostError, explain_exception, device_present\n"
        "assert explain_exception(RuntimeError('CUDA error: unspecified launch failure'))\n"
        "gpuprobe.install_excepthook()\n"
        f"os.unlink(os.environ['GPUPROBE_ROOT'] + '/sys/bus/pci/devices/{FIRST}')\n"
        "try:\n"
        "    with guard(): raise RuntimeError('CUDA error: unspecified launch failure')\n"
        "except DeviceLostError as lost: print(lost, lost.verdict.next_steps[0].text)\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0]\n"
        "             not in (*sys.stdlib_module_names, 'gpuprobe', '__main__')))\n"
    )
    environment = {**os.environ, "GPUPROBE_ROOT": str(machine.root)}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(ROOT)],
        capture_output=True,
        text=True,
        env=environment,
    )

    assert done.returncode == 0, done.stderr
    first, modules = done.stdout.splitlines()
    assert f"GPU {FIRST} left the bus: its directory in sysfs is gone" in first
    assert modules == "[]"


def test_importing_starts_nothing() -> None:
    """No thread, no signal handler, no excepthook; and nothing that only a failure needs."""
    program = (
        "import sys, signal, threading\n"
        "before = [signal.getsignal(number) for number in signal.valid_signals()]\n"
        "hooks = sys.excepthook, threading.excepthook\n"
        "import gpuprobe.hook\n"
        "with gpuprobe.guard(): pass\n"
        "assert before == [signal.getsignal(number) for number in signal.valid_signals()]\n"
        "assert hooks == (sys.excepthook, threading.excepthook)\n"
        "assert threading.active_count() == 1\n"
        "print(*sorted(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    loaded = set(done.stdout.split())

    assert done.returncode == 0, done.stderr
    assert not loaded & {"subprocess", "gpuprobe.catalog", "gpuprobe.events", "pynvml", "click"}


def test_a_guard_costs_next_to_nothing_while_nothing_fails() -> None:
    """Far below the launch of a kernel; `pytest -s` shows the figure."""

    def best(step, turns: int = 20_000) -> float:
        times = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(turns):
                step()
            times.append((time.process_time() - began) / turns)
        return min(times)

    def bare() -> None:
        pass

    def inside() -> None:
        with guard():
            pass

    cost = {"with guard()": best(inside) - best(bare), "@guard()": best(guard()(bare)) - best(bare)}
    for name, seconds in cost.items():
        sys.stdout.write(f"{name}: {seconds * 1e6:.2f} µs\n")
    assert all(seconds < 10e-6 for seconds in cost.values())


def test_the_list_of_gpus_is_read_quickly(tmp_path: Path) -> None:
    """At import, on a machine of 300 functions with 16 GPUs."""
    made = FakeSysfs(tmp_path)
    for bus in range(16):
        made.gpu(f"0000:{bus + 16:02x}:00.0", bridges=[f"0000:00:{bus:02x}.0"])
    for number in range(268):
        folder = made.root / f"sys/bus/pci/devices/0001:{number // 32:02x}:{number % 32:02x}.0"
        folder.mkdir()
        (folder / "class").write_text("0x020000\n")
        (folder / "vendor").write_text("0x8086\n")
    times = []
    for _ in range(5):
        began = time.process_time()
        found = take_inventory(made.root)
        times.append(time.process_time() - began)

    assert (len(found.functions), len(found.gpus)) == (300, 16)
    sys.stdout.write(f"300 functions: {min(times) * 1e3:.1f} ms\n")
    assert min(times) < 0.03


def test_it_is_exported_lazily() -> None:
    """`gpuprobe.guard` is the hook's, and the error is among the package's errors."""
    assert gpuprobe.guard is hook.guard
    assert gpuprobe.device_present is presence.device_present
    assert issubclass(DeviceLostError, gpuprobe.GpuprobeError)
    assert DeviceLostError.exit_code == 79


@pytest.mark.parametrize("page", ["hook.md", "health-endpoint.md"])
def test_the_python_of_a_page_runs(page: str, machine: FakeSysfs, capsys) -> None:
    """One block after the other; the health endpoint follows the GPU."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    scope: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S):
        exec(compile(code, page, "exec"), scope)

    if "health" in scope:
        assert scope["health"]() == (200, "ok")
        assert scope["answer"]("four") == (200, 4)
        machine.lose(FIRST)
        assert scope["health"]()[0] == 503
