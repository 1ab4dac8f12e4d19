"""Whole incidents: a folder of inputs each, and what a reader must be told about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuprobe.api import diagnose
from gpuprobe.diagnosis import Diagnosis, Verdict

INCIDENTS = Path(__file__).parent / "incidents"
NAMES = sorted(folder.name for folder in INCIDENTS.iterdir() if folder.is_dir())

ALWAYS = {
    "why", "inputs", "answer", "certainty", "device", "other_devices", "xids", "exit_code",
    "evidence",
}  # fmt: skip
OPTIONAL = {
    "at",
    "boots",
    "causes",
    "host",
    "how",
    "later",
    "never",
    "other_hosts",
    "says",
    "silent",
}
"""Keys of expected.json that only some incidents have.

`at`: the first verdict's time. `boots`: of the first input. `causes`: scores in the scorecard.
`how`: a command that would make something checkable. `later`: further verdicts, kind and device.
`never`: kinds in no verdict of any host. `other_hosts`: name and answer. `says`: words of the
summary. `silent`: inputs of another host, of which the first verdict quotes nothing.
"""


@pytest.fixture(params=NAMES)
def incident(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], Diagnosis]:
    """What is expected of an incident, and its diagnosis."""
    folder = INCIDENTS / request.param
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    monkeypatch.chdir(folder)
    return expected, diagnose(*expected["inputs"])


def test_the_answer_is_the_expected_one(incident) -> None:
    """Kind, certainty, devices, Xids and exit code of the first verdict are as labelled."""
    expected, diagnosis = incident
    first = diagnosis.verdicts[0]

    assert {
        "answer": diagnosis.answer.value,
        "certainty": first.certainty.value if first.certainty else None,
        "device": str(first.device.pci) if first.device and first.device.pci else None,
        "other_devices": [str(device) for device in first.other_devices],
        "xids": list(first.xids),
        "exit_code": diagnosis.exit_code,
    } == {key: expected[key] for key in ALWAYS - {"why", "inputs", "evidence"}}


def test_the_evidence_holds_the_decisive_lines_in_their_roles(incident) -> None:
    """Each labelled line is quoted, once and in the labelled role."""
    expected, diagnosis = incident
    quoted = [(item.role.value, item.input, item.line) for item in diagnosis.verdicts[0].evidence]

    missing = [line for line in map(tuple, expected["evidence"]) if line not in quoted]
    assert not missing, quoted
    assert len(quoted) == len(set(quoted))


def test_what_else_the_incident_asks_for(incident) -> None:
    """Later verdicts, other hosts, forbidden kinds, times and the scorecard are as labelled."""
    expected, diagnosis = incident
    first = diagnosis.verdicts[0]
    unknown = set(expected) - ALWAYS - OPTIONAL

    assert not unknown, "a key that no test reads"
    if "at" in expected:
        assert first.at is not None
        assert first.at.isoformat() == expected["at"]
    if "boots" in expected:
        assert diagnosis.inputs[0].boots == expected["boots"]
    for cause, score in expected.get("causes", {}).items():
        assert {row.cause: row.score for row in first.causes}[cause] == score
    assert expected.get("says", "") in first.summary
    if "how" in expected:
        assert any(expected["how"] in item.how for item in first.not_checked)
    if "later" in expected:
        assert [_kind_and_device(verdict) for verdict in diagnosis.verdicts[1:]] == expected[
            "later"
        ]
    assert not {verdict.kind.value for verdict in _verdicts(diagnosis)} & set(
        expected.get("never", ())
    )
    assert not {item.input for item in first.evidence} & set(expected.get("silent", ()))


def test_hosts_are_as_labelled(incident) -> None:
    """One machine gives one document; of several the gravest is on top, the others beside it."""
    expected, diagnosis = incident

    if "host" in expected:
        assert diagnosis.host == expected["host"]
    assert [
        {"host": other.host, "answer": other.answer.value} for other in diagnosis.other_hosts
    ] == expected.get("other_hosts", [])


def _kind_and_device(verdict: Verdict) -> list[str | None]:
    pci = verdict.device.pci if verdict.device else None
    return [verdict.kind.value, str(pci) if pci else None]


def _verdicts(diagnosis: Diagnosis) -> Iterator[Verdict]:
    yield from diagnosis.verdicts
    for other in diagnosis.other_hosts:
        yield from other.verdicts


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_inputs_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kind, certainty, device and Xids are the same however the inputs are listed."""
    folder = INCIDENTS / name
    inputs = json.loads((folder / "expected.json").read_text("utf-8"))["inputs"]
    monkeypatch.chdir(folder)
    forth, back = (diagnose(*paths).verdicts[0] for paths in (inputs, inputs[::-1]))

    assert (forth.kind, forth.certainty, forth.device) == (back.kind, back.certainty, back.device)
    assert sorted(forth.xids) == sorted(back.xids)
