"""Regular expressions that are compiled when they are first used.

A short log needs few of the several hundred patterns, and compiling all of them takes longer than
reading the log.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _Lazy:
    """Stands in for a compiled pattern until one of its attributes is asked for."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = (pattern, flags)
        self.pattern = pattern  # to build others from it, without compiling this one

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._given)
        # From here on these are plain attributes, found without a detour.
        for method in ("search", "match", "fullmatch", "finditer", "findall", "sub", "split"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`; what is wrong with the pattern shows when it is first used."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))
