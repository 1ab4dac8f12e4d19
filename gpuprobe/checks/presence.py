"""Which GPUs there are, and whether each of them is still there."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.checks.base import CheckFinding, Status, not_checked
from gpuprobe.checks.scene import GpuOnBus, Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable

name = "presence"

SIGHT_OF_ALL = "lspci -D -d ::0300; lspci -D -d ::0302"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """One finding a GPU: it answers, it is gone, or it could not be asked."""
    if isinstance(scene.bus, Unavailable):
        yield not_checked(name, "GPUs on the bus", scene.bus, how=SIGHT_OF_ALL)
    if not scene.addresses():
        yield from _none(scene)
    for address in scene.addresses():
        yield _presence(scene, address)


def _none(scene: Scene) -> Iterator[CheckFinding]:
    if isinstance(scene.bus, Unavailable):
        return
    host = scene.host.value if isinstance(scene.host, Known) else None
    text, how = "sysfs shows no GPU (PCI class 0300 or 0302)", SIGHT_OF_ALL
    if scene.device is not None:
        text, how = f"there is no GPU at {scene.device}", SIGHT_OF_ALL
    elif host is not None and host.container:
        text += f"; this is a {host.container} container, which may have been given none"
        how = "docker run --gpus all …"
    elif host is not None and host.wsl:
        text += "; WSL2 has no PCI view of it"
        how = "nvidia-smi.exe -q"
    yield CheckFinding(
        check=name, what="GPUs on the bus", status=Status.NOT_CHECKED, text=text, how=how
    )


def _presence(scene: Scene, address: PciAddress) -> CheckFinding:
    gpu = scene.on_bus(address)
    if gpu is None:
        return CheckFinding(
            check=name,
            what="presence",
            status=Status.NOTE,
            text="NVML lists it and sysfs does not, as in WSL2: the bus is out of sight",
            subject=address,
        )
    if gpu.asleep:
        text = "asleep (runtime-suspended): left alone, so that it stays asleep"
        return _finding(address, Status.NOTE, text)
    if gpu.presence == Known(False) or _all_ones(gpu):
        return _finding(
            address,
            Status.BAD,
            "off the bus: its config space reads all ones",
            how="Save the kernel log (journalctl -k -b > kernel.log), then power off for 30 s",
        )
    if scene.nvml_lost(address):
        config = " its config space still answers" if gpu.presence == Known(True) else ""
        text = "the driver lost it (NVML: GPU is lost)" + (f";{config}" if config else "")
        return _finding(
            address,
            Status.BAD,
            text,
            how="Save the kernel log (journalctl -k -b > kernel.log), then power off for 30 s",
        )
    if isinstance(gpu.presence, Unavailable):
        return not_checked(name, "presence", gpu.presence, address)
    driver = gpu.driver.value if isinstance(gpu.driver, Known) else None
    return _finding(address, Status.OK, f"on the bus, config space answers{_bound(driver)}")


def _all_ones(gpu: GpuOnBus) -> bool:
    """The link files say so too, to those who may not read config space."""
    link = gpu.function.link
    unread = isinstance(gpu.presence, Unavailable) and gpu.presence.reason is Reason.NOT_PERMITTED
    return unread and isinstance(link, Unavailable) and link.reason is Reason.LOST


def _bound(driver: str | None) -> str:
    return f", bound to {driver}" if driver else ", no driver bound"


def _finding(address: PciAddress, status: Status, text: str, how: str = "") -> CheckFinding:
    return CheckFinding(
        check=name,
        what="presence",
        status=status,
        text=text,
        subject=address,
        how=how,
        kind=Kind.DEVICE_LEFT_BUS if status is Status.BAD else None,
    )


def looked_at(scene: Scene, address: PciAddress) -> bool:
    """Whether this GPU could be looked at.

    Where the driver was asked, it has to have answered; a config space that answers is enough
    where it was not asked, or cannot be: another maker's GPU.
    """
    if scene.nvml_answers(address) or scene.nvml_lost(address):
        return True
    gpu = scene.on_bus(address)
    if gpu is None:
        return False
    if gpu.presence == Known(False):
        return True
    asked = scene.nvml_wanted and scene.is_nvidia(address)
    return gpu.presence == Known(True) and not asked
