"""The live screen: a row a GPU with its history, events below, the verdict on top.

Made for rich's `Live`; what is drawn comes from a `Board`, and nothing is read or judged here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gpuprobe.diagnosis import Kind, Role
from gpuprobe.live.board import Board, Row, unseen_lines
from gpuprobe.reporters import outline
from gpuprobe.reporters.live_columns import (
    BLOCKS,
    GAP,
    GPU_COLUMNS,
    Column,
    layout,
    spark,
)
from gpuprobe.reporters.live_lines import event_line, title
from gpuprobe.reporters.plain import cut, printable, wrap

ASCII_BLOCKS = "_.-=+*#@"
_ASCII = str.maketrans({"…": "~", "°": " ", "–": "-", "“": '"', "”": '"', "’": "'"})

EVENTS_KEPT_FREE = 4
"""Lines that events keep however many GPUs there are: a head and the newest three."""

WELL = frozenset({"sampled", "on the bus"})

STATE_STYLES = {
    "sampled": "green",
    "on the bus": "green",
    "waiting": "dim",
    "asleep": "blue",
    "stalled": "bold yellow",
    "not sampled": "yellow",
    "removed": "yellow",
    "lost": "bold red",
}
LEVEL_STYLES = {"bad": "bold red", "warn": "yellow", "note": ""}


class LiveScreen:
    """Draws a board.

    Args:
        board: What to draw.
        ascii_only: For terminals that show ASCII alone.
    """

    def __init__(self, board: Board, *, ascii_only: bool = False) -> None:
        self.board = board
        self._ascii = ascii_only
        self._blocks = ASCII_BLOCKS if ascii_only else BLOCKS

    def render(
        self, columns: int, lines: int, *, paused: bool = False, now_s: float | None = None
    ) -> RenderableType:
        """The whole screen.

        Args:
            columns: Width of the terminal.
            lines: Its height.
            paused: Say that the picture stands still.
            now_s: Seconds since 1970 at the right end of the sparklines; the present when None.
        """
        now_s = time.time() if now_s is None else now_s
        parts: list[RenderableType] = [self._head(columns, paused=paused)]
        used = 1
        banner = self._banner(columns)
        if banner is not None:
            parts.append(banner[0])
            used += banner[1]
        unseen = [cut(printable(line), columns) for line in unseen_lines(self.board)]
        rows, each, left = self._fitting(lines - used - 1 - len(unseen) - EVENTS_KEPT_FREE)
        parts.append(self._table(rows, each, columns, now_s))
        used += 1 + max(1, sum(self._height(row, each) for row in rows))
        if left:
            parts.append(self._text(left, "dim"))
            used += 1
        parts.extend(self._text(line, "dim") for line in unseen)
        used += len(unseen)
        parts.extend(self._events(columns, lines - used - 1))
        return Group(*parts)

    # --- parts ----------------------------------------------------------------------------

    def _text(self, text: str, style: str = "") -> Text:
        return Text(self._spell(text), style=style, no_wrap=True)

    def _spell(self, text: str) -> str:
        if not self._ascii:
            return text
        return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")

    def _fitting(self, room: int) -> tuple[list[Row], int, str]:
        """Which rows are shown, on how many lines each, and a word about those that are not.

        Rows lose their note, then their history, before one is left out, and a GPU in trouble is
        the last to go.
        """
        rows = self.board.in_order
        for each in (3, 2, 1):
            if sum(self._height(row, each) for row in rows) <= room:
                return rows, each, ""
        kept = sorted(rows, key=lambda row: row.state in WELL)[: max(1, room - 1)]
        rest = [row for row in rows if row not in kept]
        if not rest:
            return rows, 1, ""
        states = ", ".join(dict.fromkeys(row.state for row in rest))
        noun = "GPU" if len(rest) == 1 else "GPUs"
        return sorted(kept, key=rows.index), 1, f"… and {len(rest)} more {noun}: {states}"

    def _head(self, columns: int, *, paused: bool) -> Text:
        rate_hz = self.board.rate_hz
        words = (
            f"gpuprobe watch  [q] quit  [p] {'go on' if paused else 'pause'}  {rate_hz:g} Hz: what "
            f"is shorter than {1000 / rate_hz:.0f} ms is not seen; a mark is a second"
        )
        flag = "  PAUSED" if paused else ""
        # The flag is never what a narrow terminal cuts off.
        head = self._text(cut(words, columns - len(flag)), "bold")
        head.append(flag, style="bold yellow")
        return head

    def _banner(self, columns: int) -> tuple[RenderableType, int] | None:
        found = self.board.failed
        if found is None:
            return None
        first = found.verdicts[0]
        inner = max(10, columns - 4)
        said = wrap(self._spell(f"[{title(first)}] {printable(first.summary)}"), inner)
        text = Text("\n".join(said), style="bold")
        proof = [item for item in first.evidence if item.role is Role.PROOF]
        quotes = dict.fromkeys(
            f"{printable(outline.place(item))}: {printable(item.text)}" for item in proof
        )
        below = [cut(quote, inner) for quote in quotes][:2]
        if more := len(found.verdicts) - 1:
            below.append(f"and {more} more (shown in full on leaving)")
        for line in below:
            text.append("\n" + self._spell(line), style="not bold")
        style = "red" if first.kind is Kind.DEVICE_LEFT_BUS else "yellow"
        frame = box.ASCII if self._ascii else box.ROUNDED
        return Panel(text, border_style=style, box=frame), len(said) + len(below) + 2

    def _height(self, row: Row, each: int) -> int:
        whole = bool(row.name or any(column.note(row) for column, _ in layout(1000)))
        return min(each, 3 if whole else 2)

    def _table(self, rows: Sequence[Row], each: int, columns: int, now_s: float) -> Table:
        shown = layout(columns)
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("GPU", width=GPU_COLUMNS - GAP, no_wrap=True)
        for column, width in shown:
            table.add_column(column.title, width=width, no_wrap=True)
        if not rows:
            table.add_row(Text("none yet", style="dim"))
        for row in rows:
            cells = [self._gpu(row, each)]
            cells.extend(self._cell(row, column, width, each, now_s) for column, width in shown)
            if each == 1 and row.state not in WELL:
                cells[1] = self._text(cut(row.state, shown[0][1]), STATE_STYLES.get(row.state, ""))
            table.add_row(*cells)
        return table

    def _gpu(self, row: Row, each: int) -> Text:
        short = str(row.pci).removeprefix("0000:")
        title = str(row.pci) if row.index is None else f"{row.index} {short}"
        text = self._text(cut(title, GPU_COLUMNS - GAP), "bold")
        if each > 1:
            text.append(f"\n{row.state}", style=f"not bold {STATE_STYLES.get(row.state, '')}")
        if each > 2 and row.name:
            name = printable(row.name).removeprefix("NVIDIA ").removeprefix("GeForce ")
            text.append("\n" + self._spell(cut(name, GPU_COLUMNS - GAP)), style="not bold dim")
        return text

    def _cell(self, row: Row, column: Column, columns: int, each: int, now_s: float) -> Text:
        dead = row.over or row.state in ("asleep", "waiting")
        value = "-" if dead else column.value(row)
        text = self._text(cut(value, columns), "dim" if dead else "")
        if each == 1:
            return text
        end = row.at_s if row.over else now_s
        values = row.history[column.history].last(columns, end)
        line = spark(values, column.top(row), self._blocks)
        text.append("\n" + line, style="red" if row.over else "cyan")
        note = column.note(row)
        if each > 2 and note and not dead:
            text.append("\n" + self._spell(cut(note, columns)), style="dim")
        return text

    def _events(self, columns: int, room: int) -> Iterator[RenderableType]:
        if room < 2:
            return
        yield self._text("Events", "bold")
        kept = list(self.board.events)[-(room - 1) :]
        for event in kept:
            yield self._text(cut(event_line(event), columns), LEVEL_STYLES[event.level])
        if not kept:
            yield self._text("nothing so far", "dim")
