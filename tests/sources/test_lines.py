"""Bytes become numbered, clean lines."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprobe.sources.lines import (
    PIECE_LIMIT,
    Lines,
    count_line_ends,
    decode,
    in_utf8,
    sniff_encoding,
    strip_controls,
    with_feeds,
)

ENDS = ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
TEXT = st.lists(
    st.sampled_from([*ENDS, "a", "Xid 79", "ä", "漢", " ", "\t", "\x00", "\x1b[31m"]), max_size=40
).map("".join)


def blocks_of(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@settings(max_examples=300, deadline=None)
@given(TEXT, st.integers(1, 9))
def test_lines_are_numbered_as_splitlines_does(text, size):
    """However the bytes are cut into blocks, lines and numbers are those of `str.splitlines`."""
    lines = Lines(blocks_of(text.encode(), size), encoding="utf-8", clean=False)

    assert list(enumerate(text.splitlines(), start=1)) == list(lines)
    assert len(text.splitlines()) == lines.line


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_give_the_lines_of_their_text(data, size):
    """Broken bytes never raise, and blocks make no difference."""
    encoding = sniff_encoding(data)

    got = list(Lines(blocks_of(data, size), encoding=encoding))

    whole = data.decode(encoding, errors="replace").splitlines()
    assert list(enumerate(map(strip_controls, whole), start=1)) == got


@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_counted_line_ends_agree_with_splitlines(text):
    """Counting bytes says how many lines end, which may leave one that does not."""
    whole = text + "x"

    assert len(whole.splitlines()) - 1 == count_line_ends(whole.encode())


def test_broken_sequence_before_a_wide_line_end_is_counted():
    """A cut character takes nothing of the line end behind it."""
    data = b"a\xe2\x80\xe2\x80\xa8b\xe1\xc2\x85c\xc2\nd"

    assert len(data.decode("utf-8", "replace").splitlines()) - 1 == count_line_ends(data)


@pytest.mark.parametrize(
    "codec", ["utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-8-sig", "utf-8"]
)
def test_encoding_is_found(codec):
    """Byte order marks, and UTF-16 without one, are recognised; the mark is no text."""
    text = "Event 153 nvlddmkm\r\nResetting TDR occurred on GPUID:100\r\n"

    lines = list(Lines(blocks_of(text.encode(codec), 7)))

    assert lines == [(1, "Event 153 nvlddmkm"), (2, "Resetting TDR occurred on GPUID:100")]


def test_some_nuls_do_not_make_utf_16():
    """A log with a block of NULs from a crash is UTF-8, and the NULs go."""
    data = b"ok\n" + b"\x00" * 2000 + b"kernel: NVRM: Xid\n"

    assert list(Lines([data])) == [(1, "ok"), (2, "kernel: NVRM: Xid")]
    assert "kernel" in decode(data)


def test_progress_bar_returns_count_as_lines():
    """A lone carriage return ends a line, at a block's end too; CR LF ends one."""
    assert list(Lines([b"33%\r66%\r", b"done\r", b"\nnext"])) == [
        (1, "33%"),
        (2, "66%"),
        (3, "done"),
        (4, "next"),
    ]


def test_very_long_line_comes_in_pieces_with_one_number_and_bounded_memory():
    """A line of 30 MB never stands in memory as a whole, and the next line has the next number."""

    def blocks():
        yield b"first\n"
        for _ in range(480):
            yield b"x" * PIECE_LIMIT
        yield b"\nlast\n"

    tracemalloc.start()
    length, numbers = 0, set()
    lines = Lines(blocks())
    for number, text in lines:
        if text.startswith("x"):
            numbers.add(number)
            length += len(text)
            assert len(text) <= PIECE_LIMIT
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert ({2}, 480 * PIECE_LIMIT, 3) == (numbers, length, lines.line)
    assert peak < 4_000_000


@pytest.mark.parametrize(("text", "clean"), [
    ("\x1b[1;31mNV\x1b[0mRM:\x1b[K Xid", "NVRM: Xid"),
    ("\x1b]0;title\x07NVRM:", "NVRM:"),
    ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x9b31mred\x1b(B", "red"),
    (r"\u001b[31mred\u001b[0m", "red"),
    (r"\x1b[31mred\033[0m", "red"),
    ("#033[31mred#033[0m", "red"),
    ("^[[31mred^[[0m", "red"),
    ("a\x00b\x07c\td\x7f", "abc\td"),
    ("NVRM:\xa0Xid\xa0(PCI", "NVRM: Xid (PCI"),
    ("\ufeffkernel: x\u202e", "kernel: x"),
    ("grep '^[[:space:]]*NVRM'", "grep '^[[:space:]]*NVRM'"),
    (r"C:\Users\x1 #033", r"C:\Users\x1 #033"),
    ("pid='<unknown>', ünïcode 漢字", "pid='<unknown>', ünïcode 漢字"),
])  # fmt: skip
def test_escapes_and_controls_go_and_text_stays(text, clean):
    """Terminal escapes go in every form that loggers write them in."""
    assert clean == strip_controls(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="a\r\n\x0b\u2028é", max_size=30), st.integers(1, 5))
def test_lines_with_feeds_are_the_same_lines(text, size):
    """However the bytes are cut, carriage returns go, and lines and their numbers stay."""
    data = text.encode()

    fed = b"".join(with_feeds(blocks_of(data, size)))

    assert b"\r" not in fed
    assert fed.decode().splitlines() == text.splitlines()


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=30),
    st.sampled_from(["utf-16", "utf-16-le", "utf-16-be", "utf-32"]),
    st.integers(1, 5),
)
def test_wide_text_is_the_same_in_utf_8(text, encoding, size):
    """However the bytes are cut; what is cut off at the end becomes U+FFFD."""
    data = text.encode(encoding, "replace")
    cut = data[:-1]
    for each in (data, cut):
        narrow = b"".join(in_utf8(blocks_of(each, size), encoding))
        assert narrow.decode() == each.decode(encoding, "replace")


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_clean_text_has_no_controls(text):
    """No control character but tab is left."""
    assert not any((ord(c) < 32 and c != "\t") or 127 <= ord(c) < 160 for c in strip_controls(text))
