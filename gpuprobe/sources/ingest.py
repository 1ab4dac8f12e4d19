"""From one input to its events: framing off, words matched, repeats counted."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile

from gpuprobe.clock import Stamp
from gpuprobe.clock_joining import PairedStamps
from gpuprobe.diagnosis import Input
from gpuprobe.events import BootStarted, Event, Setting
from gpuprobe.sources.files.unpack import Notes
from gpuprobe.sources.framing import peel, peel_lines, sniff
from gpuprobe.sources.injected import was_injected
from gpuprobe.sources.input_kind import is_general_text, is_program_text, is_review
from gpuprobe.sources.lines_around import in_printed_list, looks_pasted, only_quotes
from gpuprobe.sources.record import EVIDENCE_LIMIT, Record, Window
from gpuprobe.sources.retyped import looks_retyped
from gpuprobe.sources.scanning.needles import LazyMatcher, Matcher, families_in
from gpuprobe.sources.scanning.repeated_messages import RepeatedMessages
from gpuprobe.sources.scanning.repeats import REPEATS_KEPT, Collector, Repeats
from gpuprobe.sources.scanning.scan import Scan
from gpuprobe.sources.setting import judge
from gpuprobe.sources.wording.prose import is_seen
from gpuprobe.sources.wrapped import JOINED_LENGTH, cell, cuts_words, is_short

_CONTEXT = Window.REACH + 1
"""Records kept either side: what patterns see, also from the record before."""

_BATCH = 2048
"""Records read slowly at a time; with the reach either side, what memory holds."""

_BATCH_LENGTH = 4 << 20
"""Characters of records after which fewer than `_BATCH` are enough."""

_SEAM = 512
"""Characters either side of the cut in a very long line that are read once more together."""

_CITED_BEFORE = 60
"""Characters before a message in a very long line that are cited with it."""

_LONG_LINE_WORK = 1500
"""Pieces of one line that are read, and events in them, till the rest is left out with a note."""

_PADDING = re.compile(r" {16,}")
"""Blanks in the middle of words where a terminal wrapped a line at its width."""

_LOGFMT_TIME = re.compile(
    r'\btime="?(?P<date>\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d)(?:\.\d+)?(?P<zone>Z|[+-]\d\d:\d\d)'
)
"""A time with its zone inside a message, beside the prefix's own time (dockerd, ollama)."""


@dataclass(slots=True)
class Reading:
    """All that one input gave.

    Attributes:
        input: The input and how it was read.
        events: Its events in the order of their lines.
        paired: Lines stamped by two clocks, for joining clocks.
        program_text: The input is a program, a patch or a document, not a log.
        recording: Id of the recording it is, or "". continues: Id of the one that it continues.
        repeated: Its events, by `id`, that the recording it continues holds too.
        about: What a recording says of itself (its `meta`), read from it or kept in a report.
        broken_off: A recording that nobody writes has no end mark.
    """

    input: Input
    events: list[Event]
    paired: list[PairedStamps] = field(default_factory=list)
    program_text: bool = False
    recording: str = ""
    continues: str = ""
    repeated: frozenset[int] = frozenset()
    about: dict[str, str] = field(default_factory=dict)
    broken_off: bool = False


class Ingest:
    """Reads one input's scan into events."""

    def __init__(
        self,
        path: str,
        order: int,
        known_format: str | None = None,
        matcher: Matcher | None = None,
    ) -> None:
        self._path = path
        self._known_format = known_format
        self._order = order
        self._collector = Collector()
        self._repeats = Repeats(self._collector, path, order)
        self._messages = RepeatedMessages(self._collector, path, order)
        self._learns = True
        self._matcher = matcher or LazyMatcher()
        self._pairs: list[PairedStamps] = []
        self._framings: Counter[str] = Counter()
        self._program_text = False
        self._general = False
        self._boot: str | None = None
        self._notes: list[str] = []
        self._long_line: int | None = None
        self._line_work = 0
        self._seam_end = 0
        self._short = False

    def read(self, scan: Scan, notes: Notes) -> Reading:
        """All events of the scan, and the input's summary."""
        head = [record for number, text in scan.head for record in peel(number, text)]
        lines = _as_shown(head)
        self._program_text = is_program_text(lines) or is_review(lines)
        self._general = is_general_text(lines)
        for record in head:
            self._note(record)
        sniffed = self._known_format or sniff([text for _, text in scan.head])
        spans = sniffed == "journal-export" or _is_pretty(sniffed, scan.head)
        # Where an entry spans lines, what its line means is not all in the line.
        self._learns = sniffed not in ("journal-export", "journal-json")
        self._short = scan.is_short()
        runs = scan.runs(self._repeats, whole=spans, objects=sniffed == "journal-json")
        for run in runs:
            self._read_run(peel_lines(run, sniffed))
        self._repeats.settle()
        self._messages.forget()
        return Reading(
            input=Input(
                path=self._path,
                format=self._format(sniffed),
                lines=scan.line_count,
                notes=tuple(dict.fromkeys((*notes, *self._notes))),
                in_part=notes.in_part,
            ),
            events=self._collector.events,
            paired=self._pairs,
            program_text=self._program_text,
        )

    def _format(self, sniffed: str) -> str:
        if sniffed != "text" or not self._framings:
            return sniffed
        return self._framings.most_common(1)[0][0]

    def _note(self, record: Record) -> None:
        if record.framed:
            self._framings[record.framing] += 1
        if not record.stamps or len(self._pairs) >= REPEATS_KEPT:
            return
        stamps = record.stamps
        if inner := _LOGFMT_TIME.search(record.message):
            with contextlib.suppress(ValueError):
                wall = datetime.fromisoformat(inner["date"] + inner["zone"])
                stamps = (*stamps, Stamp(inner[0], wall=wall))
        if len(stamps) > 1:
            self._pairs.append(PairedStamps(self._path, record.host, stamps))

    def _read_run(self, found: Iterable[Record]) -> None:
        records: list[Record] = []
        done = 0
        length = 0
        for record in found:
            records.append(record)
            length += len(record.raw)
            unread = len(records) - done
            if unread >= _BATCH + _CONTEXT or (length > _BATCH_LENGTH and unread > _CONTEXT):
                length = 0
                stop = len(records) - _CONTEXT
                self._read_records(records, done, stop)
                drop = max(0, stop - _CONTEXT)
                del records[:drop]
                done = stop - drop
        self._read_records(records, done, len(records))

    def _read_records(self, records: Sequence[Record], start: int, stop: int) -> None:
        for index in range(start, stop):
            if _is_part(records, index):
                self._read_part(records, index)
            elif self._matcher.present(records[index].message) or (
                # In a long input the fast pass would have to look at each line's end as well.
                self._short and cuts_words(records[index : index + 2], self._matcher)
            ):
                repeats = self._repeats if self._learns else self._messages
                repeats.pass_mark(records[index])
                if not repeats.take(records[index]):
                    self._read_record(records, index)

    def _read_record(self, records: Sequence[Record], index: int) -> None:
        found = self.find(records, index)
        kept = [self._keep(pattern_id, event, records[index]) for pattern_id, event in found]
        if _is_alone(records, index):
            (self._repeats if self._learns else self._messages).learn(records[index], kept)

    def _read_part(self, records: Sequence[Record], index: int) -> None:
        """Read a piece of a line that is too long to be read at once.

        What begins near its end is found in the text either side of the cut, so that a message
        is found whole, and once.
        """
        record = records[index]
        begin = 0
        if not record.part or record.line != self._long_line:
            self._long_line, self._line_work = record.line, 0
        else:
            begin = self._seam_end
        self._seam_end = 0
        if self._line_work > _LONG_LINE_WORK:
            return
        message = record.message
        following = records[index + 1 : index + 2]
        goes_on = bool(following) and following[0].part
        if goes_on:
            # A framing takes off the blanks at the end, and here they stand between words.
            message = message.rstrip() + record.raw[len(record.raw.rstrip()) :]
        seam = message[-_SEAM:] + following[0].message[:_SEAM] if goes_on else ""
        inside, across = self._matcher.present(message), self._matcher.present(seam)
        if not inside and not across:
            return
        self._line_work += 1
        cut = max(0, len(message) - _SEAM) if goes_on else len(message)
        texts = [(message, begin, cut)] if inside else []
        if across:
            texts.append((seam, max(0, begin - cut), min(_SEAM, len(message))))
        for text, start, stop in texts:
            window = self._window(records, index, text)
            found = list(self._match(True, window, 0, stop - 1, start)) or [
                (pattern_id, self._never_a_log(event), match)
                for pattern_id, event, match in self._match(False, window, 0, stop - 1, start)
            ]
            for pattern_id, event, match in found:
                self._keep(pattern_id, _cite(event, match), record)
                if text is seam:
                    self._seam_end = max(self._seam_end, match.end() - stop)
            self._line_work += len(found)
        if self._line_work > _LONG_LINE_WORK:
            self._notes.append(f"line {record.line} is too long to be read to its end")

    def find(self, records: Sequence[Record], index: int) -> list[tuple[str, Event]]:
        """What one record says, each event with the id of its pattern; nothing is remembered.

        Args:
            records: It and its neighbours, `Window.REACH` either side where there are as many.
            index: Which one.
        """
        for window, least_end, most_start in self._attempts(records, index):
            if found := list(self._match(True, window, least_end, most_start)):
                return [(pattern_id, event) for pattern_id, event, _ in found]
        if records[index].kernel or records[index].message.lstrip().startswith("NVRM:"):
            # Nobody's own words: a line of a message that another line is the head of.
            return []
        window = self._window(records, index, records[index].message)
        return [
            (pattern_id, self._never_a_log(event))
            for pattern_id, event, _ in self._match(False, window, 0, len(window.text))
        ]

    def _never_a_log(self, event: Event) -> Event:
        """The event with prose for its setting, unless it stands in program text or an article."""
        code = event.setting is Setting.CODE or self._general
        return dataclasses.replace(event, setting=Setting.CODE if code else Setting.PROSE)

    def _keep(self, pattern_id: str, event: Event, record: Record) -> tuple[object, Event]:
        self._note(record)
        if isinstance(event, BootStarted) and event.setting in (Setting.LOG, Setting.BARE):
            # `-- Boot ID --` names the boot of all lines up to the next such mark.
            marks = event.boot_id or "-- Reboot --" in event.origin.text
            self._boot = event.boot_id if marks else self._boot
        if event.device is not None and event.device.domain_assumed and not self._notes:
            self._notes.append("an address without a PCI domain was taken to be in domain 0000")
        if event.boot is None and self._boot is not None:
            event = dataclasses.replace(event, boot=self._boot)
        return self._collector.add(pattern_id, event), event

    def _window(self, records: Sequence[Record], index: int, text: str) -> Window:
        return Window(records, index, text, self._path, self._order)

    def _attempts(self, records: Sequence[Record], index: int) -> Iterator[tuple[Window, int, int]]:
        """Texts to try in turn, with where a match must end at least and start at most.

        A line that a browser, a mail program or a terminal wrapped is tried joined with its
        unprefixed neighbours; what is found there must reach over the seam, so that nothing is
        found twice.
        """
        message = records[index].message
        yield self._window(records, index, message), 0, len(message)
        if _PADDING.search(message):
            text = _PADDING.sub("", message)
            yield self._window(records, index, text), 0, len(text)
        if len(message) > JOINED_LENGTH:
            return
        following = list(
            takewhile(
                lambda record: not record.framed and is_short(record),
                records[index + 1 : index + 4],
            )
        )
        for glue in (" ", ""):
            text = cell(message).rstrip()
            seam = len(text)
            for record in following:
                text = f"{text}{glue}{cell(record.message).rstrip()}"
                yield self._window(records, index, text), seam + 1, seam
        if index and not records[index].framed and message.strip():
            previous = cell(records[index - 1].message).rstrip()
            if is_short(records[index - 1]) and not self._matcher.present(previous):
                for glue in (" ", ""):
                    text = f"{previous}{glue}{cell(message).rstrip()}"
                    seam = len(previous)
                    yield self._window(records, index - 1, text), seam + 1, seam

    def _match(
        self,
        machine: bool,
        window: Window,
        least_end: int,
        most_start: int,
        least_start: int = 0,
    ) -> Iterator[tuple[str, Event, re.Match[str]]]:
        """What the families of machines' words, or of prose, read, with the match of each."""
        pasted: bool | None = None
        printed_list = retyped = False
        program = self._program_text
        for family in families_in(window.text):
            if family.machine is not machine:
                continue
            for pattern, match, event in family.read(window):
                if match.end() < least_end or not least_start <= match.start() <= most_start:
                    continue
                if pasted is None:
                    near = _as_shown(self._near(window))
                    pasted = looks_pasted(near)
                    retyped = looks_retyped(near)
                    above = _as_shown(window.before(window.REACH))
                    program = program or only_quotes(
                        above, framed=window.record.framed, line=window.record.raw
                    )
                    whole = [record.raw for record in window.before(window.REACH)]
                    program = program or was_injected(whole, window.text)
                    printed_list = in_printed_list(above)
                setting = judge(
                    window.record,
                    match.start(),
                    match.end(),
                    window.text,
                    program_text=program,
                    pasted_log=pasted,
                    printed_list=printed_list,
                    retyped=retyped,
                )
                if setting is Setting.PROSE and (self._general or not is_seen(match)):
                    setting = Setting.CODE
                if event.setting is not setting:
                    event = dataclasses.replace(event, setting=setting)
                yield pattern.id, event, match

    @staticmethod
    def _near(window: Window) -> Sequence[Record]:
        return [*window.before(24)[::-1], window.record, *window.after(24)]


def _is_pretty(sniffed: str, head: Sequence[tuple[int, str]]) -> bool:
    return sniffed == "journal-json" and any(text.strip() == "{" for _, text in head)


def _is_part(records: Sequence[Record], index: int) -> bool:
    """True for a piece of a line that is too long for one record."""
    return records[index].part or (index + 1 < len(records) and records[index + 1].part)


def _cite(event: Event, match: re.Match[str]) -> Event:
    """The event with the words of a long text that it was read from."""
    begin = max(0, match.start() - _CITED_BEFORE)
    text = match.string[begin : begin + EVIDENCE_LIMIT].strip()
    return dataclasses.replace(event, origin=dataclasses.replace(event.origin, text=text))


def _as_shown(records: Sequence[Record]) -> list[str]:
    """The lines as they stand; of a line that holds several, such as a page's, each by itself."""
    lines = [None, *(record.line for record in records), None]
    return [
        record.message if record.line and record.line in (above, below) else record.raw
        for above, record, below in zip(lines, records, lines[2:], strict=False)
    ]


def _is_alone(records: Sequence[Record], index: int) -> bool:
    """True if the record's line gave no other record."""
    line = records[index].line
    return all(
        record.line != line
        for record in (*records[max(0, index - 1) : index], *records[index + 1 : index + 2])
    )
