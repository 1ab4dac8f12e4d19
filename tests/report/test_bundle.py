"""The ZIP: every form, nothing by accident, and a manifest by which changes are seen."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from gpuprobe import diagnose
from gpuprobe.errors import InputUnreadableError
from gpuprobe.report.gathering import gather
from gpuprobe.report.writing import write
from gpuprobe.reporters.bundle import MANIFEST, pack, verify
from tests.report.report_bench import LEFT_THE_BUS, recorded


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A small ZIP."""
    path = tmp_path / "report.zip"
    with path.open("wb") as file:
        pack([("report.json", b"{}"), ("evidence/01.txt", b"line\n")], file, "2026-03-04")
    return path


def changed(path: Path, **members: bytes | None) -> Path:
    """The ZIP with members replaced, added, or left out."""
    named = {name.replace("__", "/").replace("_", "."): data for name, data in members.items()}
    with zipfile.ZipFile(path) as archive:
        kept = {info.filename: archive.read(info) for info in archive.infolist()}
    kept |= {name: data for name, data in named.items() if data is not None}
    out = path.with_name("changed.zip")
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in kept.items():
            if name not in named or named[name] is not None:
                archive.writestr(name, data)
    return out


def test_equal_contents_make_equal_bytes() -> None:
    """Neither the hour nor the file system is in it."""
    made = []
    for _ in range(2):
        out = io.BytesIO()
        pack([("report.json", b"{}"), ("plots/a.png", b"x")], out)
        made.append(out.getvalue())

    assert made[0] == made[1]


def test_a_whole_one_verifies(bundle: Path) -> None:
    """Every member is as listed."""
    found = verify(bundle)

    assert (found.checked, found.differing, found.made) == (2, (), "2026-03-04")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"report_json": b"[]"}, "report.json differs from what the manifest says"),
        ({"report_json": b"{ }"}, "report.json has 3 bytes, and the manifest says 2"),
        ({"evidence__01_txt": None}, "evidence/01.txt is missing"),
        ({"more_txt": b"x"}, "more.txt is not in the manifest"),
    ],
)
def test_a_change_is_named(bundle: Path, members: dict[str, bytes | None], said: str) -> None:
    """Changed, cut, missing, added: each in one sentence."""
    assert verify(changed(bundle, **members)).differing == (said,)


@pytest.mark.parametrize(
    "name", ["../more.txt", "/etc/more.txt", "a/../../more.txt", "..\\more.txt", "C:/more.txt"]
)
def test_a_name_that_leads_out_is_named(tmp_path: Path, name: str) -> None:
    """Also where the manifest lists it: whoever unpacks it would write somewhere else."""
    path = tmp_path / "report.zip"
    with path.open("wb") as file:
        pack([("report.json", b"{}"), (name, b"x")], file)

    assert verify(path).differing == (f"{name} is no name in a folder: do not unpack it",)


@pytest.mark.parametrize(
    ("before", "behind", "said"),
    [
        (b"#!/bin/sh\n", b"", "something stands before the first member"),
        (b"", b"\0more", "something stands behind the list of members"),
    ],
)
def test_what_is_round_the_members_is_named(
    bundle: Path, before: bytes, behind: bytes, said: str
) -> None:
    """A ZIP may be a program as well; one of gpuprobe's holds nothing but its members."""
    bundle.write_bytes(before + bundle.read_bytes() + behind)

    assert verify(bundle).differing == (said,)


def test_a_folder_that_holds_bytes_is_named(bundle: Path) -> None:
    """What stands under the name of a folder is unpacked by no program, and yet it is there."""
    with zipfile.ZipFile(bundle, "a") as archive:
        archive.writestr("evidence/", b"")
        archive.writestr("hidden/", b"x")

    assert verify(bundle).differing == ("hidden/ is not in the manifest",)


def test_a_pipe_and_a_folder_are_refused(tmp_path: Path) -> None:
    """Neither is waited for, nor called damaged."""
    pipe = tmp_path / "pipe.zip"
    os.mkfifo(pipe)

    for path in (pipe, tmp_path):
        with pytest.raises(InputUnreadableError, match="is no file"):
            verify(path)


def test_a_damaged_member_is_named(bundle: Path) -> None:
    """A byte that flipped on the way is a difference, not a crash."""
    data = bytearray(bundle.read_bytes())
    data[data.index(b"evidence/01.txt") + len("evidence/01.txt") + 2] ^= 0xFF
    bundle.write_bytes(bytes(data))

    assert "evidence/01.txt" in verify(bundle).differing[0]


@pytest.mark.parametrize("manifest", [None, b"{", b"[]", b'{"schema": "x"}', b"[" * 100_000])
def test_without_a_manifest_it_is_no_report(bundle: Path, manifest: bytes | None) -> None:
    """Whatever stands in its place is refused with a hint."""
    with pytest.raises(InputUnreadableError) as caught:
        verify(changed(bundle, manifest_json=manifest))
    assert caught.value.hint


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"text\n"])
def test_what_is_no_zip_is_refused(tmp_path: Path, data: bytes) -> None:
    """Cut off, empty, or a text."""
    path = tmp_path / "x.zip"
    path.write_bytes(data)
    with pytest.raises(InputUnreadableError):
        verify(path)


def test_all_forms_are_in_it_and_it_is_judged_again(tmp_path: Path) -> None:
    """JSON first, pages, excerpts, telemetry; no map, no absolute path; the verdict comes again."""
    source = recorded(tmp_path / "r.gpuprobe")
    out = tmp_path / "out.zip"
    written = write(gather([source, LEFT_THE_BUS / "kernel.log"]), out, plots=False)

    with zipfile.ZipFile(out) as archive:
        names = archive.namelist()
        page = archive.read("report.md").decode()
        excerpts = [archive.read(name).decode() for name in names if name.startswith("evidence/")]
        full = archive.read("telemetry/0000-41-00.0-full.csv").decode().splitlines()
        minutes = archive.read("telemetry/0000-41-00.0-minutes.csv").decode().splitlines()
        manifest = json.loads(archive.read(MANIFEST))
    assert names[:3] == ["report.json", "report.md", "report.html"]
    assert names[-1] == MANIFEST
    assert not any("redaction" in name or name.startswith("/") or ".." in name for name in names)
    assert [entry["name"] for entry in manifest["members"]] == names[:-1]
    assert str(tmp_path) not in page
    assert any("19> " in text and "fallen off the bus" in text for text in excerpts)
    assert len(full) == 1301
    assert len(minutes) == 4
    assert verify(out).differing == ()
    assert diagnose(out).answer.value == "device-left-bus"
    assert all("lathe" not in text for text in (page, *excerpts))
    assert written.files[-1].name == "out.zip.redaction.txt"
    assert written.files[-1].stat().st_mode & 0o777 == 0o600


def test_the_lines_round_what_is_cited_are_redacted_as_they_stood(tmp_path: Path) -> None:
    """The number before a line hides neither a user at its beginning nor a broken token."""
    log = tmp_path / "engine.log"
    log.write_text(
        "uoq43jdi  2201 99.0  1.0 123 456 ?  Sl 10:00 1:00 python\n"
        "AKIAD7WVkc\nrOg258Lewm\n"
        "RuntimeError: CUDA error: unspecified launch failure\n"
    )
    out = tmp_path / "report.zip"

    write(gather([log]), out)

    with zipfile.ZipFile(out) as archive:
        shown = archive.read("evidence/01.txt").decode()
    assert "4> RuntimeError" in shown
    for name in ("uoq43jdi", "AKIAD7WVkc", "rOg258Lewm"):
        assert name not in shown
