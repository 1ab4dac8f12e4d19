"""Repeats: the first events of a shape are kept one by one, later ones only counted.

A link that reports an error a thousand times a second fills a log with the same lines. Two
things keep that short: `Collector` counts events of one shape, and `Repeats` knows the lines
that gave them, so that such a line is counted without being read.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpuprobe.events import Event, Origin
from gpuprobe.sources.framing import peel
from gpuprobe.sources.lines import strip_controls
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.scanning.known_lines import DIGITS, KnownLines, Template

REPEATS_KEPT = 100
"""Events of one shape kept one by one; later ones of that shape are only counted."""

KNOWN_LIMIT = 64
"""Lines known at most. More make every look-up slower."""

WATCHED_LIMIT = 2048
"""Different lines watched for repeats at a time."""

LENGTH_LIMIT = 1000
"""Longest line that is watched, in characters."""

BOOT_MARKS = ("-- Boot ", "-- Reboot --")
"""What journalctl prints between boots: the same words behind it belong to another boot."""

_DIGITS = re.compile(r"\d+")
_BLANKS = re.compile(r" +")

Effect = tuple[tuple[object, int], ...]
"""What a line gave: the shape of each of its events, with the event's own count."""


class Collector:
    """Keeps the first events of a shape and counts the rest.

    Attributes:
        events: Those kept. Of each shape the last one kept holds the count, and the last origin.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._seen: Counter[object] = Counter()
        self._last: dict[object, int] = {}

    def add(self, pattern_id: str, event: Event) -> object:
        """Take an event; what comes back is its shape."""
        shape = self.shape(pattern_id, event)
        if self._seen[shape] < REPEATS_KEPT:
            self._seen[shape] += 1
            self._last[shape] = len(self.events)
            self.events.append(event)
        else:
            self.count(shape, event.count, event.origin)
        return shape

    def count(self, shape: object, times: int, origin: Origin) -> None:
        """Count events of a shape that is full.

        Args:
            shape: As `add` gave it.
            times: How many.
            origin: Of the last of them; they need not come in order.
        """
        place = self._last[shape]
        kept = self.events[place]
        last = origin if kept.last is None or kept.last.order < origin.order else kept.last
        self.events[place] = dataclasses.replace(kept, count=kept.count + times, last=last)

    @staticmethod
    def shape(pattern_id: str, event: Event) -> object:
        """What makes two events repeats of one another."""
        code = getattr(event, "code", None)
        what = getattr(event, "what", None)
        words = _DIGITS.sub("0", event.origin.text[-120:]) if code is None and what is None else ""
        return (
            pattern_id,
            type(event),
            event.device,
            event.host,
            event.boot,
            event.setting,
            code,
            _DIGITS.sub("0", what) if isinstance(what, str) else what,
            words,
        )


@dataclass(slots=True)
class _Watched:
    effect: Effect
    times: int


class Repeats:
    """Lines that came often, the same but for their stamps, and gave the same each time.

    After `REPEATS_KEPT` times a line is known: it is counted with what it gave, unread. Whether
    a line is known depends on the lines before it alone, not on how an input is cut up.

    Attributes:
        marks: What stands between boots, as bytes.
        lines: The known lines, None while there are none.
        mark_line: Line of the last boot mark that was passed. All is learnt anew behind it.
    """

    marks = tuple(mark.encode("ascii") for mark in BOOT_MARKS)

    def __init__(self, collector: Collector, path: str, order: int) -> None:
        self._collector = collector
        self._path = path
        self._order = order
        self._watched: dict[Template, _Watched] = {}
        self._known: list[Effect] = []
        self._templates: list[Template] = []
        self._skipped: dict[int, tuple[int, int, bytes]] = {}
        self.lines: KnownLines | None = None
        self.mark_line: int | None = None

    def pass_mark(self, record: Record) -> None:
        """Forget what is known where a boot ends."""
        if any(mark in record.raw for mark in BOOT_MARKS):
            self.settle()
            self.mark_line = record.line
            self._watched.clear()
            self._known.clear()
            self._templates.clear()
            self.lines = None

    def take(self, record: Record) -> bool:
        """Count a record's line if it is known; False if it has to be read."""
        if self.lines is None:
            return False
        match = self.lines.match(record.raw.encode("utf-8", "replace"))
        if match is None:
            return False
        self._count(match[0], 1, record)
        return True

    def skipped(self, number: int, times: int, line: int, text: bytes) -> None:
        """Count a known line that was passed over.

        Args:
            number: Which known line.
            times: How often it came.
            line: Number of the line where it came last.
            text: That line.
        """
        before = self._skipped.get(number, (0, 0, b""))
        self._skipped[number] = (before[0] + times, *max(before[1:], (line, text)))

    def settle(self) -> None:
        """Let the collector know of what was passed over: only the last line of many is read."""
        for number, (times, line, text) in self._skipped.items():
            (record,) = peel(line, text.decode("utf-8", errors="replace").rstrip("\r\n"))
            self._count(number, times, record)
        self._skipped.clear()

    def _count(self, number: int, times: int, record: Record) -> None:
        origin = origin_of(record, self._path, self._order)
        for shape, each in self._known[number]:
            self._collector.count(shape, times * each, origin)

    def learn(self, record: Record, found: Sequence[tuple[object, Event]]) -> None:
        """See what a line gave that had to be read.

        Args:
            record: The only record of its line.
            found: Its events with their shapes.
        """
        template = _template(record)
        if template is None:
            return
        effect = effect_of(found, origin_of(record, self._path, self._order))
        if effect is None:
            return
        watched = self._watched.get(template)
        if watched is None or watched.effect != effect:
            if len(self._watched) >= WATCHED_LIMIT:
                self._watched.clear()
            watched = self._watched[template] = _Watched(effect, 0)
        watched.times += 1
        if watched.times > REPEATS_KEPT and len(self._known) < KNOWN_LIMIT:
            self._templates.append(template)
            self._known.append(effect)
            del self._watched[template]
            self.lines = KnownLines(self._templates)


def origin_of(record: Record, path: str, order: int) -> Origin:
    """Where an event comes from that this record alone gave."""
    window = Window((record,), 0, record.message, path, order)
    origin: Origin = window.base()["origin"]
    return origin


def effect_of(found: Sequence[tuple[object, Event]], origin: Origin) -> Effect | None:
    """What a record gave; None where an event comes from other lines too.

    Args:
        found: Its events with their shapes.
        origin: Of the record.
    """
    if any(event.origin != origin for _, event in found):
        return None
    return tuple((shape, event.count) for shape, event in found)


def _template(record: Record) -> Template | None:
    """A pattern for the line with other stamps, cut behind the last stamp; None for none."""
    raw = record.raw
    if len(raw) > LENGTH_LIMIT or record.line is None or strip_controls(raw) != raw:
        return None
    if record.host is not None and record.host not in raw:
        return None
    head = ""
    done = 0
    for stamp in record.stamps:
        at = raw.find(stamp.raw, done)
        if at < 0 or not stamp.raw:
            return None
        any_digits = _DIGITS.sub("9", stamp.raw)
        any_stamp = re.escape(_BLANKS.sub(" ", any_digits)).replace("9", DIGITS.decode())
        head += re.escape(raw[done:at]) + any_stamp.replace(r"\ ", " +")
        done = at + len(stamp.raw)
    return head.encode("utf-8", "replace"), raw[done:].encode("utf-8", "replace")
