"""A scan of caches for a person: what is damaged, what it does, what to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from gpuprobe.jitcache.base import Harm
from gpuprobe.jitcache.quarantine import Moved
from gpuprobe.jitcache.report import CacheFinding, ScanReport
from gpuprobe.reporters.plain import COLUMNS, count, printable, wrap

SHOWN = 40
"""Findings of one sort that are shown; JSON has all."""

HARMS = {
    Harm.FATAL: "ends the program each time",
    Harm.HANGS: "makes the program wait for ever",
    Harm.REBUILT: "is built anew, at a cost",
    Harm.NONE: "does no harm",
    Harm.UNKNOWN: "what it does is not known",
}

Line = tuple[str, str]


class JitcacheTextReporter:
    """Writes what a person reads.

    Args:
        quiet: Only the answer and what is bad.
        colour: Use colour (rich is imported only then).
    """

    def __init__(self, *, quiet: bool = False, colour: bool = False) -> None:
        self.quiet = quiet
        self.colour = colour

    def render(self, report: ScanReport, out: TextIO) -> None:
        """Write `report` to `out`, ending with a newline."""
        self._write(self._lines(report), out)

    def render_moved(self, moved: Sequence[Moved], dry_run: bool, out: TextIO) -> None:
        """Write what a repair did, with the command that undoes each move."""
        self._write(_moved(moved, dry_run), out)

    def _write(self, lines: Iterable[Line], out: TextIO) -> None:
        if self.colour:
            from gpuprobe.reporters.terminal import write_coloured

            write_coloured(lines, out)
        else:
            out.writelines(f"{text}\n" for text, _ in lines)

    def _lines(self, report: ScanReport) -> Iterator[Line]:
        style = {0: "bold green", 1: "bold red"}.get(report.exit_code, "bold yellow")
        for row in wrap(headline(report), COLUMNS):
            yield row, style
        yield from _section("Bad", report.bad, "bold red")
        if report.bad:
            yield "", ""
            wheres = " ".join(
                dict.fromkeys(shlex.quote(printable(str(item.root))) for item in report.bad)
            )
            yield f"  -> gpuprobe jitcache repair {wheres}", ""
        if self.quiet:
            return
        yield from _section("Suspicious (never moved)", report.suspicious, "yellow")
        yield from _unreadable(report)
        if report.notes:
            yield "", ""
        for note in report.notes:
            for row in wrap(f"Note: {printable(note)}.", COLUMNS):
                yield row, ""
        if report.places:
            yield "", ""
            yield "Looked at", "bold"
        for place in report.places:
            kind = f"{place.cache or 'cache':<17}"
            by = "" if place.by == "argument" else f" ({place.by})"
            yield f"  {kind} {printable(str(place.path))}{by}", ""


def headline(report: ScanReport) -> str:
    """The answer in one sentence."""
    kinds = count(len(report.places), "cache")
    looked = f"{count(report.checked, 'entry').replace('entrys', 'entries')} in {kinds}"
    took = f"{looked}, {report.took_s:.1f} s"
    if report.bad:
        entries = len({item.entry_path for item in report.bad})
        many = count(entries, "entry").replace("entrys", "entries")
        return f"[bad] {count(len(report.bad), 'damaged file')} in {many} ({took})."
    if report.unreadable:
        return f"[unreadable] Nothing damaged among what could be read ({took})."
    if not report.places:
        return "[fine] There is no cache at any of the known places."
    if not report.complete:
        return f"[incomplete] Nothing damaged among what was looked at in time ({took})."
    if not report.checked:
        return f"[fine] No entry of a known cache lies there ({took})."
    more = count(len(report.suspicious), "thing") + " worth a look" if report.suspicious else ""
    return f"[fine] Nothing is damaged{': ' + more if more else ''} ({took})."


def _section(title: str, items: Sequence[CacheFinding], style: str) -> Iterator[Line]:
    if not items:
        return
    yield "", ""
    yield title, style
    for item in items[:SHOWN]:
        yield f"  {printable(str(item.path))}", ""
        who = f"{item.cache}, kernel {item.kernel}" if item.kernel else item.cache
        said = f"{who}: {item.why}; {HARMS[item.harm]}{_when(item)}"
        for row in wrap(printable(said), COLUMNS - 6):
            yield f"      {row}", ""
    if len(items) > SHOWN:
        yield f"  and {len(items) - SHOWN} more (--format json has all)", ""


def _when(item: CacheFinding) -> str:
    size = "" if item.size is None else f"; {count(item.size, 'byte')}"
    return size + (f", written {item.mtime:%Y-%m-%d %H:%M:%S} UTC" if item.mtime else "")


def _unreadable(report: ScanReport) -> Iterator[Line]:
    if not report.unreadable:
        return
    yield "", ""
    yield "Could not be read", "bold"
    for item in report.unreadable[:SHOWN]:
        yield f"  {printable(str(item.path))}: {printable(item.why)}", ""
    if len(report.unreadable) > SHOWN:
        yield f"  and {len(report.unreadable) - SHOWN} more", ""


def _moved(moved: Sequence[Moved], dry_run: bool) -> Iterator[Line]:
    if not moved:
        yield "Nothing to repair.", "bold green"
    for item in moved:
        entry = printable(str(item.entry))
        if item.problem:
            yield f"not moved: {entry}: {printable(item.problem)}", "bold red"
        elif item.skipped or item.to is None:
            yield f"left as it is, no longer damaged: {entry}", ""
        elif dry_run:
            yield f"would move: {entry}", "bold"
            yield f"  to: {printable(str(item.to))}", ""
        else:
            yield f"moved: {entry}", "bold"
            yield f"  to: {printable(str(item.to))}", ""
            yield f"  undo: gpuprobe jitcache restore {shlex.quote(printable(str(item.to)))}", ""
        for row in wrap(f"because: {printable(item.why)}", COLUMNS - 2):
            yield f"  {row}", ""
