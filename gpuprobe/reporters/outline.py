"""What the forms for people share: the order of the sections, their headings, how lists are cut."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from gpuprobe.diagnosis import Diagnosis, Evidence, Input, NextStep, NotChecked, Role, Verdict
from gpuprobe.reporters.plain import count
from gpuprobe.values import Value

Item = TypeVar("Item")

ROLE_HEADINGS = {
    Role.PROOF: "Proof",
    Role.SUPPORT: "What supports it",
    Role.PRECURSOR: "What came before it",
    Role.CONSEQUENCE: "What follows from it",
    Role.CONTEXT: "Beside it",
}
"""In the order they are shown."""

RULED_OUT = "Ruled out"
NOT_CHECKED = "Not checked"
CAUSES = "Why did it leave?"
NEXT_STEPS = "Next steps"
INPUTS = "Inputs"

ROLE_LIMITS = {
    Role.PROOF: 5,
    Role.SUPPORT: 4,
    Role.PRECURSOR: 5,
    Role.CONSEQUENCE: 6,
    Role.CONTEXT: 3,
}
"""How many quotes of each role are shown unless everything is asked for."""

SCORE_NAMES = {"for": "for", "against": "against", "mixed": "mixed", "not-seen": "not seen"}


class Cut(Value):
    """A list without its middle: what is shown before and after, and how many are left out."""

    head: Sequence[Any]
    tail: Sequence[Any]
    left_out: int


def cut_list(items: Sequence[Item], limit: int | None, *, keep_last: bool = False) -> Cut:
    """Keep the first `limit` items, or the first ones and the very last with `keep_last`."""
    if limit is None or len(items) <= limit:
        return Cut(items, (), 0)
    if keep_last and limit > 1:
        return Cut(items[: limit - 1], items[-1:], len(items) - limit)
    return Cut(items[:limit], (), len(items) - limit)


def cut_evidence(evidence: Sequence[Evidence], limit: int | None) -> Cut:
    """Keep one quote of each meaning, and the very last, so that a flood hides nothing else."""
    if limit is None or len(evidence) <= limit:
        return Cut(evidence, (), 0)
    firsts: dict[str, int] = {}
    for index, item in enumerate(evidence[:-1]):
        firsts.setdefault(item.says, index)
    chosen = sorted(firsts.values())[: limit - 1]
    return Cut([evidence[i] for i in chosen], evidence[-1:], len(evidence) - len(chosen) - 1)


def by_role(verdict: Verdict) -> list[tuple[Role, list[Evidence]]]:
    """The evidence of `verdict` in the order of `ROLE_HEADINGS`, roles without any left out."""
    grouped = [(role, [e for e in verdict.evidence if e.role is role]) for role in ROLE_HEADINGS]
    return [(role, evidence) for role, evidence in grouped if evidence]


def role_heading(role: Role, evidence: Sequence[Evidence]) -> str:
    """`What follows from it (12 lines)`: the heading with how many log lines are meant."""
    total = sum(item.count for item in evidence)
    heading = ROLE_HEADINGS[role]
    return heading if total == 1 else f"{heading} ({count(total, 'line')})"


def tag(verdict: Verdict) -> str:
    """The certainty, or the kind in words where a verdict has none."""
    if verdict.certainty is None:
        return verdict.kind.value.replace("-", " ")
    return verdict.certainty.value


def place(evidence: Evidence) -> str:
    """`kernel.log:123`, or the row where there is no line."""
    if evidence.line is not None:
        return f"{evidence.input}:{evidence.line}"
    return f"{evidence.input} ({evidence.ref})" if evidence.ref else evidence.input


def facts(verdict: Verdict, host: str | None) -> list[tuple[str, str]]:
    """Name and value of what identifies the incident, as far as it is known."""
    rows = [("Kind", verdict.kind.value)]
    if verdict.certainty is not None:
        rows.append(("Certainty", verdict.certainty.value))
    device = verdict.device
    if device is not None:
        names = [
            str(device.pci) if device.pci else "",
            device.name or "",
            f"index {device.index}" if device.index is not None else "",
            device.uuid or "",
        ]
        rows.append(("GPU", ", ".join(name for name in names if name)))
    if verdict.other_devices:
        rows.append(("Also named", ", ".join(str(address) for address in verdict.other_devices)))
    if verdict.xids:
        rows.append(("Xid", ", ".join(str(code) for code in verdict.xids)))
    if verdict.at is not None or verdict.at_raw:
        rows.append(("Noticed at", moment(verdict.at, verdict.at_raw)))
    if host:
        rows.append(("Host", host))
    return [(name, value) for name, value in rows if value]


def moment(at: datetime | None, raw: str | None) -> str:
    """The time as the log has it, with UTC behind it where that is known."""
    if at is None and raw and raw.isdigit() and len(raw) > 6:
        # The kernel's own count of microseconds since boot.
        return f"{int(raw) / 1e6:.3f} s after boot"
    if at is None:
        return raw or ""
    utc = at.astimezone(UTC)
    text = utc.strftime("%Y-%m-%d %H:%M:%S UTC")
    # What a live reading is stamped with says nothing more than the time itself.
    own = (at.isoformat(), at.isoformat(timespec="milliseconds"))
    counted = raw is not None and raw.isdigit()
    return f"{raw} ({text})" if raw and raw not in own and not counted else text


def figures_text(figures: dict[str, Any]) -> str:
    """`core_max_c 61, limit_c 93`."""
    return ", ".join(f"{name} {_figure(value)}" for name, value in figures.items())


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple | set | frozenset):
        return "/".join(_figure(item) for item in value)
    return str(value)


def step_kind(step: NextStep) -> str:
    """The type of a step, with how to take it back."""
    if step.type == "reversible":
        return f"reversible; undo: {step.undo}" if step.undo else "reversible"
    name = {"read": "read-only", "boot": "BIOS", "hands": "hands on hardware"}[step.type]
    return f"{name}; undo: {step.undo}" if step.undo else name


def step_terms(step: NextStep) -> list[tuple[str, str]]:
    """When a step applies, what it costs and who says so."""
    terms = [("When", step.when), ("Cost", step.cost), ("Source", step.source)]
    return [(name, text) for name, text in terms if text]


def how_lines(row: NotChecked) -> list[str]:
    """The ways to check it, each of which can be copied as it stands."""
    return [way for way in row.how.split("\n") if way]


def input_text(item: Input) -> str:
    """`journal-short, 200 lines, 1 boot`."""
    parts = [item.format]
    if item.lines is not None:
        parts.append(count(item.lines, "line"))
    if item.boots:
        parts.append(count(item.boots, "boot"))
    return ", ".join(parts)


def hosts(diagnosis: Diagnosis) -> list[Diagnosis]:
    """The hosts of a diagnosis, the gravest first."""
    return [diagnosis, *diagnosis.other_hosts]
