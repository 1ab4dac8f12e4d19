"""The live screen and the lines, drawn from a board that was fed by hand."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from gpuprobe.events import (
    ConfigSpaceUnreadable,
    DeviceChanged,
    DeviceIdentified,
    Event,
    LinkStateReported,
    PresenceTested,
    ProbeStalled,
    SourceChanged,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.board import Board, Row, Series
from gpuprobe.live.session import Update
from gpuprobe.live.sources import SourceState
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.reporters.live import LiveScreen, spark
from gpuprobe.reporters.live_lines import LineReporter
from tests.live_events import GPU, OTHER, START, base, facts, judged, lost, steady

NOW = START.timestamp() + 30
DENIED = SourceState(
    "kernel-log", Unavailable(Reason.NOT_PERMITTED, "/dev/kmsg: not permitted", "Run it with sudo.")
)


def board(*events: Event, samples: Any = (), states: Any = ()) -> Board:
    found = Board()
    found.take(Update(samples=tuple(samples), events=(*facts(), *events)), states)
    return found


def drawn(
    found: Board, columns: int = 120, lines: int = 40, *, ascii_only: bool = False, **options: Any
) -> str:
    out = io.StringIO()
    console = Console(file=out, width=columns, height=lines, force_terminal=False)
    screen = LiveScreen(found, ascii_only=ascii_only)
    console.print(screen.render(columns, lines, now_s=NOW, **options))
    return out.getvalue()


def said(found: Board) -> list[str]:
    return [line.split(" ", 1)[1] for line in LineReporter(found).rows(NOW)]


def test_a_row_shows_every_value_with_its_unit() -> None:
    """Power of its limit, heat, clocks with the reason, link, traffic, memory, load."""
    text = drawn(
        board(
            samples=steady(
                30,
                clocks_event_reasons=0x4,
                rx_bytes_per_s=1.5e9,
                tx_bytes_per_s=2e6,
                memory_used_bytes=10 * 2**30,
                memory_total_bytes=48 * 2**30,
                pstate=0,
            )
        )
    )

    for words in (
        "0 41:00.0",
        "L40S",
        "210/350 W",
        "60 % of limit",
        "61 °C",
        "2200 MHz P0",
        "power cap",
        "Gen4 x16",
        "1.5G/2.0MB/s",
        "10.0/48.0 GiB",
        "98 %",
    ):
        assert words in text, words


def test_the_sparkline_is_a_history() -> None:
    """A step of the draw stands in the line, low before and high after."""
    text = drawn(board(samples=steady(30, power_w=lambda at: 350.0 if at >= 25 else 50.0)))

    assert "▂▂▂" in text
    assert "▂█████" in text


def test_what_is_not_read_is_a_dash_and_never_zero() -> None:
    """Without memory, traffic and heat there is no 0."""
    text = drawn(board(samples=steady(30, temp_c=None, util_percent=None)))

    assert " 0 °C" not in text
    assert " 0 %" not in text
    assert "0.0/" not in text


def test_the_resolution_is_stated() -> None:
    """Whoever looks at the power knows what the picture cannot show."""
    assert "10 Hz: what is shorter than 100 ms is not seen" in drawn(board())


def test_a_lost_gpu_has_a_banner_and_no_values() -> None:
    """Verdict, proof, and its history up to the loss in place of readings."""
    loss = lost(20)
    found = Board()
    samples = steady(20)
    found.take(Update(tuple(samples), (*facts(), loss), judged(*facts(), *samples, loss)), ())

    text = drawn(found)

    assert "[device-left-bus, confirmed] GPU 0000:41:00.0 left the bus" in text
    assert "returned GPU_IS_LOST" in text
    assert "lost" in text
    assert "210/350 W" not in text
    assert "▅▅▅" in text


@pytest.mark.parametrize("columns", [40, 80, 100, 200])
def test_it_fits_the_terminal(columns: int) -> None:
    """No line is wider than the screen; what does not fit is left out, power last."""
    text = drawn(board(samples=steady(30), states=[DENIED]), columns)

    assert max(map(len, text.splitlines())) <= columns
    assert "Power" in text


@pytest.mark.parametrize("lines", [12, 24, 60])
def test_it_fits_the_height(lines: int) -> None:
    """Events take what room is left, the newest last."""
    many = [XidReported(**base(n, f"NVRM: Xid {n}"), code=43) for n in range(100)]

    text = drawn(board(*many, samples=steady(30)), 120, lines)

    assert len(text.splitlines()) <= lines
    if lines >= 24:
        assert "NVRM: Xid 99" in text


def many(count: int, last: str = "sampled") -> Board:
    """A board of so many GPUs, the last of them in this state."""
    found = board()
    found.rows.clear()
    for number in range(count):
        pci = PciAddress(0, 16 + number, 0)
        found.rows[pci] = Row(pci, name="NVIDIA H200", index=number, state="sampled")
    found.rows[pci].state = last
    return found


def test_eight_gpus_fit_a_small_terminal() -> None:
    """Rows lose their note, then their history, before one is left out."""
    small = drawn(many(8, "lost"), 100, 24)

    assert all(f"{number} {16 + number:02x}:00.0" in small for number in range(8))
    assert "lost" in small
    assert "H200" not in small
    assert drawn(many(8), 120, 40).count("H200") == 8


def test_the_gpu_in_trouble_is_the_last_to_be_left_out() -> None:
    """Of sixteen, a terminal of twelve lines shows the one that is lost."""
    text = drawn(many(16, "lost"), 100, 12)

    assert "15 1f:00.0" in text
    assert "more GPUs: sampled" in text
    assert len(text.splitlines()) <= 12


def test_keys_are_never_cut_off() -> None:
    """On a narrow terminal the words about the rate go first."""
    assert "[q] quit  [p] pause" in drawn(board(), 40)


def test_a_terminal_of_ascii_alone_gets_ascii() -> None:
    """No letter that would break it: frame, sparkline, degrees, ellipsis."""
    loss = lost(20)
    found = Board()
    samples = steady(20)
    found.take(Update(tuple(samples), (*facts(), loss), judged(*facts(), *samples, loss)), ())

    assert drawn(found, 60, ascii_only=True).isascii()
    assert drawn(board(samples=steady(30)), 60, ascii_only=True).isascii()


def test_a_log_line_cannot_steer_the_terminal() -> None:
    """Escapes are written out, on the screen and in the lines."""
    event = XidReported(**base(1, "NVRM: Xid 13 \x1b[2J\x1b]0;x\x07"), code=13)
    found = board(event)

    assert "\x1b[2J" not in drawn(found)
    assert "\\x1b[2J" in drawn(found)
    assert "\x1b" not in LineReporter(found).event(found.events[0])


def test_what_is_not_available_is_shown_with_the_remedy() -> None:
    """A source's reason, and what would make it available."""
    assert "/dev/kmsg: not permitted -> Run it with sudo." in drawn(board(states=[DENIED]))


def test_pause_is_marked() -> None:
    """A picture that stands still says so."""
    assert "PAUSED" in drawn(board(), paused=True)


def test_ascii_for_terminals_without_blocks() -> None:
    """Plain letters for the same heights."""
    assert spark([0, 50, 100, None], 100, "_.-=+*#@") == "_+@ "
    assert spark([0, 100], 100) == "▁█"
    assert spark([], None) == ""


def test_a_series_keeps_the_highest_of_a_second() -> None:
    """And blanks where nothing was read."""
    series = Series()
    for at, value in ((10.1, 5.0), (10.9, 9.0), (10.95, 2.0), (12.0, 1.0)):
        series.add(at, value)

    assert series.last(4, 12.9) == [None, 9.0, None, 1.0]
    assert series.high == 9.0


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (lost(31), "0000:41:00.0 lost (nvmlDeviceGetPowerUsage returned GPU_IS_LOST)"),
        (
            ConfigSpaceUnreadable(**base(31), how="all-ones"),
            "0000:41:00.0 lost (config space reads all ones)",
        ),
        (
            DeviceChanged(**base(31), what="removed"),
            "0000:41:00.0 removed (taken away while it still answered)",
        ),
        (
            PresenceTested(**base(31), directory=True, config="not-asked"),
            "0000:41:00.0 asleep (left alone, so that it can sleep)",
        ),
    ],
)
def test_a_gpu_that_is_not_sampled_says_why(event: Event, line: str) -> None:
    """Its line has the state and the reason in place of old readings."""
    assert said(board(event, samples=steady(30))) == [line]


def test_a_stall_ends_with_the_next_sample() -> None:
    """A call that came back late leaves no mark."""
    stall = ProbeStalled(**base(31), call="nvmlDeviceGetPowerUsage", pid=7, waited_s=2.1)
    found = board(stall, samples=steady(30))

    assert "stalled (nvmlDeviceGetPowerUsage has not returned for 2.1 s)" in said(found)[0]
    found.take(Update(samples=tuple(steady(40)[-1:])), ())
    assert said(found)[0].startswith("0000:41:00.0 210/350 W")


def test_the_link_alone_is_shown_without_nvml() -> None:
    """Speed and width of sysfs, with the best of the slot."""
    link = LinkStateReported(
        **base(1, source="sysfs"),
        what="sampled",
        speed_gts=16.0,
        width=8,
        max_speed_gts=32.0,
        max_width=16,
    )
    found = board(samples=[link])

    assert said(found) == ["0000:41:00.0 Gen4 x8"]
    assert "of Gen5 x16" in drawn(found)


def test_facts_and_starts_are_no_events() -> None:
    """What every session begins with does not fill the list."""
    started = SourceChanged(**base(0, "listening", "udev", None), name="udev", what="started")
    present = PresenceTested(**base(0), directory=True, config="answers")
    gap = SourceChanged(**base(1, "12 lines lost", "udev", None), name="udev", what="gap")

    assert [event.text for event in board(started, present, gap).events] == ["12 lines lost"]


def test_a_removal_on_purpose_is_named() -> None:
    """The event says that the device answered until then."""
    gone = DeviceChanged(**base(1, f"{GPU} is gone from sysfs", "sysfs"), what="removed")

    assert board(gone).events[0].text.endswith("it answered until then: removed on purpose")


def test_two_gpus_stand_in_order_of_address() -> None:
    """Whatever order they came in."""
    second = DeviceIdentified(**base(0, device=OTHER), is_gpu=True, index=1)

    assert [row.pci for row in board(second).in_order] == [GPU, OTHER]


def test_verdict_lines_name_the_kind_and_quote_the_proof() -> None:
    """For a pipe: one line for the verdict, one for each proof."""
    found = Board()
    found.take(Update((), (*facts(), lost(1)), judged(*facts(), lost(1))), ())

    first, proof, *_ = LineReporter(found).verdict()

    assert first.startswith("VERDICT [device-left-bus, confirmed] GPU 0000:41:00.0 left the bus")
    assert proof.startswith("  proof: nvml (ref): nvmlDeviceGetPowerUsage returned GPU_IS_LOST")


def test_a_source_that_works_is_not_listed() -> None:
    """Only what is missing takes room."""
    assert "udev" not in drawn(board(states=[SourceState("udev", Known("kernel uevents"))]))
