"""Events as JSON and back."""

from __future__ import annotations

import json
import types
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpuprobe.clock import Stamp
from gpuprobe.events import Event, GpuSampled, Origin, Setting
from gpuprobe.identity import PciAddress
from gpuprobe.recording.codec import KINDS, CodecError, decode, dumps, encode
from gpuprobe.recording.rows import _event, more_of

PHASES = (Phase.explicit, Phase.generate)
TEXTS = st.text('aZ 0:\n\0é\ud800\u2028"\\', max_size=8)
ADDRESSES = st.builds(
    PciAddress,
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 255),
    st.integers(0, 31),
    st.integers(0, 7),
) | st.builds(lambda bus: PciAddress(0, bus, 0, 0, True), st.integers(0, 255))
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=-7))])
STAMPS = st.builds(
    Stamp,
    TEXTS,
    st.none() | st.floats(0, 1e9),
    st.none() | st.datetimes(timezones=ZONES),
    st.booleans(),
    st.floats(0, 10),
)
LINES = st.none() | st.integers(1, 2**40)
ORIGINS = st.builds(
    Origin, TEXTS, LINES, TEXTS, st.none() | TEXTS, st.tuples(st.integers(0, 9), st.integers(0, 9))
)
SPECIAL = {Origin: ORIGINS, Stamp: STAMPS, PciAddress: ADDRESSES, Setting: st.sampled_from(Setting)}
SIMPLE = {
    int: st.integers(-(2**63), 2**63),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    str: TEXTS,
    type(None): st.none(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        return st.one_of(*map(values_of, inner))
    if kind is Literal:
        return st.sampled_from(inner)
    if kind is tuple and inner[-1] is Ellipsis:
        return st.lists(values_of(inner[0]), max_size=3).map(tuple)
    if kind is tuple:
        return st.tuples(*map(values_of, inner))
    return {**SPECIAL, **SIMPLE}[hint]


def events_of(made: type[Event]) -> st.SearchStrategy[Event]:
    hints = get_type_hints(made)
    names = [item.name for item in fields(made)]
    return st.fixed_dictionaries({name: values_of(hints[name]) for name in names}).map(
        lambda values: made(**values)
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_event_comes_back_as_it_was(kind: str) -> None:
    """Each class of event, with any values its types allow, is the same after JSON."""

    @settings(max_examples=5, deadline=None, database=None, phases=PHASES)
    @given(events_of(KINDS[kind]))
    def check(event: Event) -> None:
        found = decode(kind, json.loads(dumps(encode(event))))
        assert event == found
        assert vars(event) == vars(found)
        assert {name: type(value) for name, value in vars(event).items()} == {
            name: type(value) for name, value in vars(found).items()
        }
        domains = [one.device.domain_assumed for one in (event, found) if one.device is not None]
        assert len(set(domains)) < 2

    check()


@pytest.mark.parametrize("kind", ["XidReported", "OutputWritten", "SlotChanged"])
def test_a_row_of_events_gives_the_event_back(kind: str) -> None:
    """The columns of the table and its JSON together hold all of an event, surrogates too."""

    @settings(max_examples=20, deadline=None, database=None, phases=PHASES)
    @given(events_of(KINDS[kind]))
    def check(event: Event) -> None:
        table, row = _event(event, None)
        assert table == "events"
        _, _, name, device, path, line, text, more = row
        for value in row:
            assert not isinstance(value, str) or value.encode() is not None
        assert event == decode(name, more_of((device, path, line, text), json.loads(more)))

    check()


def test_every_class_of_events_is_known() -> None:
    """A class that is added to `events` can be recorded without a line elsewhere."""
    assert GpuSampled is KINDS["GpuSampled"]
    assert len(KINDS) > 40
    assert "Event" not in KINDS


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("FromTheFuture", {"origin": ["a", 1, "t", None, [0, 0]]}),
        ("XidReported", {"origin": ["a", 1, "t", None, [0, 0]]}),
        ("XidReported", {"origin": ["a", 1, "t", None, [0, 0]], "code": "79"}),
        ("XidReported", {"origin": ["a", 1, "t", None, [0, 0]], "code": True}),
        ("XidReported", {"origin": ["a", 1, "t", None, [0, 0]], "code": 79, "colour": "red"}),
        ("XidReported", {"origin": ["a", 1, "t", None], "code": 79}),
        ("XidReported", {"origin": "a", "code": 79}),
        ("XidReported", {"code": 79}),
        ("XidReported", {"origin": ["a", 1, "t", None, [0, 0]], "code": 79, "stamp": [1]}),
        ("XidReported", {"origin": ["a", 1, "t", None, [0, 0]], "code": 79, "device": "gpu"}),
        ("XidReported", {"origin": ["a", 1, "t", None, [0, 0]], "code": 79, "setting": "loud"}),
        (
            "XidReported",
            {
                "origin": ["a", 1, "t", None, [0, 0]],
                "code": 79,
                "stamp": ["", 1.0, "yesterday", True, 1.0],
            },
        ),
        ("AerReported", {"origin": ["a", 1, "t", None, [0, 0]], "severity": "dreadful"}),
        ("AerReported", {"origin": ["a", 1, "t", None, [0, 0]], "severity": ["fatal"]}),
        ("PowerSampled", {"origin": ["a", 1, "t", None, [0, 0]], "samples": [[1.0]]}),
        ("PowerSampled", {"origin": ["a", 1, "t", None, [0, 0]], "samples": {"a": 1}}),
    ],
)
def test_what_is_no_event_is_refused(kind: str, found: dict[str, Any]) -> None:
    """An unknown kind, a missing or unknown field, or a value of another type is no event."""
    with pytest.raises(CodecError):
        decode(kind, found)


def test_a_time_of_any_zone_keeps_its_zone() -> None:
    """Naive stays naive, and an offset stays that offset."""
    for wall in (datetime(2026, 1, 2), datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))):
        event = KINDS["BootStarted"](
            origin=Origin("a", 1, "t"), stamp=Stamp("x", wall=wall, year_known=False)
        )
        found = decode("BootStarted", json.loads(dumps(encode(event))))
        assert found.stamp is not None
        assert found.stamp.wall is not None
        assert wall.utcoffset() == found.stamp.wall.utcoffset()
