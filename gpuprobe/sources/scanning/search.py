"""What a search finds in a block of whole lines. It changes nothing, so any thread may do it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuprobe.sources.lines import count_line_ends
from gpuprobe.sources.scanning.known_lines import KnownLines, Places
from gpuprobe.sources.scanning.needles import Matcher

_OPEN_BRACE = re.compile(rb"\{[^\x21-\x7e\n]*\n")


@dataclass(slots=True)
class Found:
    """What was found.

    Attributes:
        hits: Where lines begin that have to be read, ascending; None for all of them.
        known: The known lines that need not be read.
        line_ends: In all of the bytes.
        mark: Where the last boot mark begins, if any line to be read holds one.
        all_behind: The last hit is a lone `{`: all from there on has to be read.
        asked: What was known.
    """

    hits: list[int] | None = None
    known: Places = field(default_factory=Places)
    line_ends: int = 0
    mark: int | None = None
    all_behind: bool = False
    asked: KnownLines | None = None


def search(
    data: bytes,
    matcher: Matcher,
    lines: KnownLines | None,
    marks: tuple[bytes, ...],
    *,
    objects: bool = False,
) -> Found:
    """Look for words in whole lines, and tell known lines from those to be read.

    Args:
        data: The lines.
        matcher: Finds what matters.
        lines: What is known, up to a boot mark.
        marks: What stands between boots.
        objects: All from the first line that is a lone `{` has to be read.
    """
    found = _tell_apart(data, matcher, lines, marks)
    found.asked = lines
    found.line_ends = count_line_ends(data)
    if objects and found.hits is not None and (brace := _lone_brace(data)) is not None:
        found.all_behind = True
        found.hits = [*(hit for hit in found.hits if hit < brace), brace]
    return found


def _tell_apart(
    data: bytes, matcher: Matcher, lines: KnownLines | None, marks: tuple[bytes, ...]
) -> Found:
    layouts = lines.layouts() if lines is not None else None
    taken = layouts.sort(data) if layouts is not None else None
    rest = data if taken is None else taken.rest
    ends = matcher.hits(rest)
    hits: list[int] = []
    matches: list[tuple[int, int, int]] = []
    mark = first_mark = None
    line_end = 0
    for end in ends:
        if end <= line_end:
            continue
        # A hit's last byte is in its line, even where it is the line feed.
        start = rest.rfind(b"\n", 0, end - 1) + 1
        if lines is not None and first_mark is None and (match := lines.match(rest, start)):
            matches.append((start, match[1], match[0]))
            line_end = match[1]
            continue
        hits.append(start)
        line_end = rest.find(b"\n", end - 1) + 1 or len(rest)
        place = max(rest.rfind(each, start, line_end) for each in marks)
        if place >= 0:
            mark = place
            # What is known holds up to the next boot mark.
            first_mark = place if first_mark is None else first_mark
    if matches and lines is not None:
        lines.learn(rest, matches)
    if taken is None:
        return Found(hits, _places(matches), mark=mark)

    moved = taken.in_data
    hits = [moved(hit) for hit in hits]
    places = Places(taken.starts, taken.ends, taken.numbers)
    if matches or first_mark is not None:
        stop = len(data) if first_mark is None else moved(first_mark)
        one_by_one = zip(
            taken.starts.tolist(), taken.ends.tolist(), taken.numbers.tolist(), strict=True
        )
        all_known = sorted(
            [*one_by_one, *((moved(start), moved(end - 1) + 1, n) for start, end, n in matches)]
        )
        hits = sorted([*hits, *(start for start, _, _ in all_known if start > stop)])
        places = _places([known for known in all_known if known[0] < stop])
    return Found(hits, places, mark=None if mark is None else moved(mark))


def _places(matches: list[tuple[int, int, int]]) -> Places:
    return Places(
        [start for start, _, _ in matches],
        [end for _, end, _ in matches],
        [number for _, _, number in matches],
    )


def _lone_brace(data: bytes) -> int | None:
    """Where the first line begins that has nothing but an opening brace, or None."""
    for match in _OPEN_BRACE.finditer(data):
        start = data.rfind(b"\n", 0, match.start()) + 1
        if all(not 0x21 <= byte <= 0x7E for byte in data[start : match.start()]):
            return start
    return None
