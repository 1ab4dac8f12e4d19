"""Whether a GPU is still there, without its driver."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprobe.errors import AddressError
from gpuprobe.identity import PciAddress
from gpuprobe.live import presence
from gpuprobe.live.presence import Inventory, Visible, device_present, take_inventory, visible_gpus
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.pci import tree as pci_tree
from gpuprobe.testing.sysfs import FakeSysfs

ROOT = Path(__file__).parents[2]
FIRST, SECOND, THIRD = (f"0000:{bus}:00.0" for bus in ("21", "41", "a1"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSysfs:
    """Two GPUs of one model, and an integrated one of another vendor; no time passes."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pci_tree, "TRIES_OVER_S", 0.0)
    made = FakeSysfs(tmp_path)
    made.gpu("0000:00:02.0", bridges=[], vendor=0x8086, driver="i915")
    made.gpu(SECOND, bridges=["0000:40:01.0"])
    made.gpu(FIRST, bridges=["0000:20:01.0"])
    return made


def uuid(address: str) -> str:
    bus = PciAddress.parse(address).bus
    return f"GPU-{bus:08x}"


def gpus(*names: str) -> tuple[PciAddress, ...]:
    return tuple(PciAddress.parse(name) for name in names)


def test_a_gpu_is_there_until_it_reads_all_ones_or_is_removed(machine: FakeSysfs) -> None:
    """By address, by its place among NVIDIA's, and as one of all."""
    before = take_inventory(machine.root)
    asked = (FIRST, gpus(FIRST)[0], 0, None)

    assert [device_present(it, inventory=before) for it in asked] == [Known(True)] * 4
    machine.lose(FIRST)
    assert [device_present(it, inventory=before) for it in asked] == [Known(False)] * 4
    assert device_present(1, inventory=before) == Known(True)
    machine.recover(FIRST)
    machine.remove(FIRST)
    assert [device_present(it, inventory=before) for it in asked] == [Known(False)] * 4


def test_what_was_never_there_is_not_lost(machine: FakeSysfs) -> None:
    """A wrong address or index is a reason, not a loss; a text that is no address is an error."""
    before = take_inventory(machine.root)

    for wrong in ("0000:99:00.0", 2, -1):
        found = device_present(wrong, inventory=before)
        assert isinstance(found, Unavailable)
        assert found.reason is Reason.NOT_THERE
    with pytest.raises(AddressError):
        device_present("first", inventory=before)


def test_a_sleeping_gpu_is_asleep(machine: FakeSysfs) -> None:
    """Suspended reads all ones, too: it is neither there nor gone."""
    before = take_inventory(machine.root)
    machine.suspend(SECOND)
    found = device_present(1, inventory=before)

    assert isinstance(found, Unavailable)
    assert found.reason is Reason.ASLEEP


def test_other_gpus_count_where_nvidia_has_none(tmp_path: Path) -> None:
    """Index 0 is then the first of any vendor."""
    machine = FakeSysfs(tmp_path)
    machine.gpu("0000:03:00.0", vendor=0x1002, driver="amdgpu")

    assert take_inventory(machine.root).gpus == gpus("0000:03:00.0")


def test_without_sysfs_or_gpu_there_is_a_reason(tmp_path: Path) -> None:
    """Elsewhere than on Linux, in a bare container, on a machine without a GPU."""
    bare = device_present(inventory=take_inventory(tmp_path))
    assert isinstance(bare, Unavailable)
    assert "/sys" in bare.hint
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    none = device_present(inventory=take_inventory(tmp_path))
    assert isinstance(none, Unavailable)
    assert none.reason is Reason.NOT_THERE


@pytest.mark.parametrize(
    ("environment", "expected", "sure"),
    [
        ({}, (FIRST, SECOND), True),
        ({"CUDA_VISIBLE_DEVICES": "1"}, (SECOND,), True),
        ({"CUDA_VISIBLE_DEVICES": "1, 0"}, (SECOND, FIRST), True),
        ({"CUDA_VISIBLE_DEVICES": "0,9,1"}, (FIRST,), True),
        ({"CUDA_VISIBLE_DEVICES": ""}, (), True),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, (), True),
        ({"CUDA_VISIBLE_DEVICES": uuid(SECOND)}, (SECOND,), True),
        ({"CUDA_VISIBLE_DEVICES": f"MIG-{uuid(SECOND)}-0000-4000-8000-000000000000/1/0"}, (SECOND,), True),
        ({"CUDA_VISIBLE_DEVICES": "GPU-"}, (FIRST, SECOND), False),
        ({"CUDA_VISIBLE_DEVICES": "MIG-5c9f8a4e-0000-5000-8000-000000000000"}, (FIRST, SECOND), False),
        # In a container the driver shows what was given, so this adds nothing.
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, (FIRST, SECOND), True),
    ],
)  # fmt: skip
def test_the_environment_chooses(
    machine: FakeSysfs, environment: dict[str, str], expected: tuple[str, ...], sure: bool
) -> None:
    """Indexes among GPUs of one model, UUIDs and their beginnings; what cannot be known is not."""
    found = visible_gpus(take_inventory(machine.root), environment)

    assert (found.gpus, found.sure) == (gpus(*expected), sure)


def test_indexes_among_different_models_need_an_order(machine: FakeSysfs) -> None:
    """CUDA puts the fastest first, unless told to go by address."""
    machine.gpu(THIRD, bridges=["0000:a0:01.0"], device=0x2330)
    before = take_inventory(machine.root)
    wish = {"CUDA_VISIBLE_DEVICES": "0"}

    assert not visible_gpus(before, wish).sure
    ordered = visible_gpus(before, {**wish, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert ordered == Visible(gpus(FIRST), True, "CUDA_VISIBLE_DEVICES=0")


def test_a_container_has_the_gpus_that_the_driver_shows_in_it(machine: FakeSysfs) -> None:
    """sysfs lists the host's GPUs, /proc/driver/nvidia those that were given."""
    shutil.rmtree(machine.root / f"proc/driver/nvidia/gpus/{FIRST}")
    before = take_inventory(machine.root)
    machine.lose(FIRST)

    assert device_present(inventory=before) == Known(True)
    machine.lose(SECOND)
    assert device_present(inventory=before) == Known(False)


@pytest.mark.parametrize(
    ("listed", "expected"), [("1", (SECOND,)), ("void", ()), ("all", (FIRST, SECOND))]
)
def test_a_containers_wish_counts_where_the_driver_shows_nothing(
    machine: FakeSysfs, listed: str, expected: tuple[str, ...]
) -> None:
    """NVIDIA_VISIBLE_DEVICES by index, which is NVML's and so by address."""
    shutil.rmtree(machine.root / "proc/driver/nvidia")
    found = visible_gpus(take_inventory(machine.root), {"NVIDIA_VISIBLE_DEVICES": listed})

    assert found.gpus == gpus(*expected)


def test_a_loss_that_may_be_anothers_is_not_claimed(
    machine: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of several is gone and the environment does not tell: the reason, until all are gone."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5c9f8a4e-0000-5000-8000-000000000000")
    before = take_inventory(machine.root)

    assert device_present(inventory=before) == Known(True)
    machine.lose(FIRST)
    unknown = device_present(inventory=before)
    assert isinstance(unknown, Unavailable)
    assert FIRST in unknown.detail
    machine.lose(SECOND)
    assert device_present(inventory=before) == Known(False)


def test_a_loss_is_told_in_about_a_second_and_health_at_once(
    machine: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise to an engine: 2 s at the most."""
    monkeypatch.setattr(pci_tree, "TRIES_OVER_S", 0.9)
    before = take_inventory(machine.root)
    began = time.monotonic()
    device_present(inventory=before)
    healthy = time.monotonic() - began
    machine.lose(FIRST)
    began = time.monotonic()
    assert device_present(inventory=before) == Known(False)

    assert healthy < 0.5
    assert 0.8 < time.monotonic() - began < 2.0


def test_an_inventory_is_taken_at_import() -> None:
    """So that what vanishes later is missed."""
    assert isinstance(presence.AT_IMPORT, Inventory)
    assert set(presence.AT_IMPORT.gpus) <= presence.AT_IMPORT.functions


HIDING = """
import sys
sys.path.insert(0, {root!r})

class Hidden:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top != "gpuprobe":
            raise ImportError(f"{{name}} is hidden")

sys.meta_path.insert(0, Hidden())
from gpuprobe.live.presence import device_present
print(type(device_present()).__name__)
tops = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(sorted(tops - {{"__main__", "gpuprobe"}}))
print(sorted(n for n in sys.modules if n in ("subprocess", "threading", "asyncio", "ctypes", "multiprocessing")))
"""


def test_it_works_with_the_standard_library_alone() -> None:
    """Everything else is hidden, as in an engine that has gpuprobe without its dependencies."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", HIDING.format(root=str(ROOT))],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    kind, others, heavy = done.stdout.splitlines()
    assert kind in ("Known", "Unavailable")
    assert (others, heavy) == ("[]", "[]")


# --- the page's other languages -------------------------------------------------------------


def snippet(language: str) -> str:
    page = (ROOT / "docs/presence.md").read_text("utf-8")
    match = re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)
    assert match is not None
    return match[1]


def answers(program: list[str], machine: FakeSysfs) -> list[str]:
    """What a program says of a GPU that is there, asleep, awake, lost, removed."""

    def ask() -> str:
        folder = machine.root / "sys/bus/pci/devices" / FIRST
        return subprocess.run(
            [*program, str(folder)], capture_output=True, text=True
        ).stdout.strip()

    found = [ask()]
    for change in (machine.suspend, machine.recover, machine.lose, machine.remove):
        change(FIRST)
        found.append(ask())
    return found


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_c_of_the_docs_is_right(machine: FakeSysfs, tmp_path: Path) -> None:
    """It compiles without a warning and tells the five cases apart; its body has ten lines at most."""
    source = tmp_path / "present.c"
    main = 'int main(int n, char **v) { return n == 2 ? printf("%d\\n", gpu_present(v[1])) < 0 : 2; }\n'
    source.write_text(snippet("c") + main)
    program = tmp_path / "present"
    subprocess.run(
        ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", program, source],
        check=True,
    )
    body = snippet("c").partition("{ /*")[2].splitlines()[1:-1]

    assert answers([str(program)], machine) == ["1", "-1", "1", "0", "0"]
    assert len(body) <= 10


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_the_go_of_the_docs_is_right(machine: FakeSysfs, tmp_path: Path) -> None:
    """It tells the five cases apart."""
    head = 'package main\nimport ("bytes"; "errors"; "fmt"; "os"; "strings")\n'
    source = tmp_path / "present.go"
    source.write_text(
        head + snippet("go") + "func main() { fmt.Println(gpuPresent(os.Args[1])) }\n"
    )
    program = tmp_path / "present"
    subprocess.run(["go", "build", "-o", program, source], check=True, cwd=tmp_path)

    assert answers([str(program)], machine) == [
        "true true",
        "true false",
        "true true",
        "false true",
        "false true",
    ]
