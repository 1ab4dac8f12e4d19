"""Messages written into one another, as serial consoles and busy terminals do."""

from __future__ import annotations

from dataclasses import replace

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.times import monotonic_stamp
from gpuprobe.sources.line_shapes import USER_TEXT
from gpuprobe.sources.record import Record

_STAMP = regex(r"(?<=\S)(?<![\[\w]\s)(\[ *(\d{1,8}\.\d{6})\])(?: ?\[ *[TC]\d+\])? ")
_LINE_START = regex(
    r"(?:\A|(?<=\s))(?:\[ *\d{1,8}\.\d{6}\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}\]"
    r"|(?:[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,13}) [\w.-]+ kernel:) "
    r"(?:\[ *\d+\.\d{6}\] )?(?=(?:NVRM:|nvidia|pcieport|amdgpu|snd_hda|vfio-pci|AER:|pci ))"
)
"""Where a kernel line begins, prefix and all."""
_KERNEL_WORDS = regex(r"(?:NVRM:|nvidia|pcieport|amdgpu|\[drm|AER:|snd_hda|usb |pci |ACPI|systemd)")


def split_glued(record: Record) -> list[Record]:
    """The record, cut where another kernel stamp stands inside its message.

    The parts keep the line number; the first keeps the record's stamps, each further part ends
    with its own. Only kernel lines are cut, and others where kernel words follow the stamp.
    """
    message = record.message
    if "." not in message or "[" not in message:
        return [record]
    cuts = [
        match
        for match in _STAMP.finditer(message)
        if record.kernel or _KERNEL_WORDS.match(message, match.end())
    ]
    if not cuts or (not record.kernel and USER_TEXT.search(message, 0, cuts[0].start())):
        return [record]
    parts = [replace(record, message=message[: cuts[0].start()])]
    ends = [match.start() for match in cuts[1:]] + [len(message)]
    outer = tuple(stamp for stamp in record.stamps if stamp.monotonic_s is None)
    for match, end in zip(cuts, ends, strict=True):
        parts.append(
            replace(
                record,
                message=message[match.end() : end],
                stamps=(*outer, monotonic_stamp(match[1], match[2])),
                kernel=True,
                framing="dmesg",
            )
        )
    return parts


def may_hold_lines(text: str) -> bool:
    """A quick look whether `lost_line_ends` can find anything."""
    return " kernel: " in text or "] NVRM: " in text


def lost_line_ends(text: str, *, kernel: bool) -> list[str]:
    """The lines of a paragraph that a forum made of a kernel log; one if it is none.

    Args:
        text: A line, behind its prefix if it has one.
        kernel: The prefix was the kernel's. Else two kernel lines with their prefixes must stand
            in the text, so that a sentence which quotes one stays a sentence.
    """
    starts = [match.start() for match in _LINE_START.finditer(text)]
    if len(starts) < 2 - kernel or USER_TEXT.search(text, 0, starts[0]):
        return [text]
    ends = [*starts[1:], len(text)]
    return [text[: starts[0]], *(text[a:b] for a, b in zip(starts, ends, strict=True))]
