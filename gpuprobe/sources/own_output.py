"""What gpuprobe itself wrote: it tells of logs once more, and what it says is no evidence."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

PAGE_MARK: Final = b"<!-- gpuprobe report"
"""What stands near the top of a report that is made for people."""

_VERDICT_MARK: Final = b"<!-- gpuprobe verdict"

_MAP_HEAD: Final = b"# What stands for what in the report beside this file. "
"""How the list begins that is written beside what was redacted."""

_JSON = re.compile(
    rb"\s{0,8}\{\s{0,8}\"schema\"\s{0,8}:\s{0,8}\"gpuprobe\.(?!report/)[a-z]{1,20}/\d"
)
_TEXT = re.compile(
    rb"(?:\x1b\[[\d;]{0,12}m)*\[(?:confirmed|likely|possible|cannot tell|no fault)\] "
    rb"[^\x00]{1,1200}?\n(?:\x1b\[[\d;]{0,12}m)*  Kind: [a-z]+(?:-[a-z]+){0,3}[;\n]"
)

BESIDE_REPORT: Final = ("report.", "manifest.json", "plots/", "evidence/", "telemetry/")
"""Members of a report's ZIP behind its `report.json`."""

_MANIFEST = re.compile(rb"\s{0,8}\{\s{0,8}\"schema\"\s{0,8}:\s{0,8}\"gpuprobe\.bundle/")


def is_verdict(head: bytes) -> bool:
    """Whether an input that starts so is a verdict in any form, or the list beside one."""
    return (
        head.startswith((_MAP_HEAD, _VERDICT_MARK))
        or _JSON.match(head) is not None
        or _TEXT.match(head) is not None
    )


def unpacked_beside() -> Callable[[str], bool]:
    """A test of files for being part of an unpacked report, whose `report.json` tells it all."""

    @lru_cache(maxsize=64)
    def unpacked(folder: Path) -> bool:
        try:
            if not (folder / "report.json").is_file():
                return False
            with (folder / "manifest.json").open("rb") as file:
                return _MANIFEST.match(file.read(200)) is not None
        except OSError:
            return False

    def beside(path: str) -> bool:
        file = Path(path)
        for folder, name in (
            (file.parent, file.name),
            (file.parent.parent, f"{file.parent.name}/{file.name}"),
        ):
            if name.startswith(BESIDE_REPORT) and name != "report.json" and unpacked(folder):
                return True
        return False

    return beside
