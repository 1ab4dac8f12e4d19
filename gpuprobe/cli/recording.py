"""What commands that record do alike; and how `watch` shows what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuprobe.live.session import Session, Update
    from gpuprobe.recording.writer import Recorder


def open_recorder(file: Path | None, about: Mapping[str, str]) -> Recorder:
    """A recorder to `file`, or to a new file in the usual place.

    Raises:
        RecordingError: The file cannot be made.
    """
    from gpuprobe.recording import places
    from gpuprobe.recording.writer import Recorder

    return Recorder(file if file is not None else places.new_path(), about=about)


def describe(recorder: Recorder, *about: Mapping[str, str]) -> None:
    """Put what is known of machine and engine into the recording."""
    for facts in about:
        for key, value in facts.items():
            recorder.describe(key, value)


@contextmanager
def recording_to(
    file: str | None, session: Session, report: Path | None = None
) -> Iterator[Iterator[Update]]:
    """The session's updates, stored in `file` before they are given on where there is one.

    Args:
        file: The recording, or None.
        session: What is watched.
        report: Where a report of the recording goes at the end, or None.

    Raises:
        RecordingError: The file cannot be made.
    """
    if file is None:
        yield session.updates()
        return
    from gpuprobe.recording.about import of_machine
    from gpuprobe.recording.recorded import describe_sources, recorded

    recorder = open_recorder(Path(file), of_machine())
    describe_sources(recorder, session.states)
    try:
        yield recorded(session.updates(), recorder)
    finally:
        recorder.end("stopped", diagnosis=session.diagnosis)
        _say(recorder, report)


def _say(recorder: Recorder, report: Path | None) -> None:
    from gpuprobe.cli.report_end import last_words
    from gpuprobe.reporters.plain import printable

    if recorder.problem is not None:
        click.echo(f"warning: {printable(recorder.problem)}", err=True)
    else:
        click.echo(f"Recorded to {printable(str(recorder.path))}", err=True)
    click.echo(printable(last_words(recorder.path, report)), err=True)


def replaying(file: str, speed: float) -> Session:
    """A session whose one source is a recording.

    Raises:
        RecordingError: It cannot be read.
    """
    from gpuprobe.live.session import Session
    from gpuprobe.recording.replay import ReplaySource

    # A machine without any device: what is there now has nothing to do with what was recorded.
    nowhere = Path("/dev/null/nowhere")
    return Session([ReplaySource(Path(file), speed=speed)], root=nowhere)


def until_over(updates: Iterator[Update], session: Session) -> Iterator[Update]:
    """The updates of a replay, up to its end."""
    from gpuprobe.recording.replay import ReplaySource

    for update in updates:
        yield update
        if all(isinstance(one, ReplaySource) and one.over for one in session.sources):
            return
