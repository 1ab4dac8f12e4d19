"""Clocks are joined as far as the inputs, or the user, tie them together, and no further."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from gpuprobe.clock import LiveStamp, Stamp, of_one_moment
from gpuprobe.clock_joining import Clocks, PairedStamps, parse_timezone
from gpuprobe.errors import UsageError
from gpuprobe.events import BootStarted, Event, Origin

NOON = datetime(2027, 5, 6, 12, 0, 0)


def event(
    path: str, stamp: Stamp | None, *, host: str | None = None, text: str = "x", line: int = 1
) -> Event:
    return BootStarted(origin=Origin(path, line, text, order=(0, line)), stamp=stamp, host=host)


def wall(when: datetime, *, year: bool = True) -> Stamp:
    return Stamp("raw", wall=when if year else when.replace(year=2000), year_known=year)


def uptime(seconds: float) -> Stamp:
    return Stamp("raw", monotonic_s=seconds)


def test_an_absolute_stamp_is_its_own_instant() -> None:
    """Zone and year are known: no joining is needed."""
    berlin = wall(NOON.replace(tzinfo=timezone(timedelta(hours=2))))

    assert Clocks().at(event("a", berlin)) == datetime(2027, 5, 6, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "stamp", [wall(NOON), wall(NOON.replace(tzinfo=UTC), year=False), uptime(5.0), None]
)
def test_what_is_not_known_is_none(stamp: Stamp | None) -> None:
    """No zone, no year, uptime alone and no stamp give no instant."""
    assert Clocks().at(event("a", stamp)) is None


def test_the_user_s_zone_places_stamps_without_one() -> None:
    """--timezone is taken for naive stamps and not for aware ones."""
    clocks = Clocks(zone=parse_timezone("-07:00"))

    naive, aware = event("a", wall(NOON)), event("a", wall(NOON.replace(tzinfo=UTC)))

    assert clocks.at(naive) == datetime(2027, 5, 6, 19, 0, tzinfo=UTC)
    assert clocks.at(aware) == NOON.replace(tzinfo=UTC)


def test_the_user_s_boot_time_places_uptime() -> None:
    """--boot-time plus seconds since boot."""
    clocks = Clocks(boot_time=NOON.replace(tzinfo=UTC))

    assert clocks.at(event("a", uptime(90.0))) == datetime(2027, 5, 6, 12, 1, 30, tzinfo=UTC)


def test_a_line_with_two_stamps_gives_its_host_zone_and_year() -> None:
    """A zoneless host stamp beside an aware one tells the offset of all the host's lines."""
    aware = wall(NOON.replace(tzinfo=timezone(timedelta(hours=-7))))
    clocks = Clocks()
    clocks.learn([PairedStamps("a", "n1", (wall(NOON, year=False), aware))], [])

    later = event("b", wall(NOON + timedelta(minutes=3), year=False), host="n1")
    assert clocks.at(later) == datetime(2027, 5, 6, 19, 3, tzinfo=UTC)
    assert clocks.at(event("b", wall(NOON, year=False), host="n2")) is None


def test_two_stamps_that_are_no_zone_apart_are_not_joined() -> None:
    """An offset that is no quarter of an hour is no zone."""
    aware = wall((NOON + timedelta(minutes=7)).replace(tzinfo=UTC))
    clocks = Clocks()
    clocks.learn([PairedStamps("a", "n1", (wall(NOON), aware))], [])

    assert clocks.at(event("a", wall(NOON), host="n1")) is None


def test_a_message_in_two_inputs_joins_uptime_to_the_date() -> None:
    """The same driver line once with uptime and once with a date ties the clocks."""
    dated = event(
        "kern.log", wall(NOON.replace(tzinfo=UTC)), text="NVRM: Xid (PCI:0000:01:00): 79, gone"
    )
    counted = event(
        "dmesg.txt", uptime(500.0), text="[  500.000000] NVRM: Xid (PCI:0000:01:00): 79, gone"
    )
    later = event("dmesg.txt", uptime(560.0), text="pci 0000:01:00.0: bye", line=2)
    clocks = Clocks()
    clocks.learn([], [dated, counted, later])

    assert clocks.at(later) == datetime(2027, 5, 6, 12, 1, tzinfo=UTC)
    assert clocks.seconds_between(dated, later) == 60.0


def test_uptime_within_one_input_and_boot_can_be_compared() -> None:
    """Seconds since boot need no date to be told apart."""
    assert Clocks().seconds_between(event("a", uptime(10.0)), event("a", uptime(12.5))) == 2.5


def test_uptime_of_two_inputs_cannot_be_compared() -> None:
    """Nothing says that they count from one boot."""
    assert Clocks().seconds_between(event("a", uptime(10.0)), event("b", uptime(12.5))) is None


def test_zoneless_stamps_of_one_host_can_be_compared_across_inputs() -> None:
    """One host has one wall clock."""
    first = event("a", wall(NOON), host="n1")
    second = event("b", wall(NOON + timedelta(seconds=4)), host="n1")

    assert Clocks().seconds_between(first, second) == 4.0
    assert Clocks().seconds_between(first, event("b", wall(NOON), host="n2")) is None


def test_a_zoneless_stamp_is_not_compared_with_an_aware_one() -> None:
    """The offset between them is not known."""
    assert (
        Clocks().seconds_between(event("a", wall(NOON)), event("a", wall(NOON.replace(tzinfo=UTC))))
        is None
    )


def test_two_dates_of_one_moment_differ_by_a_zone() -> None:
    """A line that was passed on at once has two clocks; an old one has two times."""
    inner = Stamp("raw", wall=datetime(2000, 5, 1, 14, 12, 11), year_known=False)
    outer = wall(datetime(2026, 5, 1, 12, 12, 12, tzinfo=UTC))
    late = wall(datetime(2026, 5, 1, 12, 20, 12))

    assert of_one_moment(outer, inner)
    assert of_one_moment(inner, wall(datetime(2026, 5, 1, 14, 12, 11)))
    assert not of_one_moment(late, inner)
    assert not of_one_moment(wall(datetime(2026, 5, 3, 12, 12, 12)), inner)


def test_dates_days_apart_are_told_apart_without_a_zone() -> None:
    """No zones are more than 26 hours apart, so only nearer dates are in doubt."""
    noon, year_1 = event("a", wall(NOON)), event("b", wall(datetime(1, 1, 1, tzinfo=UTC)))
    later = event("b", wall((NOON + timedelta(days=2)).replace(tzinfo=UTC)))
    live = event("b", LiveStamp(5.0, (NOON + timedelta(days=2)).replace(tzinfo=UTC)))
    near = event("b", wall((NOON + timedelta(hours=26)).replace(tzinfo=UTC)))
    yearless = event("a", Stamp("raw", wall=NOON.replace(year=2000), year_known=False))

    assert Clocks().days_apart(noon, later) == Clocks().days_apart(noon, live) == 172800.0
    assert Clocks().days_apart(later, noon) == -172800.0
    assert Clocks().days_apart(yearless, later) == 172800.0
    assert Clocks().days_apart(noon, near) is None
    assert Clocks().days_apart(noon, event("b", uptime(9.0))) is None
    assert Clocks().days_apart(yearless, year_1) is not None


def test_a_stamp_without_a_year_borrows_its_neighbour_s() -> None:
    """29 February does not stop the comparison either."""
    leap = Stamp("raw", wall=datetime(2000, 2, 29, 12, 0), year_known=False)

    assert (
        Clocks().seconds_between(event("a", leap), event("a", wall(datetime(2027, 3, 1, 12, 0))))
        == 86400.0
    )


def test_new_year_is_four_seconds_long() -> None:
    """Stamps without a year: 31 December comes before 1 January."""
    old = Stamp("raw", wall=datetime(2000, 12, 31, 23, 59, 58), year_known=False)
    new = Stamp("raw", wall=datetime(2000, 1, 1, 0, 0, 2), year_known=False)
    known = Stamp("raw", wall=datetime(2027, 1, 1, 0, 0, 2))

    assert Clocks().seconds_between(event("a", old), event("a", new)) == 4.0
    assert Clocks().seconds_between(event("a", new), event("a", old)) == -4.0
    assert Clocks().seconds_between(event("a", old), event("a", known)) == 4.0
    assert Clocks().seconds_between(event("a", known), event("a", old)) == -4.0


@pytest.mark.parametrize(
    ("text", "hours"), [("UTC", 0), ("+05:30", 5.5), ("-7", -7), ("UTC+2", 2), ("Etc/GMT-3", 3)]
)
def test_zones_are_read_by_name_or_offset(text: str, hours: float) -> None:
    """Names of the zone database and plain offsets."""
    assert NOON.replace(tzinfo=parse_timezone(text)).utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["Mars/Olympus", "", "../etc/passwd", "+99"])
def test_an_unknown_zone_is_a_usage_error(text: str) -> None:
    """The message names what was given, and the hint says what would do."""
    with pytest.raises(UsageError) as caught:
        parse_timezone(text)
    assert caught.value.hint
