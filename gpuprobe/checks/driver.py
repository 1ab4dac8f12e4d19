"""The driver: its versions match, each GPU is bound to it, and NVML answers."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.checks.base import CheckFinding, Status, known, not_checked, why
from gpuprobe.checks.scene import NVIDIA, DriverFacts, GpuOnBus, Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable, value_or_none

name = "driver"

RELOAD = "sudo reboot (or stop every GPU program and reload the nvidia modules)"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """Versions and NVML for the host, then a line a GPU."""
    nvidia = any(scene.is_nvidia(address) for address in scene.addresses())
    facts = scene.driver.value if isinstance(scene.driver, Known) else None
    if isinstance(scene.driver, Unavailable):
        yield not_checked(name, "driver versions", scene.driver)
    elif facts is not None and (nvidia or isinstance(facts.loaded, Known)):
        yield _versions(facts, scene)
    if (nvidia or not scene.addresses()) and isinstance(scene.nvml, Unavailable):
        yield _no_nvml(scene.nvml)
    for left in scene.nvml_stuck():
        yield CheckFinding(
            check=name,
            what="NVML",
            status=Status.WARN,
            text=f"a call has not returned, and its process was left alone: {left}",
            how="gpuprobe diagnose",
        )
    for address in scene.addresses():
        yield from _gpu(scene, address, facts)


def _versions(facts: DriverFacts, scene: Scene) -> CheckFinding:
    loaded, library = value_or_none(facts.loaded), value_or_none(facts.library)
    installed = value_or_none(facts.installed)
    told = {"loaded": loaded, "library": library, "installed": installed}
    figures = {key: value for key, value in told.items() if value}
    refused = isinstance(scene.nvml, Unavailable) and "VERSION_MISMATCH" in scene.nvml.detail
    differ = bool(loaded and library and loaded != library)
    # An older library may lie about unused: where NVML answers, it is not the one in use.
    if refused or (differ and not isinstance(scene.nvml, Known)):
        return _finding(
            Status.BAD,
            f"versions do not match: kernel module {loaded or 'unknown'} runs, "
            f"library is {library or 'another'}: CUDA programs fail until the module is reloaded",
            figures,
            RELOAD,
        )
    if loaded and installed and loaded != installed:
        return _finding(
            Status.WARN,
            f"kernel module {loaded} runs, {installed} is installed: the next boot changes it",
            figures,
            RELOAD,
        )
    if loaded is None:
        assert isinstance(facts.loaded, Unavailable)
        return not_checked(name, "driver versions", facts.loaded)
    flavour = " (open module)" if facts.open_module == Known(True) else ""
    beside = f", library {library}" if library else ""
    return _finding(Status.OK, f"kernel module {loaded}{flavour}{beside}", figures)


def _finding(status: Status, text: str, figures: dict[str, str], how: str = "") -> CheckFinding:
    return CheckFinding(
        check=name,
        what="driver versions",
        status=status,
        text=text,
        figures=figures,
        how=how,
        kind=Kind.DRIVER_UNUSABLE if status is Status.BAD else None,
    )


def _no_nvml(reading: Unavailable) -> CheckFinding:
    finding = not_checked(name, "NVML", reading)
    if reading.reason is not Reason.TIMED_OUT:
        return finding
    return CheckFinding(
        check=name,
        what="NVML",
        status=Status.WARN,
        text=f"{why(reading)}; a hang is evidence, not yet a verdict",
        how="gpuprobe diagnose",
    )


def _gpu(scene: Scene, address: PciAddress, facts: DriverFacts | None) -> Iterator[CheckFinding]:
    gpu = scene.on_bus(address)
    if gpu is not None:
        bound = _bound(gpu, scene)
        if bound is not None:
            yield bound
            return
    if not scene.is_nvidia(address):
        return
    reading = scene.nvml_value(address, "name")
    refused = scene.nvml_refused(address)
    listed = isinstance(scene.nvml, Unavailable) or address in scene.nvml.value
    if gpu is not None and (refused or not listed):
        unlisted = _unlisted(gpu, scene, refused)
        if unlisted is not None:
            yield unlisted
            return
    if isinstance(reading, Unavailable):
        yield not_checked(name, "name", reading, address)
        return
    parts = [str(reading.value)]
    if facts is not None and isinstance(facts.loaded, Known):
        parts.append(f"driver {facts.loaded.value}")
    vbios = known(scene.nvml_value(address, "vbios"), str)
    if vbios:
        parts.append(f"VBIOS {vbios}")
    if known(scene.nvml_value(address, "mig_mode"), int):
        parts.append("MIG on")
    yield CheckFinding(
        check=name, what="name", status=Status.OK, text=", ".join(parts), subject=address
    )


NOT_GIVEN = ("NOT_FOUND", "GPU_NOT_FOUND", "NO_PERMISSION", "OPERATING_SYSTEM")
"""Codes with which NVML refuses a GPU that a container was not given."""


def _unlisted(gpu: GpuOnBus, scene: Scene, refused: str | None) -> CheckFinding | None:
    """A GPU that the driver has and does not offer; None where another check tells why."""
    if gpu.asleep or gpu.presence == Known(False) or scene.nvml_lost(gpu.address):
        return None
    if "RESET_REQUIRED" in (refused or "") or (not refused and scene.nvml_stuck()):
        return None
    host = scene.host.value if isinstance(scene.host, Known) else None
    confined = host is not None and host.container is not None
    confined = confined and (refused is None or refused.startswith(NOT_GIVEN))
    text = "bound to nvidia, but NVML does not list it: the driver could not start it"
    if refused:
        text = f"bound to nvidia, but NVML cannot open it: {refused}"
    if confined:
        text = "not given to this container"
    return CheckFinding(
        check=name,
        what="NVML",
        status=Status.NOTE if confined else Status.BAD,
        text=text,
        subject=gpu.address,
        how="" if confined else "sudo journalctl -k -b -g NVRM",
        kind=None if confined else Kind.DRIVER_UNUSABLE,
    )


def _bound(gpu: GpuOnBus, scene: Scene) -> CheckFinding | None:
    """A finding where NVIDIA's driver does not have the GPU."""
    if gpu.vendor_id != NVIDIA or not isinstance(gpu.driver, Known) or gpu.asleep:
        return None
    bound = gpu.driver.value
    host = scene.host.value if isinstance(scene.host, Known) else None
    if bound == "nvidia" or (bound is None and host is not None and host.container):
        return None
    if bound == "vfio-pci":
        status, text = Status.NOTE, "bound to vfio-pci, for a virtual machine: not for NVML"
    elif bound is None:
        status, text = Status.BAD, "no driver is bound to it"
    else:
        status, text = Status.WARN, f"bound to {bound}, so CUDA cannot use it"
    return CheckFinding(
        check=name,
        what="bound driver",
        status=status,
        text=text,
        subject=gpu.address,
        how="" if status is Status.NOTE else "sudo modprobe nvidia; journalctl -k -b -g NVRM",
        kind=Kind.DRIVER_UNUSABLE if status is Status.BAD else None,
    )
