"""What a power cut leaves in any file, and whether JSON and text are whole."""

from __future__ import annotations

import json
import re
from typing import Any

from gpuprobe.jitcache.tree import OpenFile

HEAD = 64 * 1024
MAX_JSON = 8 << 20
"""Bytes; metadata of a kernel has about a thousand."""

EMPTY = "is empty"
ALL_ZERO = "is filled with zeros"

_STRINGS = re.compile(
    r"'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|#[^\n]*",
    re.S,
)


def blank(file: OpenFile) -> str | None:
    """Whether a file holds nothing: no byte, or zeros where head, middle and tail are read."""
    if file.size == 0:
        return EMPTY
    head = file.at(0, HEAD)
    if head.strip(b"\0"):
        return None
    for offset in (file.size // 2, max(0, file.size - HEAD)):
        if file.size > HEAD and file.at(offset, HEAD).strip(b"\0"):
            return None
    return ALL_ZERO


def zero_tail(file: OpenFile) -> int | None:
    """Where a tail of zeros begins that is at least a disk block long; None where there is none."""
    length = min(file.size, HEAD)
    tail = file.at(file.size - length, length)
    zeros = len(tail) - len(tail.rstrip(b"\0"))
    return file.size - zeros if zeros >= 512 else None


def json_object(file: OpenFile) -> tuple[dict[str, Any] | None, str]:
    """The object that a JSON file holds, or None and what is wrong with it."""
    if file.size > MAX_JSON:
        return None, blank(file) or f"is larger than such a file can be ({file.size} bytes)"
    data = file.at(0, file.size)
    if not data.strip(b"\0"):
        return None, ALL_ZERO if data else EMPTY
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        if b"\0" in data:
            return None, f"holds zeros from byte {data.index(0)}"
        whole = data.rstrip().endswith((b"}", b"]"))
        return None, "is not JSON" if whole else f"is cut short after {file.size} bytes"
    if not isinstance(found, dict):
        return None, "holds no JSON object"
    return found, ""


def text(file: OpenFile) -> str | None:
    """What is wrong with a file of text: nothing in it, or zeros."""
    if (state := blank(file)) is not None:
        return state
    if (begin := zero_tail(file)) is not None:
        return f"holds zeros from byte {begin} of {file.size}"
    zero = file.at(0, HEAD).find(b"\0")
    return f"holds a zero at byte {zero}" if zero >= 0 else None


def python_cut(file: OpenFile) -> bool:
    """Whether Python text ends inside a bracket or a string, which a cut mostly leaves.

    It is never compiled: a parser can be brought down by what it parses.
    """
    if file.size > MAX_JSON:
        return False
    source = file.at(0, file.size).decode("utf-8", "replace")
    code = _STRINGS.sub("", source)
    if "'''" in code or '"""' in code:
        return True
    return any(code.count(first) > code.count(last) for first, last in ("()", "[]", "{}"))


def literal_cut(file: OpenFile) -> bool:
    """Whether a Python dictionary written as text lacks its end."""
    head = file.at(0, 256).lstrip()
    tail = file.at(max(0, file.size - 256), 256).rstrip()
    return head.startswith(b"{") and not tail.endswith(b"}")
