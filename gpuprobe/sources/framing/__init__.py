"""Taking logs' prefixes off lines: what stays is the message, and what the prefix said about it.

One file a format. `peel` applies them again and again, as prefixes stand inside one another; a
wrong guess never loses text, since what no framing understands stays in the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from gpuprobe.clock import Stamp
from gpuprobe.sources.framing import (
    blocks,
    containers,
    csv_rows,
    dmesg,
    engine,
    json_lines,
    macos,
    marks,
    nvidia_smi,
    syslog,
    windows,
)
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.glued import lost_line_ends, may_hold_lines, split_glued
from gpuprobe.sources.framing.html import clean_html
from gpuprobe.sources.framing.markdown import unescape
from gpuprobe.sources.framing.sniff import sniff_with
from gpuprobe.sources.lines import strip_controls
from gpuprobe.sources.record import Record

__all__ = ["FORMATS", "Framing", "Peeled", "peel", "peel_lines", "sniff", "split_glued"]

FORMATS = (
    "text",
    "dmesg",
    "dmesg-time",
    "dmesg-iso",
    "kmsg",
    "journal-short",
    "journal-short-full",
    "journal-short-iso",
    "journal-short-precise",
    "journal-short-monotonic",
    "journal-short-unix",
    "journal-json",
    "journal-export",
    "journal-binary",
    "syslog-3164",
    "syslog-5424",
    "docker-json",
    "cri",
    "kubectl",
    "engine",
    "json-lines",
    "csv",
    "windows-event",
    "macos-log",
    "nvidia-smi",
    "nvidia-smi-q",
    "lspci",
    "bug-report",
    "html",
    "recording",
    "live",
    "jit-cache",
    "report",
)
"""Every name that `Record.framing` and `inputs[].format` can have; `live` and `jit-cache` are no file's."""

DEPTH = 6
"""Prefixes taken off one line at most."""

# In the order they are tried: the more a framing demands, the earlier it stands.
_ALL: tuple[Framing, ...] = (
    *json_lines.FRAMINGS,
    *macos.FRAMINGS,
    *windows.FRAMINGS,
    *nvidia_smi.FRAMINGS,
    *csv_rows.FRAMINGS,
    *containers.FRAMINGS,
    *dmesg.FRAMINGS,
    *syslog.FRAMINGS,
    *engine.FRAMINGS,
    *blocks.FRAMINGS,
    *marks.FRAMINGS,
)


def _by_start() -> tuple[dict[str, tuple[Framing, ...]], tuple[Framing, ...]]:
    """Framings by the first character that is not blank; those for letters are in every list."""
    letters = tuple(framing for framing in _ALL if not framing.starts)
    starts = {start for framing in _ALL for start in framing.starts}
    table = {
        start: tuple(
            framing
            for framing in _ALL
            if start in framing.starts or (not framing.starts and start.isalpha())
        )
        for start in starts
    }
    return table, letters


_BY_START, _LETTERS = _by_start()
_NONE: tuple[Framing, ...] = ()


def _peel_once(text: str, inside: bool) -> Peeled | None:
    start = text.lstrip()[:1]
    if not start:
        return None
    candidates = _BY_START.get(start)
    if candidates is None:
        candidates = _LETTERS if start.isalpha() else _NONE
    for framing in candidates:
        if inside and framing.outermost:
            continue
        peeled = framing.peel(text)
        if peeled is not None:
            return peeled
    return None


def _layers(text: str, outer: Sequence[Peeled] = ()) -> tuple[list[Peeled], str]:
    """The prefixes of a line, outermost first, behind those taken off before; what is left."""
    layers = list(outer)
    inside = any(layer.format for layer in layers)
    if (layers and layers[-1].final) or "\n" in text:
        return layers, text
    for _ in range(DEPTH - len(layers)):
        peeled = _peel_once(text, inside)
        if peeled is None:
            break
        layers.append(peeled)
        text = peeled.rest
        inside = inside or bool(peeled.format)
        if peeled.final or "\n" in text:
            break
        # Behind the kernel's own prefix nothing but another of its stamps can stand.
        if peeled.kernel and (peeled.stamp or peeled.source) and text[:1] not in "[<":
            break
    return layers, text


# An input's first lines are looked at three times: for its format, its kind and its events.
_layers_of_short = lru_cache(512)(_layers)


def _layers_of(text: str) -> tuple[list[Peeled], str]:
    return _layers_of_short(text) if len(text) < 1024 else _layers(text)


def _merge(layers: list[Peeled], message: str, line: int | None, raw: str) -> Record:
    stamps: list[Stamp] = []
    host = machine_id = boot_id = source = ref = None
    pid: int | None = None
    kernel = quoted = lineless = False
    framing = "text"
    for layer in layers:
        if layer.stamp is not None:
            stamps.append(layer.stamp)
        host = layer.host or host
        machine_id = layer.machine_id or machine_id
        boot_id = layer.boot_id or boot_id
        if layer.source is not None:
            source, pid = layer.source, layer.pid
        kernel = kernel or layer.kernel
        quoted = quoted or layer.quoted
        lineless = lineless or layer.lineless
        ref = layer.ref or ref
        framing = layer.format or framing
    return Record(
        message=message,
        line=None if lineless else line,
        raw=raw,
        stamps=tuple(stamps),
        host=host,
        machine_id=machine_id,
        boot_id=boot_id,
        source=source,
        pid=pid,
        kernel=kernel,
        framing=framing,
        quoted=quoted,
        ref=ref,
        ordinal=(line or 0) if lineless else 0,
    )


def peel(line_no: int | None, text: str) -> list[Record]:
    """The records of one line: one as a rule, several where its framing holds several lines.

    Args:
        line_no: Its number from 1.
        text: The line without its end; controls are taken off here where they are left.
    """
    raw = strip_controls(text)
    plain = unescape(raw) if "\\" in raw else raw
    layers, rest = _layers_of(clean_html(plain) if "<" in plain or "&" in plain else plain)
    return _records(layers, rest, line_no, raw)


def _part(line_no: int, text: str) -> list[Record]:
    """The records of a later piece of a very long line: no prefix can stand there."""
    raw = strip_controls(text)
    message = clean_html(raw).replace("\n", " ") if "<" in raw or "&" in raw else raw
    first, *others = split_glued(Record(message, line_no, raw, part=True))
    return [first, *(replace(record, part=False) for record in others)]


def peel_lines(lines: Iterable[tuple[int, str]], name: str = "text") -> Iterator[Record]:
    """The records of lines that follow one another.

    Args:
        lines: Number and text of each.
        name: The input's format, as `sniff` says it; in `journal-export` and `journal-json` an
            entry may span lines, which are then read together. Records of `journal-binary` have a
            cursor instead of a line.
    """
    if name == "journal-binary":
        for number, text in lines:
            for record in peel(number, text):
                # The line is one that journalctl wrote just now: nobody can look there.
                yield replace(record, line=None, ordinal=number)
        return
    if name == "journal-export":
        found = blocks.export_entries(lines)
    elif name == "journal-json":
        found = blocks.pretty_entries(lines)
    else:
        last = None
        for number, text in lines:
            yield from _part(number, text) if number == last else peel(number, text)
            last = number
        return
    for item in found:
        if len(item) == 2:
            yield from peel(*item)
        else:
            number, text, peeled = item
            layers, rest = _layers(peeled.rest, [peeled])
            yield from _records(layers, rest, number, strip_controls(text))


def sniff(head_lines: Sequence[str]) -> str:
    """The name, from `FORMATS`, of the format that an input with these first lines has.

    Args:
        head_lines: Some of its first lines; 200 are enough.
    """
    return sniff_with(head_lines, _outermost)


def _outermost(text: str) -> str:
    layers, _ = _layers_of(strip_controls(text))
    return next((layer.format for layer in layers if layer.format), "text")


def _records(layers: list[Peeled], rest: str, line: int | None, raw: str) -> list[Record]:
    if "\n" not in rest:
        if may_hold_lines(rest):
            return _paragraph(layers, rest, line, raw)
        return split_glued(_merge(layers, _tidy(rest), line, raw))
    records = []
    for part in rest.splitlines():
        clean = strip_controls(part)
        inner, message = _layers(clean, layers) if clean.strip() else (layers, "")
        records.extend(split_glued(_merge(inner, _tidy(message), line, raw)))
    return records


def _paragraph(layers: list[Peeled], rest: str, line: int | None, raw: str) -> list[Record]:
    """The records of a line that may be a whole kernel log without its line ends."""
    kernel = any(layer.kernel for layer in layers)
    framed = any(layer.format for layer in layers)
    others: list[str] = []
    if kernel or not framed:
        rest, *others = lost_line_ends(rest, kernel=kernel)
    records = split_glued(_merge(layers, _tidy(rest), line, raw))
    for part in others:
        inner, message = _layers(part, () if framed else layers)
        records.extend(split_glued(_merge(inner, _tidy(message), line, raw)))
    return records


def _tidy(message: str) -> str:
    return strip_controls(message).rstrip()
