"""Whether the next loss would be provable, and the commands that make it so."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.catalog.advice import folklore
from gpuprobe.checks.base import CheckFinding, Status, known, not_checked
from gpuprobe.checks.scene import GpuOnBus, HostFacts, Scene
from gpuprobe.events import SystemDescribed
from gpuprobe.reading import Known, Reading, Reason, Unavailable

name = "ready"

PERSIST = (
    "sudo mkdir -p /var/log/journal && sudo systemd-tmpfiles --create --prefix /var/log/journal "
    "&& sudo journalctl --flush"
)
PSTORE = "sudo modprobe ramoops or efi_pstore; sudo systemctl enable --now systemd-pstore"
RECORD = "gpuprobe record"
SENSORS = "sudo sensors-detect (and load the module it names)"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """Findings for the host's keeping of evidence, then AER for each GPU."""
    if isinstance(scene.host, Unavailable):
        yield not_checked(name, "keeping of evidence", scene.host)
    elif scene.host.value.container is not None:
        # The container's own journal, sensors and processes say nothing about its host's.
        hidden = Unavailable(
            Reason.NOT_THERE, "out of sight inside a container", "Run it on the host"
        )
        for what in ("journal", "pstore", "recorder", "board sensors"):
            yield not_checked(name, what, hidden)
        yield from _boot_line(scene.host.value)
    else:
        yield from _host(scene.host.value)
    yield _granted(scene)
    for gpu in scene.gpus():
        if not gpu.asleep:
            yield _aer(gpu)


def _host(host: HostFacts) -> Iterator[CheckFinding]:
    yield _journal(host)
    yield from _boot_line(host)
    yield _kept("pstore", host.pstore, "the kernel leaves its last words in", PSTORE)
    recorders = host.recorders
    if isinstance(recorders, Known) and not recorders.value:
        yield _finding(
            "recorder", Status.NOTE, "none runs: the seconds before a loss would be missing", RECORD
        )
    else:
        yield _listed("recorder", recorders, "runs:", RECORD)
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
        return not_checked(name, "journal", host.journal, how=PERSIST)
    if host.journal.value == "persistent":
        return _finding("journal", Status.OK, "kept on disk over boots")
    return _finding(
        "journal", Status.WARN, "kept in memory alone: a power cut takes the proof with it", PERSIST
    )


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
    """Whether the firmware left AER to the operating system, as its boot messages say."""
    what = "AER granted"
    ports = any(
        "rootport" in function.aer.value
        for gpu in scene.gpus()
        for function in gpu.bridges
        if isinstance(function.aer, Known)
    )
    if ports:
        return _finding(what, Status.OK, "the kernel handles AER at the root port")
    if isinstance(scene.this_boot, Unavailable):
        unread = Unavailable(scene.this_boot.reason, "this boot's kernel log", scene.this_boot.hint)
        return not_checked(name, what, unread, how="sudo journalctl -k -b -g _OSC")
    last: dict[str, SystemDescribed] = {}
    for event in scene.this_boot.value.timeline.of(SystemDescribed):
        last[event.key] = event
    if "aer-disabled" in last:
        return _finding(
            what,
            Status.WARN,
            f"the kernel was not given AER: {last['aer-disabled'].value}",
            "BIOS: AER, error reporting or firmware first; else boot with pcie_ports=native",
        )
    if "aer-granted" in last:
        return _finding(what, Status.OK, "the firmware left AER to the kernel")
    nothing = Unavailable(Reason.NOT_THERE, "this boot's log has no line about _OSC and AER")
    return not_checked(name, what, nothing, how="sudo journalctl -k -b -g _OSC")


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
