"""What a long recording says of its sources."""

from __future__ import annotations

from gpuprobe.cli.source_notes import LINES, SourceNotes
from gpuprobe.live.sources import SourceState
from gpuprobe.reading import Known, Reason, Unavailable

GONE = SourceState("nvml", Unavailable(Reason.NOT_THERE, "no library", "Install it."))
BACK = SourceState("nvml", Known("here"), "started", "reading")


def test_each_change_is_said_once() -> None:
    """Gone, back and gone again are three lines, however often it is looked at."""
    said: list[str] = []
    notes = SourceNotes(said.append)
    for state in (GONE, GONE, BACK, BACK, GONE):
        notes.look([state])

    gone = "not available: nvml: no library (Install it.)"
    assert said == [gone, "available again: nvml", gone]


def test_a_reason_without_a_hint_ends_with_the_reason() -> None:
    """No bracket and no arrow to nothing."""
    said: list[str] = []
    SourceNotes(said.append).look(
        [SourceState("sysfs", Unavailable(Reason.NOT_THERE, "no GPU", ""))]
    )

    assert said == ["not available: sysfs: no GPU"]


def test_only_of_what_is_followed_a_gap_is_told() -> None:
    """A unit that nobody knows is a line; a busy kernel log is none."""
    said: list[str] = []
    notes = SourceNotes(said.append, ["unit foo"])
    notes.look([SourceState(name, Known(""), "gap", "x") for name in ("unit foo", "kernel-log")])

    assert said == ["unit foo: x"]


def test_what_is_followed_again_is_told() -> None:
    """A container that is away, back and away is three lines; the first begin is none."""
    said: list[str] = []
    notes = SourceNotes(said.append, ["container web"])
    away = SourceState("container web", Known(""), "gap", "no such container")
    back = SourceState("container web", Known(""), "started", "it can be followed now")
    for state in (back, away, away, back, back, away):
        notes.look([state])

    gone = "container web: no such container"
    assert said == [gone, "container web: it can be followed now", gone]


def test_a_source_that_comes_and_goes_fills_no_disk() -> None:
    """The lines are bounded."""
    said: list[str] = []
    notes = SourceNotes(said.append)
    for _ in range(LINES):
        notes.look([GONE])
        notes.look([BACK])

    assert len(said) == LINES
