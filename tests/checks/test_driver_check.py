"""Versions that do not match, GPUs without their driver, NVML that does not answer."""

from __future__ import annotations

from machines import GPU, HEALTHY, host, nvml, only, run, scene

from gpuprobe.checks import Status, driver, recovery
from gpuprobe.checks.scene import DriverFacts
from gpuprobe.diagnosis import Kind
from gpuprobe.reading import Known, Reason, Unavailable


def facts(**changed: str) -> Known[DriverFacts]:
    """Versions that agree but for what is changed."""
    whole = {"loaded": "580.95.05", "installed": "580.95.05", "library": "580.95.05", **changed}
    return Known(DriverFacts(**{key: Known(value) for key, value in whole.items()}))


def test_versions_that_agree(tree) -> None:
    """One line, with what runs."""
    found = only(driver, scene(tree, driver=facts()), "driver versions")

    assert found.status is Status.OK
    assert "580.95.05" in found.text


def test_a_library_of_another_version_cannot_be_used(tree) -> None:
    """The module was upgraded under a running kernel."""
    refused = Unavailable(Reason.NOT_THERE, "nvmlInit returned LIB_RM_VERSION_MISMATCH")
    of = scene(tree, driver=facts(library="590.10.01"), nvml=refused)

    found = only(driver, of, "driver versions")

    assert found.status is Status.BAD
    assert found.kind is Kind.DRIVER_UNUSABLE
    assert found.figures["loaded"] == "580.95.05"
    assert found.figures["library"] == "590.10.01"


def test_nvmls_own_word_is_enough(tree) -> None:
    """Where the library's file names no version."""
    unknown = Known(DriverFacts(loaded=Known("580.95.05")))
    refused = Unavailable(Reason.NOT_THERE, "nvmlInit returned LIB_RM_VERSION_MISMATCH")

    found = only(driver, scene(tree, driver=unknown, nvml=refused), "driver versions")

    assert found.status is Status.BAD


def test_an_old_library_that_lies_about_does_no_harm(tree) -> None:
    """NVML answers, so the driver and the library in use agree."""
    found = only(driver, scene(tree, driver=facts(library="535.10.01")), "driver versions")

    assert found.status is Status.OK


def test_an_upgrade_that_waits_for_a_reboot_is_a_warning(tree) -> None:
    """What runs still works."""
    found = only(driver, scene(tree, driver=facts(installed="590.10.01")), "driver versions")

    assert found.status is Status.WARN
    assert "590.10.01" in found.text


def test_a_gpu_without_a_driver_is_unusable(tree) -> None:
    """On a host; a container does not see what its host binds."""
    tree.bind(str(GPU), None)

    assert only(driver, scene(tree), "bound driver").kind is Kind.DRIVER_UNUSABLE
    boxed = scene(tree, host=host(container="docker"))
    assert [f for f in run(driver, boxed) if f.what == "bound driver"] == []


def test_passthrough_is_no_fault(tree) -> None:
    """vfio-pci has it on purpose."""
    tree.bind(str(GPU), "vfio-pci")

    assert only(driver, scene(tree), "bound driver").status is Status.NOTE


def test_another_driver_is_a_warning(tree) -> None:
    """nouveau runs a desktop, not CUDA."""
    tree.bind(str(GPU), "nouveau")

    assert only(driver, scene(tree), "bound driver").status is Status.WARN


def test_a_gpu_that_nvml_does_not_list_was_not_started(tree) -> None:
    """Bound, awake, and missing from NVML's list; in a container it may belong to others."""
    of = scene(tree, nvml=Known({}))
    boxed = scene(tree, nvml=Known({}), host=host(container="docker"))

    assert only(driver, of, "NVML").kind is Kind.DRIVER_UNUSABLE
    assert only(driver, boxed, "NVML").status is Status.NOTE


def test_a_gpu_that_nvml_cannot_open_is_named_with_the_code(tree) -> None:
    """A container that was not given it gets another code for it, and that is no fault."""

    def refused(code: str) -> Unavailable:
        return Unavailable(Reason.FAILED, f"nvmlDeviceGetHandleByPciBusId returned {code}")

    unknown = scene(tree, nvml=nvml(**dict.fromkeys(HEALTHY, refused("UNKNOWN (999)"))))
    elsewhere = scene(
        tree,
        nvml=nvml(**dict.fromkeys(HEALTHY, refused("NOT_FOUND (6)"))),
        host=host(container="docker"),
    )

    assert only(driver, unknown, "NVML").kind is Kind.DRIVER_UNUSABLE
    assert "UNKNOWN (999)" in only(driver, unknown, "NVML").text
    assert only(driver, elsewhere, "NVML").status is Status.NOTE


def test_a_reset_that_is_required_is_told_by_its_own_check(tree) -> None:
    """Once, and as what it is."""
    code = Unavailable(Reason.FAILED, "nvmlDeviceGetHandleByPciBusId returned RESET_REQUIRED (16)")
    of = scene(tree, nvml=nvml(**dict.fromkeys(HEALTHY, code)))

    assert not any(f.status is Status.BAD for f in run(driver, of))
    assert only(recovery, of, "recovery action").kind is Kind.GPU_HANG


def test_a_call_that_hangs_is_evidence_and_no_verdict(tree) -> None:
    """The call is named; nothing is called bad for it."""
    stuck = Unavailable(Reason.TIMED_OUT, "process 812 is still inside nvmlInit after 4.1 s")

    found = only(driver, scene(tree, nvml=stuck), "NVML")

    assert found.status is Status.WARN
    assert "nvmlInit" in found.text
    assert not any(f.status is Status.BAD for f in run(driver, scene(tree, nvml=stuck)))
