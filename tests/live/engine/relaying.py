"""Running a command behind the front and the relay, with a small probe of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
FRONT = [
    sys.executable,
    "-I",
    "-S",
    str(ROOT / "gpuprobe" / "live" / "engine" / "front_main.py"),
    str(ROOT),
]

_PROBE = f"""
import json, os, sys
sys.path.insert(0, {str(ROOT)!r})
from gpuprobe.live.engine import relay_frames as f
told = json.loads(sys.argv[1])
reader = f.FrameReader()
kept, ended = [], False
{{before}}
while not ended:
    data = os.read(told["frames"], 1 << 18)
    if not data: break
    for frame in reader.feed(data):
        kept.append(frame)
        ended = ended or frame.kind == f.ENDED
        {{on_frame}}
{{after}}
f.send(told["control"], done=True, code={{code}}, leave={{leave}})
"""


def probe(
    *,
    before: str = "",
    on_frame: str = "pass",
    after: str = "",
    code: int | None = None,
    leave: bool = False,
) -> list[str]:
    """A probe that reads all frames to the engine's end; `kept` has them, `told` its argument."""
    script = _PROBE.format(before=before, on_frame=on_frame, after=after, code=code, leave=leave)
    return [sys.executable, "-I", "-S", "-c", script]


def command(
    engine: Sequence[str], by: Sequence[str] | None = None, *, again: bool = False
) -> list[str]:
    """The command line of a front for `engine`."""
    told = {"probe": list(probe() if by is None else by), "again": again, "held": False}
    return [*FRONT, json.dumps(told), *engine]


def python(code: str) -> list[str]:
    """An engine that runs `code`."""
    return [sys.executable, "-I", "-S", "-c", code]


def run(
    engine: Sequence[str], by: Sequence[str] | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run to its end and capture what it writes."""
    options = {"capture_output": True, "timeout": 30, **options}
    return subprocess.run(command(engine, by), **options)


def start(
    engine: Sequence[str], by: Sequence[str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a front with pipes."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command(engine, by), **options)


def below(pid: int) -> list[int]:
    """Children of a process, the oldest first; none when it has gone."""
    with suppress(OSError):
        return [int(child) for child in _children_file(pid).read_text().split()]
    return []


def _children_file(pid: int) -> Path:
    return Path(f"/proc/{pid}/task/{pid}/children")


def name_of(pid: int) -> str:
    """A process's short name, "" when it has gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def relay_of(front: int) -> int | None:
    """The relay below a front, once it is that."""
    return next((pid for pid in below(front) if name_of(pid) == "gpuprobe-relay"), None)


def probe_of(front: int) -> int | None:
    """The probe below a front, once it is executed."""
    names = {pid: name_of(pid) for pid in below(front)[1:]}
    return next((pid for pid, name in names.items() if name and "gpuprobe" not in name), None)


def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait for a condition; gives what it gave."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
    return found


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def frames_to(path: Path) -> list[str]:
    """A probe that writes what it was told to `path`: a list of kind, stream, dropped, text."""
    lines = "[[k.kind, k.stream, k.dropped, k.data.decode('latin-1')] for k in kept]"
    return probe(after=f"open({os.fspath(path)!r}, 'w').write(json.dumps({lines}))")
