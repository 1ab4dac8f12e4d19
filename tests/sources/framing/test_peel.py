"""Prefixes come off, and what they say is kept."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprobe.sources.framing import FORMATS, peel
from gpuprobe.sources.framing.html import clean_html
from gpuprobe.sources.lines import strip_controls

M = "NVRM: Xid (PCI:0000:2b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
JOURNAL = {
    "MESSAGE": M, "__REALTIME_TIMESTAMP": "1769090913214000", "__MONOTONIC_TIMESTAMP": "812000111",
    "_SOURCE_MONOTONIC_TIMESTAMP": "811999000", "_BOOT_ID": "0123456789abcdef0123456789abcdef",
    "_MACHINE_ID": "ffff456789abcdef0123456789abcdef", "_HOSTNAME": "ox", "_TRANSPORT": "kernel",
    "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "2", "__CURSOR": "s=1;i=2",
}  # fmt: skip

# Prefix, then framing, host, source, raw stamps, kernel, quoted.
KERNEL = [
    ("", "text", None, None, [], False, False),
    ("[ 98.037735] ", "dmesg", None, None, ["[ 98.037735]"], True, False),
    ("[  98.037735] [    T140] ", "dmesg", None, None, ["[  98.037735]"], True, False),
    ("[  98.037735][ T1952] ", "dmesg", None, None, ["[  98.037735]"], True, False),
    ("<6>[  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, False),
    ("kern  :info  : [  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, False),
    ("kern  :err   : [Wed Jul  1 06:16:59 2026] ", "dmesg-time", None, None, ["[Wed Jul  1 06:16:59 2026]"], True, False),
    ("[Mi Jul  1 06:16:59 2026] ", "dmesg-time", None, None, ["[Mi Jul  1 06:16:59 2026]"], True, False),
    ("[mer. juil.  1 06:16:59 2026] ", "dmesg-time", None, None, ["[mer. juil.  1 06:16:59 2026]"], True, False),
    ("2026-07-01T06:16:59,123456+02:00 ", "dmesg-iso", None, None, ["2026-07-01T06:16:59,123456+02:00"], True, False),
    ("10.5.0.3: kern: warning: [2026-07-01T06:16:59.123456789Z]: ", "dmesg-iso", "10.5.0.3", None, ["2026-07-01T06:16:59.123456789Z"], True, False),
    ("node-3: user:    info: [2026-07-01T06:16:59.123456789Z]: ", "dmesg-iso", "node-3", None, ["2026-07-01T06:16:59.123456789Z"], False, False),
    ("4,1234,987654321,-;", "kmsg", None, None, ["987654321"], True, False),
    ("6,77,1500000,-,caller=T1;", "kmsg", None, None, ["1500000"], True, False),
    ("Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, False),
    ("Sep  2 07:44:58 ox kernel: [  98.037735] ", "dmesg", "ox", "kernel", ["Sep  2 07:44:58", "[  98.037735]"], True, False),
    ("Sep  2 07:44:58 kernel: ", "journal-short", None, "kernel", ["Sep  2 07:44:58"], True, False),
    ("Sep  2 07:44:58 ... kernel: ", "journal-short", None, "kernel", ["Sep  2 07:44:58"], True, False),
    ("Sep  2 07:44:58 ox ", "journal-short", "ox", None, ["Sep  2 07:44:58"], False, False),
    ("Sep 02 07:44:58.123456 ox kernel: ", "journal-short-precise", "ox", "kernel", ["Sep 02 07:44:58.123456"], True, False),
    ("2026-09-02T07:44:58+0200 ox kernel: ", "journal-short-iso", "ox", "kernel", ["2026-09-02T07:44:58+0200"], True, False),
    ("2026-09-02T07:44:58.123456+02:00 ox.lan kernel: [  98.037735] ", "dmesg", "ox.lan", "kernel", ["2026-09-02T07:44:58.123456+02:00", "[  98.037735]"], True, False),
    ("Wed 2026-09-02 07:44:58 CEST ox kernel: ", "journal-short-full", "ox", "kernel", ["Wed 2026-09-02 07:44:58 CEST"], True, False),
    ("[   98.037735] ox kernel: ", "journal-short-monotonic", "ox", "kernel", ["[   98.037735]"], True, False),
    ("1763000000.123456 ox kernel: ", "journal-short-unix", "ox", "kernel", ["1763000000.123456"], True, False),
    ("kernel: ", "journal-short", None, "kernel", [], True, False),
    (" kernel: ", "journal-short", None, "kernel", [], True, False),
    ("ox kernel: ", "journal-short", "ox", "kernel", [], True, False),
    ("<2>1 2026-09-02T07:44:58.5Z ox kernel - - - ", "syslog-5424", "ox", "kernel", ["2026-09-02T07:44:58.5Z"], True, False),
    ('<2>1 2026-09-02T07:44:58.5Z ox kernel 12 ID4 [a@1 b="c\\]d"][e@2] ', "syslog-5424", "ox", "kernel", ["2026-09-02T07:44:58.5Z"], True, False),
    ("<2>Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, False),
    ("15 kwi 08:08:08 ox kernel: ", "journal-short", "ox", "kernel", ["15 kwi 08:08:08"], True, False),
    ("kwi 15 08:08:08 ox kernel: ", "journal-short", "ox", "kernel", ["kwi 15 08:08:08"], True, False),
    ("11月 30 08:08:08 ox kernel: ", "journal-short", "ox", "kernel", ["11月 30 08:08:08"], True, False),
    ("> [  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, True),
    ("> > Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, True),
    ("- [  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, True),
    ("* Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, True),
    ("| [  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, True),
    ("  1042\t[  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, True),
    ("[11:05:07] [  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, True),
    ("11:05:07 Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, True),
    ("2026-09-02T07:44:58.5Z\t[  98.037735] ", "dmesg", None, None, ["2026-09-02T07:44:58.5Z", "[  98.037735]"], True, False),
    ("1042:[  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, True),
    ("1042:Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, True),
    ("1042:2026-09-02T07:44:58+0200 ox kernel: ", "journal-short-iso", "ox", "kernel", ["2026-09-02T07:44:58+0200"], True, True),
    ("/var/log/kern.log:1042:Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, True),
    ("gpu-07: [  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, True),
    ("gpu-07: Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, True),
    ("kern.log.1:Sep  2 07:44:58 ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, True),
    ("[2026-09-02 07:44:58.190] [  98.037735] ", "dmesg", None, None, ["2026-09-02 07:44:58.190", "[  98.037735]"], True, False),
    ("2026-09-02T07:44:58.123456789Z stdout F [  98.037735] ", "dmesg", None, None, ["2026-09-02T07:44:58.123456789Z", "[  98.037735]"], True, False),
    ("dmesg-1  | [  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, False),
    ("[pod/watch-0/dmesg] [  98.037735] ", "dmesg", None, None, ["[  98.037735]"], True, False),
    ("2026-09-02 07:44:58.581505-0400 0xd11a     Fault       0x0                  0      0    kernel: ", "macos-log", None, "kernel", ["2026-09-02 07:44:58.581505-0400"], True, False),
    ("Sep  2 07:44:58 <kern.crit> ox kernel: ", "journal-short", "ox", "kernel", ["Sep  2 07:44:58"], True, False),
]  # fmt: skip

PROGRAM = [
    ("2026-09-02 07:44:58,123 - INFO - ", None, None, ["2026-09-02 07:44:58,123"]),
    ("2026-09-02 07:44:58,123 - vllm.core - ERROR - ", None, None, ["2026-09-02 07:44:58,123"]),
    ("2026-09-02 07:44:58,123 ERROR ", None, None, ["2026-09-02 07:44:58,123"]),
    ("(EngineCore_0 pid=31) ERROR 09-02 07:44:58 [core.py:517] ", "EngineCore_0", 31, ["09-02 07:44:58"]),
    ("(EngineCore_0 pid=31) ", "EngineCore_0", 31, []),
    ("ERROR 09-02 07:44:58 engine.py:161] ", None, None, ["09-02 07:44:58"]),
    ("E0902 07:44:58.123456 4321 file.cc:10] ", None, None, ["0902 07:44:58.123456"]),
    ("[2026-09-02|07:44:58|FrontendAPI] ERROR    ", None, None, ["2026-09-02|07:44:58"]),
    ("[2026-09-02 07:44:58 TP0] ", None, None, ["2026-09-02 07:44:58"]),
    ("2026/09/02 07:44:58 ", None, None, ["2026/09/02 07:44:58"]),
    ("2026.09.02:07:44:58.581: ", None, None, ["2026.09.02:07:44:58.581"]),
    ("Sep  2 07:44:58 ox vllm[2201]: 2026-09-02 07:44:58,123 - INFO - ", "vllm", 2201, ["Sep  2 07:44:58", "2026-09-02 07:44:58,123"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prefix", "framing", "host", "source", "stamps", "kernel", "quoted"), KERNEL
)
def test_kernel_message_is_the_same_behind_every_prefix(
    prefix, framing, host, source, stamps, kernel, quoted
):
    """The message is what stands behind the prefix, and the record holds what the prefix said."""
    (record,) = peel(7, prefix + M)

    assert record.message == M
    assert (framing, host, source) == (record.framing, record.host, record.source)
    assert stamps == [stamp.raw for stamp in record.stamps]
    assert (kernel, quoted, 7) == (record.kernel, record.quoted, record.line)
    assert record.framing in FORMATS


@pytest.mark.parametrize(("prefix", "source", "pid", "stamps"), PROGRAM)
def test_program_prefix_is_taken_off(prefix, source, pid, stamps):
    """A program's own date and level go; its name and pid are kept."""
    message = "CUDA error: unspecified launch failure"

    (record,) = peel(1, prefix + message)

    assert (message, "engine") == (record.message, record.framing)
    assert (source, pid) == (record.source, record.pid)
    assert stamps == [stamp.raw for stamp in record.stamps]
    assert not record.kernel


@pytest.mark.parametrize("line", [
    "NVRM: GPU 0000:2b:00.0: GPU has fallen off the bus.",
    "pcieport 0000:00:01.1: pciehp: Slot(0): Link Down",
    "nvidia 0000:2b:00.0: can't change power state from D3cold to D0",
    "RuntimeError: CUDA error: unspecified launch failure",
    '  File "/opt/app/run.py", line 12, in main',
    "Traceback (most recent call last):",
    "2b:00.0 VGA compatible controller: NVIDIA Corporation Device (rev ff)",
    "0000:2b:00.0 3D controller: NVIDIA Corporation Device",
    "ERROR: Unable to load the kernel module 'nvidia.ko'.",
    "dmesg | grep -i xid",
    '{"role": "user", "text": "what is Xid 79?"}',
    "ox-22:183006:183220 [1] NCCL INFO misc/socket.cc:535 -> 6",
    "16:41:52.173849 IP (tos 0xc0, ttl 64) xid 0x294e07b2",
    "May I ask what Xid 79 means?",
])  # fmt: skip
def test_text_without_a_prefix_stays_whole(line):
    """Words that merely look like a prefix are not eaten."""
    (record,) = peel(1, line)

    assert (line, "text", ()) == (record.message, record.framing, record.stamps)
    assert not record.quoted


@pytest.mark.parametrize("line", [
    "Sep  2 07:44:58 ox NVRM: Xid (PCI:0000:2b:00): 79",
    "Sep  2 07:44:58 NVRM: Xid (PCI:0000:2b:00): 79",
    "2026-09-02T07:44:58Z NVRM: Xid (PCI:0000:2b:00): 79",
    "Sep  2 07:44:58 ox pcieport 0000:00:01.1: AER: Corrected error received",
    "[  12.345678] pcieport 0000:00:01.1: AER: Corrected error received",
    "[  12.345678] nvidia 0000:2b:00.0: AER: can't recover",
    "Sep  2 07:44:58 ox nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal",
    "Sep  2 07:44:58 ox mce: [Hardware Error]: Machine check events logged",
])  # fmt: skip
def test_driver_words_are_no_identifier(line):
    """Where `kernel:` was left out, the driver's own word stays in the message."""
    (record,) = peel(1, line)
    word = next(w for w in ("NVRM:", "pcieport", "nvidia", "mce:") if w in line)

    assert line[line.index(word) :] in record.message
    assert record.source is None


def test_month_names_of_many_languages_are_read():
    """Each name gives its month, with a full stop or without, before the day or behind it."""
    for word, month in [("Mär", 3), ("Dez", 12), ("août", 8), ("févr.", 2), ("ene", 1), ("dic", 12), ("gen", 1),
                        ("lug", 7), ("paź", 10), ("gru", 12), ("říj", 10), ("pro", 12), ("mai", 5), ("desember", 12),
                        ("mrt", 3), ("mei", 5), ("fev", 2), ("out", 10), ("мая", 5), ("дек", 12), ("kesä", 6),
                        ("joulu", 12), ("szept.", 9), ("ápr", 4), ("Şub", 2), ("Ara", 12), ("7月", 7), ("12月", 12),
                        ("sep", 9), ("setembro", 9), ("juin", 6), ("juil.", 7), ("listopada", 11)]:  # fmt: skip
        for text in (f"{word} 11 07:44:58", f"11 {word} 07:44:58"):
            (record,) = peel(1, f"{text} ox kernel: {M}")
            assert record.message == M, text
            wall = record.stamps[0].wall
            assert (month, 11) == (wall.month, wall.day), text
            assert not record.stamps[0].year_known


@pytest.mark.parametrize(("line", "wall", "monotonic_s", "resolution_s", "absolute"), [
    ("[   98.037735] x", None, 98.037735, 1e-6, False),
    ("[98.037] x", None, 98.037, 1e-3, False),
    ("4,1,987654321,-;x", None, 987.654321, 1e-6, False),
    ("Sep 22 07:44:58 ox kernel: x", datetime(2000, 9, 22, 7, 44, 58), None, 1.0, False),
    ("2026-09-22T07:44:58+0200 ox kernel: x", datetime(2026, 9, 22, 7, 44, 58, tzinfo=timezone(timedelta(hours=2))), None, 1.0, True),
    ("Tue 2026-09-22 07:44:58 UTC ox kernel: x", datetime(2026, 9, 22, 7, 44, 58, tzinfo=UTC), None, 1.0, True),
    ("Tue 2026-09-22 07:44:58 PDT ox kernel: x", datetime(2026, 9, 22, 7, 44, 58), None, 1.0, False),
    ("[Tue Sep 22 07:44:58 2026] x", datetime(2026, 9, 22, 7, 44, 58), None, 1.0, False),
    ("1763000000.250000 ox kernel: x", datetime(2025, 11, 13, 2, 13, 20, 250000, tzinfo=UTC), None, 1e-6, True),
    ("2026-09-22 07:44:58,120 - INFO - x", datetime(2026, 9, 22, 7, 44, 58, 120000), None, 1e-3, False),
    ("2026/09/22 07:44:58.118, 00000000:5B:00.0, 511.20 W", datetime(2026, 9, 22, 7, 44, 58, 118000), None, 1e-3, False),
])  # fmt: skip
def test_stamp_holds_what_the_log_says_and_no_more(line, wall, monotonic_s, resolution_s, absolute):
    """Zone and year are known only where the line has them."""
    stamp = peel(1, line)[0].stamps[-1]

    assert (wall, monotonic_s, absolute) == (stamp.wall, stamp.monotonic_s, stamp.is_absolute)
    assert wall is None or wall.tzinfo == stamp.wall.tzinfo
    assert resolution_s == pytest.approx(stamp.resolution_s)


def test_impossible_dates_are_no_stamps():
    """A date that no calendar has leaves the line whole."""
    for line in (
        "2026-13-45T07:44:58Z x y",
        "[Tue Sep 32 07:44:58 2026] x",
        "Feb 30 07:44:58 ox kernel: x",
    ):
        (record,) = peel(1, line)
        assert line == record.message


def test_journal_json_gives_every_field():
    """Host, boot, machine, cursor and both clocks come from the entry."""
    (record,) = peel(3, json.dumps(JOURNAL))

    assert (record.message, record.framing, record.kernel, record.line) == (
        M,
        "journal-json",
        True,
        3,
    )
    assert (record.host, record.source, record.ref) == ("ox", "kernel", "s=1;i=2")
    assert JOURNAL["_BOOT_ID"] == record.boot_id
    assert JOURNAL["_MACHINE_ID"] == record.machine_id
    (stamp,) = record.stamps
    assert pytest.approx(stamp.monotonic_s) == 811.999
    assert stamp.is_absolute


def test_journal_byte_array_is_decoded_and_has_no_line():
    """A message written as bytes is text again, named by its cursor and not by a line."""
    (record,) = peel(3, json.dumps(JOURNAL | {"MESSAGE": list(b"\x1b[31mNVRM: Xid\x1b[0m")}))

    assert (record.message, record.line, record.ref) == ("NVRM: Xid", None, "s=1;i=2")


def test_message_of_several_lines_gives_a_record_each():
    """The records share the line, the host and the outer stamp; each takes its own prefixes off."""
    text = '2026-09-02 07:44:58,123 - ERROR - Traceback:\n  File "x.py", line 1\nRuntimeError: CUDA error'
    records = peel(
        5,
        json.dumps(
            JOURNAL | {"MESSAGE": text, "SYSLOG_IDENTIFIER": "vllm", "_TRANSPORT": "stdout"}
        ),
    )

    assert [r.message for r in records] == [
        "Traceback:",
        '  File "x.py", line 1',
        "RuntimeError: CUDA error",
    ]
    assert {("ox", "vllm", 5)} == {(r.host, r.source, r.line) for r in records}
    assert [len(r.stamps) for r in records] == [2, 1, 1]


def test_kmsg_newline_escape_gives_two_records_and_dictionary_lines_are_kept():
    """`\\x0a` in a /dev/kmsg record is a line end; ` SUBSYSTEM=` belongs to the kernel."""
    first, second = peel(1, "4,12,5000000,-;NVRM: The NVIDIA GPU\\x0aNVRM: fallen off the bus")
    (extra,) = peel(2, " SUBSYSTEM=pci")

    assert [first.message, second.message] == ["NVRM: The NVIDIA GPU", "NVRM: fallen off the bus"]
    assert second.stamps[0].monotonic_s == 5.0
    assert (extra.message, extra.framing) == ("SUBSYSTEM=pci", "kmsg")


def test_docker_json_around_iso_around_kernel_stamp():
    """Wrappers nest: the stamps come outermost first, the innermost names the framing."""
    inner = f"2026-09-02T07:44:58.5Z [  98.037735] {M}"
    (record,) = peel(
        1, json.dumps({"log": inner + "\n", "stream": "stdout", "time": "2026-09-02T07:44:59.1Z"})
    )

    assert (record.message, record.framing, record.host) == (M, "dmesg", None)
    assert [s.raw for s in record.stamps] == [
        "2026-09-02T07:44:59.1Z",
        "2026-09-02T07:44:58.5Z",
        "[  98.037735]",
    ]


@pytest.mark.parametrize("fields", [
    {"time": "2026-07-14T08:02:35.4Z", "level": "INFO", "msg": M},
    {"ts": 1769090913.5, "severity": "error", "message": M},
    {"timestamp": "2026-07-14T08:02:35Z", "level": "ERROR", "fields": {"message": M}},
    {"level": "warn", "text": M},
])  # fmt: skip
def test_json_log_line_gives_its_message(fields):
    """The field that loggers write the text to is the message."""
    (record,) = peel(1, json.dumps(fields))

    assert (record.message, record.framing) == (M, "json-lines")


@pytest.mark.parametrize("fields", [
    {"time": "2026-07-14T08:02:35.4Z", "level": "WARN", "msg": "xid event", "raw": M},
    {"ts": "2026-07-14T08:02:35Z", "level": "warn", "msg": "xid error", "message": M},
    {"ts": "2026-07-14T08:02:35Z", "level": "info", "msg": "read a line", "line": M},
    {"time": "2026-07-14T08:02:35Z", "level": "INFO", "msg": "received", "events": {"events": [{"message": M}]}},
])  # fmt: skip
def test_the_line_that_an_agent_tells_of_stands_behind_its_message(fields):
    """Health monitors keep it in a field of its own, or in an event that they pass on."""
    (record,) = peel(1, json.dumps(fields))

    assert record.message.startswith(f"{fields['msg']}: ")
    assert M in record.message


@pytest.mark.parametrize("fields", [
    {"ts": "2026-07-14T08:02:35Z", "level": "info", "msg": "chat request", "message": M},
    {"ts": "2026-07-14T08:02:35Z", "level": "info", "msg": "request received", "prompt": M},
])  # fmt: skip
def test_what_somebody_asked_a_model_is_no_line_of_an_agent(fields):
    """The text beside such a message is a user's."""
    (record,) = peel(1, json.dumps(fields))

    assert M not in record.message


@pytest.mark.parametrize("line", [
    'time=2026-09-02T07:44:58.358-05:00 level=WARN source=gpu.go:449 msg="no devices"',
    "[rank1]:[E1103 23:14:03.123456789 ProcessGroupNCCL.cpp:1595] [Rank 1] CUDA error",
    "[80746] [rank0]:[E327 02:11:01.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] timeout",
])  # fmt: skip
def test_line_whose_prefix_is_part_of_the_message_keeps_it(line):
    """Only the time is read from logfmt and from PyTorch's rank prefix."""
    (record,) = peel(1, line)

    assert (line, "engine", 1) == (record.message, record.framing, len(record.stamps))


def test_html_around_a_message_goes_and_program_text_stays():
    """Formatting tags and entities are undone; `<unknown>` is no tag."""
    (record,) = peel(
        1,
        'Sep  2 07:44:58 ox kernel: <font color="#C01C28"><b>'
        + M.replace("<", "&lt;")
        + "</b></font>",
    )

    assert (record.message, record.kernel) == (M, True)


def test_paragraphs_of_a_page_are_lines_of_their_own():
    """Where a page puts a log behind a sentence in one line, the log's first line begins anew."""
    page = "<p>It dies:</p><pre><code>" + f"Sep  2 07:44:58 ox kernel: {M}<br>".replace(
        "<unknown>", "x"
    )
    first, second = peel(4, page + "</code></pre>")

    assert (first.message, first.line) == ("It dies:", 4)
    assert (second.message, second.kernel, second.line) == (M.replace("<unknown>", "x"), True, 4)


def test_the_words_of_a_row_stay_together():
    """A cell is no line: a table of codes stays one."""
    (record,) = peel(4, "<tr><td>79</td><td>GPU has fallen off the bus</td></tr>")

    assert record.message == "79GPU has fallen off the bus"


def test_messages_glued_together_are_cut_apart():
    """A kernel stamp inside a message starts another record of the same line."""
    line = "[2026-09-02 07:44:58.214] [55120.118379] NVRM: GPU has fal[55120.118390] snd_hda_intel 0000:2b:00.1: reset"
    first, second = peel(9, line)

    assert (first.message, first.line) == ("NVRM: GPU has fal", 9)
    assert (second.message, second.line) == ("snd_hda_intel 0000:2b:00.1: reset", 9)
    assert [first.stamps[-1].monotonic_s, second.stamps[-1].monotonic_s] == [
        55120.118379,
        55120.11839,
    ]
    assert len(second.stamps) == 2


@pytest.mark.parametrize(
    "stamps",
    [
        ("[ 5512.118379] ", "[ 5512.118390] "),
        ("[Wed Jul  1 06:16:59 2026] ", "[Wed Jul  1 06:17:00 2026] "),
        ("Sep  2 07:44:58 ox kernel: ", "Sep  2 07:44:59 ox kernel: [   98.037735] "),
        ("2026-09-02T07:44:58+02:00 ox kernel: ", "2026-09-02T07:44:59+02:00 ox kernel: "),
    ],
    ids=["monotonic", "ctime", "syslog", "iso"],
)
def test_a_log_that_lost_its_line_ends_is_cut_into_its_lines(stamps):
    """A paragraph with two kernel prefixes is a log whose line ends a forum ate."""
    first, second = stamps
    said = f"The card died: {first}{M} {second}nvidia 0000:2b:00.0: gone Any idea?"
    words, xid, last = peel(4, said)

    assert (words.message, words.kernel) == ("The card died:", False)
    assert (xid.message, xid.kernel, xid.line) == (M, True, 4)
    assert [stamp.raw for stamp in xid.stamps] == [first.removesuffix("ox kernel: ").strip()]
    assert last.message == "nvidia 0000:2b:00.0: gone Any idea?"


def test_a_line_that_goes_on_with_the_next_one_is_cut():
    """Behind a kernel prefix one more prefix is enough, and its stamp is its own."""
    first, second = peel(1, f"[    1.000001] NVRM: GPU at PCI:0000:2b:00: GPU-1 [    9.000001] {M}")

    assert (first.message, second.message) == ("NVRM: GPU at PCI:0000:2b:00: GPU-1", M)
    assert [r.stamps[-1].monotonic_s for r in (first, second)] == [1.000001, 9.000001]


def test_a_sentence_that_quotes_one_line_stays_whole():
    (record,) = peel(1, f"Somebody saw Sep  2 07:44:58 ox kernel: {M} last week")

    assert not record.framed


@pytest.mark.parametrize(
    "asked",
    [
        "INFO 10-02 07:44:31 [logger.py:43] Received request c-1: prompt: '{}', params: n=1",
        '{{"messages":[{{"role":"user","content":"{}"}}]}}',
        '{{"role":"assistant","content":"{}"}}',
        "[2026-09-01 05:21:24] Receive: obj=GenerateReqInput(text='{}', input_ids=None)",
        'level=DEBUG msg="chat request" prompt="<|start|>user<|message|>{}<|end|>"',
    ],
    ids=["vllm", "openai", "answer", "sglang", "ollama"],
)
def test_a_kernel_line_in_a_prompt_is_no_kernel_line(asked):
    """Somebody asks a model about his log; the engine's log repeats the question."""
    records = peel(1, asked.format(f"[   98.037735] {M} [   98.037799] {M}"))

    assert [False] * len(records) == [record.kernel for record in records]


@pytest.mark.parametrize("line", [
    unit * (65_536 // len(unit)) for unit in
    ("a", " ", "-", "[", "[ ", "<", "<font ", "{", '"', "1", "1:", "a-1", "a.", "Sep ", ": ", "\\", "(a ", "\x1b[", "\x1b]", "log", "&", "2026-09-02T", '[a b="', "| ", "> ", "- ", "[1.000000]")
])  # fmt: skip
def test_hostile_line_takes_no_time(line):
    """No shape of a long line makes a pattern try again and again."""
    for head in (
        "",
        "<6>1 2026-09-02T07:44:58Z a b c d ",
        "Sep  2 07:44:58 ",
        "[  1.000000] ",
        "(a",
    ):
        start = time.process_time()
        peel(1, head + line)
        assert time.process_time() - start < 2.0


def test_date_and_two_words_are_no_host():
    """Without a zone or a pid it takes more than `word word:` to be syslog."""
    (record,) = peel(1, "2026-09-02 07:44:58 trainer loss: nan")

    assert (record.host, record.message) == (None, "trainer loss: nan")


@pytest.mark.parametrize(
    "line", ["catalog::Entry x", "train.py:12: RuntimeError: CUDA error", "dialog:12 x"]
)
def test_words_with_colons_are_no_file_of_grep(line):
    """Only names of logs are taken for what grep printed."""
    assert line == peel(1, line)[0].message


def test_boot_mark_names_its_boot():
    """journalctl's line between boots keeps its words and gives the id."""
    (record,) = peel(1, "-- Boot 0123456789abcdef0123456789abcdef --")

    assert (record.boot_id, record.quoted) == ("0123456789abcdef0123456789abcdef", False)


def test_xorg_log_is_not_the_kernel():
    """Xorg puts its own clock in the same brackets."""
    (record,) = peel(1, "[    12.345] (EE) NVIDIA(0): Failed to initialize the NVIDIA GPU")

    assert not record.kernel


def test_a_store_s_answer_holds_lines_with_their_times():
    """Loki's query API: one object, a line for each value, behind nanoseconds."""
    answer = {"status": "success", "data": {"resultType": "streams", "result": [
        {"stream": {"host": "ox"}, "values": [["1769090913214000000", f"[   98.037735] {M}"], ["1769090914000000000", "quiet"]]},
    ]}}  # fmt: skip

    first, second = peel(3, json.dumps(answer))

    assert (first.message, first.kernel, first.line) == (M, True, 3)
    assert first.stamps[0].raw == "2026-01-22T14:08:33.214000000Z"
    assert (second.message, second.framed) == ("quiet", True)


def test_a_member_that_a_tool_printed_on_a_line_of_its_own_holds_a_line():
    """`aws logs get-log-events` prints its events over several lines."""
    (record,) = peel(
        5, '            "message": ' + json.dumps(f"Sep  2 07:44:58 ox kernel: {M}") + ","
    )
    (bare,) = peel(5, '            "message": ' + json.dumps(M) + ",")

    assert (record.message, record.host, record.framing) == (M, "ox", "journal-short")
    assert (bare.message, bare.framed) == (M, False)


PREFIXES = [row[0] for row in KERNEL] + [row[0] for row in PROGRAM]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PREFIXES), max_size=3), st.text(max_size=80))
def test_text_is_never_lost(prefixes, tail):
    """Whatever is peeled, every message stands in the line, and the last ends as the line does."""
    line = "".join(prefixes) + tail.replace("\\", "/")

    records = peel(1, line)

    whole = strip_controls(clean_html(strip_controls(line)))
    assert records
    if "{" not in line:
        assert all(record.message in whole for record in records)
        assert whole.rstrip().endswith(records[-1].message)


@settings(max_examples=60, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*JOURNAL, "log", "time", "ts", "msg", "level", "stream", "fields", "events", "timestamp", "streams", "values"]), inner)))  # fmt: skip
def test_any_json_is_survived(value):
    """No JSON value, whatever its fields hold, raises."""
    assert peel(1, json.dumps(value))


def test_an_indented_pair_behind_a_runners_time_is_no_host_and_identifier():
    """A step that prints a description keeps its columns; syslog has one blank there."""
    (record,) = peel(1, "2026-01-18T02:51:33.1000000Z       Exit Code:    137")

    assert (record.host, record.message.strip()) == (None, "Exit Code:    137")


def test_an_open_bracket_is_no_identifier():
    """An identifier such as `(sd-pam)` stands behind a host, and not these words."""
    (record,) = peel(1, "2026-01-18T02:51:33.1Z failed (exitcode: -11) local_rank: 6 (pid: 4508)")
    (child,) = peel(1, "2026-01-18T02:51:33.1+00:00 ox (sd-pam)[88]: session closed")

    assert record.message.startswith("failed (exitcode: -11)")
    assert (child.host, child.source, child.message) == ("ox", "(sd-pam)", "session closed")
