"""What is fuzzed: name to a function that takes bytes.

A target raises nothing but what its part promises to raise, and checks what must hold for any
input. It needs no fuzzer: tests run each over its seeds and over what was found once.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

from gpuprobe.api import diagnose
from gpuprobe.errors import GpuprobeError
from gpuprobe.events import Event
from gpuprobe.jitcache.kinds import KINDS
from gpuprobe.jitcache.look import look
from gpuprobe.jitcache.tree import Root
from gpuprobe.live import wire
from gpuprobe.live.nvml_messages import Translator
from gpuprobe.live.relay_frames import HEADER_BYTES, FrameReader
from gpuprobe.recording import codec
from gpuprobe.recording.reader import Recording
from gpuprobe.reporters.plain import printable
from gpuprobe.reporters.redact import Redactor
from gpuprobe.sources.framing import (
    FORMATS,
    blocks,
    containers,
    dmesg,
    engine,
    json_lines,
    macos,
    marks,
    nvidia_smi,
    peel,
    peel_lines,
    sniff,
    syslog,
    windows,
)
from gpuprobe.sources.inputs import open_inputs
from gpuprobe.sources.lines import strip_controls
from gpuprobe.sources.output import OutputReader
from gpuprobe.sources.raw_input import RawInput
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import FAMILIES, Family

Target = Callable[[bytes], None]

SPLIT: Final = b"\n--8<--\n"
"""Stands between the parts of an input that several files are made of."""

FRAMINGS: Final[tuple[ModuleType, ...]] = (
    json_lines, macos, windows, nvidia_smi, containers, dmesg, syslog, engine, blocks, marks,
)  # fmt: skip

CACHE_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "triton": ("{KEY}/__grp__add.json", "{KEY}/add.json", "{KEY}/add.cubin", "{KEY}/add.so"),
    "deepgemm": ("cache/kernel.add.{hash}/kernel.cubin", "cache/kernel.add.{hash}/kernel.cu"),
    "tilelang": ("{hash}/manifest.json", "{hash}/params.json", "{hash}/kernel_lib.so"),
    "flashinfer": ("flashinfer/op/build.ninja", "flashinfer/op/op.so", "flashinfer/a.cubin"),
    "torch-extensions": ("torch_extensions/x/build.ninja", "torch_extensions/x/x.so"),
    "vllm": (
        "torch_compile_cache/ab/rank_0_0/vllm_compile_cache.py",
        "torch_compile_cache/ab/rank_0_0/computation_graph.py",
        "torch_compile_cache/ab/rank_0_0/artifact_0",
        "torch_aot_compile/ab/rank_0_0/model",
    ),
    "inductor": (
        "fxgraph/ab/fab/graph",
        "ab/c{key}.py",
        "ab/c{key}.json",
        "ab/c{key}.pt2",
        "ab/c{key}.so",
    ),
    "jax": ("jit_add-{hash}-cache",),
    "numba": ("__pycache__/m.f-1.py312.nbi", "__pycache__/m.f-1.py312.1.nbc"),
    "torch-kernels": ("add_arch9.0_nvrtc12.8_ptx_1", "add_arch9.0_nvrtc12.8_sass_1"),
    "cuda": ("ComputeCache/index", "ComputeCache/a/b/entry"),
    "sglang": ("nv/ComputeCache/index", "a.so"),
}
"""A kind of cache to files that it may hold, below its folder."""

_KEY: Final = "a" * 51
_HASH: Final = "ab" * 32


def text_of(data: bytes) -> str:
    """Bytes as a log's text."""
    return data.decode("utf-8", "surrogateescape")


# --- logs ------------------------------------------------------------------------------------


def framing(module: ModuleType, data: bytes) -> None:
    """Each prefix is taken off or left; what is left is text that stood in the line."""
    for line in text_of(data).split("\n")[:40]:
        clean = strip_controls(line)
        for one in module.FRAMINGS:
            peeled = one.peel(clean)
            if peeled is not None:
                assert not peeled.format or peeled.format in FORMATS
                assert isinstance(peeled.rest, str)


def peeling(data: bytes) -> None:
    """All framings together: no line is lost, no control character stays."""
    lines = list(enumerate(text_of(data).split("\n")[:40], 1))
    name = sniff([line for _, line in lines])
    assert name in FORMATS
    for number, line in lines:
        found = peel(number, line)
        assert found
        assert not any(letter in record.message for record in found for letter in "\x00\x1b\x07")
    for form in {name, "journal-export", "journal-json", "journal-binary"}:
        list(peel_lines(lines, form))


def wording(family: Family, data: bytes) -> None:
    """A family reads any text; its events can be stored and come back equal."""
    lines = text_of(data).split("\n")[:40]
    records = [record for number, line in enumerate(lines, 1) for record in peel(number, line)]
    messages = [record.message for record in records]
    for index, message in enumerate(messages):
        for text in (message, "\n".join(messages[index : index + 12])):
            for _, match, event in family.read(Window(records, index, text, "in")):
                assert match is not None
                same_after_storing(event)


def same_after_storing(event: Event) -> None:
    """An event is the same after it was in a recording."""
    stored = codec.dumps(codec.encode(event))
    again = codec.decode(type(event).__name__, json.loads(stored))
    assert codec.dumps(codec.encode(again)) == stored


def output(data: bytes) -> None:
    """A program's output, cut anywhere."""
    reader = OutputReader("engine", 0, "stdout")
    cut = data[0] + 1 if data else 1
    events = []
    for at, start in enumerate(range(0, len(data), cut)):
        events += reader.feed(data[start : start + cut], at * 0.01)
    events += reader.read(len(data) * 0.01 + 5, end=True)
    for event in events:
        same_after_storing(event)


def whole(data: bytes) -> None:
    """`diagnose` of any bytes ends with a verdict or an error of its own."""
    try:
        found = diagnose("-", stdin=io.BytesIO(data))
    except GpuprobeError:
        return
    assert found.verdicts
    assert found.exit_code in (0, 1, 3, 79)


def archive(data: bytes) -> None:
    """An archive, packed log or folder of members is read to its end, within its limits."""
    for found in open_inputs(["-"], stdin=io.BytesIO(data)):
        if isinstance(found, RawInput):
            given = sum(len(block) for block in found.blocks())
            assert given <= max(64 << 20, 2000 * len(data))


# --- what gpuprobe wrote, or a stranger ---------------------------------------------------------


def recording(data: bytes) -> None:
    """A recording and its `-wal` of any bytes are read, or refused."""
    main, _, wal = data.partition(SPLIT)
    with tempfile.TemporaryDirectory(prefix="gpuprobe-fuzz-") as folder:
        path = Path(folder) / "a.gpuprobe"
        path.write_bytes(main)
        path.with_name("a.gpuprobe-wal").write_bytes(wal)
        before = _contents(Path(folder))
        try:
            diagnose(path)
            with Recording(path) as found:
                found.meta()
                found.samples()
                found.events()
                found.engine_log()
                found.diagnoses()
        except GpuprobeError:
            pass
        assert _contents(Path(folder)) == before


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stored_event(data: bytes) -> None:
    """An event of any JSON is decoded, or refused with an error of its own."""
    kind, _, rest = text_of(data).partition("\n")
    try:
        found = json.loads(rest)
    except (ValueError, RecursionError):
        return
    if not isinstance(found, dict):
        return
    try:
        event = codec.decode(kind, found)
    except codec.CodecError:
        return
    same_after_storing(event)


def report(data: bytes) -> None:
    """A report of any JSON is judged again, or refused."""
    with tempfile.TemporaryDirectory(prefix="gpuprobe-fuzz-") as folder:
        path = Path(folder) / "report.json"
        path.write_bytes(data)
        with suppress(GpuprobeError):
            assert diagnose(path).verdicts


def report_zip(data: bytes) -> None:
    """The same, in a zip."""
    with tempfile.TemporaryDirectory(prefix="gpuprobe-fuzz-") as folder:
        path = Path(folder) / "report.zip"
        path.write_bytes(data)
        with suppress(GpuprobeError):
            assert diagnose(path).verdicts


def redactor(data: bytes) -> None:
    """Any text is redacted; a key in it does not stay; twice is no worse than once."""
    text = text_of(data)
    secret = "sk-proj-Abcd1234Efgh5678Ijkl9012Mnop3456"  # noqa: S105 - made up
    found = Redactor().text(text)
    assert isinstance(found, str)
    shown = Redactor().text(f"{text}\nOPENAI_API_KEY={secret}")
    assert secret not in shown
    printable(shown)


# --- caches ------------------------------------------------------------------------------------


def cache(kind: str, data: bytes) -> None:
    """A cache whose files hold any bytes is looked at; nothing of it changes."""
    parts = data.split(SPLIT)
    names = CACHE_NAMES[kind]
    with tempfile.TemporaryDirectory(prefix="gpuprobe-fuzz-") as folder:
        top = Path(folder) / "cache"
        for number, name in enumerate(names):
            path = top / name.format(key=_KEY, KEY=_KEY.upper() + "A", hash=_HASH)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(parts[number] if number < len(parts) else b"")
        root = Root(top, cache=kind)
        try:
            for parts_of in _folders(top, ()):
                with root.folder(parts_of) as one:
                    seen = look(one)
                    for found in (*seen.findings, *seen.suspicious):
                        assert found.why
        finally:
            root.close()


def _folders(top: Path, parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield parts
    for path in top.joinpath(*parts).iterdir():
        if path.is_dir():
            yield from _folders(top, (*parts, path.name))


# --- between our own processes -----------------------------------------------------------------


def frames(data: bytes) -> None:
    """Frames cut anywhere give the same, and no byte is made up."""
    at_once = FrameReader().feed(data)
    reader = FrameReader()
    bit_by_bit = [frame for byte in data for frame in reader.feed(bytes((byte,)))]
    assert at_once == bit_by_bit
    assert sum(HEADER_BYTES + len(frame.data) for frame in at_once) <= len(data)


def messages(data: bytes) -> None:
    """What the NVML child says, damaged anywhere, gives events or nothing."""
    translator = Translator(order=0)
    for line in data.split(b"\n")[:50]:
        wire.decode_command(line)
        message = wire.decode(line)
        if message is not None:
            for event in translator.events(message):
                same_after_storing(event)


TARGETS: Final[dict[str, Target]] = {
    **{f"framing-{m.__name__.rpartition('.')[2]}": partial(framing, m) for m in FRAMINGS},
    "framings": peeling,
    **{f"wording-{family.name}": partial(wording, family) for family in FAMILIES},
    "output": output,
    "diagnose": whole,
    "archive": archive,
    "recording": recording,
    "stored-event": stored_event,
    "report-json": report,
    "report-zip": report_zip,
    "redactor": redactor,
    **{f"cache-{kind.cache}": partial(cache, kind.cache) for kind in KINDS},
    "frames": frames,
    "messages": messages,
}
"""Name to target."""
