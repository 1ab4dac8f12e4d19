"""From one input to its events: framing off, words matched, repeats counted, lines right."""

from __future__ import annotations

import io
import json

import pytest

from gpuprobe.api import read, timelines
from gpuprobe.diagnosis import Input
from gpuprobe.events import (
    BootStarted,
    CudaFailed,
    Event,
    GpuLostReported,
    GpuMemoryCounted,
    ProseMentioned,
    Setting,
    XidReported,
)
from gpuprobe.options import Options
from gpuprobe.sources.files.inputs import open_inputs
from gpuprobe.sources.ingest import REPEATS_KEPT, Reading

XID = "NVRM: Xid (PCI:0000:1a:00): 31, pid=88, name=python3, channel 0x0000000a, MMU Fault: ENGINE GRAPHICS"


def reading_of(text: str | bytes, *, prefilter: bool = True) -> Reading:
    data = text if isinstance(text, bytes) else text.encode()
    (reading,), unreadable = read(
        open_inputs(["-"], stdin=io.BytesIO(data)), Options(prefilter=prefilter)
    )
    assert not unreadable
    return reading


def events_of(text: str | bytes, kind: type[Event] = Event, **options: bool) -> list[Event]:
    return [event for event in reading_of(text, **options).events if isinstance(event, kind)]


def test_an_event_says_where_it_was_read() -> None:
    """Input, line from 1 and the message without its prefix."""
    (event,) = events_of(f"first\nsecond\n[   12.000000] {XID}\n", XidReported)

    assert (event.origin.input, event.origin.line, event.origin.text) == ("-", 3, XID)
    assert event.stamp is not None
    assert event.stamp.monotonic_s == 12.0


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n"])
def test_lines_are_counted_as_an_editor_counts_them(ending: str) -> None:
    """CRLF is one ending, an empty line is a line."""
    (event,) = events_of(ending.join(["a", "b", f"[   12.000000] {XID}", ""]), XidReported)

    assert event.origin.line == (3 if ending != "\n\n" else 5)


def test_quoted_text_is_cut_at_500_characters_and_has_no_controls() -> None:
    """A line of any length and colour is fit to be shown."""
    line = f"[   12.000000] \x1b[31m{XID}\x1b[0m \x07" + "y" * 3000
    (event,) = events_of(line + "\n", XidReported)

    assert len(event.origin.text) <= 500
    assert event.origin.text.isprintable()


def test_a_line_is_read_once() -> None:
    """However often its needle stands in it, and whatever families know it."""
    assert (
        len(events_of(f"[   12.000000] {XID} NVRM: Xid fallen off CUDA error\n", XidReported)) == 1
    )


def test_repeats_of_one_shape_are_kept_to_a_hundred_and_counted() -> None:
    """First ones one by one, the rest in a count with the last place."""
    number = REPEATS_KEPT + 250
    text = "".join(f"[{n:12.6f}] {XID}\n" for n in range(1, number + 1))
    events = events_of(text, XidReported)

    assert len(events) == REPEATS_KEPT
    assert sum(event.count for event in events) == number
    assert events[-1].last is not None
    assert events[-1].last.line == number


def test_other_codes_and_other_devices_are_other_shapes() -> None:
    """A flood of one Xid does not hide a single other one."""
    flood = "".join(f"[{n:12.6f}] {XID}\n" for n in range(1, 400))
    text = (
        flood
        + f"[  900.000000] {XID.replace(': 31,', ': 79,')}\n[  901.000000] {XID.replace('1a', '1b')}\n"
    )
    events = events_of(text, XidReported)

    assert len(events) == REPEATS_KEPT + 2
    assert [event.count for event in events[-2:]] == [1, 1]


@pytest.mark.parametrize("cut", [40, 60, 75])
def test_a_line_that_a_terminal_wrapped_is_read(cut: int) -> None:
    """The rest of the message stands on the next line, without a prefix."""
    loss = "NVRM: Xid (PCI:0000:1a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    (event,) = events_of(f"[   12.000000] {loss[:cut]}\n{loss[cut:]}\n", XidReported)

    assert event.code == 79
    assert event.origin.line == 1


@pytest.mark.parametrize("words", ["fallen off the", "GPU has"])
def test_a_line_that_is_wrapped_inside_the_words_looked_for_is_read(words: str) -> None:
    """Neither line holds what the message is known by."""
    head, tail = "[   12.000000] NVRM: GPU 0000:1a:00.0: GPU has fallen off the bus.".split(words)
    (event,) = events_of(f"{head}{words}\n{tail.strip()}\n", GpuLostReported)

    assert str(event.device) == "0000:1a:00.0"


@pytest.mark.parametrize(
    "rows",
    [
        "| Warning                   | GPU 5 GPU 5 had uncorrectable memory errors an |\n"
        "|                           | d row remapping failed. Run a field diagnostic |",
        "|       -> Memory           | GPU 5 had uncorrectable memory errors and row  |\n"
        "|                           | remapping failed. Run a field diagnostic.      |",
        "║ Memory ║ FAIL ║ │ [12.5] GPU 5 had uncorrectable memory er│ ║\n"
        "║        ║      ║ │ rors and row remapping failed.          │ ║",
        "| Memory | FAIL | | GPU 5 had uncorrectable memory er | |\n"
        "|        |      | | rors and row remapping failed.    | |",
    ],
)
def test_a_message_that_a_table_wraps_in_a_cell_is_read(rows: str) -> None:
    """DCGM's tools cut it anywhere, within words too; a cell may hold a table of its own."""
    (event,) = events_of(f"+---------------------------+----+\n{rows}\n", GpuMemoryCounted)

    assert event.what == "remap-failed"


def test_a_wrapped_line_next_to_a_whole_one_gives_each_once() -> None:
    """Joining neighbours finds nothing twice."""
    loss = "NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus."
    text = f"[   12.000000] {XID}\n[   13.000000] {loss[:24]}\n{loss[24:]}\n[   14.000000] {XID}\n"

    assert [event.code for event in events_of(text, XidReported)] == [31, 79, 31]


def test_a_boot_mark_names_the_boot_of_the_lines_below_it() -> None:
    """`-- Boot ID --` holds until the next mark; `-- Reboot --` has no id."""
    first, second = "a" * 32, "b" * 32
    text = (
        f"-- Boot {first} --\nMay 05 10:00:00 n1 kernel: {XID}\n-- Boot {second} --\n"
        f"May 05 11:00:00 n1 kernel: {XID}\n-- Reboot --\nMay 05 12:00:00 n1 kernel: {XID}\n"
    )

    assert [event.boot for event in events_of(text, XidReported)] == [first, second, None]
    assert len({event.boot for event in events_of(text, BootStarted)}) == 3


def test_a_mark_of_a_boot_is_no_host() -> None:
    """The marks of one machine's journal do not make it two machines."""
    text = f"-- Boot {'a' * 32} --\nMay 05 10:00:00 n1 kernel: {XID}\n-- Boot {'b' * 32} --\nMay 05 11:00:00 n1 kernel: {XID}\n"
    (timeline,) = timelines("-", stdin=io.BytesIO(text.encode()))

    assert timeline.host == "n1"
    assert timeline.boots_in("-") == 2


def test_prose_is_read_as_prose_only() -> None:
    """A sentence about an Xid is a mention, and no Xid."""
    events = events_of("My card dies with Xid 79 every evening, please help\n")

    assert events
    assert all(isinstance(event, ProseMentioned) for event in events)
    assert {event.setting for event in events} == {Setting.PROSE}


def test_program_text_gives_code_and_never_evidence() -> None:
    """A source file that holds the very line."""
    text = f'import re\n\n\ndef check(line):\n    """Find it."""\n    if "{XID}" in line:\n        return True\n    return False\n'
    reading = reading_of(text)

    assert reading.program_text
    assert all(event.setting is Setting.CODE for event in reading.events)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (f"[   12.000000] {XID}\n", "dmesg"),
        (f"May 05 10:00:00 n1 kernel: {XID}\n", "journal-short"),
        ("plain words\nand more of them\n", "text"),
        (
            json.dumps({"log": "x\n", "stream": "stdout", "time": "2027-05-05T10:00:00Z"}) + "\n",
            "docker-json",
        ),
    ],
)
def test_the_format_of_an_input_is_told(text: str, form: str) -> None:
    """One of the closed list, `text` where none fits."""
    found = reading_of(text).input

    assert isinstance(found, Input)
    assert found.format == form
    assert found.lines == text.count("\n")


def test_stamps_of_two_clocks_on_one_line_are_kept_for_joining() -> None:
    """A syslog line with the kernel's clock in it, and a message with its own zone."""
    text = (
        f"2027-05-05T10:00:00+02:00 n1 kernel: [  500.000000] {XID}\n"
        'May 05 10:00:01 n1 dockerd[8]: time="2027-05-05T08:00:01.5Z" level=error msg="CUDA error: unspecified launch failure"\n'
    )
    pairs = reading_of(text).paired

    assert any(stamp.monotonic_s == 500.0 for pair in pairs for stamp in pair.stamps)
    assert any(
        stamp.is_absolute and stamp.wall.minute == 0 and stamp.wall.microsecond == 0
        for pair in pairs
        for stamp in pair.stamps
        if stamp.wall and not pair.stamps[0].year_known
    )
    assert all(len(pair.stamps) > 1 for pair in pairs)
    assert {pair.host for pair in pairs} == {"n1"}


@pytest.mark.parametrize("place", ["start", "middle", "end"])
def test_the_fast_pass_finds_what_the_slow_one_finds_in_a_long_log(place: str) -> None:
    """Half a megabyte of other lines, and every event with its line and its neighbours."""
    quiet = [
        f"May 05 10:00:00 n1 app[7]: request {n} done in 0.{n % 97:02d} s" for n in range(8000)
    ]
    wanted = [
        "May 05 10:00:00 n1 kernel: pcieport 0000:19:00.0: AER: Correctable error message received from 0000:1a:00.0",
        "May 05 10:00:00 n1 kernel: nvidia 0000:1a:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
        "May 05 10:00:00 n1 kernel: nvidia 0000:1a:00.0:    [ 0] RxErr                  (First)",
        f"May 05 10:00:01 n1 kernel: {XID}",
        "May 05 10:00:02 n1 vllm[9]: RuntimeError: CUDA error: an illegal memory access was encountered",
    ]
    at = {"start": 0, "middle": 4000, "end": 8000}[place]
    text = "\n".join([*quiet[:at], *wanted, *quiet[at:]]) + "\n"
    fast, slow = reading_of(text), reading_of(text, prefilter=False)

    assert fast.events == slow.events
    assert [event.origin.line for event in fast.events if isinstance(event, CudaFailed)] == [at + 5]
    assert fast.input.format == slow.input.format


def test_a_torn_last_line_is_read() -> None:
    """A log that stops in the middle of the decisive line still says what it says."""
    (event,) = events_of(f"[   12.000000] {XID[:46]}", XidReported)

    assert event.code == 31


def test_a_nul_in_a_line_does_not_end_it() -> None:
    """A hole in a file after a power cut hides nothing."""
    text = b"\x00" * 4096 + f"[   12.000000] {XID}\n".encode()

    assert len(events_of(text, XidReported)) == 1


def test_an_address_without_a_domain_is_noted() -> None:
    """04:00.0 is taken to be 0000:04:00.0, and the input says so once."""
    line = "04:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"

    assert [note for note in reading_of(line + line).input.notes if "domain 0000" in note]
    assert not reading_of("0000:" + line).input.notes
