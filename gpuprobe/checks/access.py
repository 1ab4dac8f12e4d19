"""What this process may see: kernel log, device events, and what a container or WSL2 hides."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.checks.base import CheckFinding, Status, not_checked
from gpuprobe.checks.scene import HostFacts, Scene
from gpuprobe.reading import Reading, Unavailable

name = "access"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """A finding each for the kernel log and udev, and one for each kind of confinement."""
    if isinstance(scene.host, Unavailable):
        yield not_checked(name, "host", scene.host)
        return
    host = scene.host.value
    yield _way("kernel log", host.kernel_log)
    yield _way("udev events", host.udev)
    yield from _confined(host)


def _way(what: str, reading: Reading[str]) -> CheckFinding:
    if isinstance(reading, Unavailable):
        return not_checked(name, what, reading)
    return CheckFinding(check=name, what=what, status=Status.OK, text=f"by {reading.value}")


def _confined(host: HostFacts) -> Iterator[CheckFinding]:
    if host.wsl:
        yield CheckFinding(
            check=name,
            what="WSL2",
            status=Status.NOTE,
            text="WSL2 has no PCI view of the GPU and no driver lines in its kernel log: a loss "
            "can only be told in Windows",
            how="In Windows: Get-WinEvent -LogName System | Where ProviderName -eq nvlddmkm",
        )
    elif host.container:
        yield CheckFinding(
            check=name,
            what="container",
            status=Status.NOTE,
            text=f"inside a {host.container} container: other boots and the host's units are out "
            "of sight",
            how="Run it on the host, or mount /var/log/journal and /dev/kmsg read-only",
        )
