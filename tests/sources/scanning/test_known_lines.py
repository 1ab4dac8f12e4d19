"""Known lines found one by one and all at once."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprobe.sources.scanning import known_lines
from gpuprobe.sources.scanning.known_lines import DIGITS, KnownLines
from gpuprobe.sources.scanning.search import Found, search

PREFIX = DIGITS + rb":" + DIGITS + rb"\ host\ "
TEMPLATES = (
    (PREFIX, b"RxErr"),
    (PREFIX, b"a longer line (Receiver ID)"),
    (PREFIX, b"a longer line (Transmit ID)"),
    (DIGITS + rb"\ ", b"another kind of head"),
    (rb"", b"ends another kind of head"),
)


def known_line(number: int, stamp: int) -> bytes:
    return (b"%d:%02d host ", b"%d:%02d host ", b"%d:%02d host ", b"%d%02d ", b"")[number].replace(
        b"%02d", b"%02d" % (stamp % 60)
    ).replace(b"%d", b"%d" % stamp) + TEMPLATES[number][1]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layouts are worth it for a handful of lines."""
    monkeypatch.setattr(known_lines, "MANY_LINES", 3)


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            st.builds(known_line, st.integers(0, 4), st.sampled_from([7, 8, 9, 12, 4711])),
            st.sampled_from(
                [
                    b"",
                    b"x",
                    b"7:0x host RxErr",
                    b"7:07 host RxErr ",
                    b"8:08 hosT a longer line (Receiver ID)",
                    b"7:07 host\xff a longer line (Receiver ID)",
                    b"-- Boot x --",
                    b"fallen off the bus",
                ]
            ),
        ),
        max_size=60,
    ),
    last=st.booleans(),
)
def test_all_at_once_is_as_one_by_one(lines: list[bytes], last: bool) -> None:
    """Lines found with arrays are those that the pattern matches, and nothing else changes."""
    words = (b"RxErr", b"longer", b"kind of head", b"-- Boot ", b"fallen")
    pattern = re.compile(b"|".join(words))

    class Words:
        def hits(self, data: bytes) -> list[int]:
            return [match.end() for match in pattern.finditer(data)]

        def present(self, text: str) -> bool:
            return bool(pattern.search(text.encode()))

    data = b"\n".join(lines) + b"\n" * last
    taught = KnownLines(TEMPLATES)
    for stamp in (7, 12):
        for number in range(5):
            line = known_line(number, stamp) + b"\n"
            taught.learn(line, [(0, len(line), number)])
    assert taught.layouts() is not None

    def told(found: Found) -> tuple[object, ...]:
        known = found.known
        return (
            found.hits,
            [int(at) for at in known.starts],
            [int(at) for at in known.ends],
            [int(number) for number in known.numbers],
            known.tally(20, 400),
            found.line_ends,
            found.mark,
        )

    fast = search(data, Words(), taught, (b"-- Boot ",))
    plain = search(data, Words(), KnownLines(TEMPLATES), (b"-- Boot ",))
    assert told(fast) == told(plain)
