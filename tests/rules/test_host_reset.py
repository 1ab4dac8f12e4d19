"""When the whole machine went down."""

from __future__ import annotations

from _judging import findings, first, kinds, lines, only

from gpuprobe.diagnosis import Certainty, Kind, Role

KIND = Kind.HOST_RESET
CUT = (
    "-- Boot 11112222333344445555666677778888 --\n"
    "Jan 05 10:00:00 box kernel: Linux version 6.12.0 (a@b)\n"
    "Jan 05 11:00:00 box systemd[1]: Started vllm.service - engine.\n"
    "-- Boot 99990000aaaabbbbccccddddeeeeffff --\n"
    "Jan 05 11:30:00 box kernel: Linux version 6.12.0 (a@b)\n"
    "Jan 05 11:30:02 box systemd-journald[300]: File /var/log/journal/x/system.journal corrupted or uncleanly shut down, renaming and replacing.\n"
    "Jan 05 11:30:03 box kernel: EXT4-fs (nvme0n1p2): INFO: recovery required on readonly filesystem\n"
)


def test_an_unclean_journal_and_a_recovered_file_system_are_likely() -> None:
    """Two signs at the start of the next boot, and no shutdown before."""
    verdict = only(CUT)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)


def test_an_orderly_shutdown_is_none() -> None:
    """With a shutdown before it, a sign alone is not enough."""
    text = CUT.replace(
        "-- Boot 9999",
        "Jan 05 11:29:00 box systemd-logind[8]: The system will reboot now!\n-- Boot 9999",
    ).replace(
        "Jan 05 11:30:03 box kernel: EXT4-fs (nvme0n1p2): INFO: recovery required on readonly filesystem\n",
        "",
    )

    assert KIND not in kinds(text)


def test_the_firmware_s_own_reason_is_telling() -> None:
    """`Previous system reset reason` needs no second boot among the inputs."""
    (found,) = findings(
        KIND,
        "[    0.300000] x86/amd: Previous system reset reason [0x08000800]: an uncorrected error caused a data fabric sync flood event\n",
    )

    assert found.certainty is Certainty.LIKELY


def test_after_a_loss_it_is_a_consequence() -> None:
    """Somebody cut the power because the GPU was gone."""
    text = CUT.replace(
        "-- Boot 9999",
        "Jan 05 11:20:00 box kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n-- Boot 9999",
    )

    assert kinds(text) == [Kind.DEVICE_LEFT_BUS]


def test_two_clean_boots_are_quiet() -> None:
    """Boots without an unclean sign are nothing."""
    assert findings(KIND, "".join(line + "\n" for line in CUT.splitlines()[:5])) == []


def test_lines_without_words_above_a_journal_s_mark_are_a_boot_of_their_own() -> None:
    """A program's lines above `-- Boot` belong to the boot that was cut off."""
    text = "".join(f"Jan 05 11:00:0{n} box app[9]: step {n}\n" for n in range(5))
    verdict = only(text + CUT[CUT.index("-- Boot 9999") :])

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)


def test_a_kernel_panic_is_told_as_it_comes() -> None:
    """The panic is the end of the machine, and the sentence gives its time and reason."""
    verdict = only(
        "[ 9211.500000] BUG: kernel NULL pointer dereference, address: 0000000000000018\n"
        "[ 9211.700000] Kernel panic - not syncing: Fatal exception in interrupt\n"
        "[ 9211.800000] ---[ end Kernel panic - not syncing: Fatal exception in interrupt ]---\n"
    )

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert "kernel panic at 9211.700 s" in verdict.summary
    assert "Fatal exception in interrupt" in verdict.summary
    assert lines(verdict, Role.PROOF) == [2]


def test_a_panic_on_request_is_none() -> None:
    """Somebody asked for the crash dump."""
    text = "[ 9211.700000] Kernel panic - not syncing: sysrq triggered crash\n"

    assert findings(KIND, text) == []


def test_a_fatal_error_that_the_firmware_kept_is_telling() -> None:
    """BERT holds what the boot before died of; a corrected error killed nothing."""
    text = (
        "[    1.100000] BERT: Error records from previous boot:\n"
        "[    1.100001] [Hardware Error]: event severity: fatal\n"
        "[    1.100002] [Hardware Error]:  Error 0, type: fatal\n"
    )

    assert only(text).kind is KIND
    assert KIND not in kinds(text.replace("severity: fatal", "severity: corrected"))


def test_a_board_s_watchdog_that_reset_the_host_is_telling() -> None:
    """The BMC's own log says that it reset a host that hung."""
    text = "   9 | 03/03/2026 | 03:20:02 | Watchdog2 #0xca | Hard reset | Asserted\n"

    assert only(text).kind is KIND


def test_kernel_power_41_in_any_language() -> None:
    """The source and the number say it; another number of that source is none."""
    text = (
        "Protokollname: System\nQuelle:        Microsoft-Windows-Kernel-Power\n"
        "Datum:         12.11.2025 20:44:10\nEreignis-ID:   41\nEbene:         Kritisch\n"
    )

    assert only(text).kind is KIND
    assert KIND not in kinds(text.replace("   41", "   109"))


def test_a_bugcheck_is_the_end_of_windows() -> None:
    """Windows names the code at the next start; a TDR's codes are the GPU's hang."""
    said = "The computer has rebooted from a bugcheck.  The bugcheck was: 0x{:08x} (0x4, 0x1).\n"
    verdict = only(said.format(0x9F))

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert "0x0000009f" in verdict.summary
    assert kinds(said.format(0x116)) == [Kind.GPU_HANG]


def test_slurm_tells_of_a_reboot_that_nobody_asked_for() -> None:
    """Kubernetes says the same of any reboot, so its words decide nothing."""
    slurm = "validate_node_specs: Node gpu7 unexpectedly rebooted boot_time=1767323045 last response=1767322745\n"
    kubernetes = (
        "3m  Warning  Rebooted  node/gpu-7  Node gpu-7 has been rebooted, boot id: 0d1e2f30\n"
    )

    assert (only(slurm).kind, only(slurm).certainty) == (KIND, Certainty.LIKELY)
    assert kinds(kubernetes) == [Kind.CANNOT_TELL]


def test_an_ilo_that_saw_an_unexpected_restart_says_so() -> None:
    """HPE's log knows that nobody asked for it."""
    said = '7,Caution,OS,03/03/2026 03:14,1,"Unexpected Shutdown and Restart - An undetermined error type resulted in a reboot of the server"\n'

    assert first(said).kind is KIND
