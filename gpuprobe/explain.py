"""What a code, a name or a verdict kind means: the lookups behind `gpuprobe explain`.

A text can be read in several ways (46 is an Xid and a CUDA error); each reading is given.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gpuprobe import catalog
from gpuprobe.diagnosis import Kind
from gpuprobe.explanations import (
    Explanation,
    explain_advice,
    explain_aer,
    explain_cuda,
    explain_kind,
    explain_nvml,
    explain_recovery_action,
    explain_rm_status,
    explain_sxid,
    explain_xid,
)

HIGHEST_XID = 1023
"""Larger numbers are no Xids that a driver could print."""


@dataclass(frozen=True, slots=True)
class Answer:
    """All readings of one question.

    Attributes:
        query: What was asked.
        readings: Empty when nothing fits.
        suggestions: What may have been meant, where nothing known fits.
    """

    query: str
    readings: tuple[Explanation, ...]
    suggestions: tuple[str, ...] = field(default=())

    @property
    def known(self) -> bool:
        """True when at least one reading is in the catalogue."""
        return any(reading.known for reading in self.readings)


def explain(query: str) -> Answer:
    """Say what a code, name, message or verdict kind means.

    Args:
        query: Such as `79`, `xid 79`, `cudaErrorLaunchFailure`, `unspecified launch failure`,
            `AER 5`, `SDES`, `NVML 15`, `0x0f`, `154 0x2`, `device-left-bus`, `L1`, `pci=noaer`.
    """
    text = " ".join(query.split())
    readings = _readings(text)
    suggestions = () if any(reading.known for reading in readings) else _nearest(text)
    return Answer(query=text, readings=readings, suggestions=suggestions)


def _readings(text: str) -> tuple[Explanation, ...]:
    for pattern, read in _SHAPES:
        match = pattern.fullmatch(text)
        if match is not None:
            return tuple(read(match))
    return tuple(_by_name(text))


def explain_all(words: Sequence[str]) -> list[Answer]:
    """Explain a list of words, of which several together may be one question.

    `Xid 79 SDES` is two questions. The longest run of words that is known is taken each time; a
    text with blanks in it is a question of its own.
    """
    answers = []
    rest = list(words)
    while rest:
        single = next((place for place, word in enumerate(rest) if " " in word), len(rest))
        length = next(
            (size for size in range(single, 1, -1) if _readings(" ".join(rest[:size]))), 1
        )
        answers.append(explain(" ".join(rest[:length])))
        rest = rest[length:]
    return answers


# --- Shapes of a question --------------------------------------------------------------------


def _numbers(match: re.Match[str]) -> Iterator[Explanation]:
    code = int(match["code"])
    xid, cuda = catalog.xid(code), catalog.cuda_by_code(code)
    if xid is not None:
        yield explain_xid(code)
    if cuda is not None:
        yield explain_cuda(cuda)
    if xid is None and cuda is None and code <= HIGHEST_XID:
        yield explain_xid(code)


def _xid_number(match: re.Match[str]) -> Iterator[Explanation]:
    yield explain_xid(int(match["code"]))


def _sxid_number(match: re.Match[str]) -> Iterator[Explanation]:
    yield explain_sxid(match["code"])


def _aer_number(match: re.Match[str]) -> Iterator[Explanation]:
    for severity in ("correctable", "uncorrectable"):
        for bit in catalog.aer_bits(severity):
            if bit.bit == int(match["code"]):
                yield explain_aer(bit)


def _aer_name(match: re.Match[str]) -> Iterator[Explanation]:
    yield from map(explain_aer, catalog.aer_by_name(match["name"]))


def _nvml_number(match: re.Match[str]) -> Iterator[Explanation]:
    yield from (
        explain_nvml(code) for code in catalog.nvml_codes() if code.code == int(match["code"])
    )


def _cuda_number(match: re.Match[str]) -> Iterator[Explanation]:
    error = catalog.cuda_by_code(int(match["code"]))
    if error is not None:
        yield explain_cuda(error)


def _hex(match: re.Match[str]) -> Iterator[Explanation]:
    value = int(match["hex"], 16)
    yield from (explain_rm_status(one) for one in catalog.rm_statuses() if one.code == value)
    # A status is printed with two or eight digits, a recovery action with one.
    if len(match["hex"]) == 1:
        yield from _recovery_value(match)


def _recovery_value(match: re.Match[str]) -> Iterator[Explanation]:
    value = int(match["hex"], 16)
    yield from (
        explain_recovery_action(one) for one in catalog.recovery_actions() if one.value == value
    )


def _shape(
    pattern: str, read: Callable[[re.Match[str]], Iterator[Explanation]]
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], Iterator[Explanation]]]:
    return re.compile(pattern, re.IGNORECASE), read


_BRACKET = r" ?[:#=]? ?(?:\([^)]*\):? ?)?"
"""What stands between `Xid` and its number in a line of the driver: `(PCI:0000:04:00): `."""

_SHAPES = (
    _shape(r"(?:xid )?154:? (?:to )?0x(?P<hex>[0-9a-f])", _recovery_value),
    _shape(r"(?:xid )?154,? .*changed from .* to 0x(?P<hex>[0-9a-f])\b.*", _recovery_value),
    _shape(rf"(?:.*: )?s-?xid{_BRACKET}(?P<code>\d{{1,6}})\b.*", _sxid_number),
    _shape(rf"(?:.*\bNVRM: ?)?xid{_BRACKET}(?P<code>\d{{1,4}})(?:,.*)?", _xid_number),
    _shape(r"aer (?:bit )?\[? ?(?P<code>\d{1,2}) ?\]?", _aer_number),
    _shape(r"aer (?:\[ ?\d{1,2}\] ?)?(?P<name>[a-z].*)", _aer_name),
    _shape(r"nvml(?: error)?:? (?P<code>\d{1,3})", _nvml_number),
    _shape(r"cuda(?: error)?:? \(?(?P<code>\d{1,3})\)?", _cuda_number),
    _shape(r"(?:rm )?(?:status ?[=:]? ?|recovery(?: action)? )?0x(?P<hex>[0-9a-f]{1,8})", _hex),
    _shape(r"(?P<code>\d{1,5})", _numbers),
)


def _by_name(text: str) -> Iterator[Explanation]:
    """Readings of a name or of words."""
    yield from explain_advice(text)
    if text.lower() in set(Kind):
        yield explain_kind(Kind(text.lower()))
        return
    said = re.sub(r"(?i)^.*\bcuda(?: runtime)? error:? ?", "", text)
    error = catalog.cuda_by_name(text) or catalog.cuda_by_text(said) or catalog.cuda_by_name(said)
    if error is not None:
        yield explain_cuda(error)
    yield from map(explain_aer, catalog.aer_by_name(text))
    bare = re.sub(r"(?i)^(?:nvml[ _])?(?:error_)?", "", text).replace(" ", "_").upper()
    yield from (explain_nvml(code) for code in catalog.nvml_codes() if code.name == bare)
    bare = re.sub(r"(?i)^nv_err_", "", text).replace(" ", "_").upper()
    yield from (
        explain_rm_status(status) for status in catalog.rm_statuses() if status.name == bare
    )
    if error is None and len(text) >= 8:
        said = text.lower().rstrip(".")
        yield from (explain_xid(xid.code) for xid in catalog.xids() if said in xid.name.lower())


def _nearest(text: str) -> tuple[str, ...]:
    """What may have been meant, best first, at most three."""
    numbers = re.findall(r"\d+", text)
    if numbers and re.search(r"(?i)xid|^\d+$", text):
        wanted = int(numbers[-1])
        codes = sorted((xid.code for xid in catalog.xids()), key=lambda code: abs(code - wanted))
        close = [code for code in codes if str(code) in str(wanted) or abs(code - wanted) <= 2]
        return tuple(f"xid {code}" for code in close[:3])
    names = [kind.value for kind in Kind]
    for error in catalog.cuda_errors():
        names += [name for name in (error.name, error.driver_name, error.text) if name]
    for severity in ("correctable", "uncorrectable"):
        names += [bit.name for bit in catalog.aer_bits(severity)]
    names += [f"NVML_ERROR_{code.name}" for code in catalog.nvml_codes()]
    lower = {name.lower(): name for name in names}
    close_names = difflib.get_close_matches(text.lower(), lower, n=3, cutoff=0.6)
    return tuple(lower[name] for name in close_names)
