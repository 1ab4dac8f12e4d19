"""What is read of the machine: host files, versions, the bus, and the bound on it all."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machines import GPU, PORT, QUIET, host, log, nvml

from gpuprobe.api import check
from gpuprobe.checks import CHECKS, Status, run_checks
from gpuprobe.checks.bus import read_bus
from gpuprobe.checks.gather import Readers, gather
from gpuprobe.checks.host import (
    read_container,
    read_host,
    read_journal,
    read_pstore,
    read_recorders,
    read_sensors,
)
from gpuprobe.checks.readers import machine_readers
from gpuprobe.checks.scene import DriverFacts, Scene
from gpuprobe.checks.versions import read_versions
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from gpuprobe.testing.sysfs import FakeSysfs

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


def here() -> Known[str]:
    return Known("here")


def installed() -> Known[str]:
    return Known("580.65.06")


# --- the host -------------------------------------------------------------------------------


def test_a_bare_host(tree) -> None:
    """Nothing is made up where files are missing."""
    found = read_host(tree.root, kernel_log=here, udev=here, uid=1000)

    assert found.kernel == Known("6.8.0-79-generic")
    assert found.container is None
    assert not found.wsl
    assert not found.root
    assert isinstance(found.journal, Unavailable)
    assert isinstance(found.pstore, Unavailable)
    assert found.recorders == Known(())


def test_a_source_that_breaks_costs_its_own_line(tree) -> None:
    """The others are read."""

    def broken() -> Known[str]:
        raise RuntimeError("no")

    found = read_host(tree.root, kernel_log=broken, udev=here, uid=0)

    assert found.kernel_log == Unavailable(Reason.FAILED, "RuntimeError: no")
    assert found.udev == Known("here")


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", "", "podman"),
        ("run/systemd/container", "lxc\n", "lxc"),
        ("proc/1/cgroup", "0::/kubepods.slice/pod12\n", "kubernetes"),
        ("proc/1/cgroup", "0::/init.scope\n", None),
    ],
)
def test_containers_are_known_by_their_marks(tree, path: str, content: str, kind: str) -> None:
    """Each tool leaves its own."""
    tree.write(path, content)

    assert read_container(tree.root) == kind


def test_wsl_is_known_by_its_kernel(tree) -> None:
    """Its release names Microsoft."""
    tree.write("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")

    assert read_host(tree.root, kernel_log=here, udev=here).wsl


@pytest.mark.parametrize(
    ("folder", "kept"), [("var/log/journal", "persistent"), ("run/log/journal", "volatile")]
)
def test_where_the_journal_is_kept(tree, folder: str, kept: str) -> None:
    """On disk or in memory."""
    tree.write(f"{folder}/0a1b2c/system.journal", "")

    assert read_journal(tree.root) == Known(kept)


def test_an_empty_folder_keeps_no_journal(tree) -> None:
    """journald is set to volatile, or not restarted yet."""
    (tree.root / "var/log/journal").mkdir(parents=True)
    tree.write("run/log/journal/0a1b2c/system.journal", "")

    assert read_journal(tree.root) == Known("volatile")


@pytest.mark.parametrize(("backend", "there"), [("efi_pstore", True), ("(null)", False)])
def test_pstore_needs_a_backend(tree, backend: str, there: bool) -> None:
    """The folder alone keeps nothing."""
    (tree.root / "sys/fs/pstore").mkdir(parents=True)
    tree.write("sys/module/pstore/parameters/backend", f"{backend}\n")

    assert isinstance(read_pstore(tree.root), Known) is there


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("/usr/bin/python3\0/usr/bin/gpuprobe\0record\0", "gpuprobe record (pid 812)"),
        ("gpuprobe\0watch\0--record\0x.gpuprobe\0", "gpuprobe watch (pid 812)"),
        ("/usr/sbin/rasdaemon\0-f\0-r\0", "rasdaemon (pid 812)"),
        ("gpuprobe\0watch\0", None),
        ("vim\0/home/ines/gpuprobe\0record\0", None),
        ("gpuprobe\0check\0", None),
    ],
)
def test_recorders_are_known_by_their_arguments(tree, arguments: str, name: str | None) -> None:
    """What only shows, or edits a file of that name, records nothing."""
    tree.write("proc/812/cmdline", arguments)

    assert read_recorders(tree.root) == Known((name,) if name else ())


def test_in_a_container_no_recorder_is_no_finding(tree) -> None:
    """The host's processes are out of sight."""
    assert isinstance(read_recorders(tree.root, own=False), Unavailable)


def test_only_sensors_with_voltages_of_the_board_count(tree) -> None:
    """A GPU's own sensor tells nothing of the supply, a thermometer neither."""
    tree.hwmon("nct6798", in1_input=12096)
    tree.hwmon("k10temp", temp1_input=41000)
    tree.hwmon("amdgpu", in0_input=800)

    assert read_sensors(tree.root) == Known(("nct6798",))


# --- versions -------------------------------------------------------------------------------


def test_versions_by_files(tree) -> None:
    """The module by /proc, the library by the file that its name leads to."""
    library = tree.write("usr/lib64/libnvidia-ml.so.590.10.01", "")
    (library.parent / "libnvidia-ml.so.1").symlink_to(library.name)

    found = read_versions(tree.root, installed=installed)

    assert found.loaded == Known("580.65.06")
    assert found.library == Known("590.10.01")
    assert found.installed == installed()


def test_a_folder_of_the_library_path_comes_first(tree, tmp_path) -> None:
    """As the loader searches it."""
    tree.write("usr/lib64/libnvidia-ml.so.1", "")
    own = tmp_path / "own"
    own.mkdir()
    (own / "libnvidia-ml.so.570.10").touch()
    (own / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.570.10")

    assert read_versions(tree.root, library_path=[str(own)], installed=installed).library == Known(
        "570.10"
    )


def test_without_a_driver_each_part_says_so(tmp_path) -> None:
    """And how to get it."""
    found = read_versions(FakeSysfs(tmp_path, driver=None).root, installed=installed)

    for reading in (found.loaded, found.library):
        assert isinstance(reading, Unavailable)
        assert reading.reason is Reason.NOT_THERE
        assert reading.hint


# --- the bus --------------------------------------------------------------------------------


def test_the_bus_from_the_root_port_down(tree) -> None:
    """Link, AER and Device Control of each function."""
    (gpu,) = read_bus(tree.root).value

    assert [function.address for function in gpu.path] == [PORT, GPU]
    assert gpu.driver == Known("nvidia")
    assert gpu.presence == Known(True)
    assert gpu.function.link.value.width == 16
    assert set(gpu.function.aer.value) == {"correctable", "nonfatal", "fatal"}
    assert "rootport" in gpu.bridges[0].aer.value
    assert gpu.function.error_reporting == Known(True)


def test_a_sleeping_gpus_files_are_not_read(tree) -> None:
    """Nothing but the kernel's notes."""
    tree.suspend(str(GPU))

    (gpu,) = read_bus(tree.root).value

    assert gpu.asleep
    assert gpu.function.link.reason is Reason.ASLEEP
    assert gpu.function.error_reporting.reason is Reason.ASLEEP


def test_no_sysfs_is_a_reason_and_no_gpu_is_none(tmp_path) -> None:
    """The two are not the same."""
    assert isinstance(read_bus(tmp_path), Unavailable)
    assert read_bus(FakeSysfs(tmp_path).root) == Known(())


# --- all together ---------------------------------------------------------------------------


def readers(tree: FakeSysfs, **changed: Any) -> Readers:
    """Readers of a machine that is well."""
    whole = Readers(
        bus=lambda: read_bus(tree.root),
        nvml=lambda gpus, deadline_s: nvml(),
        driver=DriverFacts,
        host=lambda: host().value,
        this_boot=lambda: log(QUIET),
        previous_boot=lambda: log(QUIET),
        load=lambda gpus, seconds: Known(()),
    )
    return replace(whole, **changed)


def test_whatever_hangs_is_timed_out_and_the_rest_is_there(tree) -> None:
    """Each part has a thread of its own, and the deadline holds for all of them together."""

    def hangs() -> Any:
        time.sleep(30)

    slow = readers(tree, driver=hangs, previous_boot=hangs, nvml=lambda gpus, deadline_s: hangs())
    begin = time.monotonic()

    of = gather(slow, deadline_s=0.5)

    assert time.monotonic() - begin < 2
    for part in (of.driver, of.previous_boot, of.nvml):
        assert isinstance(part, Unavailable)
        assert part.reason is Reason.TIMED_OUT
    assert isinstance(of.this_boot, Known)
    assert of.addresses() == (GPU,)


def test_a_reader_that_raises_costs_its_own_part(tree) -> None:
    """Its error is the reason."""

    def breaks() -> Any:
        raise OSError("gone")

    of = gather(readers(tree, bus=breaks))

    assert of.bus == Unavailable(Reason.FAILED, "OSError: gone")
    assert isinstance(of.host, Known)


def test_nvml_is_left_alone_when_asked(tree) -> None:
    """Its reader is not called at all."""

    def never(gpus: object, deadline_s: float) -> Any:
        raise AssertionError("NVML was opened")

    of = gather(readers(tree, nvml=never), nvml=False)

    assert isinstance(of.nvml, Unavailable)
    assert of.nvml.reason is Reason.NOT_ASKED


def test_a_scene_of_nothing_breaks_no_check() -> None:
    """Every part is missing: each check says what it could not look at."""
    of = Scene(**{
        part: Unavailable(Reason.TIMED_OUT)
        for part in ("bus", "nvml", "driver", "host", "this_boot", "previous_boot")
    })  # fmt: skip

    found = list(run_checks(of))

    assert found
    assert {finding.status for finding in found} <= {Status.NOT_CHECKED, Status.WARN}
    assert not any("failed itself" in finding.text for finding in found)


@pytest.mark.parametrize("what", ["bus", "nvml", "driver", "host", "this_boot", "previous_boot"])
@pytest.mark.parametrize("reason", list(Reason))
def test_each_part_may_be_missing_for_any_reason(tree, what: str, reason: Reason) -> None:
    """No check breaks, and none makes a fault of what it did not see."""
    of = replace(gather(readers(tree)), **{what: Unavailable(reason)})

    found = list(run_checks(of))

    assert not any("failed itself" in finding.text for finding in found)
    assert not any(finding.status is Status.BAD for finding in found)


def test_checks_are_named_once() -> None:
    """Their names stand in findings."""
    names = [item.name for item in CHECKS]

    assert len(names) == len(set(names))


@needs_compiler
def test_the_whole_check_with_the_real_library_on_a_fake_driver(tmp_path) -> None:
    """Two GPUs, one of them lost: 79, and the other is looked at in full."""
    tree = FakeSysfs(tmp_path)
    for gpu, port in (("0000:65:00.0", "0000:64:00.0"), ("0000:b1:00.0", "0000:b0:00.0")):
        tree.gpu(gpu, bridges=[port])
    driver = FakeNvml(tmp_path, ["0000:65:00.0", "0000:b1:00.0"])
    driver.lose("0000:b1:00.0", after=3)
    tree.lose("0000:b1:00.0")

    report = check(
        readers=machine_readers(
            tree.root, env={**os.environ, **driver.env}, boots=lambda boot: log(QUIET)
        )
    )

    assert report.exit_code == 79
    assert [gpu.looked_at for gpu in report.gpus] == [True, True]
    well = report.of(GPU)
    assert all(f.status in (Status.OK, Status.NOTE) for f in well), well
    assert any(f.what == "temperature" and f.figures["temp_c"] == 55 for f in well)


@needs_compiler
@pytest.mark.parametrize("after", [0, 5, 25])
def test_a_gpu_that_only_the_driver_lost(tmp_path, after: int) -> None:
    """Its config space answers; it is lost before, while or after it is opened."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[str(PORT)])
    driver = FakeNvml(tmp_path, [str(GPU)])
    driver.lose(str(GPU), after=after)

    report = check(
        readers=machine_readers(
            tree.root, env={**os.environ, **driver.env}, boots=lambda boot: log(QUIET)
        )
    )

    (found,) = [f for f in report.of(GPU) if f.what == "presence"]
    assert report.exit_code == 79
    assert "config space still answers" in found.text
    assert not any("in time" in f.text for f in report.of(GPU))


@needs_compiler
def test_one_gpu_that_hangs_leaves_the_other_looked_at(tmp_path) -> None:
    """The call is named, within the bound."""
    tree = FakeSysfs(tmp_path)
    for gpu, port in (("0000:65:00.0", "0000:64:00.0"), ("0000:b1:00.0", "0000:b0:00.0")):
        tree.gpu(gpu, bridges=[port])
    driver = FakeNvml(tmp_path, ["0000:65:00.0", "0000:b1:00.0"])
    driver.hang("0000:b1:00.0", "nvmlDeviceGetTemperatureV")
    begin = time.monotonic()
    try:
        report = check(
            readers=machine_readers(
                tree.root, env={**os.environ, **driver.env}, boots=lambda boot: log(QUIET)
            )
        )
        took_s = time.monotonic() - begin
    finally:
        driver.let_go()

    assert took_s < 5
    assert report.gpus[0].looked_at
    (stuck,) = [f for f in report.of(None) if f.what == "NVML"]
    assert "nvmlDeviceGetTemperatureV" in stuck.text
    assert all(f.status is not Status.NOT_CHECKED for f in report.of(GPU))


@needs_compiler
def test_a_driver_that_hangs_as_a_whole_ends_within_the_bound(tmp_path) -> None:
    """The bus is still looked at; nothing is called a fault for the hang alone."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[str(PORT)])
    driver = FakeNvml(tmp_path, [str(GPU)])
    driver.hang()
    begin = time.monotonic()
    try:
        report = check(
            readers=machine_readers(
                tree.root, env={**os.environ, **driver.env}, boots=lambda boot: log(QUIET)
            )
        )
        took_s = time.monotonic() - begin
    finally:
        driver.let_go()

    assert took_s < 5
    assert report.exit_code == 3
    assert any(f.what == "NVML" and f.status is Status.WARN for f in report.of(None))
    assert any(f.what == "link" and f.status is Status.OK for f in report.of(GPU))


@needs_compiler
def test_sampling_under_load_sees_the_load(tmp_path) -> None:
    """The fake works at 60 %: its link is judged."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[str(PORT)])
    driver = FakeNvml(tmp_path, [str(GPU)])

    report = check(
        under_load_s=1.5,
        readers=machine_readers(
            tree.root, env={**os.environ, **driver.env}, boots=lambda boot: log(QUIET)
        ),
    )

    (found,) = [f for f in report.of(GPU) if f.what == "link under load"]
    assert found.status is Status.OK
    assert found.figures["samples"] >= 5


def test_the_public_name_stays_a_function(tmp_path) -> None:
    """No module of the package may take its place when it is loaded."""
    import gpuprobe

    missing = machine_readers(
        tmp_path, boots=lambda boot: Unavailable(Reason.NOT_THERE, "no journal")
    )
    for _ in range(2):
        assert gpuprobe.check(readers=missing, nvml=False).exit_code == 3
    assert callable(gpuprobe.history)
    for name in gpuprobe.__all__:
        assert not (Path(gpuprobe.__file__).parent / f"{name}.py").exists()
        assert not (Path(gpuprobe.__file__).parent / name).exists()


def test_no_machine_at_all(tmp_path: Path) -> None:
    """An empty root: no /sys, no /proc, no driver; code 3 and no traceback."""
    report = check(
        readers=machine_readers(
            tmp_path, nvml=False, boots=lambda boot: Unavailable(Reason.NOT_THERE, "no journal")
        ),
        nvml=False,
    )

    assert report.exit_code == 3
    assert report.gpus == ()
    assert {f.status for f in report.findings} <= {Status.NOT_CHECKED, Status.NOTE, Status.OK}
    assert not any("failed itself" in f.text for f in report.findings)
