"""Whether pickles, archives, streams, JSON and text are whole."""

from __future__ import annotations

import io
import json
import pickle  # noqa: TID251 - made here, never loaded
import zipfile
import zlib
from pathlib import Path

import pytest
from in_memory import Bytes

from gpuprobe.jitcache import content, pickles, streams, zips

VALUE = {
    "name": "graph",
    "code": "x" * 3000,
    "blob": bytes(range(256)) * 300,
    "rows": [(i, float(i), None, True, {i}) for i in range(300)],
    "where": Path("/tmp/x"),
    "big": 1 << 3000,
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_cut_of_a_pickle_is_found(protocol: int) -> None:
    """A whole pickle has no fault, and each shorter one has."""
    data = pickle.dumps(VALUE, protocol)

    assert pickles.check(Bytes(data)) is None
    lengths = [*range(0, len(data), 389), len(data) - 1]
    assert [n for n in lengths if pickles.check(Bytes(data[:n])) is None] == []


def test_zeros_at_the_end_of_a_pickle_are_found() -> None:
    """A pickle of the right length whose end is zeros is damaged."""
    data = pickle.dumps(VALUE)

    for cut in range(512, len(data) - 512, 4096):
        assert pickles.check(Bytes(data[:cut] + bytes(len(data) - cut))) is not None


class Runs:
    """Unpickling it would make a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (str(self.mark), "w"))


def test_nothing_in_a_pickle_is_run(tmp_path: Path) -> None:
    """One that would make a file when it is unpickled makes none, whole or cut."""
    data = pickle.dumps(Runs(tmp_path / "mark"))

    assert pickles.check(Bytes(data)) is None
    assert pickles.check(Bytes(data[:-3])) is not None
    assert not (tmp_path / "mark").exists()


def test_an_index_of_two_pickles_is_whole() -> None:
    """Numba dumps a version and then the index; elsewhere a second one is a fault."""
    data = pickle.dumps("0.61") + pickle.dumps({"a": 1})

    assert pickles.check(Bytes(data), several=True) is None
    assert "behind its end" in (pickles.check(Bytes(data)) or "")
    assert pickles.check(Bytes(data[:-1]), several=True) is not None


def test_a_pickle_with_millions_of_opcodes_ends_soon() -> None:
    """Past a bound its frames and its end are looked at alone, and both cut and whole are told."""
    data = pickle.dumps(list(range(300_000)), 4)

    assert pickles.check(Bytes(data)) is None
    assert pickles.check(Bytes(data[:-5])) is not None


def test_a_pickle_that_promises_too_much_costs_nothing() -> None:
    """An argument of 2**60 bytes is a cut, not a read."""
    data = b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b"abc."

    assert "cut at 15" in (pickles.check(Bytes(data)) or "")


def test_every_cut_of_an_archive_is_found() -> None:
    """A zip archive has its directory at the end, and its members where that says."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("model.json", "{}" * 400)
        archive.writestr("kernel.cubin", bytes(range(256)) * 20)
    data = out.getvalue()

    assert zips.check(Bytes(data)) is None
    assert [n for n in range(0, len(data), 61) if zips.check(Bytes(data[:n])) is None] == []
    hole = bytes(512) + data[512:]
    assert zips.check(Bytes(hole)) == "the member at byte 0 is damaged"


def zstd(parts: list[bytes]) -> bytes:
    """A zstd frame of raw blocks."""
    out = b"\x28\xb5\x2f\xfd\x00\x58"
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        out += (len(part) << 3 | last).to_bytes(3, "little") + part
    return out


@pytest.mark.parametrize(
    "data",
    [zstd([b"a" * 500, b"b" * 900, b"c"]), zlib.compress(bytes(range(256)) * 90)],
    ids=["zstd", "zlib"],
)
def test_every_cut_of_a_stream_is_found(data: bytes) -> None:
    """A compressed entry of any shorter length is damaged."""
    assert streams.check(Bytes(data)) is None
    assert [n for n in range(len(data)) if streams.check(Bytes(data[:n])) is None] == []


def test_a_real_zstd_frame_is_whole() -> None:
    """What a real compressor writes has no fault."""
    zstandard = pytest.importorskip("backports.zstd")
    data = zstandard.compress(bytes(range(256)) * 5000 + b"end")

    assert streams.check(Bytes(data)) is None
    assert streams.check(Bytes(data[:-1])) is not None


def test_a_stream_that_grows_without_end_is_bounded() -> None:
    """A bomb is unpacked up to a bound and thrown away."""
    assert streams.check(Bytes(zlib.compress(bytes(60 << 20), 1))) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (bytes(700), "is filled with zeros"),
        (b'{"child_paths": {"a', "is cut short after 19 bytes"),
        (b'{"a": 1' + bytes(20), "holds zeros from byte 7"),
        (b"[1]", "holds no JSON object"),
        (b'{"a": }', "is not JSON"),
        (b"[" * 100_000, "is cut short after 100000 bytes"),
        (b'{"a":' * 50_000 + b"}" * 9, "is not JSON"),
    ],
)
def test_what_is_wrong_with_json_is_named(data: bytes, said: str) -> None:
    """Empty, zeros, cut, not an object and nested beyond measure are told apart."""
    assert content.json_object(Bytes(data)) == (None, said)


def test_whole_json_is_given() -> None:
    """The object itself comes back."""
    assert content.json_object(Bytes(json.dumps({"a": [1]}).encode())) == ({"a": [1]}, "")


@pytest.mark.parametrize(
    ("source", "cut"),
    [
        ('def call(args):\n    """Text (with a bracket."""\n    return [1, "("]\n', False),
        ("x = '''\nkernel(\n'''\n# a comment with (\n", False),
        ("def call(args):\n    return [1, (2,", True),
        ("async_compile.triton('k', '''\nimport triton\n", True),
        ("", False),
    ],
)
def test_python_that_ends_amid_a_bracket_or_string_is_cut(source: str, cut: bool) -> None:
    """Brackets in strings and comments do not count."""
    assert content.python_cut(Bytes(source.encode())) is cut
