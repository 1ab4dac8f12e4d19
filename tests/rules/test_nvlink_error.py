"""When NVLink or a switch reports errors."""

from __future__ import annotations

from _judging import findings, kinds, only, pci

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.NVLINK_ERROR
XID74 = "[  900.000000] NVRM: Xid (PCI:0000:1a:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)\n"


def test_xid_74_confirms_it() -> None:
    """The GPU that reports it is named."""
    verdict = only(XID74)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert pci(verdict) == "0000:1a:00.0"


def test_the_peers_reports_are_one_finding() -> None:
    """A link has two ends: the other device is named beside the first."""
    verdict = only(XID74 + XID74.replace("1a:00", "1b:00"))

    assert [str(device) for device in verdict.other_devices] == ["0000:1b:00.0"]


def test_a_fatal_sxid_is_the_switch_s() -> None:
    """NVSwitch's own address is in the verdict."""
    verdict = only(
        "[  900.000000] nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
    )

    assert verdict.kind is KIND
    assert pci(verdict) == "0000:c4:00.0"


def test_a_fatal_sxid_that_dcgm_repeats_has_no_address() -> None:
    """DCGM names neither the switch nor its address, so neither does the sentence."""
    verdict = only("| Errors | Detected fatal NvSwitch SXID 20034 |\n")

    assert (verdict.kind, pci(verdict)) == (KIND, None)
    assert verdict.summary.startswith("An NVSwitch reported a fatal error")


def test_a_non_fatal_sxid_is_quiet() -> None:
    """Links that come up at boot report non-fatal errors."""
    assert (
        findings(
            KIND,
            "[   30.000000] nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)\n",
        )
        == []
    )


def test_a_lost_gpu_explains_its_peers_reports() -> None:
    """A GPU that left takes its links with it."""
    lost = "[  899.000000] NVRM: Xid (PCI:0000:1c:00): 79, GPU has fallen off the bus.\n"

    assert kinds(lost + XID74) == [Kind.DEVICE_LEFT_BUS]
