"""The report as a ZIP: every form of it, and a manifest by which a change is seen.

The order of members and their dates are fixed, so equal contents make equal bytes. `report.json`
is the first: by it gpuprobe knows the ZIP for a report when it is given as an input.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from gpuprobe import __version__
from gpuprobe.errors import InputUnreadableError

SCHEMA_ID: Final = "gpuprobe.bundle/1"
MANIFEST: Final = "manifest.json"

MOST_MEMBERS: Final = 1000
LARGEST_MANIFEST: Final = 1 << 20
LARGEST: Final = 1 << 30
"""Bytes of all members together that are looked at, at most."""

_BLOCK: Final = 1 << 20
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_HINT: Final = "Give a report.zip as `gpuprobe report` writes it."

_END_MARK: Final = b"PK\x05\x06"
_END_LENGTH: Final = 22
"""The end record of a ZIP without a comment, with which the file ends."""

_SHOWN: Final = 40
"""Characters of a time or a version; what is longer is none."""


def pack(members: Iterable[tuple[str, bytes]], out: BinaryIO, made: str = "") -> None:
    """Write the members in their order, then the manifest.

    Args:
        members: Name, with `/` between its parts, and bytes; `report.json` the first.
        out: Where to, seekable.
        made: When the report was made.
    """
    listed = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            _put(archive, name, data)
            listed.append(
                {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            )
        manifest = {
            "schema": SCHEMA_ID,
            "tool": {"name": "gpuprobe", "version": __version__},
            "made": made,
            "members": listed,
        }
        _put(archive, MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    # The same on every system, so that the bytes are.
    info.create_system = 3
    archive.writestr(info, data)


@dataclass(frozen=True, slots=True)
class Verification:
    """What the manifest of a report says of its members.

    Attributes:
        checked: How many are as listed. differing: What is not, in sentences.
        made: When the report was made, as it says. version: Which gpuprobe made it.
    """

    checked: int
    differing: tuple[str, ...]
    made: str
    version: str


def verify(path: Path) -> Verification:
    """Compare the members of a report's ZIP with its manifest.

    Raises:
        InputUnreadableError: It cannot be read, is no ZIP, or has no manifest.
    """
    try:
        # A pipe would be waited for, and a folder is not damaged.
        if path.exists() and not path.is_file():
            raise InputUnreadableError(f"{path} is no file", hint=_HINT)
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            return _verify(archive, path, _surplus(archive, file))
    except FileNotFoundError as error:
        raise InputUnreadableError(
            f"{path}: there is no such file", hint="Check the path's spelling."
        ) from error
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputUnreadableError(
            f"{path} is no whole ZIP ({str(error)[:100]})", hint="Copy or download it again."
        ) from error


def _surplus(archive: zipfile.ZipFile, file: BinaryIO) -> list[str]:
    """What stands in the file and belongs to no member: `pack` leaves nothing there."""
    found = []
    if min((info.header_offset for info in archive.infolist()), default=0) > 0:
        found.append("something stands before the first member")
    file.seek(-_END_LENGTH, os.SEEK_END)
    if file.read(len(_END_MARK)) != _END_MARK:
        found.append("something stands behind the list of members")
    return found


def _verify(archive: zipfile.ZipFile, path: Path, differing: list[str]) -> Verification:
    infos = archive.infolist()
    if len(infos) > MOST_MEMBERS:
        raise InputUnreadableError(
            f"{path} has {len(infos):,} members, and a report's ZIP at most {MOST_MEMBERS:,}",
            hint="It is no report as gpuprobe makes them.",
        )
    manifest = _manifest(archive, path)
    listed = {entry["name"]: entry for entry in manifest["members"]}
    seen: set[str] = set()
    checked = 0
    left = LARGEST
    for info in infos:
        name = info.filename
        if name in seen:
            differing.append(f"{name} is there twice")
            continue
        seen.add(name)
        if _leads_out(name):
            differing.append(f"{name} is no name in a folder: do not unpack it")
            continue
        # What a folder holds beside its name is shown by no program.
        if name == MANIFEST or (info.is_dir() and not info.file_size):
            continue
        if name not in listed:
            differing.append(f"{name} is not in the manifest")
            continue
        problem, left = _difference(archive, info, listed[name], left)
        if problem:
            differing.append(f"{name} {problem}")
        else:
            checked += 1
    differing += [f"{name} is missing" for name in listed if name not in seen]
    tool = manifest.get("tool")
    version = tool.get("version", "") if isinstance(tool, dict) else ""
    made = str(manifest.get("made", ""))
    return Verification(checked, tuple(differing), made[:_SHOWN], str(version)[:_SHOWN])


def _leads_out(name: str) -> bool:
    """Whether a member would be put outside the folder that the ZIP is unpacked into."""
    parts = name.replace("\\", "/").split("/")
    return ".." in parts or parts[0] == "" or ":" in parts[0]


def _manifest(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    try:
        with archive.open(MANIFEST) as file:
            data = file.read(LARGEST_MANIFEST + 1)
        found = json.loads(data) if len(data) <= LARGEST_MANIFEST else None
    except KeyError as error:
        raise InputUnreadableError(f"{path} holds no {MANIFEST}", hint=_HINT) from error
    except (ValueError, RecursionError, zipfile.BadZipFile) as error:
        raise InputUnreadableError(f"{path}: its {MANIFEST} is damaged", hint=_HINT) from error
    members = found.get("members") if isinstance(found, dict) else None
    whole = isinstance(members, list) and all(_is_entry(entry) for entry in members)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA_ID or not whole:
        raise InputUnreadableError(f"{path}: its {MANIFEST} is none of gpuprobe's", hint=_HINT)
    return found


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get("size"), int)
        and isinstance(entry.get("sha256"), str)
    )


def _difference(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, entry: dict[str, object], left: int
) -> tuple[str, int]:
    """What is wrong with one member, or "", and how many bytes may still be looked at."""
    digest = hashlib.sha256()
    size = 0
    try:
        with archive.open(info) as file:
            while block := file.read(_BLOCK):
                size += len(block)
                if size > left:
                    return "is too large to be checked", 0
                digest.update(block)
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        return f"is damaged ({str(error)[:80]})", left - size
    except Exception as error:  # zlib's and lzma's errors have no common base
        return f"is damaged ({type(error).__name__})", left - size
    if size != entry["size"]:
        return f"has {size:,} bytes, and the manifest says {entry['size']:,}", left - size
    if digest.hexdigest() != entry["sha256"]:
        return "differs from what the manifest says", left - size
    return "", left - size
