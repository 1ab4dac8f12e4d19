"""Updates of a session, stored before anybody sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuprobe.live.session import Update
from gpuprobe.live.sources import SourceState
from gpuprobe.reading import Known
from gpuprobe.recording.writer import Recorder


def recorded(updates: Iterable[Update], recorder: Recorder | None) -> Iterator[Update]:
    """Give each update on when its events are on the disk; without a recorder, as they are.

    A disk that stalls delays an update by half a second, once; a recorder that stopped delays
    none. `Recorder.problem` says whether one did.
    """
    for update in updates:
        if recorder is not None:
            recorder.add(update.samples)
            if update.diagnosis is not None:
                recorder.add(update.events)
                recorder.judged(update.diagnosis)
            elif update.events:
                recorder.commit(update.events)
        yield update


def describe_sources(recorder: Recorder, states: Iterable[SourceState]) -> None:
    """Store which sources could be used, so that silence can be told from deafness."""
    for state in states:
        if isinstance(state.access, Known):
            said = f"available: {state.access.value}"
        else:
            said = f"unavailable: {state.access.detail or state.access.reason}"
            if state.access.hint:
                recorder.describe(f"hint:{state.name}", state.access.hint)
        recorder.describe(f"source:{state.name}", said)
