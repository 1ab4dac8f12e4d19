"""One boot's log of this machine: what counts as whole, what as missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from gpuprobe.boot_history import End, read_history
from gpuprobe.boots import read_boot
from gpuprobe.events import ShutdownStarted
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.files import machine
from gpuprobe.sources.files.raw_input import RawInput, UnreadableInput
from gpuprobe.sources.files.unpack import Notes

BOOT = "a" * 32
LOSS = "NVRM: Xid (PCI:0000:65:00): 79, pid=2201, name=engine, GPU has fallen off the bus."
BEGIN = "Linux version 6.8.0-79 (build@host) #1 SMP"


def journal(*messages: str, notes: tuple[str, ...] = ()) -> RawInput:
    lines = [
        json.dumps({"_BOOT_ID": BOOT, "_TRANSPORT": "kernel", "MESSAGE": message})
        for message in messages
    ]
    return RawInput(
        path=machine.KERNEL,
        name="journal.json",
        _opener=lambda raw: iter(["\n".join(lines).encode() + b"\n"] if lines else []),
        notes=Notes(notes),
        format="journal-binary",
    )


def kmsg(*messages: str) -> RawInput:
    text = "".join(f"4,{at},{at}000000,-;{message}\n" for at, message in enumerate(messages))
    return RawInput(
        path="/dev/kmsg", name="kmsg", _opener=lambda raw: iter([text.encode()]), format="kmsg"
    )


def test_a_journal_is_whole() -> None:
    """With its boot's id, and judged."""
    found = read_boot(0, lambda boot: iter([journal(BEGIN, LOSS)]))

    assert isinstance(found, Known)
    assert found.value.whole
    assert found.value.boot_id == BOOT
    assert found.value.diagnosis.exit_code == 79


def test_a_flood_is_read_from_its_end(monkeypatch) -> None:
    """And is not called whole."""
    monkeypatch.setattr(machine, "BOOT_LINES", 3)

    found = read_boot(0, lambda boot: iter([journal(BEGIN, "one", LOSS)]))

    assert isinstance(found, Known)
    assert not found.value.whole
    assert found.value.diagnosis.exit_code == 79


def test_a_ring_buffer_that_lost_its_beginning_is_not_whole() -> None:
    """So that no Xid in it is no proof of none."""
    cut = read_boot(0, lambda boot: iter([kmsg(LOSS)]))
    whole = read_boot(0, lambda boot: iter([kmsg(BEGIN, LOSS)]))

    assert isinstance(cut, Known)
    assert isinstance(whole, Known)
    assert not cut.value.whole
    assert "began" in cut.value.notes[-1]
    assert whole.value.whole


def test_a_journal_without_a_kernel_line_for_this_user_is_no_quiet_log() -> None:
    """He may read his own messages alone."""
    note = "only part of the journal may be read. sudo"

    found = read_boot(0, lambda boot: iter([journal("hello", notes=(note,))]))

    assert isinstance(found, Unavailable)
    assert found.reason is Reason.NOT_PERMITTED
    assert "systemd-journal" in found.hint


def test_nothing_readable_keeps_its_reason() -> None:
    """Permission or absence."""
    denied = UnreadableInput("/dev/kmsg", "Operation not permitted", "sudo")
    absent = UnreadableInput(machine.KERNEL, "journalctl is not installed")

    for item, reason in ((denied, Reason.NOT_PERMITTED), (absent, Reason.NOT_THERE)):
        found = read_boot(0, lambda boot, item=item: iter([item]))
        assert isinstance(found, Unavailable)
        assert found.reason is reason
        assert item.reason in found.detail


# --- through a journalctl -------------------------------------------------------------------

SCRIPT = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
*--list-boots*) echo ' 0 {boot} Sun 2026-03-01 08:00:00 UTC Sun 2026-03-01 09:00:00 UTC' ;;
*--boot=-1*_TRANSPORT=kernel*) echo '{loss}' ;;
*--boot=-1*shutdown.target*) echo '{shutdown}' ;;
esac
"""


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journalctl that knows one earlier boot; gives the file with its calls."""
    calls = tmp_path / "calls"

    def line(message: str, source: str) -> str:
        return json.dumps({"_BOOT_ID": BOOT, "_TRANSPORT": source, "MESSAGE": message})

    program = tmp_path / "journalctl"
    program.write_text(
        SCRIPT.format(
            log=calls,
            boot=BOOT,
            loss=line(LOSS, "kernel"),
            shutdown=line("Reached target Reboot.", "journal"),
        )
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return calls


def test_the_boot_before_is_read_with_its_shutdown(journalctl) -> None:
    """Two questions to the journal: kernel lines, and lines of a shutdown."""
    found = read_boot(-1)

    assert isinstance(found, Known)
    assert {type(event).__name__ for event in found.value.timeline.events} >= {
        "XidReported",
        "ShutdownStarted",
    }
    assert len(journalctl.read_text().splitlines()) == 2


def test_the_list_of_boots_is_asked_in_utc(journalctl) -> None:
    """So that its times can be read."""
    found = machine.list_boots()

    assert isinstance(found, Known)
    assert found.value[0].boot_id == BOOT
    assert found.value[0].first.tzinfo is not None


# --- through a real journal -----------------------------------------------------------------

REMOTE = Path("/lib/systemd/systemd-journal-remote")
EARLIER, LATER = "1" * 32, "2" * 32


def export(boot: str, at_s: int, message: str, **fields: str) -> str:
    """An entry in the journal's export format."""
    whole = {
        "__REALTIME_TIMESTAMP": str(1772352000000000 + at_s * 1_000_000),
        "__MONOTONIC_TIMESTAMP": str(at_s * 1_000_000),
        "_BOOT_ID": boot,
        "_MACHINE_ID": "d" * 32,
        "_HOSTNAME": "kestrel",
        "MESSAGE": message,
        **fields,
    }
    return "".join(f"{key}={value}\n" for key, value in whole.items()) + "\n"


def kernel(boot: str, at_s: int, message: str) -> str:
    """A line of the kernel."""
    return export(boot, at_s, message, _TRANSPORT="kernel", SYSLOG_IDENTIFIER="kernel")


@pytest.fixture
def real_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two boots in a real journal: a loss with a shutdown in order, then a quiet one."""
    if not REMOTE.exists() or shutil.which("journalctl") is None:
        pytest.skip("needs journalctl and systemd-journal-remote")
    folder = tmp_path / "journal"
    folder.mkdir()
    entries = [
        kernel(EARLIER, 0, BEGIN),
        kernel(EARLIER, 600, LOSS),
        export(EARLIER, 601, "Started engine.service.", _COMM="systemd", UNIT="engine.service"),
        export(
            EARLIER,
            900,
            "Reached target reboot.target - System Reboot.",
            _TRANSPORT="journal",
            SYSLOG_IDENTIFIER="systemd",
            UNIT="reboot.target",
        ),
        kernel(LATER, 90_000, BEGIN),
        kernel(LATER, 90_010, "usb 1-1: new high-speed USB device number 2 using xhci_hcd"),
    ]
    subprocess.run(
        [str(REMOTE), "-o", str(folder / "system.journal"), "-"],
        input="".join(entries).encode(),
        check=True,
        capture_output=True,
    )
    program = tmp_path / "journalctl"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("journalctl")} -D {folder} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_a_real_journals_boots(real_journal) -> None:
    """Each with its kernel lines; the earlier with its shutdown and its loss."""
    before, this = read_boot(-1), read_boot(0)

    assert isinstance(before, Known)
    assert isinstance(this, Known)
    assert before.value.boot_id == EARLIER
    assert before.value.diagnosis.exit_code == 79
    assert any(isinstance(e, ShutdownStarted) for e in before.value.timeline.events)
    assert this.value.diagnosis.exit_code == 0
    assert this.value.whole


def test_a_real_journals_history(real_journal, tmp_path) -> None:
    """A row a boot, with times and ends."""
    rows = read_history(tmp_path).rows

    assert [(row.boot_id, row.end, row.losses) for row in rows] == [
        (EARLIER, End.SHUTDOWN, 1),
        (LATER, End.RUNNING, 0),
    ]
    assert rows[0].length == timedelta(seconds=900)


def test_a_boot_that_the_journal_does_not_hold(real_journal) -> None:
    """Is missing, not quiet."""
    found = read_boot(-2)

    assert isinstance(found, Unavailable)
    assert found.reason is Reason.NOT_THERE
