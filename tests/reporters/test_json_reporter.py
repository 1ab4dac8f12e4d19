"""The JSON form keeps its contract."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from gpuprobe.diagnosis import Certainty, Diagnosis, Kind, Role, Verdict
from gpuprobe.reporters.json import JsonReporter, to_dict


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    text = files("gpuprobe.reporters").joinpath("diagnosis.schema.json").read_text("utf-8")
    return json.loads(text)


def test_the_whole_document_is_the_stored_one(loss, rendered, compare) -> None:
    """Keys, their order and their nulls are as they were."""
    compare("loss.json", rendered(JsonReporter(), loss))


@pytest.mark.parametrize("name", ["loss", "nothing", "two_hosts", "hostile", "huge"])
def test_every_document_satisfies_the_schema(name, request, schema, rendered) -> None:
    """Whatever the texts hold, the document is valid."""
    document = json.loads(rendered(JsonReporter(), request.getfixturevalue(name)))

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


def test_contract_keys_come_first_and_in_order(two_hosts) -> None:
    """A reader who knows the contract finds its keys in their places."""
    document = to_dict(two_hosts)
    verdict = document["verdicts"][0]

    assert list(document) == [
        "schema", "tool", "host", "answer", "verdicts", "inputs", "other_hosts",
    ]  # fmt: skip
    assert list(verdict) == [
        "kind", "certainty", "summary", "device", "other_devices", "at", "at_raw", "xids",
        "evidence", "ruled_out", "not_checked", "causes", "next_steps",
    ]  # fmt: skip
    assert list(verdict["evidence"][0])[:6] == ["role", "text", "input", "line", "at", "count"]
    assert list(verdict["causes"][0]) == ["cause", "score", "for", "against", "not_seen"]
    assert list(verdict["next_steps"][0]) == [
        "class", "text", "command", "undo", "cost", "when", "source",
    ]  # fmt: skip
    assert list(document["inputs"][0]) == ["path", "format", "lines", "boots", "notes"]


def test_other_hosts_stand_whole_and_only_when_there_are_any(loss, two_hosts) -> None:
    """One host gives no empty list; a second one is a whole document."""
    assert "other_hosts" not in to_dict(loss)
    assert to_dict(two_hosts)["other_hosts"][0]["answer"] == "no-fault"
    assert to_dict(two_hosts)["other_hosts"][0]["schema"] == "gpuprobe.diagnosis/1"


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("answer",), "gpu-on-fire"),
        (("verdicts", 0, "certainty"), "sure"),
        (("verdicts", 0, "certainty"), None),
        (("verdicts", 0, "evidence", 0, "role"), "hint"),
        (("verdicts", 0, "evidence", 0, "line"), 0),
        (("verdicts", 0, "next_steps", 0, "class"), "write"),
        (("verdicts", 0, "causes", 0, "score"), "maybe"),
        (("verdicts", 0, "ruled_out", 0, "figures"), {}),
        (("verdicts", 0, "device", "pci"), "04:00.0"),
        (("verdicts",), []),
        (("inputs", 0, "format"), "odt"),
    ],
)
def test_the_schema_refuses_what_the_contract_excludes(loss, schema, where, value) -> None:
    """Lists are closed, and a rule-out without a figure is none."""
    document = json.loads(json.dumps(to_dict(loss), default=str))
    place = document
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


def test_closed_lists_of_the_schema_are_those_of_the_code(schema) -> None:
    """A kind, certainty, role or format added in one place only is noticed."""
    from gpuprobe.sources.framing import FORMATS

    definitions = schema["$defs"]
    verdict = definitions["verdict"]["properties"]

    assert [kind.value for kind in Kind] == definitions["kind"]["enum"]
    assert [c.value for c in Certainty] + [None] == verdict["certainty"]["enum"]
    assert [role.value for role in Role] == definitions["evidence"]["properties"]["role"]["enum"]
    assert sorted(FORMATS) == sorted(definitions["input"]["properties"]["format"]["enum"])


def test_a_lone_surrogate_does_not_stop_the_output(rendered) -> None:
    """Bytes that are no UTF-8 reach the document as a replacement."""
    diagnosis = Diagnosis((Verdict(Kind.NO_FAULT, None, "a\ud800b"),), ())

    assert "a?b" in rendered(JsonReporter(), diagnosis)
