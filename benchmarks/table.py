"""The table of results."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        what: What was measured.
        ours: Our figure.
        theirs: What it is compared with.
        ratio: How they compare.
        target: What the ratio or the figure may be at most.
        met: True if it is; None where there is no target.
    """

    what: str
    ours: str
    theirs: str
    ratio: str
    target: str
    met: bool | None

    def cells(self) -> tuple[str, ...]:
        """The row's cells."""
        met = "-" if self.met is None else "yes" if self.met else "**no**"
        return (self.what, self.ours, self.theirs, self.ratio, self.target, met)


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    head = ("what", "gpuprobe", "against", "ratio", "at most", "met")
    lines = [head, ("---",) * len(head), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def circumstances() -> str:
    """Machine, date and versions, as a Markdown paragraph."""
    versions = [f"Python {platform.python_version()}"]
    for package in ("gpuprobe", "hyperscan"):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {package}")
    if rg := shutil.which("rg"):
        said = subprocess.run([rg, "--version"], capture_output=True, text=True, check=False)
        versions.append(said.stdout.splitlines()[0])
    load = ", ".join(f"{figure:.1f}" for figure in os.getloadavg())
    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {_processor()}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}, load {load}; {', '.join(versions)}.\n"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
