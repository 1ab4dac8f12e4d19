"""What fuzzing starts from: small inputs of our own, made here, and what was found once.

A finding lies in `fuzz/found/TARGET/`, so that it is tried again for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fuzz import seed_files, seed_messages
from fuzz.cache_target import SPLIT
from fuzz.seed_lines import EXPORT, LINES, LOSS, PRIVATE, texts
from gpuprobe.recording import codec, schema
from gpuprobe.sources.wording import FAMILIES

FOUND: Final = Path(__file__).parent / "found"


def seeds(target: str) -> Iterator[bytes]:
    """The inputs that this target starts from."""
    kind, _, name = target.partition("-")
    yield b""
    if kind == "framing":
        yield from (line.encode() for line in LINES[name])
    elif kind == "wording":
        family = next(family for family in FAMILIES if family.name == name)
        for pattern in family.patterns:
            yield from (text.encode() for text in (*pattern.examples, *pattern.near))
    elif kind == "cache":
        yield from seed_files.caches(name)
    else:
        yield from _OTHERS[target]()
    if (FOUND / target).is_dir():
        yield from (path.read_bytes() for path in sorted((FOUND / target).iterdir()))


def words_of(target: str) -> list[bytes]:
    """What an input of this target is made of: what patterns look for is no chance find."""
    kind, _, name = target.partition("-")
    if kind == "wording":
        family = next(family for family in FAMILIES if family.name == name)
        found = [needle.encode() for needle in family.needles]
        return [*found, b"0000:5e:00.0", b"PCI:0000:5e:00", b"0x", b"\n", b"4294967296", b"-1"]
    if kind == "cache":
        return [SPLIT, b"\x7fELF", b"\x80\x04\x95", b"PK\x03\x04", b"child_paths", b"size", b"{}"]
    if target in ("archive", "report-zip"):
        return [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x07\x08", *_MAGICS]
    if target == "recording-rows":
        return [*_JSON, *(f"\n{table} [1, ".encode() for table in schema.TABLES)]
    if target in ("stored-event", "report-json", "messages"):
        return [*_JSON, *(one.encode() for one in codec.KINDS)]
    return _IN_LINES


_MAGICS: Final = [b"\x1f\x8b\x08", b"ustar", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"]
_JSON: Final = [
    *(b"null", b"1e999", b"NaN", b"-1", b"[]", b"{}", b"true", b'"float"', b'"at"'),
    *(b"99999999999999999999", b"\\ud800"),
]
_IN_LINES: Final = [
    *(b"Mar 14 06:00:00 ", b"2027-03-14T06:00:00Z", b"[ 8000.5] ", b"<3>", b"kernel: "),
    *(b"NVRM: Xid", b"\r\n", b"\x1b[", b"\x00", b"\xff\xfe", b"&lt;", b"<br>", b"pid="),
    *(b'{"MESSAGE":', b"@", b"://", b"%2F", b"token=", b"/home/", b"\x02\n", b"\x03\n"),
]


def _private() -> Iterator[bytes]:
    yield from (text.encode() for text in PRIVATE)


def _scanned() -> Iterator[bytes]:
    """Logs with a block size before them, and marks for quiet and for repeated lines."""
    for size, text in ((0, LOSS), (80, LOSS.replace("\n", "\x03\n")), (255, f"\x02\n{LOSS}\x02")):
        yield bytes((size,)) + text.encode()
    long = "x" * 580 + LOSS.replace("\n", " " * 300) + "x" * 2000 + f"\n\x02\n{LOSS}"
    yield b"\x4f" + long.encode() * 2
    yield b"\xff" + long.replace(" ", "\0").encode()
    for data in texts():
        yield b"\x40" + b"\x02\n" + data + b"\n\x02\n" + data


_OTHERS: Final = {
    "framings": texts,
    "scan": _scanned,
    "output": texts,
    "diagnose": texts,
    "archive": seed_files.archives,
    "recording": seed_files.recordings,
    "recording-rows": seed_files.rows,
    "stored-event": seed_files.stored,
    "report-json": lambda: iter((seed_files.report(),)),
    "report-zip": lambda: iter(
        (seed_files.zipped({"report.json": seed_files.report(), "kern.log": LOSS.encode()}),)
    ),
    "redactor": _private,
    "shown": lambda: iter((LOSS.encode(), EXPORT.encode(), "\n".join(PRIVATE).encode())),
    "frames": seed_messages.frames,
    "messages": seed_messages.messages,
}
