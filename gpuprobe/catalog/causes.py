"""The causes of a loss, and the texts of the rules that speak for or against them.

Only the words live here. Whether a rule fires is decided where the timeline is.
"""

from __future__ import annotations

from functools import cache

from gpuprobe.catalog.load import DataFile
from gpuprobe.errors import CatalogueError
from gpuprobe.values import Value

WEIGHTS = ("++", "+", "-")
"""Strong, some, against."""


class CauseText(Value):
    """A row of the scorecard: its id (`power`), its name, and what it covers."""

    id: str
    name: str
    meaning: str


class Effect(Value):
    """What a rule does to one cause: its id, and `++`, `+` or `-`."""

    cause: str
    weight: str


class CauseRule(Value):
    """One rule of the scorecard, in words.

    Attributes:
        id: Stable, such as `L1`.
        condition: What has to be seen for it to speak.
        text: What it tells, one clause to put figures behind.
        effects: What it does to which cause; empty for a rule that only explains.
        needs: The input it takes, for the row "not seen".
        caveat: What it does not tell, or "".
        source: Where it comes from.
    """

    id: str
    condition: str
    text: str
    effects: tuple[Effect, ...]
    needs: str
    caveat: str
    source: str

    def weight(self, cause: str) -> str | None:
        """Its weight for one cause, or None where it is silent."""
        return next((effect.weight for effect in self.effects if effect.cause == cause), None)


@cache
def _file() -> DataFile:
    return DataFile("causes")


@cache
def cause_texts() -> dict[str, CauseText]:
    """The causes by id, in the order of the scorecard."""
    return {
        entry.text("id"): CauseText(entry.text("id"), entry.text("name"), entry.text("meaning"))
        for entry in _file().entries("cause", "id")
    }


@cache
def cause_rules() -> dict[str, CauseRule]:
    """The rules by id, in order.

    Raises:
        CatalogueError: A rule names a cause or a weight that is not there.
    """
    found = {}
    for entry in _file().entries("rule", "id"):
        effects = tuple(Effect(row["cause"], row["weight"]) for row in entry.tables("effects"))
        for effect in effects:
            if effect.cause not in cause_texts() or effect.weight not in WEIGHTS:
                raise CatalogueError(f"{entry.where}: {effect.cause} {effect.weight} is not known")
        rule = CauseRule(
            id=entry.text("id"),
            condition=entry.text("if"),
            text=entry.text("text"),
            effects=effects,
            needs=entry.text("needs"),
            caveat=entry.text("caveat", ""),
            source=entry.source(),
        )
        entry.done()
        found[rule.id] = rule
    return found
