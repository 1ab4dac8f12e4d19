"""What a file is, by its first bytes; names decide nothing but the wording."""

from __future__ import annotations

import re
from enum import Enum

from gpuprobe.sources.files.archives import ZIP_MAGIC, is_tar
from gpuprobe.sources.own_output import PAGE_MARK, is_verdict

HEAD = 4096
"""Bytes looked at."""

_UNPACK = "Unpack it and name the logs in it."


class Kind(Enum):
    """What to do with an input.

    Each value is: a name, why it is left out, what to try next, whether nobody would miss it.
    """

    TEXT = ("text", "", "", False)
    ARCHIVE = ("archive", "", "", False)
    JOURNAL = ("journal", "", "", False)
    RECORDING = (
        "recording",
        "a recording inside an archive or a pipe",
        "Unpack it, with its -wal where there is one, and name the file.",
        False,
    )
    REPORT = ("report", "", "", False)
    PAGE = (
        "page",
        "a report made for people",
        "Give the .json or the .zip of it: those can be judged again.",
        True,
    )
    VERDICT = (
        "verdict",
        "what gpuprobe said of other files",
        "Give the logs that it was made from.",
        True,
    )
    DATABASE = ("database", "not text: an SQLite database", "", True)
    IMAGE = ("image", "not text: an image", "Copy the text instead of a picture of it.", True)
    PROGRAM = ("program", "not text: a program or library", "", True)
    EVENT_LOG = (
        "event-log",
        "not text: a Windows event log",
        "Convert it: wevtutil qe FILE /lf:true /f:text > events.txt",
        False,
    )
    PACKED = ("packed", "packed in a way that is not read here", _UNPACK, False)
    DOCUMENT = ("document", "not text: a document", "Save it as plain text.", True)
    CAPTURE = ("capture", "not text: a network capture or media file", "", True)
    BINARY = ("binary", "not text", "", True)

    @property
    def is_own(self) -> bool:
        """Whether gpuprobe wrote it, and it holds nothing that could be judged again."""
        return self in (Kind.PAGE, Kind.VERDICT)

    def __init__(self, label: str, reason: str, hint: str, expected: bool) -> None:
        self.label = label
        self.reason = reason
        self.hint = hint
        self.expected = expected


_MAGICS: tuple[tuple[bytes, Kind], ...] = (
    (b"LPKSHHRH", Kind.JOURNAL),
    (b"\x7fELF", Kind.PROGRAM),
    (b"\xcf\xfa\xed\xfe", Kind.PROGRAM),
    (b"\xca\xfe\xba\xbe", Kind.PROGRAM),
    (b"\x00asm", Kind.PROGRAM),
    (b"\x89PNG\r\n", Kind.IMAGE),
    (b"\xff\xd8\xff", Kind.IMAGE),
    (b"GIF87a", Kind.IMAGE),
    (b"GIF89a", Kind.IMAGE),
    (b"RIFF", Kind.IMAGE),
    (b"%PDF-", Kind.DOCUMENT),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind.DOCUMENT),
    (b"ElfFile\x00", Kind.EVENT_LOG),
    (b"7z\xbc\xaf\x27\x1c", Kind.PACKED),
    (b"Rar!\x1a\x07", Kind.PACKED),
    (b"\x04\x22\x4d\x18", Kind.PACKED),
    (b"\x1f\x9d", Kind.PACKED),
    (b"LZIP", Kind.PACKED),
    (b"MSCF\x00", Kind.PACKED),
    (b"\xd4\xc3\xb2\xa1", Kind.CAPTURE),
    (b"\xa1\xb2\xc3\xd4", Kind.CAPTURE),
    (b"\x0a\x0d\x0d\x0a", Kind.CAPTURE),
    (b"OggS", Kind.CAPTURE),
    (b"\x1aE\xdf\xa3", Kind.CAPTURE),
)
_REPORT = re.compile(rb"\s{0,8}\{\s{0,8}\"schema\"\s{0,8}:\s{0,8}\"gpuprobe\.report/")

# Controls that texts have: back space, tab, line ends, form feed, escape.
_FINE = bytes({7, 8, 9, 10, 11, 12, 13, 27})
_CONTROLS = bytes(set(range(1, 32)) - set(_FINE))


def identify(head: bytes, name: str = "") -> Kind:
    """What an input that starts with these bytes is.

    Args:
        head: Its first `HEAD` bytes, decompressed; fewer only when it is shorter.
        name: Its file name, which tells a recording from another database.
    """
    if head.startswith(b"SQLite format 3\x00") or name.endswith(".gpuprobe"):
        ours = name.endswith(".gpuprobe") or head[68:72] == b"GPUB"
        return Kind.RECORDING if ours else Kind.DATABASE
    if head.startswith(ZIP_MAGIC) or is_tar(head):
        return Kind.ARCHIVE
    for magic, kind in _MAGICS:
        if head.startswith(magic):
            return kind
    if head[4:8] == b"ftyp":
        return Kind.CAPTURE
    if _REPORT.match(head):
        return Kind.REPORT
    if PAGE_MARK in head[:400]:
        return Kind.PAGE
    if is_verdict(head):
        return Kind.VERDICT
    return Kind.TEXT if _is_text(head) else Kind.BINARY


def _is_text(head: bytes) -> bool:
    """True for text in any encoding, with NULs in it or not."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    # A crash leaves blocks of NULs in logs, and UTF-16 is half NULs.
    sample = head.replace(b"\x00", b"")
    if not sample:
        return True
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if controls <= 0.02 * len(sample):
        return True
    broken = sample.decode("utf-8", errors="replace").count("\ufffd")
    return controls <= 0.15 * len(sample) and controls + broken <= 0.3 * len(sample)
