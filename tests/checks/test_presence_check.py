"""Which GPUs there are, and whether each is still there."""

from __future__ import annotations

from machines import GPU, host, lost, nvml, only, run, scene

from gpuprobe.checks import Status, presence
from gpuprobe.checks.presence import looked_at
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable


def test_a_gpu_that_answers_is_fine(tree) -> None:
    """Its driver and its config space answer."""
    found = only(presence, scene(tree), "presence")

    assert found.status is Status.OK
    assert found.subject == GPU
    assert "bound to nvidia" in found.text
    assert looked_at(scene(tree), GPU)


def test_all_ones_is_off_the_bus(tree) -> None:
    """The directory stands, config space reads all ones."""
    tree.lose(str(GPU))

    found = only(presence, scene(tree), "presence")

    assert found.status is Status.BAD
    assert found.kind is Kind.DEVICE_LEFT_BUS
    assert "all ones" in found.text
    assert looked_at(scene(tree), GPU)


def test_the_driver_may_lose_what_still_answers(tree) -> None:
    """The sentence says which of the tests failed."""
    of = scene(tree, nvml=nvml(power_w=lost()))

    found = only(presence, of, "presence")

    assert found.kind is Kind.DEVICE_LEFT_BUS
    assert "config space still answers" in found.text


def test_a_sleeping_gpu_is_not_lost(tree) -> None:
    """It reads all ones as well, and is left alone."""
    tree.suspend(str(GPU))

    found = only(presence, scene(tree), "presence")

    assert found.status is Status.NOTE
    assert "asleep" in found.text
    assert not looked_at(scene(tree, nvml=Known({})), GPU)


def test_power_state_alone_can_tell_that_it_sleeps(tree) -> None:
    """Kernels without runtime power management still note the state."""
    tree.suspend(str(GPU), "D3hot")
    (tree.folder(str(GPU)) / "power/runtime_status").write_text("unsupported\n")

    assert "asleep" in only(presence, scene(tree), "presence").text


def test_a_silent_driver_is_no_look(tree) -> None:
    """Config space alone does not make a machine fit, unless the driver was left out on purpose."""
    silent = Unavailable(Reason.NOT_THERE, "nvmlInit returned LIBRARY_NOT_FOUND")

    assert not looked_at(scene(tree, nvml=silent), GPU)
    assert looked_at(scene(tree, nvml=silent, nvml_wanted=False), GPU)


def test_another_makers_gpu_is_looked_at_on_the_bus(tree) -> None:
    """NVML cannot speak for it."""
    amd = PciAddress.parse("0000:03:00.0")
    tree.gpu(str(amd), bridges=["0000:00:03.1"], vendor=0x1002, driver="amdgpu")

    assert looked_at(scene(tree), amd)


def test_no_gpu_is_said_with_what_may_hide_it() -> None:
    """A container and WSL2 have reasons of their own."""
    bare = only(presence, scene(None, nvml=Known({})), "GPUs on the bus")
    boxed = only(
        presence, scene(None, nvml=Known({}), host=host(container="docker")), "GPUs on the bus"
    )
    wsl = only(presence, scene(None, nvml=Known({}), host=host(wsl=True)), "GPUs on the bus")

    assert bare.status is Status.NOT_CHECKED
    assert "docker container" in boxed.text
    assert "--gpus" in boxed.how
    assert "WSL2" in wsl.text


def test_an_address_without_a_gpu_is_named(tree) -> None:
    """`--device` of a GPU that is not there."""
    other = PciAddress.parse("0000:99:00.0")

    assert "0000:99:00.0" in only(presence, scene(tree, device=other), "GPUs on the bus").text


def test_what_only_nvml_knows_is_shown() -> None:
    """As in a container without /sys."""
    found = run(presence, scene(None, bus=Unavailable(Reason.NOT_THERE, "no /sys/bus/pci here")))

    assert [finding.status for finding in found] == [Status.NOT_CHECKED, Status.NOTE]
    assert looked_at(scene(None), GPU)
