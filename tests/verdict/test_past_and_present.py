"""What is over is told apart from what is: old faults, later boots, clocks that agree."""

from datetime import UTC, datetime
from pathlib import Path

from gpuprobe.api import diagnose, diagnose_text
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


def _two_files(tmp_path: Path, engine: str, kernel: str) -> list[Kind]:
    """The verdicts on a program's log and a kernel's that no zone ties together."""
    (tmp_path / "engine.log").write_text(
        f"{engine} - ERROR - CUDA error: unspecified launch failure\n"
    )
    (tmp_path / "kernel.log").write_text(kernel)
    paths = [tmp_path / "engine.log", tmp_path / "kernel.log"]
    return [verdict.kind for verdict in diagnose(*paths).verdicts]


def test_dates_days_apart_need_no_zone(tmp_path: Path) -> None:
    """No zones bring 1 May and 8 May together: what failed then is no part of what failed now."""
    loss = OLD_XID.replace("31, pid=1201, name=blender, Ch", "79, GPU has fallen off the bus. Ch")

    assert _two_files(tmp_path, "2026-04-28 11:00:00,120", loss) == [
        Kind.DEVICE_LEFT_BUS,
        Kind.CANNOT_TELL,
    ]
    assert _two_files(tmp_path, "2026-05-08 11:00:00,120", OLD_XID) == [
        Kind.CANNOT_TELL,
        Kind.APPLICATION_FAULT,
    ]


def test_dates_hours_apart_may_be_one_moment_in_two_zones(tmp_path: Path) -> None:
    """A container's clock in UTC and a kernel log in local time tell of one fault."""
    loss = OLD_XID.replace("31, pid=1201, name=blender, Ch", "79, GPU has fallen off the bus. Ch")

    assert _two_files(tmp_path, "2026-05-01 07:12:13,120", loss) == [Kind.DEVICE_LEFT_BUS]
    assert _two_files(tmp_path, "2026-05-01 17:12:13,120", OLD_XID) == [Kind.APPLICATION_FAULT]


def _passed_on(*lines: str) -> list[Kind]:
    """The verdicts on lines that a job's log shows all within a moment, with its own time."""
    zoned = "".join(f"2026-05-09T10:00:00.{n:07d}Z {line}\n" for n, line in enumerate(lines))
    bare = "".join(f"May  9 10:00:00 ci1 step[7]: {line}\n" for line in lines)
    kinds = [verdict.kind for verdict in diagnose_text(zoned).verdicts]
    assert kinds == [verdict.kind for verdict in diagnose_text(bare).verdicts]
    return kinds


def test_old_lines_that_a_job_prints_keep_their_own_times() -> None:
    """Where a step of a pipeline prints the kernel log, its time is not when things happened."""
    removed = (
        "May  1 09:30:00 rig2 sudo[7]: ana : TTY=pts/0 ; PWD=/ ; USER=root ; "
        "COMMAND=/usr/bin/tee /sys/bus/pci/devices/0000:65:00.0/remove"
    )
    loss = (
        "May  1 09:12:11 rig2 kernel: NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus."
    )

    assert _passed_on(loss, removed) == [Kind.DEVICE_LEFT_BUS]
    assert _passed_on(loss.replace("09:12", "09:32"), removed) == [Kind.NO_FAULT]


def test_old_kernel_lines_that_a_job_prints_keep_their_count() -> None:
    """A card that is found again after twenty minutes did not bounce."""
    lines = (
        "[    0.900001] pci 0000:60:03.1: PCI bridge to [bus 61]",
        "[    0.900100] pci 0000:61:00.0: [10de:1eb8] type 00 class 0x030200 PCIe Endpoint",
        "[    4.100000] nvidia 0000:61:00.0: enabling device (0000 -> 0002)",
        "[ 5000.000001] pcieport 0000:60:03.1: pciehp: Slot(3): Link Down",
        "[ 6310.000001] pci 0000:61:00.0: [10de:1eb8] type 00 class 0x030200 PCIe Endpoint",
    )

    assert _passed_on(*lines) == [Kind.DEVICE_LEFT_BUS]
    assert _passed_on(*lines[:4], lines[4].replace("6310", "5010")) == [Kind.PCIE_LINK_ERRORS]


def test_a_shippers_time_places_lines_of_that_moment() -> None:
    """Near miss: a line that was passed on at once, from a machine in another zone."""
    diagnosis = diagnose_text(f"2026-05-01T07:12:11.5Z {OLD_XID}")

    assert diagnosis.verdicts[0].at == datetime(2026, 5, 1, 7, 12, 11, 500000, tzinfo=UTC)


def test_two_counts_of_one_line_are_no_dates() -> None:
    """A console's own count before the kernel's says nothing about the day."""
    line = "[   12.100000] [   12.000001] NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.\n"

    assert diagnose_text(line).verdicts[0].kind is Kind.DEVICE_LEFT_BUS
