"""A program's output as it is written: kept for the reader, and what it says read into events.

Lines are counted from 1 since the program began, each ended by a line feed. Of a line that was
rewritten by carriage returns (a progress bar) the last state stays. Bytes that are no UTF-8
become U+FFFD; colours and control characters are taken off. Lines of the kernel's log among them
are second-hand: see `program_words`.

In a flood the last lines of every second are kept, and those that may mean something; the bytes
of all others are counted. What this costs is bounded: where looking takes more than a third of a
core, the last lines of each block are looked at, and the others for the gravest words alone.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from gpuprobe.clock import Stamp
from gpuprobe.clock import now as clock_now
from gpuprobe.events import Event, Origin, OutputWritten
from gpuprobe.sources.framing import peel
from gpuprobe.sources.line_reader import LineReader
from gpuprobe.sources.lines import strip_controls
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.scanning.familiar import GRAVE, Familiar, shape

LINES_PER_S: Final = 1000
"""Lines kept a second, and as many again of those that may mean something."""

LINE_LIMIT: Final = 16 << 10
"""Bytes of a line that are kept and read; the rest is counted."""

READ_PER_S: Final = 200
ALIKE_PER_S: Final = 20
"""Lines a second that are read for what they mean with those around them, and of one shape."""

SHARE: Final = 0.3
"""Share of a core beyond which lines are only skimmed."""

_BURST_S: Final = 0.1
"""Seconds of a core that may be spent at once before that."""

_BLOCK: Final = 1 << 20
_TAIL: Final = 64 << 10

_LineOf = Callable[[int], "Line"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output.

    Attributes:
        text: Its bytes, without the line's end.
        stamp: When it was written; None for an old line, which only its own words date.
        source: Who wrote it (`vllm`), or None.
        ref: Where it can be found again (a journal's cursor), or None.
        number: Its number since the program began; `OutputReader` gives it.
        hit: It may mean something.
    """

    text: bytes
    stamp: Stamp | None = None
    source: str | None = None
    ref: str | None = None
    number: int = 0
    hit: bool = False


class OutputReader:
    """Reads one stream of a program.

    Times are seconds of `time.monotonic()`, given by the caller.

    Args:
        name: `origin.input` of what is found: `engine`, a unit, a container, a path.
        order: The source's number, which breaks ties between equal times.
        stream: `stdout`, `stderr`, or "" where the two cannot be told apart.
        lines_per_s: See `LINES_PER_S`.
    """

    def __init__(
        self, name: str, order: int, stream: str = "", *, lines_per_s: int = LINES_PER_S
    ) -> None:
        self.name = name
        self.order = order
        self.stream = stream
        self._kept = _Kept(lines_per_s)
        self._meaning = _Meaning(LineReader(name, order, printed=True))
        self._familiar = Familiar()
        self._part = b""
        self._number = 0
        self._spent_s = 0.0
        self._spent_at = 0.0

    def feed(self, data: bytes, now: float) -> list[Event]:
        """Take bytes as the program wrote them, cut anywhere; give what is due."""
        for start in range(0, len(data), _BLOCK):
            head, end, rest = data[start : start + _BLOCK].rpartition(b"\n")
            if end:
                begin = time.thread_time()
                head = self._skim(self._part + head, now)
                self._part = b""
                self._take(head.split(b"\n"), now)
                self._spent_s += time.thread_time() - begin
            self._part = self._bounded(self._part + rest)
        return self.read(now)

    def add(self, lines: Iterable[Line], now: float) -> list[Event]:
        """Take whole messages that something dated, as the journal; give what is due."""
        for line in lines:
            self._take(line.text.split(b"\n"), now, line)
        return self.read(now)

    def keep(self, line: Line) -> None:
        """Take a line of which somebody else knows what it means: it is kept, and not read."""
        self._number += 1
        self._kept.add([dataclasses.replace(line, number=self._number)])

    def start_at(self, number: int) -> None:
        """The next line has this number: those before were there already."""
        self._number = number - 1

    def skipped(self, size: int) -> None:
        """Note bytes that were written and never came here; the next numbers are too low."""
        self._kept.dropped += size

    def restart(self, now: float) -> list[Event]:
        """The program began anew: all that waits is given, and lines are counted from 1."""
        found = self.read(now, end=True)
        self._number = 0
        self._meaning.forget()
        return found

    def due_s(self, now: float) -> float | None:
        """Seconds until `read` has something to do; None while nothing waits."""
        due = [s for s in (self._meaning.reader.due_s(now), self._kept.due_s(now)) if s is not None]
        return min(due, default=None)

    def read(self, now: float, end: bool = False) -> list[Event]:
        """What is due; at the `end` all that waits, with a last line that has no line end."""
        if end and self._part:
            self._take([self._part], now)
            self._part = b""
        found: list[Event] = []
        if self._kept.due_s(now) == 0.0 or (end and (self._kept.waits or self._kept.dropped)):
            found.append(self._output(now))
        found.extend(self._meaning.reader.read(now, end=end))
        return found

    def _skim(self, head: bytes, now: float) -> bytes:
        """The lines to look at: all, or the last ones when looking took too much of this second."""
        self._spent_s = max(0.0, self._spent_s - SHARE * max(0.0, now - self._spent_at))
        self._spent_at = now
        if self._spent_s <= _BURST_S or len(head) <= _TAIL:
            return head
        if self._spent_s <= 2 * _BURST_S and any(word in head for word in GRAVE):
            return head
        cut = head.find(b"\n", len(head) - _TAIL) + 1 or len(head) - _TAIL
        lines = head.count(b"\n", 0, cut)
        self._number += lines
        self._kept.dropped += cut - lines
        return head[cut:]

    def _bounded(self, part: bytes) -> bytes:
        """The begin of a line; of a progress bar, its newest state."""
        if len(part) <= 4 * LINE_LIMIT:
            return part
        if b"\r" in part:
            part = part[part.rstrip(b"\r").rfind(b"\r") + 1 :]
        self._kept.dropped += max(0, len(part) - LINE_LIMIT)
        return part[:LINE_LIMIT]

    def _take(self, texts: Sequence[bytes], now: float, like: Line | None = None) -> None:
        """Take complete lines: the last ones are kept, and those that may mean something."""
        shapes = shape(b"\n".join(texts)).split(b"\n")
        hot = self._familiar.hits(shapes, now)
        hits = [n for n, one in enumerate(shapes) if one in hot] if hot else []
        first = self._number + 1
        self._number += len(texts)
        like = like or Line(b"", clock_now())
        made: dict[int, Line] = {}

        def line(index: int) -> Line:
            if index not in made:
                text = _last_state(texts[index])
                self._kept.dropped += max(0, len(text) - LINE_LIMIT)
                made[index] = Line(
                    text[:LINE_LIMIT],
                    like.stamp,
                    like.source,
                    like.ref,
                    first + index,
                    bool(hot) and shapes[index] in hot,
                )
            return made[index]

        self._meaning.take(hits, shapes, line, now)
        limit = self._kept.limit
        kept_from = max(0, len(texts) - limit)
        early = [index for index in hits if index < kept_from][-limit:]
        self._kept.dropped += sum(map(len, texts[:kept_from]))
        self._kept.dropped -= sum(len(texts[index]) for index in early)
        self._kept.add(line(index) for index in (*early, *range(kept_from, len(texts))))

    def _output(self, now: float) -> Event:
        lines, dropped = self._kept.take(now)
        numbered = tuple((one.number, _text(one.text)) for one in lines)
        return OutputWritten(
            origin=Origin(
                self.name, numbered[0][0] if numbered else None, "", order=(self.order, 0)
            ),
            stamp=(lines[-1].stamp if lines else None) or clock_now(),
            stream=self.stream,
            lines=numbered,
            dropped=dropped,
        )


class _Kept:
    """The lines that wait to be given: at once as a rule, in a flood the last of each second."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._last: deque[Line] = deque()
        self._hits: deque[Line] = deque(maxlen=limit)
        self._second = float("-inf")
        self._given = 0

    @property
    def waits(self) -> int:
        return len(self._last) + len(self._hits)

    def due_s(self, now: float) -> float | None:
        if not self.waits:
            return None
        over = now - self._second >= 1.0
        if over or self._given + self.waits <= self.limit:
            return 0.0
        return self._second + 1.0 - now

    def add(self, lines: Iterable[Line]) -> None:
        self._last.extend(lines)
        while len(self._last) > self.limit:
            old = self._last.popleft()
            if not old.hit:
                self.dropped += len(old.text)
                continue
            if len(self._hits) == self.limit:
                self.dropped += len(self._hits[0].text)
            self._hits.append(old)

    def take(self, now: float) -> tuple[list[Line], int]:
        if now - self._second >= 1.0:
            self._second, self._given = now, 0
        self._given += self.waits
        found = [*self._hits, *self._last]
        dropped, self.dropped = self.dropped, 0
        self._hits.clear()
        self._last.clear()
        return found, dropped


class _Meaning:
    """Hands lines that may mean something to a reader, with the lines around them."""

    def __init__(self, reader: LineReader) -> None:
        self.reader = reader
        self._before: deque[Line] = deque(maxlen=Window.REACH)
        self._behind = 0
        self._ordinals = count(1)
        self._second = float("-inf")
        self._alike: Counter[bytes] = Counter()

    def forget(self) -> None:
        self._before.clear()
        self._behind = 0

    def take(self, hits: Iterable[int], shapes: Sequence[bytes], line: _LineOf, now: float) -> None:
        size, reach = len(shapes), Window.REACH
        if now - self._second >= 1.0:
            self._second = now
            self._alike.clear()
        wanted = set(range(min(self._behind, size)))
        self._behind = max(0, self._behind - size)
        for index in hits:
            if self._alike.total() >= READ_PER_S:
                break
            self._alike[shapes[index]] += 1
            if self._alike[shapes[index]] > ALIKE_PER_S:
                continue
            if index < reach:
                # What stood just before has its own place in `_before`, and is read but once.
                self._hand_over(list(self._before)[-(reach - index) :], now)
                self._before.clear()
            wanted.update(range(max(0, index - reach), min(size, index + reach + 1)))
            self._behind = max(self._behind, index + reach + 1 - size)
        self._hand_over([line(index) for index in sorted(wanted)], now)
        self._before.extend(
            line(index) for index in range(max(0, size - reach), size) if index not in wanted
        )

    def _hand_over(self, lines: Iterable[Line], now: float) -> None:
        for one in lines:
            self.reader.add(list(self._records(one)), now)

    def _records(self, line: Line) -> Iterator[Record]:
        for record in peel(line.number, _text(line.text)):
            # Whoever printed it, it was printed on this machine.
            yield dataclasses.replace(
                record,
                stamps=(line.stamp,)
                if line.stamp is not None
                else tuple(map(_local, record.stamps)),
                host=None,
                machine_id=None,
                boot_id=None,
                source=record.source or line.source,
                ref=line.ref or record.ref,
                ordinal=next(self._ordinals),
            )


def _local(stamp: Stamp) -> Stamp:
    """The stamp with this machine's zone where it has none."""
    if stamp.wall is None or stamp.wall.tzinfo is not None or not stamp.year_known:
        return stamp
    return dataclasses.replace(stamp, wall=stamp.wall.astimezone())


def _last_state(text: bytes) -> bytes:
    """What a terminal shows of a line that carriage returns rewrote, about."""
    if b"\r" not in text:
        return text
    text = text.rstrip(b"\r")
    return text[text.rfind(b"\r") + 1 :]


def _text(data: bytes) -> str:
    return strip_controls(data.decode("utf-8", "replace"))
