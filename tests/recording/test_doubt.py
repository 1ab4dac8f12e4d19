"""What of an input is missing takes the answer `no-fault` away."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuprobe
from gpuprobe.diagnosis import Diagnosis, Input, Kind, Verdict
from gpuprobe.recording.doubt import without_the_rest
from gpuprobe.reporters.json import JsonReporter

LINES = b"".join(
    b"[%5d.000001] usb 1-1: %s\n" % (at, random.Random(at).randbytes(40).hex().encode())
    for at in range(900)
)


def cut_gzip() -> bytes:
    packed = gzip.compress(LINES)
    return packed[: len(packed) // 2]


def cut_tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("kern.log.1", "kern.log"):
            info = tarfile.TarInfo(name)
            info.size = len(LINES)
            archive.addfile(info, io.BytesIO(LINES))
    return out.getvalue()[: len(LINES) * 3 // 2]


def damaged_zip() -> bytes:
    """One member's data is overwritten in the middle; the other members are whole."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("kern.log", LINES)
        archive.writestr("other.log", "all is well\n")
    data = bytearray(out.getvalue())
    data[20_000:20_400] = b"\xff" * 400
    return bytes(data)


def changed_zip() -> bytes:
    """A bit of one stored member is another: it reads on, and its check sum is wrong."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("kern.log", LINES)
    data = bytearray(out.getvalue())
    data[20_000] ^= 1
    return bytes(data)


@pytest.mark.parametrize("made", [cut_gzip, cut_tar, damaged_zip, changed_zip])
def test_what_is_missing_is_doubted(made: Callable[[], bytes], tmp_path: Path) -> None:
    """Compressed data or an archive of which a part cannot be read gives `cannot-tell`."""
    path = tmp_path / "logs"
    path.write_bytes(made())

    found = gpuprobe.diagnose(path)

    assert found.answer is Kind.CANNOT_TELL
    assert any(item.in_part for item in found.inputs)
    out = io.StringIO()
    JsonReporter().render(found, out)
    assert "what is there was read" in out.getvalue()
    assert "in_part" not in out.getvalue()


def test_what_expands_too_much_was_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bomb is left at its limit, and what came behind may have been a loss."""
    monkeypatch.setattr("gpuprobe.sources.files.unpack.RATIO_FREE", 1 << 16)
    path = tmp_path / "kern.log.gz"
    path.write_bytes(gzip.compress(bytes(1 << 24)))

    found = gpuprobe.diagnose(path)

    assert found.answer is Kind.CANNOT_TELL
    assert found.inputs[0].in_part
    assert "reading stopped" in found.inputs[0].notes[0]
    assert "by itself" in found.verdicts[0].not_checked[0].how


def test_it_is_no_matter_of_words() -> None:
    """What a note says decides nothing."""
    found = Diagnosis((Verdict(Kind.NO_FAULT, None, "Nothing failed."),), ())
    note = "a member of the zip archive is cut off; what is there was read"

    assert without_the_rest(found, [Input("a.zip", "text", None, 0, (note,))]) is found
    missing = Input("a.zip", "text", None, 0, ("half of it",), in_part=True)
    assert without_the_rest(found, [missing]).answer is Kind.CANNOT_TELL
