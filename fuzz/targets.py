"""What is fuzzed: name to a function that takes bytes.

A target raises nothing but what its part promises to raise, and checks what must hold for any
input. It needs no fuzzer: tests run each over its seeds and over what was found once.
"""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

from fuzz.cache_target import SPLIT, cache
from gpuprobe.api import diagnose
from gpuprobe.errors import GpuprobeError
from gpuprobe.events import Event, taken_apart
from gpuprobe.jitcache.kinds import KINDS
from gpuprobe.live.engine.relay_frames import (
    HEADER_BYTES,
    PACKET_BYTES,
    FrameReader,
    packet_pipe,
    receive,
)
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.messages import Translator
from gpuprobe.recording import codec, schema
from gpuprobe.recording.reader import Recording
from gpuprobe.reporters.json import JsonReporter
from gpuprobe.reporters.markdown import MarkdownReporter
from gpuprobe.reporters.plain import printable
from gpuprobe.reporters.redact import Redactor
from gpuprobe.reporters.terminal import TerminalReporter
from gpuprobe.sources import lines as lines_module
from gpuprobe.sources.files.inputs import open_inputs
from gpuprobe.sources.files.raw_input import RawInput
from gpuprobe.sources.files.unpack import Notes
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
from gpuprobe.sources.ingest import Ingest, Reading
from gpuprobe.sources.lines import strip_controls
from gpuprobe.sources.output import OutputReader
from gpuprobe.sources.record import Window
from gpuprobe.sources.scanning import needles, regions
from gpuprobe.sources.scanning import scan as scan_module
from gpuprobe.sources.wording import FAMILIES, Family

Target = Callable[[bytes], None]

FRAMINGS: Final[tuple[ModuleType, ...]] = (
    json_lines, macos, windows, nvidia_smi, containers, dmesg, syslog, engine, blocks, marks,
)  # fmt: skip

SECRET: Final = "sk-proj-Abcd1234Efgh5678Ijkl9012Mnop3456"  # noqa: S105 - made up

_QUIET: Final = b"usb 1-1: new device\n" * 110
_AGAIN: Final = 120


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


def scan(data: bytes) -> None:
    """What the first pass over a long log leaves out changes no event, wherever blocks are cut.

    The first byte is the size of a block; where it is odd, a line soon is too long to wait for.
    A byte 2 stands for many lines that say nothing, a byte 3 at the end of a line for the line
    many times.
    """
    size = data[0] + 1 if data else 1
    text = data[1:].replace(b"\x02", _QUIET, 4)
    text = re.sub(rb"(?m)^(.*)\x03$", lambda line: (line[1] + b"\n") * _AGAIN, text, count=4)
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    whole = [text]
    # As if it were too long to be read whole.
    with ExitStack() as patches:
        patches.enter_context(patch.object(scan_module, "SHORT_BYTES", -1))
        patches.enter_context(patch.object(needles, "SHORT_LOG", 3))
        if size % 2 == 0:
            patches.enter_context(patch.object(regions, "LONG_LINE", 1500))
            patches.enter_context(patch.multiple(lines_module, PIECE_LIMIT=1000, PIECE=600))
            # A hole of NULs that is cut in two is longer, and so is its line, near the limit.
            whole = blocks
        slow = _reading(scan_module.Scan(whole, prefilter=False))
        fast = _reading(scan_module.Scan(blocks))
    assert slow == fast


def _reading(found: scan_module.Scan) -> Reading:
    return Ingest("in", 0).read(found, Notes())


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
        _read(path)


def recording_rows(data: bytes) -> None:
    """A recording whose rows hold any values of any types is read, or refused.

    Each line is the name of a table and a row as JSON; `{"b": HEX}` are bytes.
    """
    with tempfile.TemporaryDirectory(prefix="gpuprobe-fuzz-") as folder:
        path = Path(folder) / "a.gpuprobe"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        schema.create(connection)
        for line in text_of(data).split("\n")[:60]:
            table, _, rest = line.partition(" ")
            with suppress(ValueError, RecursionError, OverflowError, sqlite3.Error):
                row = json.loads(rest)
                if table in schema.TABLES and isinstance(row, list):
                    marks = ", ".join("?" * len(row))
                    # The table's name is one of our own.
                    insert = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608
                    connection.execute(insert, [_cell(value) for value in row])
        connection.close()
        _read(path)


def _cell(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("b"), str):
        return bytes.fromhex(value["b"])
    return json.dumps(value) if isinstance(value, dict | list) else value


def _read(path: Path) -> None:
    """All that can be asked of a recording; nothing of it changes."""
    before = _contents(path.parent)
    try:
        diagnose(path)
        with Recording(path) as found:
            found.meta()
            found.samples()
            found.power_samples()
            found.counters()
            found.gaps()
            found.events()
            found.engine_log()
            found.diagnoses()
            assert isinstance(found.devices, tuple)
            assert isinstance(found.argv, list | None)
    except GpuprobeError:
        pass
    assert _contents(path.parent) == before


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
    found = Redactor().text(text)
    assert isinstance(found, str)
    shown = Redactor().text(f"{text}\nOPENAI_API_KEY={SECRET}")
    assert SECRET not in shown
    printable(shown)


def shown(data: bytes) -> None:
    """What is shown of any log is plain text, and the redacted forms show no key of it."""
    fault = f"NVRM: Xid (PCI:0000:5e:00): 79, pid=1, name=x --api-key {SECRET}, GPU has fallen"
    try:
        found = diagnose("-", stdin=io.BytesIO(data + b"\n[ 8001.5] " + fault.encode()))
    except GpuprobeError:
        return
    terminal, markdown, document = io.StringIO(), io.StringIO(), io.StringIO()
    TerminalReporter().render(found, terminal)
    MarkdownReporter().render(found, markdown)
    JsonReporter().render(Redactor().diagnosis(found), document)
    for out in (terminal, markdown, document):
        assert not _UNSEEN.search(out.getvalue())
        out.getvalue().encode()
    json.loads(document.getvalue())
    assert SECRET not in markdown.getvalue()
    assert SECRET not in document.getvalue()


_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and what turns the direction of text."""


# --- between our own processes -----------------------------------------------------------------


def frames(data: bytes) -> None:
    """Frames cut anywhere give the same and make up no byte; a packet gives a message at most."""
    at_once = FrameReader().feed(data)
    reader = FrameReader()
    bit_by_bit = [frame for byte in data for frame in reader.feed(bytes((byte,)))]
    assert at_once == bit_by_bit
    assert sum(HEADER_BYTES + len(frame.data) for frame in at_once) <= len(data)
    ours, theirs = packet_pipe()
    try:
        os.write(theirs, data[:PACKET_BYTES])
        assert isinstance(receive(ours), dict)
    finally:
        os.close(ours)
        os.close(theirs)


def messages(data: bytes) -> None:
    """What the NVML child says, damaged anywhere, gives events or nothing."""
    translator = Translator(order=0)
    for line in data.split(b"\n")[:50]:
        wire.decode_command(line)
        message = wire.decode(line)
        if message is not None:
            for event in taken_apart(translator.events(message)):
                same_after_storing(event)


TARGETS: Final[dict[str, Target]] = {
    **{f"framing-{m.__name__.rpartition('.')[2]}": partial(framing, m) for m in FRAMINGS},
    "framings": peeling,
    **{f"wording-{family.name}": partial(wording, family) for family in FAMILIES},
    "scan": scan,
    "output": output,
    "diagnose": whole,
    "shown": shown,
    "archive": archive,
    "recording": recording,
    "recording-rows": recording_rows,
    "stored-event": stored_event,
    "report-json": report,
    "report-zip": report_zip,
    "redactor": redactor,
    **{f"cache-{kind.cache}": partial(cache, kind.cache) for kind in KINDS},
    "frames": frames,
    "messages": messages,
}
"""Name to target."""
