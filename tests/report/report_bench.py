"""What the tests of reports share: a recorded run, a report of it, a form of it as text."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from gpuprobe.events import CudaFailed, Event, OutputWritten
from gpuprobe.recording.about import of_engine
from gpuprobe.recording.writer import Recorder
from gpuprobe.report.contents import Audience, Report
from gpuprobe.report.gathering import Gathered, gather, with_saved
from gpuprobe.reporters.report_json import ReportJson
from gpuprobe.reporters.report_markdown import ReportMarkdown
from gpuprobe.reporters.report_redacted import redacted
from tests.live_events import base, counted, drawn, facts, lost, steady

ROOT = Path(__file__).parents[2]
LEFT_THE_BUS = ROOT / "examples" / "left-the-bus"
BOOT = "0123456789abcdef0123456789abcdef"
ABOUT = {"hostname": "lathe", "boot-id": BOOT, "kernel": "Linux version 6.8.0-60-generic"}


def recorded(
    path: Path,
    *argv: str,
    fails: bool = True,
    seconds: int = 130,
    output: str = "INFO step",
    env: dict[str, str] | None = None,
) -> Path:
    """A recording of an engine with this command line, which loses its GPU at the end or not."""
    events: list[Event] = [*facts(), *steady(seconds, power_w=lambda s: 210.0 + s % 7)]
    events += [drawn(s, *[200.0 + s % 5] * 10) for s in range(seconds)]
    events += [counted(s, correctable_RxErr=s // 30) for s in range(0, seconds, 10)]
    for s in range(0, seconds, 5):
        written = base(s, "out", "engine", None)
        events.append(OutputWritten(**written, stream="stdout", lines=((s, f"{output} {s}"),)))
    if fails:
        said = base(seconds + 2, "torch.AcceleratorError: CUDA error: 719", "vllm", None)
        events.append(lost(seconds + 0.2))
        events.append(
            CudaFailed(**said, code=719, name="cudaErrorLaunchFailure", message="launch failure")
        )
    events.sort(key=lambda event: event.stamp.wall if event.stamp and event.stamp.wall else 0)  # type: ignore[arg-type, return-value]
    recorder = Recorder(path, about=ABOUT)
    for key, value in of_engine(argv or ("vllm", "serve", "m/m"), env or {}).items():
        recorder.describe(key, value)
    recorder.add(events)
    assert recorder.commit((), timeout_s=10)
    recorder.end("device-lost" if fails else "stopped")
    return path


def report_of(*paths: Path, audience: Audience = "engine", keep: tuple[str, ...] = ()) -> Report:
    """A report of these inputs, redacted, with what is judged again."""
    gathered = gather(paths, audience=audience)
    return redacted(with_saved(gathered), keep, gathered.folders)[0]


def gathered_of(*paths: Path) -> Gathered:
    """What is read of these inputs."""
    return gather(paths)


def as_markdown(report: Report) -> str:
    """The Markdown form."""
    out = io.StringIO()
    ReportMarkdown().render(report, out)
    return out.getvalue()


def as_json(report: Report) -> dict[str, Any]:
    """The JSON form, parsed."""
    out = io.StringIO()
    ReportJson().render(report, out)
    found = json.loads(out.getvalue())
    assert isinstance(found, dict)
    return found
