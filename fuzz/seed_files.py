"""Files that fuzzing starts from: archives, caches, recordings, reports; small, and made here."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from fuzz.cache_target import CACHE_NAMES, SPLIT
from fuzz.seed_lines import LOSS
from gpuprobe.api import diagnose_text
from gpuprobe.clock import Stamp
from gpuprobe.events import (
    CountersSampled,
    Event,
    GpuSampled,
    Origin,
    OutputWritten,
    PowerSampled,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.recording import codec
from gpuprobe.recording.writer import Recorder
from gpuprobe.testing.jitcache import elf

_AT: Final = datetime(2027, 3, 14, 6, tzinfo=UTC)
_DEVICE: Final = PciAddress.parse("0000:5e:00.0")

ZSTD: Final = b"\x28\xb5\x2f\xfd\x04\x00\x09\x00\x00\x61"
"""A frame of one raw block that holds `a`."""

_OPCODES: Final = (
    b"}\x94(\x8c\x01a\x94K\x01\x8c\x01b\x94G?\xf0\0\0\0\0\0\0X\x02\0\0\0hi\x94\x8a\x02\x00\x01C\x01x"
    b"cbuiltins\nlist\n\x94)\x81I5\nU\x01yM\x05\x00J\x01\0\0\0u\x8c\x06module\x8c\x01f\x93."
)
PICKLE: Final = b"\x80\x04\x95" + struct.pack("<Q", len(_OPCODES)) + _OPCODES
"""A pickle with opcodes of each shape of argument."""


# --- archives --------------------------------------------------------------------------------


def archives() -> Iterator[bytes]:
    """Packed logs and archives, whole, nested and with links."""
    text = LOSS.encode()
    packed = gzip.compress(text, mtime=0)
    yield packed
    yield packed + bytes(512) + packed
    yield bz2.compress(text)
    yield lzma.compress(text)
    yield ZSTD
    yield b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd" + ZSTD
    yield zipped({"kern.log": text, "a/b.gz": packed, "c/": b"", "d.xz": lzma.compress(text)})
    yield zipped({"kern.log": text, "stored": text}, zipfile.ZIP_STORED)
    yield zipped({"kern.log": text}, zipfile.ZIP_BZIP2)
    yield _streamed_zip(text)
    yield _zip64(text)
    archive = _tar(text)
    yield archive
    yield gzip.compress(archive, mtime=0)
    yield zipped({"a.tar.gz": gzip.compress(archive, mtime=0), "b.zip": zipped({"c": text})})


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive with these members."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data, method)
    return made.getvalue()


class _Pipe(io.BytesIO):
    """Cannot be sought, so that lengths stand behind a member and not before it."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise OSError("a pipe")

    def tell(self) -> int:
        raise OSError("a pipe")


def _streamed_zip(text: bytes) -> bytes:
    made = _Pipe()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name in ("kern.log", "b.log"):
            file.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _zip64(text: bytes) -> bytes:
    """A member whose lengths stand in the record for long ones, and one that is encrypted."""
    large = 0xFFFFFFFF
    extra = struct.pack("<2H2Q", 1, 16, len(text), len(text))
    head = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, large, large, 1, len(extra))
    hidden = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 1, 8, 0, 0, 0, 3, 9, 1, 0)
    return head + b"a" + extra + text + hidden + b"b" + b"xyz" + b"PK\1\2"


def _tar(text: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("../kern.log", "b" * 120):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
        for kind, name in ((tarfile.SYMTYPE, "link"), (tarfile.FIFOTYPE, "fifo"),
                           (tarfile.DIRTYPE, "folder")):  # fmt: skip
            other = tarfile.TarInfo(name)
            other.type, other.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            tar.addfile(other)
    return made.getvalue()


# --- caches ----------------------------------------------------------------------------------


def caches(kind: str) -> Iterator[bytes]:
    """The files of a cache: whole, empty, zeros, cut, and mixed up."""
    names = CACHE_NAMES[kind]
    whole = [_content(name) for name in names]
    yield SPLIT.join(whole)
    yield SPLIT.join(bytes(40) for _ in names)
    yield SPLIT.join(data[: len(data) // 2] for data in whole)
    yield SPLIT.join(data[:-1] + bytes(600) for data in whole)
    yield SPLIT.join([b"{}", PICKLE[:20], elf()[:80], b"PK\x03\x04"])
    for data in (PICKLE, PICKLE * 2, ZSTD, zlib.compress(b"a" * 40), zipped({"a": b"b"}),
                 elf(code=bytes(64)), elf(machine=62, code=b"\x90" * 16), b"[1, 2]",
                 _table(6, b"\x05" + bytes(15)), _table(11, bytes(4096)),
                 b"//\n.version 8.7\n{\n", b"def f(:\n  x = '''"):  # fmt: skip
        yield SPLIT.join(data for _ in names)


def _table(kind: int, rows: bytes) -> bytes:
    """An ELF file whose first section is a table that a loader walks."""
    made = bytearray(elf(machine=62, code=rows))
    (sections,) = struct.unpack_from("<Q", made, 40)
    struct.pack_into("<IQ", made, sections + 64 + 4, kind, 0)
    return bytes(made)


def _content(name: str) -> bytes:
    if "grp" in name:
        children = {"add.json": "/x/add.json", "gone.cubin": "/x/gone.cubin", "../x": ""}
        return json.dumps({"child_paths": children}).encode()
    if name.endswith((".cubin", "entry", "sass_1")):
        return elf(code=b"\x18\x79\x00\x00" * 4)
    if name.endswith(".so"):
        return elf(machine=62, code=b"\x90" * 16)
    if name.endswith(".ninja"):
        return b"ninja_required_version = 1.3\nrule cc\n  command = c++\nbuild op.so: link op.o\n"
    if name.endswith(("nbi", "nbc", "graph", "model", "artifact_0")):
        return PICKLE
    if name.endswith(".py"):
        return b"def f():\n    return (1, 'a')\n"
    if name.endswith("-cache"):
        return ZSTD
    if name.endswith("pt2"):
        return zipped({"a": b"b"})
    return b'{"a": 1, "files": {"params.json": {"size": 3}}}'


# --- recordings and reports -------------------------------------------------------------------


def events() -> list[Event]:
    """A loss, with what is sampled before it."""
    stamp = Stamp(_AT.isoformat(), 8000.5, _AT, True, 0.001)
    line = Origin("kmsg", 1, LOSS.splitlines()[1], None, (0, 1))
    asked = Origin("nvml", None, "", None, (0, 2))
    counters = (("pcie_replay", 3), ("remap_pending", 0))
    common: dict[str, Any] = {"origin": asked, "stamp": stamp, "device": _DEVICE}
    return [
        GpuSampled(**common, power_w=210.5, temp_c=61.0, link_gen=5, link_width=16, pstate=0),
        GpuSampled(**common, power_w=310.5, limit_w=700.0, sm_clock_mhz=1980.0),
        CountersSampled(**common, counters=counters),
        PowerSampled(**common, samples=((1_796_000_000.0, 210.5), (1_796_000_000.1, 211.5))),
        OutputWritten(origin=asked, stamp=stamp, stream="stderr", lines=((1, "CUDA error: x"),)),
        XidReported(origin=line, stamp=stamp, device=_DEVICE, code=79),
    ]


def recordings() -> Iterator[bytes]:
    """One that is still written, and the same at its end."""
    with tempfile.TemporaryDirectory(prefix="gpuprobe-seed-") as folder:
        path = Path(folder) / "a.gpuprobe"
        recorder = Recorder(path, about={"hostname": "n1", "engine.argv": '["vllm"]'})
        recorder.commit(events(), timeout_s=10)
        yield path.read_bytes() + SPLIT + path.with_name("a.gpuprobe-wal").read_bytes()
        recorder.end("stopped", diagnosis=diagnose_text(LOSS))
        yield path.read_bytes() + SPLIT


def rows() -> Iterator[bytes]:
    """Rows for the tables of a recording, as `targets.recording_rows` takes them."""
    at = 1_796_000_000_000_000_000
    stored = codec.encode(events()[-1])
    base = [stored.pop(name, None) for name in ("device", "origin")]
    more = json.dumps(stored)
    table: Sequence[tuple[str, list[Any]]] = (
        ("meta", ["hostname", "n1"]),
        ("meta", ["started", _AT.isoformat()]),
        ("meta", ["ended", "stopped"]),
        ("devices", [1, "0000:5e:00.0", "GPU-1", "A"]),
        ("samples", [1, at, 8000.5, 1, 210.5, 700.0, 61.0, None, 1980.0, None, 99.0, 0, 0, 5, 16,
                     1, 2, None, None]),
        ("samples", [2, at + 100_000_000, 8000.6, 1, "x", *[None] * 14]),
        ("power_samples", [1, at, 8000.5, 1, 1, {"b": "0000000000000000"}]),
        ("counters", [1, at, 8000.5, 1, "nvml", "pcie_replay", 3]),
        ("counters", [2, at + 1_000_000_000, 8001.5, 1, "nvml", "pcie_replay", 9]),
        ("read_until", [1, "nvml", at, 8000.5]),
        ("events", [1, at, 8000.5, "XidReported", base[0], "kmsg", 1, "NVRM: Xid", more, 0]),
        ("events", [2, at, 8000.5, "Unheard", None, "x", 1, "x", "{}", 0]),
        ("engine_log", [1, at, "engine", "stderr", 1, "CUDA error: x"]),
        ("gaps", [1, at, at + 5, "samples", 3, "the disk stalled"]),
        ("diagnoses", [1, at, json.dumps({"answer": "no-fault"})]),
    )  # fmt: skip
    yield "\n".join(f"{name} {json.dumps(row)}" for name, row in table).encode()


def stored() -> Iterator[bytes]:
    """An event of each class, with a value in every field."""
    for name, made in sorted(codec.KINDS.items()):
        hints = get_type_hints(made)
        values = {item.name: _any_of(hints[item.name]) for item in fields(made)}
        yield f"{name}\n{codec.dumps(codec.encode(made(**values)))}".encode()


def _any_of(hint: Any) -> Any:
    """A value that a field with this hint can have."""
    simple = {
        int: 3, float: 0.5, bool: True, str: "x", PciAddress: _DEVICE,
        Stamp: Stamp(_AT.isoformat(), 8000.5, _AT, True, 0.001),
        Origin: Origin("kmsg", 1, "x", None, (0, 1)),
    }  # fmt: skip
    if hint in simple:
        return simple[hint]
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Literal:
        return inner[0]
    if kind is tuple:
        return tuple(_any_of(one) for one in inner if one is not Ellipsis)
    if inner:
        return _any_of(inner[0])
    return next(iter(hint))


def report() -> bytes:
    """A report that can be judged again."""
    found = diagnose_text(LOSS)
    listed = [[type(event).__name__, codec.encode(event)] for event in events()]
    stamps = [codec.encode_stamp(event.stamp) for event in events()[:2] if event.stamp]
    saved = {"path": "kern.log", "format": "dmesg", "lines": 3, "notes": ["x"],
             "about": {"hostname": "n1"}, "program_text": False, "recording": "a", "continues": "b",
             "paired": [["n1", stamps]], "events": [*listed, ["Unheard", {}], 1]}  # fmt: skip
    document = {
        "schema": "gpuprobe.report/1",
        "diagnosis": {"answer": found.answer},
        "saved": {"inputs": [saved, 1]},
    }
    return json.dumps(document).encode()
