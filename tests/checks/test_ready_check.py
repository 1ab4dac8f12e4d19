"""Would the next loss be provable, and what may this process see?"""

from __future__ import annotations

import pytest
from machines import GPU, PORT, QUIET, host, log, only, run, scene, serve, statuses

from gpuprobe.checks import Status, access, ready
from gpuprobe.checks.scene import RecordingSeen
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.pci.readings import read_aer_service
from gpuprobe.testing.sysfs import FakeSysfs


def test_a_machine_that_keeps_everything(tree) -> None:
    """Nothing to mend."""
    assert statuses(run(ready, scene(tree))) == {Status.OK}


def test_a_volatile_journal_is_a_warning_with_the_command(tree) -> None:
    """A power cut takes the proof with it."""
    found = only(ready, scene(tree, host=host(journal=Known("volatile"))), "journal")

    assert found.status is Status.WARN
    assert "mkdir -p /var/log/journal" in found.how


def test_inside_a_container_the_hosts_keeping_is_out_of_sight(tree) -> None:
    """Its own journal is not the one that matters; the boot line is the host's."""
    found = run(ready, scene(tree, host=host(container="podman", journal=Known("persistent"))))

    for what in ("journal", "pstore", "recorder", "board sensors"):
        (of,) = [f for f in found if f.what == what]
        assert of.status is Status.NOT_CHECKED
        assert of.how == "Run it on the host"
    assert any(f.what == "boot line" and f.status is Status.OK for f in found)


def test_settings_that_hide_errors_are_named(tree) -> None:
    """Both of them, each with what it does."""
    line = Known("root=/dev/sda2 pci=noaer,nommconf quiet")

    found = [f for f in run(ready, scene(tree, host=host(cmdline=line))) if f.what == "boot line"]

    assert statuses(found) == {Status.WARN}
    assert any("noaer" in f.text for f in found)
    assert any("nommconf" in f.text for f in found)


def test_what_is_missing_is_a_note_with_the_way_to_it(tree) -> None:
    """No recorder, no sensors, no pstore."""
    of = scene(
        tree,
        host=host(
            recorders=Known(()),
            sensors=Known(()),
            pstore=Unavailable(Reason.NOT_THERE, "no pstore backend is registered"),
        ),
    )

    for what in ("recorder", "board sensors", "pstore"):
        found = only(ready, of, what)
        assert found.status is Status.NOTE
        assert found.how


def test_aer_is_granted_where_the_kernels_driver_serves_the_root_port(tree) -> None:
    """That is what makes errors come to the kernel."""
    found = only(ready, scene(tree), "AER granted")

    assert found.status is Status.OK
    assert str(PORT) in found.text


def test_counters_alone_do_not_show_that_aer_is_granted(tmp_path) -> None:
    """A root port has them also where the firmware kept AER: then only hot-plug is served."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[str(PORT)])
    serve(tree, PORT, service="pcie004")

    found = only(ready, scene(tree), "AER granted")

    assert found.status is Status.WARN
    assert "firmware" in found.text
    assert "pcie_ports=native" in found.how


@pytest.mark.parametrize("word", ["pci=noaer", "pcie_ports=compat"])
def test_a_boot_line_that_switches_aer_off_is_named(tmp_path, word: str) -> None:
    """Whoever set it can take it off."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[str(PORT)])
    serve(tree, PORT, service="pcie001")

    found = only(ready, scene(tree, host=host(cmdline=Known(f"ro {word}"))), "AER granted")

    assert found.status is Status.WARN
    assert word in found.text


@pytest.mark.parametrize(("name", "is_aer"), [("pcie02", True), ("pcie04", False)])
def test_services_of_an_old_kernel(tmp_path, name: str, is_aer: bool) -> None:
    """Two digits instead of three."""
    tree = FakeSysfs(tmp_path)
    serve(tree, PORT, service=name)

    assert read_aer_service(PORT, tree.root) == Known(is_aer)


def test_without_services_the_log_tells_of_aer(tmp_path) -> None:
    """As this boot's lines about _OSC say; without them it is not checked."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[str(PORT)])
    kept = QUIET + "[    0.5] acpi PNP0A08:00: _OSC: platform does not support [AER]\n"
    given = QUIET + "[    0.5] acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER]\n"

    assert only(ready, scene(tree, this_boot=log(kept)), "AER granted").status is Status.WARN
    assert only(ready, scene(tree, this_boot=log(given)), "AER granted").status is Status.OK
    assert only(ready, scene(tree), "AER granted").status is Status.NOT_CHECKED


def test_a_recording_that_is_written_is_named(tree, tmp_path) -> None:
    """It is there whatever its recorder is called."""
    written = RecordingSeen(tmp_path / "a.gpuprobe", written=True, ended=None, last_at=0.0)
    of = scene(tree, host=host(recorders=Known(())), recordings=Known((written,)))

    found = only(ready, of, "recorder")

    assert found.status is Status.OK
    assert "a.gpuprobe" in found.text


def test_a_machine_without_systemd_is_not_told_to_use_its_commands(tree) -> None:
    """Another way to keep the kernel's log is."""
    none = Unavailable(Reason.NOT_THERE, "no systemd journal here")

    assert (
        "systemd-tmpfiles" not in only(ready, scene(tree, host=host(journal=none)), "journal").how
    )
    found = only(ready, scene(tree, host=host(journal=none, systemd=True)), "journal")
    assert "systemd-tmpfiles" in found.how


def test_aer_missing_at_either_end_is_not_checked(tree) -> None:
    """What does not count cannot prove."""
    tree.without_aer(str(PORT))

    found = only(ready, scene(tree), "AER on the path")

    assert found.status is Status.NOT_CHECKED
    assert str(PORT) in found.text
    assert found.subject == GPU


def test_a_gpu_without_a_port_in_sight(tmp_path) -> None:
    """As in a virtual machine."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[])
    tree.without_aer(str(GPU))

    assert "VM" in only(ready, scene(tree), "AER on the path").text


def test_errors_that_are_not_reported_are_a_warning(tree) -> None:
    """Device Control of the port has CorrErr-."""
    config = tree.folder(str(PORT)) / "config"
    data = bytearray(config.read_bytes())
    at = data[0x34]
    while data[at] != 0x10:
        at = data[at + 1]
    data[at + 8] &= 0xFE
    config.write_bytes(data)

    found = only(ready, scene(tree), "AER on the path")

    assert found.status is Status.WARN
    assert str(PORT) in found.text


def test_without_root_device_control_is_not_claimed(tree) -> None:
    """The first 64 bytes do not hold it: counted, but nothing is said about reporting."""
    for address in (GPU, PORT):
        tree.restrict_config(str(address))

    found = only(ready, scene(tree), "AER on the path")

    assert found.status is Status.OK
    assert "reported" not in found.text


def test_ways_to_see_are_named(tree) -> None:
    """And what would open those that are closed."""
    closed = Unavailable(Reason.NOT_PERMITTED, "/dev/kmsg", "Run it with sudo.")

    open_ = only(access, scene(tree), "kernel log")
    shut = only(access, scene(tree, host=host(kernel_log=closed)), "kernel log")

    assert open_.status is Status.OK
    assert shut.status is Status.NOT_CHECKED
    assert shut.how == "Run it with sudo."


def test_a_container_and_wsl_say_what_they_hide(tree) -> None:
    """One line each."""
    assert "docker" in only(access, scene(tree, host=host(container="docker")), "container").text
    assert "Windows" in only(access, scene(tree, host=host(wsl=True)), "WSL2").text
