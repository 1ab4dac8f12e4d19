"""Entries that span lines, and the name of a whole input's format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuprobe.sources.framing import FORMATS, peel_lines, sniff
from gpuprobe.sources.lines import Lines

XID = "NVRM: Xid (PCI:0000:2b:00): 79, pid=77, GPU has fallen off the bus."
FIELDS = {
    "__CURSOR": "s=4;i=9", "__REALTIME_TIMESTAMP": "1769090913214000", "_BOOT_ID": "0" * 31 + "1",
    "_HOSTNAME": "ox", "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": XID,
}  # fmt: skip
EXPORT = "\n".join(f"{key}={value}" for key, value in FIELDS.items())
OTHER = EXPORT.replace(XID, "usb 1-1: reset").replace("i=9", "i=10")


def records(text: str):
    lines = list(Lines([text.encode()]))
    return list(peel_lines(lines, sniff([line for _, line in lines])))


def test_export_entries_give_a_record_each():
    """Host, boot and cursor belong to the message, whose line is named."""
    first, second = records(f"{EXPORT}\n\n{OTHER}\n\n")

    assert (first.message, first.framing, first.host, first.kernel, first.line) == (
        XID,
        "journal-export",
        "ox",
        True,
        7,
    )
    assert (first.boot_id, first.ref) == ("0" * 31 + "1", "s=4;i=9")
    assert (second.message, second.line, second.ref) == ("usb 1-1: reset", 15, "s=4;i=10")


def test_export_entry_with_a_binary_field_is_read():
    """A field in its binary form (name alone, length, value) does not hide the message."""
    binary = EXPORT.replace("_HOSTNAME=ox", "_CMDLINE\n\x05\0\0\0\0\0\0\0a\tb=c\n_HOSTNAME=ox")

    (record,) = records(binary)

    assert (record.message, record.host) == (XID, "ox")


def test_export_message_in_binary_form_is_found():
    """The message itself may stand behind its length; its words are there, on its line."""
    text = EXPORT.replace(f"MESSAGE={XID}", f"MESSAGE\n\x40\0\0\0\0\0\0\0{XID}\tand more")

    (record,) = records(text)

    assert XID in record.message
    assert (record.line, record.host) == (8, "ox")


def test_export_without_its_head_still_gives_the_message():
    """A part of an entry is read line by line, and no line is lost."""
    lines = [(5, f"MESSAGE={XID}"), (6, "_HOSTNAME=ox")]

    first, second = peel_lines(lines, "journal-export")

    assert (first.message, first.framing, first.line) == (XID, "journal-export", 5)
    assert second.message == "_HOSTNAME=ox"


def test_pretty_json_entries_give_a_record_each():
    """`-o json-pretty` spreads an entry over lines; the record names the message's."""
    pretty = "\n".join(
        "{\n" + ",\n".join(f'\t"{k}" : {json.dumps(v)}' for k, v in FIELDS.items()) + "\n}"
        for _ in range(2)
    )

    first, second = records(pretty)

    assert [(r.message, r.host, r.line) for r in (first, second)] == [
        (XID, "ox", 8),
        (XID, "ox", 17),
    ]


def test_json_entries_one_a_line_are_read_one_by_one():
    """`-o json`, and json-seq whose separator is a line end of its own."""
    text = "\x1e".join(["", json.dumps(FIELDS) + "\n", json.dumps(FIELDS) + "\n"])

    found = [record for record in records(text) if record.message]

    assert [record.message for record in found] == [XID, XID]
    assert {"journal-json"} == {record.framing for record in found}


def test_cut_pretty_entry_comes_back_as_lines():
    """What is no whole entry is not lost."""
    lines = [(1, "{"), (2, f'\t"MESSAGE" : "{XID}",')]

    assert ["{", f'\t"MESSAGE" : "{XID}",'] == [
        r.message for r in peel_lines(lines, "journal-json")
    ]


@pytest.mark.parametrize(("name", "line"), [
    ("dmesg", "[  98.037735] usb 1-1: reset"),
    ("dmesg-time", "[Tue Jun 30 16:06:59 2026] usb 1-1: reset"),
    ("dmesg-iso", "2026-06-30T16:06:59,123456+02:00 usb 1-1: reset"),
    ("kmsg", "6,1234,987654321,-;usb 1-1: reset"),
    ("journal-short", "Sep 22 07:44:58 ox kernel: usb 1-1: reset"),
    ("journal-short", "Sep 22 07:44:58 ox sshd[7]: bye"),
    ("journal-short-full", "Tue 2026-09-22 07:44:58 CEST ox sshd[7]: bye"),
    ("journal-short-iso", "2026-09-22T07:44:58+0200 ox sshd[7]: bye"),
    ("journal-short-precise", "Sep 22 07:44:58.123456 ox sshd[7]: bye"),
    ("journal-short-monotonic", "[   98.037735] ox sshd[7]: bye"),
    ("journal-short-unix", "1763000000.123456 ox sshd[7]: bye"),
    ("journal-json", json.dumps(FIELDS)),
    ("journal-export", EXPORT),
    ("syslog-3164", "Sep 22 07:44:58 ox kernel: [  98.037735] usb 1-1: reset"),
    ("syslog-5424", "<6>1 2026-09-22T07:44:58Z ox sshd 7 - - bye"),
    ("docker-json", '{"log":"hi\\n","stream":"stdout","time":"2026-08-11T05:02:36.1Z"}'),
    ("cri", "2026-09-02T07:44:58.123456789Z stdout F hi"),
    ("kubectl", "vllm-1  | hi"),
    ("engine", "INFO 06-11 11:46:39 [core.py:517] hi"),
    ("json-lines", '{"ts":"2026-08-11T05:02:36Z","level":"info","msg":"hi"}'),
    ("csv", '"2026-08-11T05:02:36.000Z","ox","kernel","usb 1-1: reset"'),
    ("csv", "1786424556120,usb 1-1: reset"),
    ("windows-event", "Log Name:      System\nSource:        nvlddmkm"),
    ("macos-log", "2020-09-24 12:27:20.581505-0400 0xd11a     Fault       0x0                  0      0    kernel: (IO) hi"),
    ("nvidia-smi", "| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |"),
    ("nvidia-smi-q", "==============NVSMI LOG=============="),
    ("lspci", "2b:00.0 VGA compatible controller: NVIDIA Corporation GA102 (rev a1)\n\tLnkSta: Speed 16GT/s"),
    ("bug-report", "Start of NVIDIA bug report log file.  Please include this file"),
    ("html", "<!DOCTYPE html>\n<p>hi</p>"),
    ("text", "My GPU died.\nPlease help.\n"),
])  # fmt: skip
def test_format_of_an_input_is_named(name, line):
    """Each format is known by its own lines, and every name is in the list."""
    assert name == sniff(line.splitlines() * 3)
    assert name in FORMATS


def test_stray_prefix_in_a_long_text_makes_no_format():
    """One kernel line in pages of prose is prose."""
    assert sniff(["just words"] * 60 + ["[  98.037735] usb 1-1: reset"]) == "text"


def test_advice_to_run_the_bug_report_tool_is_no_bug_report():
    """The driver itself names the script in its messages."""
    assert (
        sniff(["[  98.037735] NVRM: run nvidia-bug-report.sh as root to collect data"] * 3)
        == "dmesg"
    )


def test_every_format_is_documented():
    """The page on log formats has a row for each name."""
    page = (Path(__file__).parents[3] / "docs" / "log-formats.md").read_text(encoding="utf-8")

    assert [name for name in FORMATS if f"\n| `{name}` |" not in page] == []
