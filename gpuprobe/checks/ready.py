"""Whether the next loss would be provable, and the commands that make it so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprobe.catalog.advice import folklore
from gpuprobe.checks.base import CheckFinding, Status, known, not_checked
from gpuprobe.checks.scene import GpuOnBus, HostFacts, Scene
from gpuprobe.events import SystemDescribed
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reading, Reason, Unavailable

name = "ready"

PERSIST = (
    "sudo mkdir -p /var/log/journal && sudo systemd-tmpfiles --create --prefix /var/log/journal "
    "&& sudo journalctl --flush"
)
PSTORE = "sudo modprobe efi_pstore && sudo systemctl enable --now systemd-pstore"
RAMOOPS = "On a machine without UEFI: boot with ramoops.mem_address= and ramoops.mem_size= set"
SYSLOG = "Keep /var/log/kern.log: install rsyslog, or run systemd"
ON_HOST = "Run it on the host"
BIOS_AER = "BIOS: AER, error reporting or firmware first; else boot with pcie_ports=native"
RECORD = "gpuprobe record"
SENSORS = "sudo sensors-detect (and load the module it names)"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """Findings for the host's keeping of evidence, then AER for each GPU."""
    if isinstance(scene.host, Unavailable):
        yield not_checked(name, "keeping of evidence", scene.host)
    elif scene.host.value.container is not None:
        # The container's own journal, sensors and processes say nothing about its host's.
        hidden = Unavailable(Reason.NOT_THERE, "out of sight inside a container", ON_HOST)
        seen = scene.recordings.value if isinstance(scene.recordings, Known) else ()
        inside = any(recording.written for recording in seen)
        for what in ("journal", "pstore", *(() if inside else ("recorder",)), "board sensors"):
            yield not_checked(name, what, hidden)
        if inside:
            yield _recorder(scene, scene.host.value)
        yield from _boot_line(scene.host.value)
    else:
        yield from _host(scene, scene.host.value)
    yield _granted(scene)
    for gpu in scene.gpus():
        if not gpu.asleep:
            yield _aer(gpu)


def _host(scene: Scene, host: HostFacts) -> Iterator[CheckFinding]:
    yield _journal(host)
    yield from _boot_line(host)
    yield _kept(
        "pstore",
        host.pstore,
        "the kernel leaves its last words in",
        PSTORE if host.efi else RAMOOPS,
    )
    yield _recorder(scene, host)
    sensors = host.sensors
    if isinstance(sensors, Known) and not sensors.value:
        yield _finding(
            "board sensors",
            Status.NOTE,
            "no board or supply voltage is readable: a sag of the 12 V would go unseen",
            SENSORS,
        )
    else:
        yield _listed("board sensors", sensors, "voltages of", SENSORS)


def _journal(host: HostFacts) -> CheckFinding:
    if isinstance(host.journal, Unavailable):
        without = host.journal.reason is Reason.NOT_THERE and not host.systemd
        return not_checked(name, "journal", host.journal, how=SYSLOG if without else PERSIST)
    if host.journal.value == "persistent":
        return _finding("journal", Status.OK, "kept on disk over boots")
    return _finding(
        "journal", Status.WARN, "kept in memory alone: a power cut takes the proof with it", PERSIST
    )


def _recorder(scene: Scene, host: HostFacts) -> CheckFinding:
    """Whether the seconds before a loss are being kept: programs that run, files that grow."""
    seen = scene.recordings.value if isinstance(scene.recordings, Known) else ()
    written = [recording.path for recording in seen if recording.written]
    running = host.recorders
    if written:
        who = f"{', '.join(running.value[:4])}: " if isinstance(running, Known) else ""
        more = f" and {len(written) - 1} more" if len(written) > 1 else ""
        return _finding("recorder", Status.OK, f"{who}writes {written[-1]}{more}")
    if isinstance(running, Known) and not running.value:
        none = "none runs: the seconds before a loss would be missing"
        return _finding("recorder", Status.NOTE, none, RECORD)
    return _listed("recorder", running, "runs:", RECORD)


def _boot_line(host: HostFacts) -> Iterator[CheckFinding]:
    if isinstance(host.cmdline, Unavailable):
        yield not_checked(name, "boot line", host.cmdline)
        return
    harmful = folklore(host.cmdline.value)
    for setting in harmful:
        yield _finding(
            "boot line",
            Status.WARN,
            f"{setting.setting} is set: {setting.why}",
            f"Take {setting.setting} off the kernel's command line and reboot",
        )
    if not harmful:
        yield _finding("boot line", Status.OK, "hides no PCIe error")


def _kept(what: str, reading: Reading[str], text: str, how: str) -> CheckFinding:
    if isinstance(reading, Known):
        return _finding(what, Status.OK, f"{text} {reading.value}")
    if reading.reason is Reason.NOT_THERE:
        return _finding(what, Status.NOTE, reading.detail or "none", how)
    return not_checked(name, what, reading, how=how)


def _listed(what: str, reading: Reading[tuple[str, ...]], text: str, how: str) -> CheckFinding:
    if isinstance(reading, Unavailable):
        return not_checked(name, what, reading, how=how)
    return _finding(what, Status.OK, f"{text} {', '.join(reading.value[:4])}")


def _granted(scene: Scene) -> CheckFinding:
    """Whether link errors come to the kernel, rather than to the firmware alone.

    The AER counters of a root port tell nothing about it: they are there and stay at zero where
    the firmware kept AER. The kernel's own driver at the port does.
    """
    what = "AER granted"
    tops = {gpu.bridges[0].address: gpu.bridges[0] for gpu in scene.gpus() if gpu.bridges}
    served = [address for address, top in tops.items() if top.aer_service == Known(True)]
    unserved = [
        address
        for address, top in tops.items()
        if top.aer_service == Known(False) and isinstance(top.aer, Known)
    ]
    if "noaer" in _boot_words(scene):
        said = f"the kernel leaves link errors alone: {_why_not(scene)}"
        return _finding(what, Status.WARN, said, _mend(scene))
    if unserved:
        said = f"the kernel's AER driver does not serve {spell_addresses(unserved)}"
        return _finding(what, Status.WARN, f"{said}: {_why_not(scene)}", _mend(scene))
    if served:
        said = f"the kernel's AER driver serves {spell_addresses(served)}"
        return _finding(what, Status.OK, said)
    return _granted_by_log(scene, what)


def spell_addresses(addresses: Sequence[PciAddress]) -> str:
    """At most two by name."""
    shown = ", ".join(str(address) for address in sorted(addresses)[:2])
    return shown + (f" and {len(addresses) - 2} more ports" if len(addresses) > 2 else "")


def _why_not(scene: Scene) -> str:
    line = _boot_words(scene)
    if "noaer" in line:
        return "pci=noaer is on the kernel's command line"
    if "pcie_ports=compat" in line:
        return "pcie_ports=compat is on the kernel's command line"
    return "the firmware kept AER to itself, so link errors are not seen here"


def _mend(scene: Scene) -> str:
    line = _boot_words(scene)
    if "noaer" in line or "pcie_ports=compat" in line:
        return "Take it off the kernel's command line and reboot"
    return BIOS_AER


def _boot_words(scene: Scene) -> str:
    host = scene.host.value if isinstance(scene.host, Known) else None
    return (known(host.cmdline, str) or "") if host is not None else ""


def _granted_by_log(scene: Scene, what: str) -> CheckFinding:
    """What this boot's log says of it, where sysfs lists no services of ports."""
    host = scene.host.value if isinstance(scene.host, Known) else None
    how = "sudo journalctl -k -b -g _OSC"
    if host is not None and (host.container is not None or host.wsl):
        how = "" if host.wsl else ON_HOST
    if isinstance(scene.this_boot, Unavailable):
        unread = Unavailable(scene.this_boot.reason, "this boot's kernel log", scene.this_boot.hint)
        return not_checked(name, what, unread, how=how)
    last: dict[str, SystemDescribed] = {}
    for event in scene.this_boot.value.timeline.of(SystemDescribed):
        last[event.key] = event
    if "aer-disabled" in last:
        said = f"the kernel was not given AER: {last['aer-disabled'].value}"
        return _finding(what, Status.WARN, said, BIOS_AER)
    if "aer-granted" in last:
        return _finding(what, Status.OK, "the firmware left AER to the kernel")
    nothing = Unavailable(Reason.NOT_THERE, "this boot's log has no line about _OSC and AER")
    return not_checked(name, what, nothing, how=how)


def _aer(gpu: GpuOnBus) -> CheckFinding:
    """Whether the GPU and the port it is in count and report link errors."""
    what = "AER on the path"
    port = gpu.bridges[-1] if gpu.bridges else None
    silent = [
        str(function.address)
        for function in (gpu.function, port)
        if function is not None and not isinstance(function.aer, Known)
    ]
    muted = [
        str(function.address)
        for function in (gpu.function, port)
        if function is not None and function.error_reporting == Known(False)
    ]
    if silent:
        reading = Unavailable(Reason.NOT_SUPPORTED, f"no AER counters at {', '.join(silent)}")
        if port is None:
            reading = Unavailable(Reason.NOT_SUPPORTED, "no port above it is in sight, as in a VM")
        return not_checked(name, what, reading, gpu.address, how="lspci -vvv -s " + silent[0])
    if muted:
        return CheckFinding(
            check=name,
            what=what,
            status=Status.WARN,
            text=f"correctable errors are not reported by {', '.join(muted)} (CorrErr-)",
            subject=gpu.address,
            how=f"lspci -vvv -s {muted[0]} | grep DevCtl (root)",
        )
    reporting = known(gpu.function.error_reporting, bool)
    at = f"{gpu.address} and {port.address}" if port else str(gpu.address)
    return CheckFinding(
        check=name,
        what=what,
        status=Status.OK,
        text=f"counted at {at}" + (", and reported" if reporting else ""),
        subject=gpu.address,
    )


def _finding(what: str, status: Status, text: str, how: str = "") -> CheckFinding:
    return CheckFinding(check=name, what=what, status=status, text=text, how=how)
