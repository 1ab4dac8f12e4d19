"""What to do next, chosen and filled in for one machine.

The steps are data (`advice.toml`). Nothing here runs anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from gpuprobe.catalog.load import DataFile, Entry
from gpuprobe.diagnosis import Kind, NextStep
from gpuprobe.errors import CatalogueError
from gpuprobe.identity import PciAddress
from gpuprobe.values import Value

LIMIT = 8
"""No verdict gets more steps than this."""

CLASSES = ("read", "reversible", "boot", "hands")

ONE_AT_A_TIME = (
    "change one thing at a time: after 5 crashes in 6 runs, 3 clean runs could be luck in "
    "1 of 20 cases, 5 in 1 of 77"
)
"""Said at the first step that changes something, for faults that do not come on every run."""

_FLAKY = frozenset({Kind.DEVICE_LEFT_BUS, Kind.PCIE_LINK_ERRORS, Kind.POWER, Kind.HOST_RESET})
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_SETTLED_RANK = 10  # below it a step saves evidence or brings the machine back


class Step(Value):
    """One step as it stands in the data.

    Attributes:
        id: Stable name.
        kinds: Verdict kinds it belongs to.
        type: One of `CLASSES`.
        rank: Place in the order, smaller first.
        sooner: Tag to rank; the smallest of the tags at hand counts in place of `rank`.
        applies: One of these tags must be at hand; empty: always.
        requires: All of these must be at hand.
        not_when: None of these may be at hand.
        text: What to do.
        commands: Templates, the first that can be filled is taken.
        undo: Templates, likewise.
        undo_otherwise: Words for the undo where no template can be filled.
        cost: What it costs or risks.
        when: The condition under which it makes sense.
        helped: `3 of 5 public cases`, or "".
        source: Who says so.
    """

    id: str
    kinds: frozenset[Kind]
    type: str
    rank: int
    sooner: Mapping[str, int]
    applies: frozenset[str]
    requires: frozenset[str]
    not_when: frozenset[str]
    text: str
    commands: tuple[str, ...]
    undo: tuple[str, ...]
    undo_otherwise: str
    cost: str
    when: str
    helped: str
    source: str

    def fits(self, kind: Kind, tags: frozenset[str]) -> bool:
        """True when it belongs to this verdict on this machine."""
        return (
            kind in self.kinds
            and (not self.applies or bool(self.applies & tags))
            and self.requires <= tags
            and not self.not_when & tags
        )

    def rank_for(self, tags: frozenset[str]) -> int:
        """Its place in the order with these tags."""
        return min((rank for tag, rank in self.sooner.items() if tag in tags), default=self.rank)


class Folklore(Value):
    """A setting or command that does harm and is often advised.

    Attributes:
        id: Stable name.
        setting: As people write it.
        where: `kernel-line` or `command`.
        pattern: Finds it in force.
        why: What is wrong with it.
        source: Who says so.
    """

    id: str
    setting: str
    where: str
    pattern: re.Pattern[str]
    why: str
    source: str


class Setting(NamedTuple):
    """A harmful setting in force: as it stands in the text, and why it does harm."""

    setting: str
    why: str


@cache
def _file() -> DataFile:
    return DataFile("advice")


@cache
def tag_meanings() -> dict[str, str]:
    """The tags a caller can give to `steps_for`, with their meaning."""
    return dict(_file().data["tags"])


@cache
def _known_tags() -> frozenset[str]:
    return frozenset(tag_meanings()) | frozenset(Kind)


def _tags(entry: Entry, key: str) -> frozenset[str]:
    tags = frozenset(entry.texts(key))
    unknown = sorted(tags - _known_tags())
    if unknown:
        raise CatalogueError(f"{entry.where}: tag {unknown[0]!r} is not in [tags]")
    return tags


def _step(entry: Entry) -> Step:
    kinds = entry.texts("kinds")
    unknown = sorted(set(kinds) - set(Kind))
    if unknown or not kinds:
        raise CatalogueError(f"{entry.where}: {unknown or 'no'} verdict kind")
    sooner = dict(entry.table("sooner"))
    if not sooner.keys() <= _known_tags():
        raise CatalogueError(f"{entry.where}: 'sooner' has a tag that is not in [tags]")
    step = Step(
        id=entry.text("id"),
        kinds=frozenset(Kind(kind) for kind in kinds),
        type=entry.choice("class", CLASSES),
        rank=entry.number("rank"),
        sooner=sooner,
        applies=_tags(entry, "applies"),
        requires=_tags(entry, "requires"),
        not_when=_tags(entry, "not_when"),
        text=entry.text("text"),
        commands=entry.texts("command"),
        undo=entry.texts("undo"),
        undo_otherwise=entry.text("undo_otherwise", ""),
        cost=entry.text("cost"),
        when=entry.text("when"),
        helped=entry.text("helped", ""),
        source=entry.source(),
    )
    entry.done()
    return step


@cache
def steps(kind: Kind | None = None) -> tuple[Step, ...]:
    """The steps, in the order of the file.

    Args:
        kind: Only those that belong to this verdict kind.

    Raises:
        CatalogueError: The data file contradicts itself.
    """
    return tuple(
        _step(entry)
        for entry in _file().entries("step", "id")
        if kind is None or kind in entry.texts("kinds")
    )


@cache
def folklore_entries() -> tuple[Folklore, ...]:
    """All settings and commands that are never suggested."""
    found = []
    for entry in _file().entries("folklore", "id"):
        found.append(
            Folklore(
                id=entry.text("id"),
                setting=entry.text("setting"),
                where=entry.choice("where", ("kernel-line", "command")),
                pattern=re.compile(entry.text("pattern"), re.IGNORECASE),
                why=entry.text("why"),
                source=entry.source(),
            )
        )
        entry.done()
    return tuple(found)


def folklore(cmdline: str) -> list[Setting]:
    """The harmful settings that a kernel command line has in force.

    Args:
        cmdline: As in /proc/cmdline or the kernel's `Command line:` message.
    """
    return [
        Setting(entry.setting, entry.why)
        for entry in folklore_entries()
        if entry.where == "kernel-line" and entry.pattern.search(cmdline)
    ]


def steps_for(
    kind: Kind,
    tags: frozenset[str] = frozenset(),
    *,
    pci: PciAddress | None = None,
    values: Mapping[str, str] | None = None,
) -> tuple[NextStep, ...]:
    """The next steps for a verdict, best first.

    A command with a placeholder that nothing fills is left out and the step stays as words.
    GPUs are named by PCI address alone, because indexes move when one is lost.

    Args:
        kind: The verdict's kind.
        tags: What is known about machine and incident; see `tag_meanings`. Others are ignored,
            and the kind counts as one.
        pci: The device, if the inputs name it.
        values: Fills other placeholders: `port` (the bridge above), `power_limit_min`,
            `power_limit_default` (watts), `clock_max_mhz`, `memory_clock_mhz`, `engine_log`,
            `log_dir`, `entry` and `cache_dir` (of a JIT cache), `process`. Read from logs, so
            they are quoted for the shell.

    Returns:
        At most `LIMIT` steps. Those that save evidence come first, then what only reads.
    """
    tags = frozenset(tags) | {kind.value}
    chosen = sorted(
        (step for step in steps(kind) if step.fits(kind, tags)),
        key=lambda step: step.rank_for(tags),
    )[:LIMIT]
    fillings = _fillings(pci, values or {})
    filled = [_fill(step, fillings) for step in chosen]
    if kind in _FLAKY:
        for number, step in enumerate(chosen):
            if step.type != "read" and step.rank_for(tags) >= _SETTLED_RANK:
                once = filled[number]
                filled[number] = replace(once, when=f"{once.when}; {ONE_AT_A_TIME}")
                break
    return tuple(filled)


def _fill(step: Step, fillings: Mapping[str, str]) -> NextStep:
    helped = f"; helped in {step.helped}" if step.helped else ""
    return NextStep(
        type=step.type,
        text=step.text,
        command=_first_filled(step.commands, fillings),
        undo=_first_filled(step.undo, fillings) or step.undo_otherwise or None,
        cost=step.cost + helped,
        when=step.when,
        source=step.source,
    )


def _first_filled(templates: tuple[str, ...], fillings: Mapping[str, str]) -> str | None:
    for template in templates:
        if all(name in fillings for name in _PLACEHOLDER.findall(template)):
            return _PLACEHOLDER.sub(lambda match: fillings[match[1]], template)
    return None


def _fillings(pci: PciAddress | None, values: Mapping[str, str]) -> dict[str, str]:
    """What placeholders become: quoted for a shell, and never with a control character."""
    raw = {**_derived(values), **values}
    fillings = {
        name: shlex.quote(value)
        for name, value in raw.items()
        if value and value.isprintable() and not value.startswith("-")
    }
    if pci is not None:
        fillings["pci"] = str(pci)
    return fillings


def _derived(values: Mapping[str, str]) -> dict[str, str]:
    """Caps inside the card's own limits."""
    derived = {"clock_floor_mhz": "300", "clock_cap_mhz": "1400"}
    clock_max = _number(values.get("clock_max_mhz"))
    if clock_max is not None and clock_max * 0.8 < 1400:
        # 1400 MHz would be no cap on this card. Clocks come in steps of 15 MHz.
        derived["clock_cap_mhz"] = str(int(clock_max * 0.75) // 15 * 15)
    default = _number(values.get("power_limit_default"))
    lowest = _number(values.get("power_limit_min"))
    if default is not None and lowest is not None:
        cap = max(lowest, default * 0.8)
        if cap < default:
            derived["power_cap_w"] = f"{cap:.0f}"
    return derived


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
