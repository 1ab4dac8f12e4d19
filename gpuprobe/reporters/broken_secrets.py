"""Secrets that began in the line above: known by that line alone, whatever they look like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuprobe.lazy_regex import regex
from gpuprobe.reporters.secret_shapes import is_secret

_CONTINUED = regex(
    r"(?<![\w-])(?P<name>-{0,2}[A-Za-z][\w-]{1,60})(?P<mark>=?)['\"]?[ \t]{0,8}[\\^`][ \t\r]*$"
)
"""The end of a command that a shell goes on with in the next line, behind a name."""

_PROMPT = regex(r"[ \t]*(?:>+[ \t]+)?['\"]?(?P<value>[^\s'\"]+)")
_BEGIN = regex(r"-----?\s?BEGIN [A-Z0-9 ]{1,60}-----?[ \t\r]*$")
_ARMOUR = regex(r"[ \t]*(?P<value>[A-Za-z0-9+/]{1,120}={0,2}|=[A-Za-z0-9+/]{4})[ \t\r]*")
_HEADER = regex(r"[ \t]*(?:[A-Z][A-Za-z-]{1,30}: [^\n]*)?[ \t\r]*")
"""What stands between the first line of such a block and the key: headers and an empty line."""


def parts(lines: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Each line that holds the rest of a secret, and where in it that begins and ends.

    Args:
        lines: What followed one another, with the same prefix of a logger or none.
    """
    above = ""
    begin: str | None = None
    for line in lines:
        if begin is not None:
            place = _prefix(begin, line)
            if found := _ARMOUR.fullmatch(line, place):
                yield line, *found.span("value")
            elif not _HEADER.fullmatch(line, place):
                begin = None
        elif found := _continued(above, line):
            yield line, *found.span("value")
        if _BEGIN.search(line):
            begin = line
        above = line


def _continued(above: str, line: str) -> re.Match[str] | None:
    """The value that belongs to the name at the end of the line above."""
    name = _CONTINUED.search(above)
    if name is None or not (name["mark"] or name["name"].startswith("-")):
        return None
    found = _PROMPT.match(line, _prefix(above, line))
    if found is None or found["value"].startswith("-"):
        return None
    return found if is_secret(name["name"], found["value"].rstrip("\\^`")) else None


def _prefix(first: str, second: str) -> int:
    """Length of what a logger put before both lines: equal but for digits, up to a blank."""
    end = 0
    for place, (one, other) in enumerate(zip(first, second, strict=False), start=1):
        if one != other and not (one.isdigit() and other.isdigit()):
            break
        if one in " \t":
            end = place
    return end
