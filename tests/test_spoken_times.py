"""Times as people type them for --since, --until and --boot-time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from gpuprobe.errors import UsageError
from gpuprobe.spoken_times import FORMS, parse_time

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2027, 5, 6, 10, 30, tzinfo=UTC)
"""12:30 in Berlin."""


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is nine hours ahead."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2027-05-06T12:30:00"),
        ("Now", "2027-05-06T12:30:00"),
        ("today", "2027-05-06T00:00:00"),
        ("yesterday", "2027-05-05T00:00:00"),
        ("Yesterday 21:30", "2027-05-05T21:30:00"),
        ("today 7:05", "2027-05-06T07:05:00"),
        ("07:44", "2027-05-06T07:44:00"),
        ("7:44", "2027-05-06T07:44:00"),
        ("23:59:58", "2027-05-06T23:59:58"),
        ("-2h", "2027-05-06T10:30:00"),
        ("- 2h", "2027-05-06T10:30:00"),
        ("2h ago", "2027-05-06T10:30:00"),
        ("30min ago", "2027-05-06T12:00:00"),
        ("1h 30min ago", "2027-05-06T11:00:00"),
        ("-1h30m", "2027-05-06T11:00:00"),
        ("2 hours ago", "2027-05-06T10:30:00"),
        ("3 days ago", "2027-05-03T12:30:00"),
        ("-1w", "2027-04-29T12:30:00"),
        ("90s ago", "2027-05-06T12:28:30"),
        ("@1809599400", "2027-05-06T12:30:00"),
        ("Sep 14 21:16:40", "2026-09-14T21:16:40"),
        ("May  6 09:00", "2027-05-06T09:00:00"),
        ("May 5", "2027-05-05T00:00:00"),
        ("Feb 29", "2024-02-29T00:00:00"),
        ("2026-09-22 07:44", "2026-09-22T07:44:00"),
        ("2026-09-22", "2026-09-22T00:00:00"),
    ],
)
def test_forms(text: str, expected: str) -> None:
    """What journalctl takes, a log's own stamp, and ISO; in the zone that was named."""
    found = parse_time(text, BERLIN, NOW)

    assert found.astimezone(BERLIN).replace(tzinfo=None).isoformat() == expected


def test_every_form_that_the_message_lists_is_one() -> None:
    """Typed as it stands there."""
    for form in FORMS.split(", "):
        assert parse_time(form.strip("'"))


@pytest.mark.parametrize(
    "text",
    ["", " ", "someday", "tomorrow", "25:00", "7:4", "-2", "2h", "-2M", "-2x", "ago", "h ago", "2 ago",
     "Foo 14", "Feb 30", "Sep 14 25:00", "@", "9" * 400, "-999999999w", "12", "yesterday ago"],
)  # fmt: skip
def test_what_is_no_time_names_the_forms(text: str) -> None:
    """The hint has an example of each."""
    with pytest.raises(UsageError) as caught:
        parse_time(text, BERLIN, NOW)

    assert "yesterday" in caught.value.hint
    assert "-2h" in caught.value.hint


def test_a_whole_date_without_a_zone_is_utc() -> None:
    """As reports and JSON write it; a zone that was named, or its own, comes first."""
    assert parse_time("2027-05-06 12:00") == datetime(2027, 5, 6, 12, tzinfo=UTC)
    assert parse_time("2027-05-06 12:00", BERLIN).utcoffset() == timedelta(hours=2)
    assert parse_time("2027-05-06T12:00+09:00", BERLIN).utcoffset() == timedelta(hours=9)


@pytest.mark.usefixtures("in_tokyo")
def test_what_says_less_is_meant_as_on_the_clock_here() -> None:
    """So stamps without a zone, of this machine's logs, are compared with the same clock."""
    for text in ("07:44", "today", "-2h", "now", "Sep 14"):
        assert parse_time(text, None, NOW).utcoffset() == timedelta(hours=9)
    assert parse_time("today", None, NOW) == datetime(2027, 5, 5, 15, tzinfo=UTC)
