"""Events as JSON lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from gpuprobe import diagnose_text
from gpuprobe.clock import Stamp
from gpuprobe.events import Origin, SourceChanged, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.reporters.event_lines import diagnosis_line, event_line

AT = datetime(2026, 9, 22, 14, 44, 58, tzinfo=UTC)


def test_an_event_is_one_line_with_its_place_and_its_own_fields() -> None:
    """Kind, time, device, origin; what is unknown is left out of `fields`."""
    xid = XidReported(
        origin=Origin("/dev/kmsg", None, "NVRM: Xid", "812"),
        stamp=Stamp("raw", 1.0, AT),
        device=PciAddress.parse("0000:04:00.0"),
        code=79,
        count=2,
    )

    line = json.loads(event_line(xid))

    assert line["schema"] == "gpuprobe.event/1"
    assert (line["kind"], line["at"]) == ("xid-reported", "2026-09-22T14:44:58+00:00")
    assert (line["device"], line["ref"], line["count"]) == ("0000:04:00.0", "812", 2)
    assert line["fields"]["code"] == 79
    assert None not in line["fields"].values()


def test_a_hostile_text_stays_on_its_line() -> None:
    """Line ends of every kind, escapes and lone surrogates are written out."""
    text = 'a\nb\r\x1b[2J\u2028\u202e\ud800"'
    event = SourceChanged(origin=Origin("x", 1, text), name="x\n", what="gap")

    line = event_line(event)

    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["text"] == text
    assert json.loads(line)["at"] is None


def test_a_diagnosis_is_the_whole_document() -> None:
    """A changed diagnosis comes as `diagnose --format json` would give it, on one line."""
    found = diagnose_text("[ 1.0] NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus.")

    line = diagnosis_line(found, AT)

    assert "\n" not in line
    assert json.loads(line)["kind"] == "diagnosed"
    assert json.loads(line)["diagnosis"]["answer"] == "device-left-bus"
