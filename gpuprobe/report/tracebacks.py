"""Python's tracebacks in what an engine wrote, each as one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from gpuprobe.report.contents import IncidentLine

BEGIN: Final = "Traceback (most recent call last):"
LONGEST: Final = 300
"""Lines of a traceback, at most: a recursion that ran over has more and says no more with them."""

_FRAME: Final = re.compile(
    r'File "(?P<file>[^"]{1,300})", line (?P<line>\d+)(?:, in (?P<name>\S+))?'
)


def folded(lines: Iterable[IncidentLine]) -> Iterator[IncidentLine]:
    """The lines, with each traceback as one that keeps its lines in `folded`.

    A traceback begins with Python's own words and ends where the text is no longer further right
    than they are. That line, the exception, stays a line of its own. What the kernel or the probe
    said in between stays, too.
    """
    open_: list[IncidentLine] = []
    waiting: list[IncidentLine] = []
    for line in lines:
        if open_ and line.side != open_[0].side:
            waiting.append(line)
        elif open_ and _belongs(line, open_) and len(open_) < LONGEST:
            open_.append(line)
        else:
            yield from _as_one(open_)
            yield from waiting
            waiting = []
            open_ = [line] if BEGIN in line.text and not line.role else []
            if not open_:
                yield line
    yield from _as_one(open_)
    yield from waiting


def _belongs(line: IncidentLine, open_: list[IncidentLine]) -> bool:
    """Whether a line stands further right than the words that began the traceback."""
    # An engine may put its own prefix before each line; it is as long in all of them.
    column = open_[0].text.index(BEGIN)
    rest = line.text[column:]
    return not line.role and line.input == open_[0].input and (not rest or rest[0].isspace())


def _as_one(lines: list[IncidentLine]) -> Iterator[IncidentLine]:
    if len(lines) < 3:
        yield from lines
        return
    frames = [match for line in lines if (match := _FRAME.search(line.text))]
    text = f"Traceback of {len(lines)} lines"
    if frames:
        text += f": from {_words(frames[0])}"
    if len(frames) > 1:
        text += f" to {_words(frames[-1])}"
    yield replace(lines[0], text=text, folded=tuple(line.text for line in lines))


def _words(frame: re.Match[str]) -> str:
    return f"{frame['file']}:{frame['line']}" + (f" in {frame['name']}" if frame["name"] else "")
