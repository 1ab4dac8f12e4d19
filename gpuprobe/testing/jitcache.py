"""JIT caches for tests: small, whole, and in the layout of the real ones.

Nothing in them can be run; they hold what a look at structure needs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
import time
from pathlib import Path

CUDA = 190
X86_64 = 62

_OLD_S = 3600.0
"""Entries are made an hour old, since a scan waits for young ones."""


def elf(*, machine: int = CUDA, code: bytes = b"\x18\x79\x00\x00" * 256, sm: int = 90) -> bytes:
    """An ELF file: header, code, names, section table and, at its very end, program table.

    Args:
        machine: e_machine.
        code: What `.text` holds.
        sm: Compute capability, for a cubin.
    """
    names = b"\0.shstrtab\0.text.add\0"
    code_at = 64
    names_at = code_at + len(code)
    sections_at = (names_at + len(names) + 7) // 8 * 8
    segments_at = sections_at + 3 * 64
    ident = b"\x7fELF\x02\x01\x01" + bytes([51 if machine == CUDA else 0]) + bytes(8)
    kind = 2 if machine == CUDA else 3
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        *(ident, kind, machine, 1, 0, segments_at, sections_at, sm, 64, 56, 1, 64, 3, 2),
    )
    sections = (
        bytes(64)
        + struct.pack("<IIQQQQIIQQ", 11, 1, 6, 0, code_at, len(code), 0, 0, 128, 0)
        + struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, code_at, 0, 0, len(code), len(code), 8)
    body = header + code + names
    return body.ljust(sections_at, b"\0") + sections + segment


def key(text: str) -> str:
    """A key as Triton makes them: 52 letters."""
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def triton_entry(cache: Path, kernel: str = "add", *, seed: str = "", was: str = "/old") -> Path:
    """Make the entry of one kernel.

    Args:
        cache: The cache's folder.
        kernel: The kernel's name.
        seed: What tells this entry from others of the kernel.
        was: Folder that the group file names: caches are moved, and the paths stay.

    Returns:
        The entry's folder.
    """
    name = key(f"{kernel}{seed}")
    files = {
        f"{kernel}.ttir": b"module {\n}\n",
        f"{kernel}.ttgir": b"module attributes {} {\n}\n",
        f"{kernel}.llir": b"define void @add() {\n}\n",
        f"{kernel}.ptx": b"//\n.version 8.7\n.target sm_90a\n.address_size 64\n{\n}\n",
        f"{kernel}.cubin": elf(),
        f"{kernel}.json": json.dumps({"name": kernel, "num_warps": 4, "shared": 0}).encode(),
    }
    paths = {child: f"{was}/{name}/{child}" for child in files}
    files[f"__grp__{kernel}.json"] = json.dumps({"child_paths": paths}).encode()
    return put(cache / name, files)


def triton_launcher(cache: Path) -> Path:
    """Make the entry of the launcher; returns its folder."""
    name = "__triton_launcher.cpython-312-x86_64-linux-gnu.so"
    return put(cache / key("launcher"), {name: elf(machine=X86_64)})


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files into a folder and make them an hour old; returns the folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        age(path)
    age(folder)
    return folder


def age(path: Path, seconds: float = _OLD_S) -> None:
    """Set the times of a file or folder back."""
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def damage(path: Path, how: str) -> Path:
    """Damage a file as a power cut does, keeping its times; returns it.

    Args:
        path: The file.
        how: `empty`, `half`, `zeros` (its length, all zero), `tail` (its last 512 bytes zero), or
            `missing`.
    """
    before, folder = path.stat(), path.parent.stat()
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
        os.utime(path.parent, (folder.st_atime, folder.st_mtime))
        return path
    path.write_bytes(
        {
            "empty": b"",
            "half": data[: len(data) // 2],
            "zeros": bytes(len(data)),
            "tail": data[:-512] + bytes(min(512, len(data))),
        }[how]
    )
    os.utime(path, (before.st_atime, before.st_mtime))
    return path
