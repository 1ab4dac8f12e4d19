"""When the driver cannot be used."""

from __future__ import annotations

import pytest
from _judging import findings, kinds, only, pci

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.DRIVER_UNUSABLE


@pytest.mark.parametrize(
    "text",
    [
        "[   12.000000] NVRM: API mismatch: the client has the version 580.95.05, but\n[   12.000000] NVRM: this kernel module has the version 580.82.07.  Please\n[   12.000000] NVRM: make sure that this kernel module and all NVIDIA driver\n[   12.000000] NVRM: components have the same version.\n",
        "Failed to initialize NVML: Driver/library version mismatch\n",
    ],
    ids=["kernel", "smi"],
)
def test_versions_that_do_not_match_are_named(text: str) -> None:
    """The mismatch is the finding, whoever reports it."""
    verdict = only(text)

    assert verdict.kind is KIND
    assert "different versions" in verdict.summary


def test_a_failed_initialisation_is_likely_and_told_with_its_status() -> None:
    """RmInitAdapter says that a GPU could not be started, and its numbers are kept."""
    verdict = only(
        "[   40.000000] NVRM: GPU 0000:1a:00.0: RmInitAdapter failed! (0x62:0x55:2477)\n"
    )

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert pci(verdict) == "0000:1a:00.0"
    assert "0x55" in verdict.summary


def test_no_devices_alone_decides_nothing() -> None:
    """`No devices were found` fits a lost GPU and an absent driver alike."""
    assert findings(KIND, "No devices were found\n") == []
    assert kinds("No devices were found\n") == [Kind.CANNOT_TELL]


def test_a_lost_gpu_s_failed_initialisation_is_not_the_driver() -> None:
    """Status 0x0f and an Xid 79 before it make it a consequence."""
    text = (
        "[   39.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
        "[   40.000000] NVRM: GPU 0000:1a:00.0: RmInitAdapter failed! (0x62:0xf:2477)\n"
    )

    assert kinds(text) == [Kind.DEVICE_LEFT_BUS]


def test_a_driver_that_loads_is_no_finding() -> None:
    """The module's greeting is healthy."""
    assert (
        findings(
            KIND,
            "[    5.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
        )
        == []
    )


def test_a_container_without_the_toolkit_names_the_container() -> None:
    """Docker cannot give the GPU to a container: no GPU is at fault."""
    verdict = only(
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
    )

    assert verdict.kind is KIND
    assert "container" in verdict.summary


def test_a_missing_library_and_a_refused_module_have_sentences_of_their_own() -> None:
    """libcuda that is not there, a module whose key the kernel does not know."""
    library = only(
        "OSError: libcuda.so.1: cannot open shared object file: No such file or directory\n"
    )
    module = only("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n")

    assert "library is missing" in library.summary
    assert "not loaded" in module.summary


def test_a_user_outside_the_group_of_amd_s_device_file() -> None:
    """rocminfo says whose group it is."""
    verdict = only(
        "Unable to open /dev/kfd read-write: Permission denied\n"
        'kim is not member of "render" group, the default DRM access group.\n'
    )

    assert verdict.kind is Kind.DRIVER_UNUSABLE


def test_a_virtual_machine_that_gets_no_device_is_likely() -> None:
    """QEMU names an address and not what sits there."""
    verdict = only(
        "qemu-system-x86_64: -device vfio-pci,host=0000:0a:00.0,id=hostpci0: vfio 0000:0a:00.0: group 21 is not viable\n"
        "Please ensure all devices within the iommu_group are bound to their vfio bus driver.\n"
    )

    assert (verdict.kind, verdict.certainty, pci(verdict)) == (KIND, Certainty.LIKELY, None)
