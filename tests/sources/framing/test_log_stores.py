"""What log stores export: rows of CSV, answers and lists in JSON, mostly newest first."""

import json

import pytest

from gpuprobe import diagnose_text
from gpuprobe.diagnosis import Certainty, Kind
from gpuprobe.sources.framing import peel

LOST = "NVRM: Xid (PCI:0000:3d:00): 79, GPU has fallen off the bus."
CUDA = "RuntimeError: CUDA error: unspecified launch failure"


@pytest.mark.parametrize(("row", "stamp", "kernel"), [
    (f'"2026-08-11T05:02:36.120Z","ox","kernel","{LOST}"', "2026-08-11T05:02:36.120Z", True),
    (f'"Aug 11, 2026 @ 05:02:36.120","{LOST}",ox', "Aug 11, 2026 @ 05:02:36.120", False),
    (f'"{LOST}","2026-08-11T05:02:36.000+0000",ox,syslog', "2026-08-11T05:02:36.000+0000", False),
    (f'1786424556120,"{LOST}"', "1786424556120", False),
    (f'2026-08-11T05:02:36Z,ox,"{LOST}"', "2026-08-11T05:02:36Z", False),
    (f'"{{""job"": ""x y""}}","2026-08-11 05:02:36.120","{LOST}"', "2026-08-11 05:02:36.120", False),
])  # fmt: skip
def test_row_gives_its_line_and_its_time(row, stamp, kernel):
    """The cell with the words is the message, whatever columns stand about it."""
    (record,) = peel(1, row)

    assert (record.message, record.framing, record.kernel) == (LOST, "csv", kernel)
    assert record.stamps[0].raw == stamp


@pytest.mark.parametrize("line", [
    "2026-08-11 05:02:36,120 - ERROR - step failed",
    '"a", "b c", "2026-08-11T05:02:36Z"',
    '"name","two words",65',
    "1786424556,0,65,411.2",
    "4,1234,987654321,-;usb 1-1: reset",
])  # fmt: skip
def test_what_is_no_row_of_a_store_keeps_its_form(line):
    """A logger's decimals, a list in a program and rows of figures are no export."""
    assert [record.framing == "csv" for record in peel(1, line)] == [False]


_ENTRIES = [("2026-08-11T05:02:38.000Z", CUDA), ("2026-08-11T05:02:36.000Z", LOST)]


@pytest.mark.parametrize("text", [
    "".join(f'"{at}","{line}"\n' for at, line in _ENTRIES),
    json.dumps({"hits": {"hits": [{"_source": {"@timestamp": at, "message": line}} for at, line in _ENTRIES]}}),
    json.dumps([{"timestamp": at, "textPayload": line} for at, line in _ENTRIES]),
], ids=["csv", "hits", "list"])  # fmt: skip
def test_newest_first_is_read_by_its_times(text):
    """A loss that stands below its consequence came before it."""
    diagnosis = diagnose_text(text)

    assert [verdict.kind for verdict in diagnosis.verdicts] == [Kind.DEVICE_LEFT_BUS]
    assert diagnosis.verdicts[0].certainty is Certainty.CONFIRMED


def test_message_over_several_entries_is_read_in_the_order_of_its_lines():
    """The driver's banner at probe is three entries, which an export has upside down."""
    banner = (
        "NVRM: The NVIDIA GPU 0000:3d:00.0",
        "NVRM: (PCI ID: 10de:2bb5) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    entries = [
        {"timestamp": f"2026-08-11T05:02:36.{n}Z", "message": m} for n, m in enumerate(banner)
    ]
    (verdict,) = diagnose_text(json.dumps(entries[::-1])).verdicts

    assert (verdict.kind, str(verdict.device.pci)) == (Kind.DEVICE_LEFT_BUS, "0000:3d:00.0")


_BODY = {"body": f"It dies:\r\n```\r\n{CUDA}\r\n```\r\n"}
_COMMENT = {"body": f"```\n[   12.000000] {LOST}\n```", "author": {"login": "lee"}}


@pytest.mark.parametrize("page", [
    {"title": "Crash", **_BODY, "comments": [_COMMENT]},
    [{"user": {"login": "kim"}, **_BODY}, _COMMENT],
], ids=["issue", "comments"])  # fmt: skip
def test_issue_of_a_tracker_s_api_is_read_as_its_page(page):
    """The lines in a body are lines, and a sentence in it stays one."""
    said = json.dumps(page).replace(json.dumps(LOST)[1:-1], "What is Xid 79?")

    assert diagnose_text(json.dumps(page)).answer is Kind.DEVICE_LEFT_BUS
    assert diagnose_text(said).answer is Kind.CANNOT_TELL


@pytest.mark.parametrize("text", [
    '[{"role": "user", "content": "NVRM: Xid (PCI:0000:3d:00): 79"}]',
    '[{"timestamp": 1, "message": 2}]',
    '[{"timestamp": "x"}, 3]',
    "[{]}]",
    '{"user": "kim", "body": "one line"}',
    '[{"body": "two\\nlines"}]',
])  # fmt: skip
def test_other_lists_are_left_alone(text):
    """A chat, figures and broken JSON hold no entries of a store."""
    assert [record.framing for record in peel(1, text)] == ["text"]


def test_example_of_a_page_on_one_line_is_no_loss_beside_a_readers_own():
    """What says that it is an example stands in the same line."""
    example = f"<p>Example:</p><pre>{LOST}</pre><p>The card needs a look.</p>"
    own = "<p>Mine:</p><pre>Nov 10 10:00:00 ox kernel: " + LOST.replace("3d", "41") + "</pre>"
    (verdict,) = diagnose_text(f"<html><body>{example}{own}</body></html>").verdicts

    assert str(verdict.device.pci) == "0000:41:00.0"
