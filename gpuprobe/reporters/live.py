"""The live screen: a row a GPU with its history, events below, the verdict on top.

Made for rich's `Live`; what is drawn comes from a `Board`, and nothing is read or judged here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gpuprobe.diagnosis import Kind, Role, Verdict
from gpuprobe.live.board import Board, EventLine, Row, unseen_lines
from gpuprobe.reporters import outline
from gpuprobe.reporters.plain import cut, printable

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-=+*#@"

GPU_COLUMNS = 14
SPARK_MIN, SPARK_MAX = 10, 24

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


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table.

    Attributes:
        title: Its head. rank: The lower, the longer it stays when the screen gets narrow.
        value: The first line of the cell. note: The third.
        history: Which history the sparkline shows. top: Value at the sparkline's full height.
    """

    title: str
    rank: int
    value: Callable[[Row], str]
    history: str
    top: Callable[[Row], float | None]
    note: Callable[[Row], str] = lambda row: ""


def spark(values: Sequence[float | None], top: float | None, blocks: str = BLOCKS) -> str:
    """A sparkline from zero to `top`; a blank where there is no reading."""
    if not top or top <= 0:
        top = max((value for value in values if value), default=1.0)
    last = len(blocks) - 1
    return "".join(
        " " if value is None else blocks[min(last, max(0, round(value / top * last)))]
        for value in values
    )


def number(value: float | None, unit: str, digits: int = 0) -> str:
    """A value with its unit, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f} {unit}"


def gib(value: float | None) -> str:
    """Bytes as GiB."""
    return "-" if value is None else f"{value / 2**30:.1f}"


def rate(value: float | None) -> str:
    """Bytes a second, short."""
    if value is None:
        return "-"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def link(row: Row) -> str:
    """Generation and width now."""
    generation, width = row.link
    if generation is None and width is None:
        return "-"
    return f"Gen{generation or '?'} x{width or '?'}"


def _power(row: Row) -> str:
    if row.latest is None or row.latest.power_w is None:
        return "-"
    limit = row.latest.limit_w
    return f"{row.latest.power_w:.0f}/{limit:.0f} W" if limit else f"{row.latest.power_w:.0f} W"


def _share(row: Row) -> str:
    if row.latest is None or not row.latest.limit_w or row.latest.power_w is None:
        return ""
    return f"{100 * row.latest.power_w / row.latest.limit_w:.0f} % of limit"


def _clock(row: Row) -> str:
    if row.latest is None:
        return "-"
    state = f" P{row.latest.pstate}" if row.latest.pstate is not None else ""
    return number(row.latest.sm_clock_mhz, "MHz") + state


def _memory(row: Row) -> str:
    if row.latest is None or row.latest.memory_used_bytes is None:
        return "-"
    return f"{gib(row.latest.memory_used_bytes)}/{gib(row.latest.memory_total_bytes)} GiB"


def _traffic(row: Row) -> str:
    if row.latest is None or row.latest.rx_bytes_per_s is None:
        return "-"
    return f"{rate(row.latest.rx_bytes_per_s)}/{rate(row.latest.tx_bytes_per_s)}B/s"


def _best(row: Row) -> str:
    generation, width = row.best
    return f"best Gen{generation} x{width}" if generation and width else ""


def _memory_heat(row: Row) -> str:
    found = row.latest.memory_temp_c if row.latest is not None else None
    return f"memory {found:.0f} °C" if found is not None else ""


COLUMNS = (
    Column(
        "Power",
        0,
        _power,
        "power_w",
        lambda row: row.latest.limit_w if row.latest else None,
        _share,
    ),
    Column(
        "Temperature",
        1,
        lambda row: number(row.latest.temp_c if row.latest else None, "°C"),
        "temp_c",
        lambda row: 100.0,
        _memory_heat,
    ),
    Column(
        "Clock",
        2,
        _clock,
        "sm_clock_mhz",
        lambda row: row.history["sm_clock_mhz"].high,
        lambda row: ", ".join(reversed(row.reasons)),  # the gravest first
    ),
    Column("Link", 3, link, "link_gen", lambda row: row.history["link_gen"].high, _best),
    Column(
        "PCIe in/out",
        5,
        _traffic,
        "rx_bytes_per_s",
        lambda row: row.history["rx_bytes_per_s"].high,
    ),
    Column(
        "Memory",
        6,
        _memory,
        "memory_used_bytes",
        lambda row: row.latest.memory_total_bytes if row.latest else None,
    ),
    Column(
        "Busy",
        4,
        lambda row: number(row.latest.util_percent if row.latest else None, "%"),
        "util_percent",
        lambda row: 100.0,
    ),
)


def title(verdict: Verdict) -> str:
    """Kind and certainty, as `device-left-bus, confirmed`."""
    if verdict.certainty is None:
        return verdict.kind.value
    return f"{verdict.kind.value}, {verdict.certainty.value}"


class LiveScreen:
    """Draws a board.

    Args:
        board: What to draw.
        ascii_only: For terminals that cannot show block characters.
    """

    def __init__(self, board: Board, *, ascii_only: bool = False) -> None:
        self.board = board
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
        room = max(1, (lines - used - 6) // 4)
        rows = self.board.in_order
        parts.append(self._table(rows[:room], columns, now_s))
        used += 2 + sum(self._height(row) for row in rows[:room])
        if len(rows) > room:
            parts.append(Text(f"… and {len(rows) - room} more GPUs", style="dim"))
            used += 1
        unseen = [cut(printable(line), columns) for line in unseen_lines(self.board)]
        parts.extend(Text(line, style="dim", no_wrap=True) for line in unseen)
        used += len(unseen)
        parts.extend(self._events(columns, lines - used - 2))
        return Group(*parts)

    # --- parts ----------------------------------------------------------------------------

    def _head(self, columns: int, *, paused: bool) -> Text:
        rate_hz = self.board.rate_hz
        words = (
            f"gpuprobe watch  {rate_hz:g} Hz: what is shorter than {1000 / rate_hz:.0f} ms is not "
            f"seen  [q] quit  [p] {'go on' if paused else 'pause'}"
        )
        flag = "  PAUSED" if paused else ""
        # The flag is never what a narrow terminal cuts off.
        head = Text(cut(words, columns - len(flag)), style="bold", no_wrap=True)
        head.append(flag, style="bold yellow")
        return head

    def _banner(self, columns: int) -> tuple[RenderableType, int] | None:
        found = self.board.failed
        if found is None:
            return None
        first = found.verdicts[0]
        text = Text(f"[{title(first)}] {printable(first.summary)}", style="bold")
        proof = [item for item in first.evidence if item.role is Role.PROOF][:2]
        for item in proof:
            quote = f"{printable(outline.place(item))}: {printable(item.text)}"
            text.append("\n" + cut(quote, columns - 4), style="not bold")
        more = len(found.verdicts) - 1
        if more:
            text.append(f"\nand {more} more (shown in full on leaving)", style="dim")
        style = "red" if first.kind is Kind.DEVICE_LEFT_BUS else "yellow"
        wrapped = len(first.summary) // max(20, columns - 4) + 1
        return Panel(text, border_style=style), wrapped + len(proof) + bool(more) + 2

    def _columns(self, columns: int) -> tuple[list[Column], int]:
        """Which columns fit, and how wide each is."""
        count = max(1, min(len(COLUMNS), (columns - GPU_COLUMNS) // (SPARK_MIN + 2)))
        kept = sorted(COLUMNS, key=lambda column: column.rank)[:count]
        shown = [column for column in COLUMNS if column in kept]
        each = (columns - GPU_COLUMNS) // count - 2
        return shown, max(SPARK_MIN, min(SPARK_MAX, each))

    def _height(self, row: Row) -> int:
        return 3 if row.name or row.why or any(column.note(row) for column in COLUMNS) else 2

    def _table(self, rows: Sequence[Row], columns: int, now_s: float) -> Table:
        shown, each = self._columns(columns)
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("GPU", width=GPU_COLUMNS - 2, no_wrap=True)
        for column in shown:
            table.add_column(column.title, width=each, no_wrap=True)
        if not rows:
            table.add_row(Text("none yet", style="dim"))
        for row in rows:
            cells = [self._gpu(row)]
            cells.extend(self._cell(row, column, each, now_s) for column in shown)
            table.add_row(*cells)
        return table

    def _gpu(self, row: Row) -> Text:
        short = str(row.pci).removeprefix("0000:")
        title = str(row.pci) if row.index is None else f"{row.index} {short}"
        text = Text(title, style="bold", no_wrap=True)
        text.append(f"\n{row.state}", style=f"not bold {STATE_STYLES.get(row.state, '')}")
        if row.name:
            name = printable(row.name).removeprefix("NVIDIA ")
            text.append("\n" + cut(name, GPU_COLUMNS - 2), style="not bold dim")
        return text

    def _cell(self, row: Row, column: Column, columns: int, now_s: float) -> Text:
        dead = row.over or row.state in ("asleep", "waiting")
        value = "-" if dead else column.value(row)
        text = Text(cut(value, columns), style="dim" if dead else "", no_wrap=True)
        end = row.at_s if row.over else now_s
        values = row.history[column.history].last(columns, end)
        line = spark(values, column.top(row), self._blocks)
        text.append("\n" + line, style="red" if row.over else "cyan")
        note = column.note(row)
        if note and not dead:
            text.append("\n" + cut(note, columns), style="dim")
        return text

    def _events(self, columns: int, room: int) -> Iterator[RenderableType]:
        if room < 2:
            return
        yield Text("Events", style="bold")
        kept = list(self.board.events)[-(room - 1) :]
        for event in kept:
            line = cut(event_line(event), columns)
            yield Text(line, style=LEVEL_STYLES[event.level], no_wrap=True)
        if not kept:
            yield Text("nothing so far", style="dim")


def event_line(event: EventLine) -> str:
    """One event on one line, in this machine's own time."""
    who = f" {event.device}" if event.device is not None else ""
    return f"{event.at.astimezone():%H:%M:%S}{who} {event.source}: {printable(event.text)}"


class LineReporter:
    """The same for a pipe or a file: one line a second a GPU, events and verdicts as they come.

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
                    _power(row),
                    number(latest.temp_c, "°C"),
                    _clock(row) + (f" [{', '.join(row.reasons)}]" if row.reasons else ""),
                    _traffic(row),
                    _memory(row),
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
