"""A real journal file, read through journalctl, and this machine's own journal likewise."""

import gzip
import shutil
from pathlib import Path

import pytest

from gpuprobe.api import diagnose
from gpuprobe.diagnosis import Kind
from gpuprobe.errors import InputUnreadableError
from gpuprobe.sources.files import machine

JOURNAL = Path(__file__).parents[2] / "data" / "node.journal.gz"

needs_journalctl = pytest.mark.skipif(
    shutil.which("journalctl") is None, reason="journalctl is not installed"
)


@needs_journalctl
def test_a_binary_journal_is_judged_and_cited_by_cursor() -> None:
    """A `.journal`, compressed at that, gives the verdict; its evidence has cursors for lines."""
    diagnosis = diagnose(JOURNAL)

    verdict = diagnosis.verdicts[0]
    assert diagnosis.answer is Kind.DEVICE_LEFT_BUS
    assert diagnosis.host == "node-77"
    assert diagnosis.inputs[0].format == "journal-binary"
    assert all(item.line is None and item.ref for item in verdict.evidence)
    assert verdict.at is not None
    assert verdict.at.isoformat() == "2026-09-21T14:28:20+00:00"


@pytest.fixture
def own_journal(tmp_path, monkeypatch):
    """This machine's journal is the one of the test data."""
    plain = tmp_path / "node.journal"
    plain.write_bytes(gzip.decompress(JOURNAL.read_bytes()))
    wrapper = tmp_path / "journalctl"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("journalctl")} --file={plain} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("GPUPROBE_DIR", str(tmp_path / "no-recordings"))
    return plain


@needs_journalctl
def test_no_path_means_this_machines_journal(own_journal) -> None:
    """The newest boot with an incident is taken, said so, and the units around it are read."""
    diagnosis = diagnose()

    assert diagnosis.answer is Kind.DEVICE_LEFT_BUS
    assert {item.path for item in diagnosis.inputs} == {machine.KERNEL, machine.UNITS}
    assert any("took boot 0123456789abcdef" in note for note in diagnosis.inputs[0].notes)
    assert any(item.input == machine.UNITS for item in diagnosis.verdicts[0].evidence)


def test_a_machine_without_readable_logs_says_what_would_open_them(tmp_path, monkeypatch) -> None:
    """No journalctl and no /dev/kmsg: an error that names both and what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GPUPROBE_DIR", str(tmp_path / "no-recordings"))
    monkeypatch.setattr(machine, "KMSG", tmp_path / "kmsg")
    monkeypatch.setattr(machine.kernel_inputs, "__kwdefaults__", {"kmsg": tmp_path / "kmsg"})

    with pytest.raises(InputUnreadableError, match="journalctl is not installed") as caught:
        diagnose()

    assert "kmsg" in str(caught.value)
    assert caught.value.hint
