"""Why did it leave? The scorecard under a loss: what speaks for and against each cause.

Every entry is a rule of `gpuprobe.catalog.causes` with the figure it was given. A rule whose input
was not among the inputs lands under "not seen": nothing is ruled out that no sensor saw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gpuprobe.catalog.causes import cause_rules, cause_texts
from gpuprobe.diagnosis import Cause, CauseEntry
from gpuprobe.events import CountersSampled, LinkStateReported
from gpuprobe.rules.base import Finding
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.cause_signs import NOTES, SIGNS, Loss, aer_granted, driver_only

_NOT_SEEN: dict[str, tuple[str, ...]] = {
    "power": ("P3", "P6", "P7"),
    "link": ("L1", "L3", "L4"),
    "heat": ("T1", "T3"),
    "firmware": ("F1", "F3"),
    "card": ("C1", "C2"),
    "host": ("H2", "P8"),
}


def scorecard(timeline: Timeline, finding: Finding) -> tuple[Cause, ...]:
    """A row for each cause of a loss, in the catalogue's order."""
    loss = Loss(timeline, finding)
    pro: dict[str, list[CauseEntry]] = defaultdict(list)
    against: dict[str, list[CauseEntry]] = defaultdict(list)
    fired = set()
    texts = cause_rules()
    for rule_id, ask in SIGNS.items():
        figure = ask(loss)
        if figure is None:
            continue
        fired.add(rule_id)
        for effect in texts[rule_id].effects:
            side = against if effect.weight == "-" else pro
            side[effect.cause].append(
                CauseEntry(rule_id, f"{texts[rule_id].text} ({figure})", effect.weight)
            )
    if figure := driver_only(loss):
        against["link"].append(CauseEntry("F1", f"only the driver's test failed ({figure})", "-"))
    notes = [
        CauseEntry(rule_id, f"{texts[rule_id].text} ({figure}); one plug is not excluded", "")
        for rule_id, ask in NOTES.items()
        if (figure := ask(loss))
    ]
    rows = []
    for cause in cause_texts():
        unseen = list(_unseen(loss, cause, fired))
        if cause == "power":
            unseen.extend(notes)
        rows.append(
            Cause(
                cause=cause,
                score=_score(pro[cause], against[cause]),
                pro=tuple(pro[cause]),
                against=tuple(against[cause]),
                not_seen=tuple(unseen),
            )
        )
    rows.sort(key=lambda row: -sum({"++": 2, "+": 1}.get(e.weight, 0) for e in row.pro))
    return tuple(rows)


def _score(pro: list[CauseEntry], against: list[CauseEntry]) -> str:
    if pro and against:
        return "mixed"
    if pro:
        return "for"
    return "against" if against else "not-seen"


def _unseen(loss: Loss, cause: str, fired: set[str]) -> Iterator[CauseEntry]:
    """Rules of this cause whose input is not among the inputs, with what they would need."""
    texts = cause_rules()
    samples = loss.samples
    seen = {
        "P6": len(samples) >= 2,
        "P3": any(sample.clocks_event_reasons is not None for sample in samples),
        "L1": (loss.timeline.has_kernel_log() and aer_granted(loss)) or _counted(loss),
        "L4": any(s.link_width for s in samples)
        or any(True for _ in loss.timeline.of(LinkStateReported)),
        "T1": any(sample.temp_c is not None for sample in samples),
        "T3": any(sample.temp_c is not None for sample in samples),
        "F1": loss.timeline.has_kernel_log(),
        "H2": loss.timeline.has_kernel_log(),
        "P8": loss.timeline.has_kernel_log(),
    }
    for rule_id in _NOT_SEEN.get(cause, ()):
        if rule_id in fired or seen.get(rule_id):
            continue
        yield CauseEntry(rule_id, texts[rule_id].needs, "")


def _counted(loss: Loss) -> bool:
    """Whether counters of link errors were read at least twice before the loss."""
    before = [e for e in loss.timeline.of(CountersSampled) if loss.ours(e) and loss.before(e)]
    return len({id(event.stamp) for event in before}) > 1
