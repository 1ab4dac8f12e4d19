r"""Which bytes and texts may hold anything: every literal of every pattern, looked for at once.

Two engines give the same answers: Hyperscan, and plain `re` where it is not installed.

What hides words from a search over bytes is looked for as well, and counts as found: control
characters and terminal escapes in the middle of words, HTML tags and entities, escapes of JSON
and of `/dev/kmsg`, the journal's byte arrays. So the search errs only towards too much.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Protocol

from gpuprobe.sources.wording import FAMILIES, Family

NEEDLES = tuple(dict.fromkeys(needle for family in FAMILIES for needle in family.needles))
"""Every literal that some pattern needs: a message without any of them gives no event."""

HIDING = (
    # What `lines.strip_controls` takes out of lines, as UTF-8.
    rb"[\x00-\x08\x0e-\x1b\x1f\x7f]",
    rb"\xc2[\x80-\xa0]",
    rb"\xef\xbb\xbf",
    rb"\xe2\x80[\xaa-\xae]",
    rb"\xe2\x81[\xa6-\xa9]",
    rb"\x23033\[",
    rb"\^\[\[",
    # Escapes of JSON, of /dev/kmsg and of loggers: of characters that a needle can hold, or that
    # are taken out later. `\b`, `\f` and `\r` at the end of a string hide nothing.
    rb"\\(?:[/e]|033|x[0-9a-fA-F]|u00|u20[26]|u[fF][eE]|[bfr][^\x22\\])",
    # A journal's message as a byte array.
    rb"\x22MESSAGE\x22[ \t]*:[ \t]*\[",
    # What `framing.html.clean_html` takes out or resolves; any byte above ASCII may be a blank.
    rb"</?(?:[fF][oO][nN][tT]|[bB]|[sS][tT][rR][oO][nN][gG]|[sS][pP][aA][nN]|[pP][rR][eE]"
    rb"|[cC][oO][dD][eE]|[pP]|[bB][rR]|[dD][iI][vV]|[tT][tT]|[eE][mM]"
    rb"|[bB][lL][oO][cC][kK][qQ][uU][oO][tT][eE]|[tT][dD]|[tT][rR]|[lL][iI]|[uU][lL]|[oO][lL]"
    rb"|[sS][aA][mM][pP])[\x09-\x0d\x20/>\x80-\xff]",
    rb"&(?:lt|gt|amp|quot|apos|nbsp|#[0-9]|#x[0-9a-fA-F])",
)
"""What can stand inside words, or for them, so that their bytes are not there to be found."""


SHORT_LOG = 1000
"""Messages that are looked at in one run before an engine is made."""

USUAL_LENGTH = 200
"""Characters of a message; a longer one counts for several."""

SHORT_BYTES = 40_000
"""A log of so many bytes is read whole."""


class Matcher(Protocol):
    """An engine. One is for one thread."""

    def hits(self, data: bytes) -> list[int]:
        """Where words end that matter or that hide some, ascending; at least one in each line."""

    def present(self, text: str) -> bool:
        """True if a needle stands in a message whose escapes are taken off."""


class PlainMatcher:
    """The engine that needs nothing but `re`: about a hundred times slower."""

    def __init__(self) -> None:
        words = tree(_shortest())
        self._text = re.compile(words)
        hiding = b"|".join(HIDING)
        self._bytes = re.compile(words.encode("ascii") + b"|" + hiding)

    def hits(self, data: bytes) -> list[int]:
        """See `Matcher`: the first hit of each line."""
        found: list[int] = []
        match = self._bytes.search(data)
        while match is not None:
            found.append(match.end())
            line_end = data.find(b"\n", match.end() - 1)
            match = self._bytes.search(data, line_end + 1) if line_end >= 0 else None
        return found

    def present(self, text: str) -> bool:
        """See `Matcher`."""
        return self._text.search(text) is not None


class HyperscanMatcher:
    """All needles in one pass at the speed of memory.

    Block mode only, on short blocks: its stream objects can crash the process, and it finds
    nothing in buffers above 4 GiB. Words are given as patterns with their bytes escaped, since
    literal mode would cut them at NUL.

    Raises:
        ImportError: Hyperscan is not installed.
    """

    def __init__(self) -> None:
        import hyperscan

        self._stopped: type[Exception] = getattr(hyperscan, "ScanTerminated", hyperscan.error)
        self._database, self._literals = _compiled()
        # Threads share the compiled words, and each has its own room to work in.
        self._scratch = hyperscan.Scratch(self._database)

    def hits(self, data: bytes) -> list[int]:
        """See `Matcher`: every hit."""
        found: list[int] = []
        add = found.append
        self._database.scan(
            data,
            match_event_handler=lambda _id, _start, end, _flags, _context: add(end),
            scratch=self._scratch,
        )
        found.sort()
        return found

    def present(self, text: str) -> bool:
        """See `Matcher`."""
        found = False

        def note(number: int, *_: object) -> bool:
            nonlocal found
            found = number < self._literals
            return found  # True ends the search

        with suppress(self._stopped):
            self._database.scan(
                text.encode("utf-8", "replace"), match_event_handler=note, scratch=self._scratch
            )
        return found


@cache
def _compiled() -> tuple[Any, int]:
    """Hyperscan's database, and how many of its first numbers are needles."""
    import hyperscan

    words = [_escaped(needle) for needle in NEEDLES]
    expressions = [*words, *HIDING]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    # One number each: with the same for all, compiling takes ten times as long.
    database.compile(
        expressions=expressions,
        ids=list(range(len(expressions))),
        flags=[0] * len(expressions),
    )
    return database, len(words)


def _by_start() -> dict[str, list[tuple[str, int]]]:
    """Each needle with its family's place, under the first characters that all needles have."""
    found: dict[str, list[tuple[str, int]]] = {}
    for place, family in enumerate(FAMILIES):
        for needle in family.needles:
            found.setdefault(needle[:_START_LENGTH], []).append((needle, place))
    return found


_START_LENGTH = min(map(len, NEEDLES))
_BY_START = _by_start()
_STARTS = frozenset(_BY_START)


def _starts_in(text: str) -> frozenset[str]:
    return _STARTS.intersection([text[at : at + _START_LENGTH] for at in range(len(text))])


def _is_any_in(text: str) -> bool:
    return any(needle in text for start in _starts_in(text) for needle, _ in _BY_START[start])


def families_in(text: str) -> list[Family]:
    """The families of which a needle stands in the text, in their order: no other can read it."""
    places = {
        place for start in _starts_in(text) for needle, place in _BY_START[start] if needle in text
    }
    return [FAMILIES[place] for place in sorted(places)]


class OneByOne:
    """Needle by needle, for lines that come one at a time: they are few, and Hyperscan is 50 MB."""

    def hits(self, data: bytes) -> list[int]:
        """See `Matcher`: the last place alone, where anything may be."""
        return [len(data)] if data else []

    def present(self, text: str) -> bool:
        """See `Matcher`."""
        return _is_any_in(text)


class LazyMatcher:
    """This thread's engine, made when there is enough to look at to be worth it.

    Hyperscan where it can be imported, else the plain one. A short log is over before either
    would be ready, so its first messages are looked at needle by needle.
    """

    def hits(self, data: bytes) -> list[int]:
        """See `Matcher`: ends of lines, where the data holds colours or NULs."""
        if b"\x1b" not in data and b"\0" not in data:
            return _engine().hits(data)
        # What `lines.strip_controls` takes out whatever stands around it. Of what is hidden
        # otherwise the rest is still there, and counts as found.
        bare = _COLOURS.sub(b"", data).translate(None, _CONTROLS)
        return _line_ends(bare, _engine().hits(bare), data)

    def present(self, text: str) -> bool:
        """See `Matcher`."""
        left = getattr(_local, "left", SHORT_LOG)
        if left > 0:
            _local.left = left - 1 - len(text) // USUAL_LENGTH
            return _is_any_in(text)
        return _engine().present(text)


_local = threading.local()

_COLOURS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])")
"""Escapes of `lines.strip_controls` that are ASCII; of the longer ones the first byte stays."""

_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n\v\f\r\x1b\x1c\x1d\x1e"})


def _line_ends(bare: bytes, hits: Sequence[int], data: bytes) -> list[int]:
    """Where the lines end in the data that were hit in it with characters taken out."""
    found: list[int] = []
    done = at = 0
    for hit in hits:
        lines = bare.count(b"\n", done, hit - 1)
        if found and not lines:
            continue
        for _ in range(lines):
            at = data.index(b"\n", at) + 1
        done = hit - 1
        found.append(data.find(b"\n", at) + 1 or len(data))
    return found


def _engine() -> Matcher:
    engine: Matcher | None = getattr(_local, "engine", None)
    if engine is None:
        try:
            engine = HyperscanMatcher()
        except ImportError:
            engine = PlainMatcher()
        _local.engine = engine
    return engine


def _escaped(needle: str) -> bytes:
    return b"".join(
        bytes([byte]) if chr(byte).isalnum() else b"\\x%02x" % byte
        for byte in needle.encode("ascii")
    )


def tree(words: Sequence[str]) -> str:
    """A pattern for any of the words that tries each first character once."""
    if not words:
        return r"\Z."
    if "" in words:
        return ""
    by_start: dict[str, list[str]] = {}
    for word in words:
        by_start.setdefault(word[0], []).append(word[1:])
    parts = [re.escape(start) + tree(rest) for start, rest in sorted(by_start.items())]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _shortest() -> tuple[str, ...]:
    """The needles that hold no other needle: they are found wherever one of all is found."""
    # A text that holds a needle holds each part of it, so only shorter ones need a look.
    kept: list[str] = []
    for needle in sorted(NEEDLES, key=len):
        if not any(other in needle for other in kept):
            kept.append(needle)
    return tuple(kept)
