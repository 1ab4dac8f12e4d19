"""The first pass changes no answer: events with it and without it are the same."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuprobe.events import Setting
from gpuprobe.sources import ingest, lines
from gpuprobe.sources.files.inputs import RawInput, open_inputs
from gpuprobe.sources.files.unpack import Notes
from gpuprobe.sources.ingest import Ingest, Reading
from gpuprobe.sources.scanning import needles, regions, repeats
from gpuprobe.sources.scanning import scan as scan_module
from gpuprobe.sources.scanning.needles import (
    HIDING,
    NEEDLES,
    HyperscanMatcher,
    OneByOne,
    PlainMatcher,
    families_in,
)
from gpuprobe.sources.scanning.regions import _forward
from gpuprobe.sources.scanning.repeats import Collector, Repeats
from gpuprobe.sources.scanning.scan import Scan, scan
from gpuprobe.sources.wording import FAMILIES

PROJECT = Path(__file__).parents[3]
FIXTURES = sorted(
    path
    for folder in ("examples", "tests/data", "tests/incidents")
    for path in (PROJECT / folder).rglob("*")
    if path.is_file() and path.suffix not in (".py", ".json")
)

QUIET = (
    "systemd[1]: Finished man-db.service - Daily man-db regeneration.",
    "kernel: usb 1-4: new full-speed USB device number 9 using xhci_hcd",
    "sshd[4121]: Connection closed by 192.0.2.17 port 40112 [preauth]",
    "",
    "plain words without any prefix",
    "Überhitzung? Nein – alles in Ordnung … ✓",
)
LOUD = (
    "kernel: NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "kernel: NVRM: Xid (PCI:0000:41:00): 31, pid=5150, name=python3, Ch 00000008, intr 00000000.",
    "kernel: pcieport 0000:40:01.1: AER: Correctable error message received from 0000:41:00.0",
    "kernel: nvidia 0000:41:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
    "kernel: nvidia 0000:41:00.0:   device [10de:2684] error status/mask=00000001/0000a000",
    "kernel: nvidia 0000:41:00.0:    [ 0] RxErr                  (First)",
    "kernel: pcieport 0000:40:01.1: pciehp: Slot(3): Link Down",
    "kernel: Out of memory: Killed process 811 (python3) total-vm:9kB, anon-rss:7kB, file-rss:0kB",
    "trainer[77]: RuntimeError: CUDA error: unspecified launch failure",
    "trainer[77]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    "kernel: Linux version 6.8.0-60-generic (build@lab) #63 SMP",
    "I think the GPU has fallen off the bus, my card was lost",
)
HIDDEN = (
    "kernel: NVRM: X\x1b[31mid\x1b(B\x1b[m (PCI:0000:41:00): 79, GPU has fal\x1b[0;1mlen off the bus.",
    "kernel: NVRM: X\x00\x00\x00id (PCI:0000:41:00): 79, GPU has fal\x08\x07len off the bus.",
    "kernel: NVRM: X\x1b]0;a title\x07id (PCI:0000:41:00): 79, GPU has fal\x1b]8;;\x1b\\len off the bus.",
    "\x1b[3\x00mNVRM: X\x1bid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
    "kernel: NVRM: X\x1b[31mid\x1b[0m (PCI:0000:41:00): 79, GPU has fal\x00len off the bus.",
    "kernel: NVRM: X\u200eid X\u202eid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
    "kernel: NVRM: <b>Xi</b>d (PCI:0000:41:00): 79, GPU has fallen&nbsp;off the bus.",
    "kernel: NVRM: &#88;i&#x64; (PCI:0000:41:00): 79, G&#80;U has fallen off the bu&#115;.",
    "6,901,8812345678,-;NVRM: \\x58id (PCI:0000:41:00): 79, GPU has\\x20fallen off the bus.",
    '{"log":"NVRM: \\u0058id (PCI:0000:41:00): 79, GPU has fallen off the bus.\\n","stream":"stderr","time":"2025-04-02T10:11:12.5Z"}',
    '{"message":"RuntimeError: [..\\/third_party\\/gloo\\/gloo\\/transport\\/tcp\\/pair.cc:534] Connection closed by peer [192.0.2.9]:41208","level":"error","time":"2025-04-02T10:11:12Z"}',
    "kernel: NVRM: X\\u001b[31mid^[[0m (PCI:0000:41:00): 79, GPU has fallen off the bus.",
    "\x07\x0b\x0c\x1c\x85NVRM: Xid (PCI:0000:41:00): 43\rNVRM: Xid (PCI:0000:41:00): 45",
)


@pytest.fixture(scope="module", autouse=True)
def no_short_logs() -> Iterator[None]:
    """Let the first pass work on logs that are short enough to be read whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_module, "SHORT_BYTES", -1)
        patch.setattr(needles, "SHORT_LOG", 3)
        yield


def stamped(number: int, message: str) -> str:
    """A line of a journal, one second after the line before."""
    hour, rest = divmod(number, 3600)
    return f"Apr 02 {hour % 24:02d}:{rest // 60:02d}:{rest % 60:02d} lab-07 {message}"


def dmesg(number: int, message: str) -> str:
    return f"[{number + 12:5d}.{number % 1000:03d}417] {message.removeprefix('kernel: ')}"


def docker(number: int, message: str) -> str:
    time = f"2025-04-02T10:{number // 60 % 60:02d}:{number % 60:02d}.25Z"
    return json.dumps({"log": message + "\r\n", "stream": "stderr", "time": time})


def journal_json(number: int, message: str) -> str:
    fields: dict[str, object] = {
        "__REALTIME_TIMESTAMP": str(1743588000000000 + number * 1000000),
        "_HOSTNAME": "lab-07",
        "_TRANSPORT": "kernel",
        "MESSAGE": message if number % 5 else list(message.encode()),
    }
    return json.dumps(fields)


def journal_pretty(number: int, message: str) -> str:
    if number % 7 == 3:
        return (
            "{\n\t"
            + journal_json(number, message)[1:-1].replace('": ', '" : ').replace(', "', ',\n\t"')
            + "\n}"
        )
    return journal_json(number, message)


def journal_export(number: int, message: str) -> str:
    return (
        f"__REALTIME_TIMESTAMP={1743588000000000 + number}\n_TRANSPORT=kernel\nMESSAGE={message}\n"
    )


def html(number: int, message: str) -> str:
    return f"<span class='l'>{stamped(number, message)}</span><br>"


def bare(number: int, message: str) -> str:
    return message


FRAMINGS = (
    stamped,
    dmesg,
    docker,
    journal_json,
    journal_pretty,
    journal_export,
    html,
    bare,
)


def cut(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """The bytes in blocks of these sizes, over and over."""
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        yield data[at : at + size]
        at += size
        turn += 1


def read(data: bytes, *, prefilter: bool, sizes: Sequence[int] = (1 << 20,)) -> Reading:
    return Ingest("case.log", 0).read(Scan(cut(data, sizes), prefilter=prefilter), Notes())


def assert_same(data: bytes, sizes: Sequence[int] = (1 << 20,)) -> Reading:
    slow, fast = read(data, prefilter=False), read(data, prefilter=True, sizes=sizes)
    assert slow.events == fast.events
    assert slow == fast
    return fast


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A log in one framing: long quiet stretches, and words that matter here and there."""
    framing = draw(st.sampled_from(FRAMINGS))
    end = draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    messages: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        messages += [draw(st.sampled_from(QUIET))] * draw(st.integers(0, 60))
        messages += draw(st.lists(st.sampled_from(LOUD + HIDDEN), max_size=3))
        again = draw(st.sampled_from(LOUD)), draw(st.integers(0, 130))
        messages += [again[0]] * (again[1] if again[1] > 90 else 0)
    lines = [framing(number, message) for number, message in enumerate(messages)]
    data = end.join(lines).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        data += end.encode()
    return data


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=logs(), sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=4))
def test_same_events_in_every_framing_and_block_size(data: bytes, sizes: list[int]) -> None:
    """However a log is framed and cut into blocks, the first pass changes no event."""
    assert_same(data, sizes)


@settings(max_examples=40, deadline=None)
@given(
    parts=st.lists(
        st.one_of(
            st.sampled_from([line.encode() for line in LOUD + HIDDEN]),
            st.sampled_from(
                [
                    b"\n",
                    b"\r\n",
                    b"\r",
                    b"\x00",
                    b"\x00" * 9000,
                    b"\x1b[1m",
                    b"\x1b]0;title",
                    b"\x1b(B",
                    b"\x1b\\",
                    b"\x1bP",
                    b"\xc2",
                    b"\xe2\x80",
                    b"\xa8",
                    b"{\n",
                    b"}\n",
                    b"\n{ \n",
                ]
            ),
            st.binary(max_size=30),
        ),
        max_size=60,
    ),
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=4),
)
def test_same_events_in_any_bytes(parts: list[bytes], sizes: list[int]) -> None:
    """Broken UTF-8, controls and odd line ends change nothing either."""
    assert_same(b"".join(parts), sizes)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_same_events_in_fixtures(path: Path) -> None:
    """Every stored log gives the same with and without the first pass."""
    for fast, slow in zip(readings(path, True), readings(path, False), strict=True):
        assert slow == fast


def readings(path: Path, prefilter: bool) -> Iterator[Reading]:
    for raw in open_inputs([path]):
        if isinstance(raw, RawInput):
            yield Ingest(raw.path, 0, raw.format).read(scan(raw, prefilter=prefilter), raw.notes)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_hidden_words_are_found(hidden: str) -> None:
    """Words that are not there as plain bytes are found in the middle of a quiet log."""
    lines = [stamped(number, QUIET[0]) for number in range(200)]
    lines[130] = hidden if hidden[0] in "6{" else stamped(130, hidden)
    assert len(assert_same("\n".join(lines).encode()).events) >= 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_wide_encodings(encoding: str) -> None:
    """Text of two or four bytes a character is read whole."""
    lines = [stamped(number, QUIET[0]) for number in range(300)] + [stamped(300, LOUD[0])]
    reading = assert_same("\n".join(lines).encode(encoding), [333])
    assert [event.origin.line for event in reading.events] == [301]


def test_needle_at_every_seam() -> None:
    """A word that two blocks share is found wherever the cut is."""
    head = "".join(stamped(number, QUIET[1]) + "\n" for number in range(40))
    line = stamped(40, LOUD[0])
    data = (head + line + "\n" + head).encode()
    for place in range(len(head), len(head) + len(line) + 2):
        blocks = [data[:place], data[place:]]
        reading = Ingest("case.log", 0).read(Scan(blocks), Notes())
        assert [event.origin.line for event in reading.events] == [41]


def test_line_numbers_behind_odd_line_ends() -> None:
    """Skipped lines are numbered as `str.splitlines` numbers them."""
    text = "".join(
        f"quiet {n}{end}"
        for n in range(200)
        for end in ("\n", "\r", "\r\n", "\x0b", "\u2028", "\x85")
    )
    text += "\n" * 400 + LOUD[0]
    reading = assert_same(text.encode(), [97])
    assert [event.origin.line for event in reading.events] == [len(text.splitlines())]
    assert reading.input.lines == len(text.splitlines())


def test_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line longer than any block is read in the same pieces either way."""
    monkeypatch.setattr(regions, "LONG_LINE", 3000)
    monkeypatch.setattr(regions, "HELD_LIMIT", 9000)
    quiet = [stamped(number, "word " * (number % 700)) for number in range(400)]
    quiet[120] += "x" * 90_000 + LOUD[0] + "y" * 200_000 + LOUD[1]
    quiet[330] = LOUD[0]
    assert_same("\n".join(quiet).encode(), [1999, 64])
    assert_same(("a" * 150_000 + LOUD[0] + "\r" + "é" * 90_000 + "\r\n" + LOUD[1]).encode(), [1999])


COLOURED = "\x1b[32mINFO\x1b[0m 05-12 06:00:01 [loggers.py:116] 3 running\x1b(B\x1b[m"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([*QUIET, COLOURED, "\x00" * 300, *LOUD, *HIDDEN]), max_size=90),
    st.integers(1, 4000),
)
def test_same_events_among_colours_and_nuls(messages: list[str], size: int) -> None:
    """Coloured lines and NULs that hide nothing are passed over, and what they hide is not."""
    quiet = [COLOURED, "\x00" * 40 + "quiet"] * 70
    lines = [*quiet, *messages, *quiet]
    assert_same("\n".join(stamped(n, line) for n, line in enumerate(lines)).encode(), [size])


def test_colours_and_nuls_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coloured log with a hole is read as little as one without either."""
    lines = [stamped(number, COLOURED) for number in range(4000)]
    lines[2000] = "\x00" * 500_000 + "\x00"
    lines[2500] = "\x00word" * 5_000
    lines[3000] = stamped(3000, HIDDEN[0])
    given: list[int] = []
    piece = regions.Piece
    monkeypatch.setattr(
        regions, "Piece", lambda line, data, on: given.append(len(data)) or piece(line, data, on)
    )
    reading = assert_same("\n".join(lines).encode(), [70_000])
    assert [event.origin.line for event in reading.events] == [3001]
    assert sum(given) < 30_000


def test_line_numbers_behind_a_hole() -> None:
    """NULs in place of text, between a carriage return and a line feed too, shift no number."""
    text = "a\n" * 300 + "b\r" + "\0" * 90_000 + "\n" + "c\n" * 300 + "\0" * 5000 + LOUD[0]
    reading = assert_same(text.encode(), [4096])
    assert [event.origin.line for event in reading.events] == [len(text.splitlines())]


@pytest.mark.parametrize(("first", "line"), [(0, LOUD[0]), (1, LOUD[1])])
def test_message_over_a_cut_is_found_once(
    monkeypatch: pytest.MonkeyPatch, first: int, line: str
) -> None:
    """Wherever the cut in a very long line is, a message at it is found whole and once."""
    monkeypatch.setattr(lines, "PIECE", 512)
    monkeypatch.setattr(lines, "PIECE_LIMIT", 4096)
    for shift in range(first, len(line) + 3, 2):  # the even ones of one, the odd ones of the other
        before = "word " * 1300
        data = before[: 512 * 12 - shift] + line + " " + before[:600]
        reading = assert_same(("quiet\n" * 20 + data).encode())
        events = [event for event in reading.events if event.setting is not Setting.PROSE]
        assert [(event.origin.line, event.count) for event in events] == [(21, 1)], shift
        assert line.split("NVRM: ")[1].split(",")[0] in events[0].origin.text


MESSAGES = st.lists(st.sampled_from(QUIET + LOUD + HIDDEN[:5]), min_size=1, max_size=40)


def _as_text(messages: Sequence[str]) -> str:
    quiet = [stamped(at, "quiet") for at in range(500)]
    lines = [*quiet, *(stamped(at + 500, message) for at, message in enumerate(messages)), *quiet]
    return "\n".join(lines)


@settings(max_examples=20, deadline=None)
@given(
    messages=MESSAGES,
    encoding=st.sampled_from(["utf-16", "utf-16-be", "utf-32"]),
    size=st.integers(100, 5000),
)
def test_wide_text_gives_what_it_gives_in_utf_8(
    messages: list[str], encoding: str, size: int
) -> None:
    """UTF-16 and UTF-32, with and without a byte order mark, are read as UTF-8 is."""
    text = _as_text(messages)
    wide = assert_same(text.encode(encoding), [size])
    assert wide == read(text.encode(), prefilter=True)


def test_wide_text_without_a_mark_shows_after_other_letters() -> None:
    """UTF-16 without a byte order mark is known by its first lines, not by the first words alone."""
    text = "漢字" * 16 + "\n" + _as_text(LOUD[:1])
    assert assert_same(text.encode("utf-16-le")) == read(text.encode(), prefilter=True)


@settings(max_examples=20, deadline=None)
@given(messages=MESSAGES, size=st.integers(100, 5000))
def test_carriage_returns_alone_end_lines(messages: list[str], size: int) -> None:
    """A log whose lines end with a carriage return is read as one with line feeds."""
    text = _as_text(messages)
    returned = assert_same(text.replace("\n", "\r").encode(), [size])
    assert returned.events == read(text.encode(), prefilter=True).events


@pytest.mark.parametrize("change", [lambda text: text.encode("utf-16"), lambda text: text.replace("\n", "\r").encode()])  # fmt: skip
def test_only_lines_near_words_are_read(change: Callable[[str], bytes]) -> None:
    """Also of UTF-16, and where carriage returns end the lines."""
    text = "\n".join([*(stamped(at, "quiet") for at in range(5000)), LOUD[0], "quiet " * 9000])
    scanned = Scan([change(text)])

    given_out = sum(1 for run in scanned.runs(Repeats(Collector(), "x", 0)) for _ in run)

    assert given_out < 120
    assert scanned.line_count == 5002


def test_hits_side_by_side_are_widened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each line holds a word, the lines round it are not looked for again for each."""
    sought = []
    monkeypatch.setattr(
        regions, "_forward", lambda *given: sought.append(given[1]) or _forward(*given)
    )
    data = "\n".join(stamped(at, LOUD[at % 4]) for at in range(3000)).encode()

    assert_same(data)

    assert len(sought) < 200


ENDING = tuple(LOUD[place].partition(": ")[2] for place in (0, 1, 2, 3, 7, 8, 9))
"""Messages of which a pattern takes no more than their own words."""


@settings(max_examples=30, deadline=None)
@given(
    message=st.sampled_from(ENDING),
    shifts=st.lists(st.integers(0, 100), min_size=1, max_size=12),
    goes_on=st.sampled_from(["so it goes on ", "ü – ", ". "]),
)
def test_messages_over_successive_cuts_are_those_of_one_piece(
    message: str, shifts: list[int], goes_on: str
) -> None:
    """Wherever a long line is cut, also behind a blank, each of its messages is found once."""
    text = ""
    for number, shift in enumerate(shifts, 1):
        room = 512 * number - min(shift, len(message) + 2) - len(text) - 1
        text += f"{(goes_on * 512)[:room]} {message} "
    data = ("quiet\n" * 20 + text + goes_on * 2048).encode()

    whole = _told(read(data, prefilter=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "PIECE", 512)
        patch.setattr(lines, "PIECE_LIMIT", 4096)
        cut = _told(assert_same(data))

    assert [(type_, device, code) for type_, device, code, _ in whole] == [
        (type_, device, code) for type_, device, code, _ in cut
    ]
    assert sum(count for *_, count in cut) == len(shifts)


def _told(reading: Reading) -> list[tuple[str, str, object, int]]:
    return [
        (type(event).__name__, str(event.device), getattr(event, "code", None), event.count)
        for event in reading.events
    ]


def test_very_long_line_of_hits_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many pieces of one line are read, a note says so, and the next line is read."""
    monkeypatch.setattr(ingest, "_LONG_LINE_WORK", 200)
    data = (LOUD[0] + " ") * 1500 + "\n" + LOUD[1]
    reading = assert_same(data.encode())
    assert reading.events[-1].origin.line == 2
    assert sum(event.count for event in reading.events) < 500
    assert "line 1 is too long to be read to its end" in reading.input.notes


def repeated(blocks: int) -> bytes:
    """AER reports by the thousand, in a log whose host has digits in its name."""
    lines = []
    for number in range(blocks):
        for message in (*QUIET[:3], *LOUD[2:6]):
            lines.append(stamped(number, message))
    return "\n".join(lines).encode()


def test_repeats_are_counted_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first hundred, lines of one shape are counted without being parsed."""
    data = repeated(700)
    reading = assert_same(data, [14_000])
    assert len(reading.events) == repeats.REPEATS_KEPT
    assert sum(event.count for event in reading.events) == 700
    last = reading.events[-1].last
    assert last is not None
    assert last.line == len(data.splitlines()) - 2
    skipped: list[int] = []
    count = repeats.Repeats.skipped
    monkeypatch.setattr(
        repeats.Repeats,
        "skipped",
        lambda self, number, times, line, text: (
            skipped.append(times),
            count(self, number, times, line, text),
        ),
    )
    read(data, prefilter=True, sizes=[14_000])
    assert sum(skipped) > 1000


def test_repeats_begin_anew_at_a_boot() -> None:
    """What repeats behind a journal's boot mark belongs to the next boot."""
    mark = b"\n-- Boot 0123456789abcdef0123456789abcdef --\n"
    again = mark.replace(b"0123", b"4567")
    reading = assert_same(repeated(150) + mark + repeated(150) + again + repeated(120), [9000])
    boots = {event.boot for event in reading.events if "Bus Error" in event.origin.text}
    assert len(boots) == 3


def test_repeats_of_two_hosts_stay_apart() -> None:
    """Only a line's stamps may differ in a repeat: digits of a host's name may not."""
    one = repeated(130)
    both = one + b"\n" + one.replace(b"lab-07", b"lab-08") + b"\n" + one
    reading = assert_same(both, [7000])
    counts = {
        host: sum(event.count for event in reading.events if event.host == host)
        for host in ("lab-07", "lab-08")
    }
    assert counts == {"lab-07": 260, "lab-08": 130}


# Compiled once, and only where a test asks for it.
hyperscan_matcher = cache(HyperscanMatcher)
plain_matcher = cache(PlainMatcher)


def test_both_engines_find_the_same_lines() -> None:
    """Hyperscan and the plain engine agree on every needle and everything that hides some."""
    pytest.importorskip("hyperscan")
    fast, plain = hyperscan_matcher(), plain_matcher()
    examples = [
        line for family in FAMILIES for pattern in family.patterns for line in pattern.examples
    ]
    for text in (*NEEDLES, *QUIET, *LOUD, *HIDDEN, *examples):
        data = b"\n".join((b"quiet", text.encode(), b"quiet", b"a" + text.encode() + b"b"))
        assert lines_hit(data, fast.hits(data)) == lines_hit(data, plain.hits(data))
        assert fast.present(text) == plain.present(text)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=6),
            st.sampled_from([b"\\", b"&", b"<", b"\xe2\x80", b"Xi", b"d", b"\n"]),
        )
    )
)
def test_both_engines_agree_on_any_bytes(parts: list[bytes]) -> None:
    """The engines agree on bytes that mean nothing."""
    pytest.importorskip("hyperscan")
    data = b"".join(parts)
    fast, plain = hyperscan_matcher().hits(data), plain_matcher().hits(data)
    assert lines_hit(data, fast) == lines_hit(data, plain)


def lines_hit(data: bytes, ends: list[int]) -> set[int]:
    assert ends == sorted(ends)
    return {data.count(b"\n", 0, end - 1) for end in ends}


def test_without_hyperscan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Hyperscan cannot be imported, the plain engine gives the same events."""
    data = repeated(150)
    expected = read(data, prefilter=True)
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    monkeypatch.setattr(needles, "_local", threading.local())
    assert read(data, prefilter=True) == expected
    assert isinstance(needles._local.engine, PlainMatcher)


def test_short_logs_are_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is shorter than an engine takes to start needs none, and gives the same."""
    data = repeated(20)
    expected = read(data, prefilter=True)
    monkeypatch.setattr(scan_module, "SHORT_BYTES", 40_000)
    monkeypatch.setattr(needles, "SHORT_LOG", 400)
    monkeypatch.setattr(needles, "_local", threading.local())
    assert read(data, prefilter=True, sizes=[100]) == expected
    assert not hasattr(needles._local, "engine")


def test_needles_can_be_looked_for_in_bytes() -> None:
    """A needle is ASCII without the characters that escapes and markup stand for."""
    for needle in NEEDLES:
        assert needle.isascii()
        assert needle.isprintable()
        assert not set(needle) & set('"\\<&'), needle
    for mark in repeats.BOOT_MARKS:
        assert mark in NEEDLES


def test_families_are_found_by_their_needles() -> None:
    """What is left out holds no needle: it could read nothing."""
    machine = OneByOne()
    for family in FAMILIES:
        for pattern in family.patterns:
            for text in (*pattern.examples, *pattern.near, *pattern.needles, "x", ""):
                expected = [one for one in FAMILIES if any(n in text for n in one.needles)]
                assert families_in(text) == expected, text
                assert machine.present(text) is bool(expected), text


def test_every_example_holds_a_needle_or_hides_one() -> None:
    """The first pass lets no pattern's example through."""
    hiding = re.compile(b"|".join(HIDING))
    engine = plain_matcher()
    for family in FAMILIES:
        for pattern in family.patterns:
            for example in pattern.examples:
                assert engine.present(example) or hiding.search(example.encode()), example


def test_a_stream_that_is_read_once() -> None:
    """Standard input is read in one go."""
    data = repeated(5)
    (raw,) = open_inputs(["-"], stdin=io.BytesIO(data))
    assert isinstance(raw, RawInput)
    reading = Ingest(raw.path, 0).read(scan(raw), Notes())
    assert reading.input.lines == len(data.splitlines())
