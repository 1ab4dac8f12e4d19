"""What fuzzing starts from: small inputs of our own, made here, and what was found once.

A finding lies in `fuzz/found/TARGET/`, so that it is tried again for ever.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fuzz.targets import CACHE_NAMES, SPLIT
from gpuprobe.api import diagnose_text
from gpuprobe.clock import Stamp
from gpuprobe.events import Event, GpuSampled, Origin, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.live.relay_frames import CLOSED, ENDED, OUTPUT, STARTED, header
from gpuprobe.recording import codec
from gpuprobe.recording.writer import Recorder
from gpuprobe.sources.wording import FAMILIES
from gpuprobe.testing.jitcache import elf

FOUND: Final = Path(__file__).parent / "found"

LOSS: Final = (
    "[ 8000.500000] NVRM: GPU at PCI:0000:5e:00: GPU-2f1e0d3c-5b4a-4968-8776-a5b4c3d2e1f0\n"
    "[ 8000.500001] NVRM: Xid (PCI:0000:5e:00): 79, pid=1, GPU has fallen off the bus.\n"
    "[ 8000.700000] NVRM: Xid (PCI:0000:5f:00): 154, GPU recovery action changed from 0x0 (None)\n"
)

LINES: Final[dict[str, tuple[str, ...]]] = {
    "json_lines": (
        '{"__REALTIME_TIMESTAMP":"1796000000000000","_HOSTNAME":"n1","SYSLOG_IDENTIFIER":"kernel",'
        '"_TRANSPORT":"kernel","MESSAGE":"NVRM: x"}',
        '{"MESSAGE":[78,86,82,77,58],"__CURSOR":"s=1"}',
        '{"log":"NVRM: x\\n","stream":"stdout","time":"2027-03-14T06:00:00.5Z"}',
        '{"ts":1796000000.5,"level":"error","msg":"CUDA error: x"}',
    ),
    "macos": ("2027-03-14 06:00:00.123456+0100 0x1a  Error  0x0  0  0  kernel: (x) y",),
    "windows": (
        "<Event><System><Provider Name='nvlddmkm'/><EventID>153</EventID></System></Event>",
        "3/14/2027 6:00:00 AM Error nvlddmkm 153",
    ),
    "nvidia_smi": (
        "|   0  NVIDIA H200   On | 00000000:5E:00.0 Off |",
        "2027/03/14 06:00:00.123, 0, 88.1 W, 52",
    ),
    "containers": (
        "2027-03-14T06:00:00.123456789Z stdout F CUDA error: x",
        "[pod/a/b] x",
        "engine-1  | CUDA error: x",
        "0|vllm  | x",
    ),
    "dmesg": (
        "[ 8000.500000] NVRM: x",
        "[Sun Mar 14 06:00:00 2027] NVRM: x",
        "2027-03-14T06:00:00,500000+00:00 NVRM: x",
        "4,1234,8000500000,-;NVRM: x",
        "kern  :err   : [ 8000.5] x",
        "<3>[ 8000.5] x",
    ),
    "syslog": (
        "<34>1 2027-03-14T06:00:00.5Z n1 kernel - - - NVRM: x",
        "1796000000.500000 n1 kernel: NVRM: x",
        "2027-03-14T06:00:00+0000 n1 kernel: NVRM: x",
        "Sun 2027-03-14 06:00:00 UTC n1 kernel: NVRM: x",
        "Mar 14 06:00:00 n1 kernel: [ 8000.5] NVRM: x",
        "-- Boot 0123456789abcdef0123456789abcdef --",
    ),
    "engine": (
        "(EngineCore_0 pid=1) ERROR 03-14 06:00:00 [core.py:1] CUDA error: x",
        "ERROR 03-14 06:00:00 [a.py:12] x",
        "E0314 06:00:00.123456 12 a.cc:3] x",
        "[rank0]: RuntimeError: x",
        "[2027-03-14 06:00:00 TP0] x",
        "time=2027-03-14T06:00:00Z level=error msg=x",
        "2027-03-14 06:00:00,123 - a - ERROR - x",
    ),
    "blocks": (
        "__REALTIME_TIMESTAMP=1796000000000000\n_HOSTNAME=n1\nMESSAGE=NVRM: x\n\n",
        "MESSAGE=x",
    ),
    "marks": ("> NVRM: x", "  12: NVRM: x", "- NVRM: x", "kern.log:12:NVRM: x", "`NVRM: x`"),
}


def seeds(target: str) -> Iterator[bytes]:
    """The inputs that this target starts from."""
    kind, _, name = target.partition("-")
    yield b""
    if kind == "framing":
        yield from (line.encode() for line in LINES[name])
    elif kind == "wording":
        family = next(family for family in FAMILIES if family.name == name)
        for pattern in family.patterns:
            yield from (text.encode() for text in (*pattern.examples[:2], *pattern.near[:1]))
    elif kind == "cache":
        yield _cache(name)
        yield SPLIT.join([b"{}", b"\x80\x04\x95", elf()[:80], b"PK\x03\x04"])
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
    *(b'{"MESSAGE":', b"@", b"://", b"%2F", b"token=", b"/home/"),
]


def _cache(kind: str) -> bytes:
    def content(name: str) -> bytes:
        if "grp" in name:
            return json.dumps({"child_paths": {"add.json": "/x/add.json"}}).encode()
        if name.endswith((".cubin", "entry", "sass_1")):
            return elf(code=b"\x18\x79\x00\x00" * 4)
        if name.endswith(".so"):
            return elf(machine=62, code=b"\x90" * 16)
        if name.endswith(".ninja"):
            return (
                b"ninja_required_version = 1.3\nrule cc\n  command = c++\nbuild op.so: link op.o\n"
            )
        if name.endswith(("nbi", "nbc", "graph", "model", "artifact_0")):
            return b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s."
        if name.endswith(".py"):
            return b"def f():\n    return (1, 'a')\n"
        if name.endswith("-cache"):
            return b"\x28\xb5\x2f\xfd\x04\x00\x09\x00\x00\x61"
        if name.endswith("pt2"):
            return _zip({"a": b"b"})
        return b'{"a": 1, "files": {"params.json": {"size": 3}}}'

    return SPLIT.join(content(name) for name in CACHE_NAMES[kind])


def _texts() -> Iterator[bytes]:
    yield LOSS.encode()
    yield LOSS.encode("utf-16")
    yield b"\r".join(LOSS.encode().split(b"\n"))
    for lines in LINES.values():
        yield "\n".join(lines).encode()
    yield b"torch.AcceleratorError: CUDA error: unspecified launch failure\n"


def _archives() -> Iterator[bytes]:
    text = LOSS.encode()
    yield gzip.compress(text, mtime=0)
    yield _zip({"kern.log": text, "a/b.gz": gzip.compress(text, mtime=0)})
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        member = tarfile.TarInfo("../kern.log")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    yield made.getvalue()
    yield gzip.compress(made.getvalue(), mtime=0)
    yield b"\x28\xb5\x2f\xfd\x04\x00\x09\x00\x00\x61"


def _zip(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return made.getvalue()


def _events() -> list[Event]:
    from datetime import UTC, datetime

    at = datetime(2027, 3, 14, 6, tzinfo=UTC)
    stamp = Stamp(at.isoformat(), 8000.5, at, True, 0.001)
    device = PciAddress.parse("0000:5e:00.0")
    line = Origin("kmsg", 1, LOSS.splitlines()[1], None, (0, 1))
    return [
        XidReported(origin=line, stamp=stamp, device=device, code=79),
        GpuSampled(origin=Origin("nvml", None, "", None, (0, 2)), stamp=stamp, device=device,
                   power_w=210.5, temp_c=61.0),
    ]  # fmt: skip


def _recordings() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory(prefix="gpuprobe-seed-") as folder:
        path = Path(folder) / "a.gpuprobe"
        recorder = Recorder(path, about={"hostname": "n1", "engine.argv": '["vllm"]'})
        recorder.commit(_events(), timeout_s=10)
        yield path.read_bytes() + SPLIT + path.with_name("a.gpuprobe-wal").read_bytes()
        recorder.end("stopped")
        yield path.read_bytes() + SPLIT


def _stored() -> Iterator[bytes]:
    for event in _events():
        yield f"{type(event).__name__}\n{codec.dumps(codec.encode(event))}".encode()


def _report() -> bytes:
    found = diagnose_text(LOSS)
    events = [[type(event).__name__, codec.encode(event)] for event in _events()]
    saved = {"path": "kern.log", "format": "dmesg", "lines": 3, "notes": [], "about": {},
             "program_text": False, "recording": "", "continues": "", "paired": [],
             "events": events}  # fmt: skip
    document = {
        "schema": "gpuprobe.report/1",
        "diagnosis": {"answer": found.answer},
        "saved": {"inputs": [saved]},
    }
    return json.dumps(document).encode()


def _private() -> Iterator[bytes]:
    yield b"alice@box:/home/alice HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 10.1.2.3 ::1"
    yield b"Mar 14 06:00:00 box7 sshd[1]: from 192.168.1.7 mac 00:11:22:33:44:55 %2Fhome%2Fbob"
    yield b"Authorization: Bearer abcdefghijklmnop --api-key=x https://u:p@h.example.com/a?token=b"


def _frames() -> Iterator[bytes]:
    began = json.dumps({"pid": 1, "streams": ["stdout"]}).encode()
    yield (
        header(STARTED, 0, len(began), 0, 1)
        + began
        + header(OUTPUT, 1, 3, 7, 2)
        + b"abc"
        + header(CLOSED, 1, 0, 0, 3)
        + header(ENDED, 0, 2, 0, 4)
        + b"{}"
    )


def _messages() -> Iterator[bytes]:
    times = {"m": 5_000_000_000, "w": 1_796_000_000_000_000_000}
    came = {"slot": 0, "pci": "0000:04:00.0", "uuid": "GPU-1", "name": "A", "index": 0}
    yield b"\n".join(
        json.dumps({**found, **times}).encode()
        for found in (
            {"t": "hello", "pid": 1, "driver": "580.1", "nvml": "13", "cuda": 13000, "count": 1},
            {"t": "came", "mig": False, **came},
            {"t": "samples", "slot": 0, "rows": [[1, 2.0, {"u": "failed", "c": 999}]]},
            {"t": "sample", "slot": 0, "group": "slow", "values": {"limit_w": 350.0}},
            {"t": "power", "slot": 0, "samples": [[1_796_000_000_000_000, 200.5]]},
            {"t": "processes", "slot": 0, "pids": [1, 2]},
            {"t": "event", "slot": 0, "type": 8, "data": 31},
            {"t": "lost", "slot": 0, "pci": "0000:04:00.0", "index": 0, "call": "x", "code": 15},
            {"t": "bye", "why": "done"},
        )
    )


_OTHERS = {
    "framings": _texts,
    "output": _texts,
    "diagnose": _texts,
    "archive": _archives,
    "recording": _recordings,
    "stored-event": _stored,
    "report-json": lambda: iter((_report(),)),
    "report-zip": lambda: iter((_zip({"report.json": _report(), "kern.log": LOSS.encode()}),)),
    "redactor": _private,
    "frames": _frames,
    "messages": _messages,
}
