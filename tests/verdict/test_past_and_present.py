"""What is over is told apart from what is: old faults, later boots, clocks that agree."""

from gpuprobe.api import diagnose_text
from gpuprobe.diagnosis import Kind

OLD_XID = (
    "May  1 09:12:11 rig2 kernel: NVRM: Xid (PCI:0000:65:00): 31, pid=1201, name=blender, "
    "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS\n"
)
NEW_719 = (
    "May  8 14:30:00 rig2 serve[9911]: torch.AcceleratorError: CUDA error: "
    "unspecified launch failure\n"
)


def test_an_old_xid_does_not_answer_for_todays_error() -> None:
    """A week-old page fault of another program is history to a 719; both are told."""
    diagnosis = diagnose_text(OLD_XID + NEW_719)

    assert [verdict.kind for verdict in diagnosis.verdicts] == [
        Kind.CANNOT_TELL,
        Kind.APPLICATION_FAULT,
    ]
    assert "May  8" in diagnosis.verdicts[0].summary


def test_an_xid_of_the_same_minute_does() -> None:
    """Near miss: the same two lines a second apart are one fault."""
    diagnosis = diagnose_text(OLD_XID + NEW_719.replace("May  8 14:30:00", "May  1 09:12:12"))

    (verdict,) = diagnosis.verdicts
    assert verdict.kind is Kind.APPLICATION_FAULT


def test_a_loss_stays_the_answer_whatever_comes_after() -> None:
    """An old loss is never history."""
    loss = OLD_XID.replace("31, pid=1201, name=blender, Ch", "79, GPU has fallen off the bus. Ch")

    assert diagnose_text(loss + NEW_719).answer is Kind.DEVICE_LEFT_BUS


def test_a_boot_since_then_without_a_fault_is_said() -> None:
    """The reader learns that the state of then is not the state of now."""
    log = (
        "Mar  3 00:01:00 rig2 kernel: Linux version 6.8.0-79-generic (buildd@lcy02)\n"
        "Mar  3 01:10:01 rig2 kernel: NVRM: Xid (PCI:0000:c1:00): 119, pid=4, name=serve, Timeout "
        "after 6s of waiting for RPC response from GPU0 GSP! Expected function 76\n"
    )
    later = "Mar  3 01:15:40 rig2 kernel: Linux version 6.8.0-79-generic (buildd@lcy02)\n"

    assert "a boot since then" in diagnose_text(log + later).verdicts[0].summary
    assert "a boot since then" not in diagnose_text(log).verdicts[0].summary


def test_a_contained_memory_error_is_called_contained() -> None:
    """Xid 94 decides how urgent the reset is; 95 beside it takes that back."""
    line = (
        "[  99.1] NVRM: Xid (PCI:0000:4e:00): {}, pid=7, name=serve, "
        "{}: SM (0x1). RST: Yes, D-RST: No\n"
    )
    contained = line.format(94, "Contained")
    uncontained = line.format(95, "Uncontained")

    assert "contained (Xid 94)" in diagnose_text(contained).verdicts[0].summary
    assert "not contained" in diagnose_text(contained + uncontained).verdicts[0].summary


def test_logs_on_one_clock_are_not_called_unjoined(tmp_path) -> None:
    """Two files of one host's syslog share a clock, so no order is in doubt."""
    from gpuprobe import diagnose

    (tmp_path / "kernel.log").write_text(
        OLD_XID.replace("31, pid=1201, name=blender, Ch", "79, GPU has fallen off the bus. Ch")
    )
    (tmp_path / "engine.log").write_text(NEW_719.replace("May  8 14:30:00", "May  1 09:12:14"))

    verdict = diagnose(tmp_path).verdicts[0]

    assert "the CUDA error 3 s later" in verdict.summary
    assert not any("order of lines" in item.what for item in verdict.not_checked)
