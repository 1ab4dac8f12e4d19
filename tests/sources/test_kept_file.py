"""A file that is kept open says what stands under its name now."""

from __future__ import annotations

from pathlib import Path

from gpuprobe.sources.kept_file import KeptFile


def test_what_is_written_anew_is_read(tmp_path: Path) -> None:
    """Each reading begins at the start."""
    path = tmp_path / "count"
    path.write_text("1\n")
    kept = KeptFile(str(path))
    assert [kept.read(16), kept.read(16)] == [b"1\n", b"1\n"]
    path.write_text("2\n")

    assert kept.read(16) == b"2\n"
    assert kept.read(1) == b"2"


def test_what_is_gone_reads_as_nothing_and_may_come_back(tmp_path: Path) -> None:
    """A removed file is not read on; another of its name is."""
    path = tmp_path / "count"
    kept = KeptFile(str(path))
    assert kept.read(16) == b""
    path.write_text("old\n")
    assert kept.read(16) == b"old\n"
    path.unlink()
    assert kept.read(16) == b""
    path.write_text("new\n")

    assert kept.read(16) == b"new\n"
