"""`gpuprobe watch` without a screen: lines for a pipe or a file. Nothing of rich is imported."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gpuprobe.diagnosis import Role, Verdict
from gpuprobe.live.board import Board, EventLine, Row
from gpuprobe.reporters import outline
from gpuprobe.reporters.live_columns import clock, link, memory, number, power, traffic
from gpuprobe.reporters.plain import printable


def title(verdict: Verdict) -> str:
    """Kind and certainty, as `device-left-bus, confirmed`."""
    if verdict.certainty is None:
        return verdict.kind.value
    return f"{verdict.kind.value}, {verdict.certainty.value}"


def event_line(event: EventLine) -> str:
    """One event on one line, in this machine's own time."""
    who = f" {event.device}" if event.device is not None else ""
    return f"{event.at.astimezone():%H:%M:%S}{who} {event.source}: {printable(event.text)}"


class LineReporter:
    """The same for a pipe or a file: a line a GPU now and then, events and verdicts as they come.

    Args:
        board: What to tell.
    """

    def __init__(self, board: Board) -> None:
        self.board = board

    def rows(self, now_s: float | None = None) -> Iterator[str]:
        """One line a GPU."""
        at = time.strftime("%H:%M:%S", time.localtime(now_s))
        for row in self.board.in_order:
            if row.over or row.state in ("asleep", "waiting"):
                why = f" ({printable(row.why)})" if row.why else ""
                yield f"{at} {row.pci} {row.state}{why}"
                continue
            yield f"{at} {row.pci} {', '.join(self._values(row)) or row.state}"

    def _values(self, row: Row) -> Iterator[str]:
        latest = row.latest
        if row.state not in ("sampled", "on the bus"):
            yield f"{row.state} ({printable(row.why)})"
        if latest is not None:
            yield from (
                text
                for text in (
                    power(row),
                    number(latest.temp_c, "°C"),
                    clock(row) + (f" [{', '.join(row.reasons)}]" if row.reasons else ""),
                    traffic(row),
                    memory(row),
                    number(latest.util_percent, "% busy"),
                )
                if text != "-"
            )
        if link(row) != "-":
            yield link(row)

    def event(self, event: EventLine) -> str:
        """One line for an event."""
        return event_line(event)

    def verdict(self) -> Iterator[str]:
        """The newest verdicts and their proof."""
        found = self.board.diagnosis
        for verdict in found.verdicts if found is not None else ():
            yield f"VERDICT [{title(verdict)}] {printable(verdict.summary)}"
            for item in verdict.evidence:
                if item.role is Role.PROOF:
                    yield f"  proof: {printable(outline.place(item))}: {printable(item.text)}"
