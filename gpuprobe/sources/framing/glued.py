"""Messages written into one another, as serial consoles and busy terminals do."""

from __future__ import annotations

from dataclasses import replace

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.times import monotonic_stamp
from gpuprobe.sources.record import Record

_STAMP = regex(r"(?<=\S)(?<![\[\w]\s)(\[ *(\d{1,8}\.\d{6})\])(?: ?\[ *[TC]\d+\])? ")
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
    if not cuts:
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
