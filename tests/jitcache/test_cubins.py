"""Whether an ELF file is whole."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest
from in_memory import Bytes

from gpuprobe.jitcache import elf
from gpuprobe.testing import jitcache as caches


def why(data: bytes, machine: int = elf.CUDA) -> str | None:
    fault = elf.check(Bytes(data), machine)
    return fault.why if fault else None


def test_a_whole_cubin_has_no_fault() -> None:
    """Nothing is said of a healthy one, and its architecture is read."""
    assert why(caches.elf()) is None
    assert elf.architecture(Bytes(caches.elf(sm=89))) == 89


def test_every_cut_is_found() -> None:
    """A file of any shorter length is damaged."""
    data = caches.elf()

    whole = [length for length in range(len(data)) if why(data[:length]) is None]

    assert whole == []
    assert why(data[: len(data) // 2]) == f"cut at {len(data) // 2} of {len(data)} bytes"


def test_every_tail_of_zeros_is_found() -> None:
    """A file that ends in zeros from any block on is damaged."""
    data = caches.elf(code=b"\x18\x79\x00\x01" * 4000)

    ends = range(0, len(data) - 64, 512)
    whole = [end for end in ends if why(data[:end] + bytes(len(data) - end)) is None]

    assert whole == []


def test_a_hole_of_zeros_in_the_code_is_found() -> None:
    """A disk block of zeros amid code names its place."""
    data = bytearray(caches.elf(code=b"\x18\x79\x00\x01" * 8000))
    data[8192 : 8192 + 4096] = bytes(4096)

    assert why(bytes(data)) == f"its code holds zeros from byte 8192 of {len(data)}"


def test_zeros_shorter_than_a_block_are_left_alone() -> None:
    """Code may hold some zeros."""
    data = bytearray(caches.elf(code=b"\x18\x79\x00\x01" * 8000))
    data[9000:11000] = bytes(2000)

    assert why(bytes(data)) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (bytes(5000), "is filled with zeros"),
        (b"{}", "does not begin as an ELF file"),
        (caches.elf(machine=62), "is built for another machine (ELF 62, not 190)"),
    ],
)
def test_what_is_no_cubin_is_named(data: bytes, said: str) -> None:
    """Empty, zeros, another format and another machine are told apart."""
    assert why(data) == said


def test_a_large_file_is_not_read_whole() -> None:
    """A header that promises a table of any size costs a bounded read."""
    data = bytearray(caches.elf())
    data[60:62] = (65535).to_bytes(2, "little")

    assert "cut at" in (why(bytes(data)) or "")


@pytest.mark.skipif(sys.platform != "linux", reason="needs ELF libraries")
def test_real_libraries_are_whole_and_their_cuts_are_found() -> None:
    """Python's own extension modules have no fault, and a fault at a hundred shorter lengths."""
    folder = Path(sysconfig.get_path("stdlib")) / "lib-dynload"
    libraries = sorted(folder.glob("*.so"))[:40]
    if not libraries:
        pytest.skip("this Python has no extension modules of its own")

    assert [path.name for path in libraries if why(path.read_bytes(), 0)] == []
    data = libraries[0].read_bytes()
    lengths = range(0, len(data), len(data) // 100)
    assert [length for length in lengths if why(data[:length], 0) is None] == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs ELF libraries")
def test_a_lost_block_of_a_table_that_the_loader_walks_is_found() -> None:
    """Zeros in the dynamic table, the symbols, their names or the relocations end a program."""
    folder = Path(sysconfig.get_path("stdlib")) / "lib-dynload"
    large = [path for path in sorted(folder.glob("*.so")) if path.stat().st_size > 60_000]
    if not large:
        pytest.skip("this Python has no extension modules of its own")
    data = large[0].read_bytes()
    offset, width, number = (
        int.from_bytes(data[at : at + size], "little") for at, size in ((40, 8), (58, 2), (60, 2))
    )
    tables = []
    for index in range(number):
        row = data[offset + index * width :][:width]
        kind = int.from_bytes(row[4:8], "little")
        start, length = (int.from_bytes(row[at : at + 8], "little") for at in (24, 32))
        if kind in (2, 3, 4, 6, 11) and length >= 256:
            tables.append((kind, start, length))
    assert 6 in {kind for kind, _, _ in tables}

    for _, start, length in tables:
        end = min(start + length, (start // 4096 + 1) * 4096)
        if end - start < 256:
            continue
        broken = data[:start] + bytes(end - start) + data[end:]
        assert "holds zeros" in (why(broken, 0) or "")
