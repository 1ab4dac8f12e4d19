"""A row a boot: what failed, how it ended, what changed."""

from __future__ import annotations

import io
import json
import threading
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from gpuprobe import boot_history
from gpuprobe.api import timelines
from gpuprobe.boot_history import BootRow, End, History, make_rows, read_history
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.reporters.history import HistoryJsonReporter, HistoryTextReporter, spell_length
from gpuprobe.sources.files import machine
from gpuprobe.sources.files.machine import JournalBoot, parse_boots
from gpuprobe.sources.files.raw_input import RawInput, UnreadableInput
from gpuprobe.sources.files.unpack import Notes
from gpuprobe.timeline import Timeline

FIRST, SECOND, THIRD = (digit * 32 for digit in "abc")
BEGAN = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
SCHEMA = json.loads(
    resources.files("gpuprobe.reporters").joinpath("history.schema.json").read_text()
)


def entry(boot: str, at_s: float, message: str, day: int = 0) -> str:
    """A kernel line of the journal's JSON."""
    wall = BEGAN + timedelta(days=day, seconds=at_s)
    return json.dumps(
        {
            "_BOOT_ID": boot,
            "_MACHINE_ID": "d" * 32,
            "_HOSTNAME": "kestrel",
            "_TRANSPORT": "kernel",
            "SYSLOG_IDENTIFIER": "kernel",
            "__REALTIME_TIMESTAMP": str(int(wall.timestamp() * 1e6)),
            "_SOURCE_MONOTONIC_TIMESTAMP": str(int(at_s * 1e6)),
            "MESSAGE": message,
        }
    )


def begin(boot: str, kernel: str, driver: str, line: str, bios: str, day: int) -> list[str]:
    """How a boot's log begins."""
    return [
        entry(boot, 0, f"Linux version {kernel} (build@host) #1 SMP", day),
        entry(boot, 0, f"Command line: BOOT_IMAGE=/vmlinuz-{kernel} root=/dev/sda2 {line}", day),
        entry(boot, 0, f"DMI: Acme Station 7/0AB, BIOS {bios}", day),
        entry(
            boot,
            4,
            f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build",
            day,
        ),
    ]


LOSS = "NVRM: Xid (PCI:0000:65:00): 79, pid=2201, name=engine, GPU has fallen off the bus."
THREE = [
    *begin(FIRST, "6.8.0-78", "575.10.01", "ro quiet", "2.1 01/02/2025", 0),
    entry(FIRST, 3600, "reboot: Restarting system"),
    *begin(SECOND, "6.8.0-79", "580.65.06", "ro quiet", "2.1 01/02/2025", 1),
    entry(SECOND, 4021, LOSS, 1),
    *begin(THIRD, "6.8.0-79", "580.65.06", "ro pcie_aspm=off", "2.2 03/04/2025", 2),
    entry(THIRD, 6, "EXT4-fs (sda2): recovery required on readonly filesystem", 2),
    entry(THIRD, 900, "NVRM: Xid (PCI:0000:65:00): 31, pid=77, name=engine, Ch 00000008", 2),
]
BOOTS = [
    JournalBoot(FIRST, BEGAN, BEGAN + timedelta(hours=1)),
    JournalBoot(SECOND, BEGAN + timedelta(days=1), BEGAN + timedelta(days=1, hours=1.2)),
    JournalBoot(THIRD, BEGAN + timedelta(days=2), BEGAN + timedelta(days=2, hours=3)),
]


def timeline_of(lines: list[str]) -> Timeline:
    """The timeline of journal lines."""
    (timeline,) = timelines("-", stdin=io.BytesIO("\n".join(lines).encode() + b"\n"))
    return timeline


def rows_of(lines: list[str] = THREE, **options: object) -> tuple[BootRow, ...]:
    """Rows of journal lines, the third boot running."""
    return make_rows(timeline_of(lines), BOOTS, **{"running": THIRD, **options})  # type: ignore[arg-type]


def test_a_row_a_boot() -> None:
    """In order of time, with its length."""
    rows = rows_of()

    assert [row.boot_id for row in rows] == [FIRST, SECOND, THIRD]
    assert [row.length for row in rows] == [
        timedelta(hours=1),
        timedelta(hours=1.2),
        timedelta(hours=3),
    ]


def test_how_each_boot_ended() -> None:
    """A shutdown, an unclean end that the next boot found, and the one that runs."""
    rows = rows_of()

    assert [row.end for row in rows] == [End.SHUTDOWN, End.UNCLEAN, End.RUNNING]
    assert "recovery required" in rows[1].signs[0]


def test_a_log_that_just_ends_was_cut_off() -> None:
    """Unless the lines of a shutdown could not have been seen."""
    lines = [line for line in THREE if "EXT4" not in line]

    assert rows_of(lines)[1].end is End.CUT_OFF
    assert rows_of(lines, ends_known=False)[1].end is End.UNKNOWN


def test_losses_stand_in_their_own_boot() -> None:
    """A program's fault is no loss and no hang."""
    rows = rows_of()

    assert [row.losses for row in rows] == [0, 1, 0]
    assert [row.hangs for row in rows] == [0, 0, 0]
    assert [fault.kind.value for fault in rows[2].faults] == ["application-fault"]


def test_what_changed_since_the_boot_before() -> None:
    """Kernel and driver, then the boot line and the BIOS; file names of the line are left out."""
    rows = rows_of()

    assert rows[0].changed == ()
    assert set(rows[1].changed) == {
        "kernel 6.8.0-78 -> 6.8.0-79",
        "driver 575.10.01 -> 580.65.06",
    }
    assert set(rows[2].changed) == {
        "boot line +pcie_aspm=off -quiet",
        "BIOS 2.1 01/02/2025 -> 2.2 03/04/2025",
    }


def test_what_a_boot_does_not_say_did_not_change() -> None:
    """Its beginning is no longer kept; the next one is compared with the last that said it."""
    head = len(begin("", "", "", "", "", 0))
    second = 1 + head
    lines = [*THREE[:second], *THREE[second + head :]]

    rows = rows_of(lines)

    assert rows[1].changed == ()
    assert "kernel 6.8.0-78 -> 6.8.0-79" in rows[2].changed


def test_power_caps_are_changes() -> None:
    """Where nvidia-smi's own words are in the journal."""
    cap = "Power limit for GPU 00000000:65:00.0 was set to 260.00 W from 350.00 W."

    assert (
        "power cap of 0000:65:00.0 260.00 W"
        in rows_of([*THREE, entry(THIRD, 60, cap, 2)])[2].changed
    )


def test_resets_are_counted() -> None:
    """On purpose, or by the driver."""
    reset = entry(THIRD, 70, "vfio-pci 0000:65:00.0: reset done", 2)

    assert rows_of([*THREE, reset])[2].resets == 1
    assert rows_of()[2].resets == 0


def test_without_a_list_the_events_name_the_boots() -> None:
    """Times come from their lines."""
    rows = make_rows(timeline_of(THREE), [])

    assert [row.boot_id for row in rows] == [FIRST, SECOND, THIRD]
    assert rows[0].began == BEGAN
    assert rows[2].end is End.RUNNING


# --- reading the machine --------------------------------------------------------------------


def journal(lines: list[str], *notes: str) -> RawInput:
    """An input that holds these lines."""
    return RawInput(
        path=machine.KERNEL,
        name="journal.json",
        _opener=lambda raw: iter(["\n".join(lines).encode() + b"\n"]),
        notes=Notes(notes),
        format="journal-binary",
    )


def serve(monkeypatch: pytest.MonkeyPatch, lines: list[str], *notes: str) -> None:
    """Let the machine's journal hold these lines."""
    monkeypatch.setattr(machine, "list_boots", lambda: Known(BOOTS))
    monkeypatch.setattr(
        machine, "history_inputs", lambda boot_id: iter([journal(of_boot(lines, boot_id), *notes)])
    )


def of_boot(lines: list[str], boot_id: str) -> list[str]:
    """The lines of one boot."""
    return [line for line in lines if boot_id in line]


def root_of(tmp_path: Path, boot: str) -> Path:
    """A root whose running boot has this id."""
    folder = tmp_path / "proc/sys/kernel/random"
    folder.mkdir(parents=True)
    (folder / "boot_id").write_text(
        f"{boot[:8]}-{boot[8:12]}-{boot[12:16]}-{boot[16:20]}-{boot[20:]}\n"
    )
    return tmp_path


def test_a_past_loss_does_not_change_the_answer(monkeypatch, tmp_path) -> None:
    """The boot that runs is well."""
    serve(monkeypatch, THREE)

    found = read_history(root_of(tmp_path, THIRD))

    assert found.exit_code == 0
    assert sum(row.losses for row in found.rows) == 1


def test_a_loss_of_the_boot_that_runs_does(monkeypatch, tmp_path) -> None:
    """79, as `check`."""
    serve(monkeypatch, [*THREE, entry(THIRD, 1000, LOSS, 2)])

    assert read_history(root_of(tmp_path, THIRD)).exit_code == 79


def test_a_reset_that_is_owed_is_code_one(monkeypatch, tmp_path) -> None:
    """The last Xid 154 of a GPU decides; one of an earlier boot does not."""
    owed = (
        "NVRM: Xid (PCI:0000:65:00): 154, GPU recovery action changed from 0x0 (None) "
        "to 0x1 (GPU Reset Required)"
    )
    serve(monkeypatch, [*THREE, entry(THIRD, 1000, owed, 2)])
    assert read_history(root_of(tmp_path, THIRD)).exit_code == 1

    serve(monkeypatch, [*THREE[:5], entry(FIRST, 1000, owed), *THREE[5:]])
    assert read_history(tmp_path).exit_code == 0


def test_without_a_journal_the_ring_buffer_gives_one_row(monkeypatch, tmp_path) -> None:
    """And the note says so."""
    missing = UnreadableInput(machine.KERNEL, "journalctl is not installed")
    buffer = RawInput(
        path="/dev/kmsg",
        name="kmsg",
        _opener=lambda raw: iter([f"4,1,99000000,-;{LOSS}\n".encode()]),
        format="kmsg",
    )
    monkeypatch.setattr(machine, "list_boots", lambda: Unavailable(Reason.NOT_THERE))
    monkeypatch.setattr(machine, "history_inputs", lambda boot_id: iter([missing]))
    monkeypatch.setattr(machine, "boot_inputs", lambda boot: iter([buffer]))

    found = read_history(root_of(tmp_path, THIRD))

    assert [row.boot_id for row in found.rows] == [THIRD]
    assert found.exit_code == 79
    assert "only this boot" in found.notes[0]


def test_nothing_readable_is_code_three(monkeypatch, tmp_path) -> None:
    """With the reason and what would open it."""
    missing = UnreadableInput(machine.KERNEL, "Permission denied", "Run it with sudo.")
    monkeypatch.setattr(machine, "list_boots", lambda: Unavailable(Reason.NOT_PERMITTED))
    monkeypatch.setattr(machine, "history_inputs", lambda boot_id: iter([missing]))
    monkeypatch.setattr(machine, "boot_inputs", lambda boot: iter([missing]))

    found = read_history(tmp_path)

    assert found.exit_code == 3
    assert found.rows == ()
    assert "sudo" in found.notes[0]


def test_boots_are_read_one_by_one_the_newest_first(monkeypatch, tmp_path) -> None:
    """With a word on how far it has come; `last` leaves the older ones out and says so."""
    serve(monkeypatch, THREE)
    asked: list[str] = []
    inputs = machine.history_inputs
    monkeypatch.setattr(machine, "history_inputs", lambda boot: asked.append(boot) or inputs(boot))
    steps: list[tuple[int, int]] = []

    found = read_history(
        root_of(tmp_path, THIRD), last=2, progress=lambda done, of: steps.append((done, of))
    )

    assert asked == [THIRD, SECOND]
    assert steps == [(0, 2), (1, 2)]
    assert [row.boot_id for row in found.rows] == [SECOND, THIRD]
    assert found.notes == ("1 older boot left out by --last",)


def test_a_journal_that_hangs_costs_its_own_boot(monkeypatch, tmp_path) -> None:
    """Its row says `unknown`, and the others are there."""
    serve(monkeypatch, THREE)
    inputs = machine.history_inputs
    let_go = threading.Event()

    def hanging(boot_id: str) -> object:
        if boot_id == FIRST:
            let_go.wait(30)
        return inputs(boot_id)

    monkeypatch.setattr(machine, "history_inputs", hanging)
    monkeypatch.setattr(boot_history, "BOOT_S", 1.0)
    try:
        found = read_history(root_of(tmp_path, THIRD))
    finally:
        let_go.set()

    assert [row.end for row in found.rows] == [End.UNKNOWN, End.UNCLEAN, End.RUNNING]
    assert "did not answer in 1 s" in found.notes[0]


def test_a_flooded_boot_still_tells_how_it_began(monkeypatch, tmp_path) -> None:
    """Its first lines are read as well, and a note says what was left out."""
    lines = of_boot(THREE, THIRD)
    monkeypatch.setattr(machine, "BOOT_LINES", 2)
    monkeypatch.setattr(machine, "list_boots", lambda: Known(BOOTS[2:]))

    def inputs(boot_id: str, *, beginning: bool = False) -> object:
        return iter([*([journal(lines[:4])] if beginning else []), journal(lines[-2:])])

    monkeypatch.setattr(machine, "history_inputs", inputs)

    found = read_history(root_of(tmp_path, THIRD))

    assert any("those between were not" in note for note in found.notes)


def test_this_boot_began_when_the_kernel_says(monkeypatch, tmp_path) -> None:
    """Where no journal lists it."""
    buffer = RawInput(
        path="/dev/kmsg",
        name="kmsg",
        _opener=lambda raw: iter([b"6,1,0,-;Linux version 6.8.0-79\n"]),
        format="kmsg",
    )
    monkeypatch.setattr(machine, "list_boots", lambda: Unavailable(Reason.TIMED_OUT, "no answer"))
    monkeypatch.setattr(machine, "buffer_inputs", lambda: iter([buffer]))
    (root_of(tmp_path, THIRD) / "proc/stat").write_text("cpu 1 2 3\nbtime 1772352000\n")

    found = read_history(tmp_path)

    assert found.rows[0].began == datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
    assert found.notes[0].startswith("only this boot: no answer")


def test_a_partial_journal_claims_no_cut_off(monkeypatch, tmp_path) -> None:
    """Its user may not see the lines of a shutdown."""
    lines = [line for line in THREE if "EXT4" not in line]
    serve(monkeypatch, lines, "only part of the journal may be read. sudo")

    found = read_history(root_of(tmp_path, THIRD))

    assert found.rows[1].end is End.UNKNOWN
    assert any("only part" in note for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [
        f" -1 {FIRST} Sun 2026-03-01 08:00:00 UTC—Sun 2026-03-01 09:00:00 UTC\n"
        f"  0 {SECOND} Mon 2026-03-02 08:00:00 UTC—Mon 2026-03-02 09:12:00 UTC\n",
        "IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n"
        f" -1 {FIRST} Sun 2026-03-01 08:00:00 UTC Sun 2026-03-01 09:00:00 UTC\n"
        f"  0 {SECOND} Mon 2026-03-02 08:00:00 UTC Mon 2026-03-02 09:12:00 UTC\n",
    ],
    ids=["older", "newer"],
)
def test_the_list_of_boots_of_any_systemd(text: str) -> None:
    """With and without a heading."""
    assert parse_boots(text) == BOOTS[:2]


def test_no_list_is_no_boot() -> None:
    """Whatever else is printed."""
    assert parse_boots("No journal files were found.\n") == []


# --- showing --------------------------------------------------------------------------------


def text_of(found: History) -> str:
    out = io.StringIO()
    HistoryTextReporter().render(found, out)
    return out.getvalue()


def test_the_table() -> None:
    """Faults and changes below their row."""
    shown = text_of(History(rows_of(), "no-fault"))

    assert shown.splitlines()[:3] == [
        "BOOT      BEGAN (UTC)       LENGTH    END       LOST  HUNG  RESET",
        "aaaaaaaa  2026-03-01 08:00  1h 00m    shutdown     -     -      -",
        "bbbbbbbb  2026-03-02 08:00  1h 12m    unclean      1     -      -",
    ]
    assert "device-left-bus: GPU 0000:65:00.0 left the bus" in shown
    assert "changed: boot line +pcie_aspm=off -quiet" in shown
    assert "3 boots kept, 1 loss, 0 hangs, 1 ended without a shutdown." in shown


def test_a_table_of_nothing_is_its_note() -> None:
    """No heading without a row."""
    assert text_of(History((), "cannot-tell", ("no journal",))) == "not checked: no journal\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(12, "12s"), (420, "7m"), (7500, "2h 05m"), (273_600, "3d 4h"), (-5, "0s")],
)
def test_lengths_are_short(seconds: int, text: str) -> None:
    """Two units at most."""
    assert spell_length(timedelta(seconds=seconds)) == text


def test_the_document_is_of_its_schema() -> None:
    """With faults, changes and signs in it."""
    out = io.StringIO()
    HistoryJsonReporter().render(History(rows_of(), "no-fault", ("a note",)), out)
    found = json.loads(out.getvalue())

    jsonschema.validate(found, SCHEMA)
    assert found["boots"][1]["faults"][0]["xids"] == [79]
    assert found["boots"][0]["length_s"] == 3600
