"""When an engine is started again: the table, the breakers, and that no loop is possible."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprobe.diagnosis import Certainty, Device, Diagnosis, Evidence, Kind, Role, Verdict
from gpuprobe.events import EngineChanged, JitCacheFailed, Origin, ProcessCrashed
from gpuprobe.identity import PciAddress
from gpuprobe.live.engine.cache_check import MARKS
from gpuprobe.live.engine.deaths import EngineDeaths
from gpuprobe.live.engine.policy import (
    ANY_IN_A_ROW,
    REMEMBERED,
    TABLE,
    Cure,
    Death,
    Decision,
    Limits,
    cure_of,
    decide,
    deciding,
    signature_of,
)
from gpuprobe.live.engine.relay_frames import PACKET_BYTES

ONE = PciAddress.parse("0000:04:00.0")
TWO = PciAddress.parse("0000:05:00.0")

MINUTE = 60.0
HOUR = 3600.0


def verdict(
    kind: Kind,
    certainty: Certainty | None = Certainty.CONFIRMED,
    *,
    xids: tuple[int, ...] = (),
    text: str = "a line",
    device: PciAddress | None = None,
) -> Verdict:
    evidence = (Evidence(Role.PROOF, text, "engine", 1),)
    pci = Device(device) if device else None
    return Verdict(kind, certainty, "It failed.", pci, xids=xids, evidence=evidence)


def death(
    at_s: float,
    served_s: float = 5 * MINUTE,
    *,
    cure: Cure = Cure.BACK_OFF,
    signature: str = "same",
    entries: tuple[str, ...] = (),
    kind: Kind = Kind.APPLICATION_FAULT,
) -> Death:
    return Death(at_s, served_s, kind, cure, signature, entries)


def starts(deaths: Sequence[Death], limits: Limits | None = None) -> tuple[int, Decision | None]:
    """How often the engine is started while it dies like this, and the decision that ends it."""
    for number in range(1, len(deaths) + 1):
        decision = decide(deaths[:number], limits or Limits())
        if not decision.again:
            return number, decision
    return len(deaths) + 1, None


# --- the table -------------------------------------------------------------------------------


def test_every_kind_has_a_row() -> None:
    """No verdict is without a cure."""
    assert set(TABLE) == set(Kind)


@pytest.mark.parametrize(
    ("found", "cure"),
    [
        (verdict(Kind.DEVICE_LEFT_BUS), Cure.STOP),
        (verdict(Kind.DEVICE_LEFT_BUS, Certainty.LIKELY), Cure.BACK_OFF),
        (verdict(Kind.DEVICE_LEFT_BUS, Certainty.POSSIBLE), Cure.BACK_OFF),
        (verdict(Kind.GPU_FIRMWARE_HANG, Certainty.LIKELY), Cure.STOP),
        (verdict(Kind.HOST_RESET), Cure.STOP),
        (verdict(Kind.GPU_MEMORY_ERROR, xids=(94,)), Cure.ONCE),
        (verdict(Kind.GPU_MEMORY_ERROR, xids=(94, 95)), Cure.STOP),
        (verdict(Kind.GPU_MEMORY_ERROR, xids=(48,)), Cure.STOP),
        (verdict(Kind.GPU_MEMORY_ERROR), Cure.STOP),
        (verdict(Kind.GPU_HANG, xids=(8,)), Cure.BACK_OFF),
        (verdict(Kind.GPU_HANG, xids=(109,)), Cure.STOP),
        (verdict(Kind.GPU_HANG, xids=(8, 154), text="Xid 154: from 0x0 to 0x1"), Cure.STOP),
        (verdict(Kind.GPU_HANG, xids=(8, 154), text="Xid 154: from 0x1 to 0x0"), Cure.BACK_OFF),
        (verdict(Kind.NVLINK_ERROR, xids=(74,)), Cure.BACK_OFF),
        (verdict(Kind.NVLINK_ERROR, xids=(136,)), Cure.STOP),
        (verdict(Kind.DRIVER_UNUSABLE), Cure.STOP),
        (verdict(Kind.JIT_CACHE_CORRUPT, Certainty.LIKELY), Cure.REPAIR),
        (verdict(Kind.APPLICATION_FAULT), Cure.BACK_OFF),
        (verdict(Kind.HOST_OUT_OF_MEMORY), Cure.BACK_OFF),
        (verdict(Kind.PROCESS_CRASH), Cure.BACK_OFF),
        (verdict(Kind.CANNOT_TELL, None), Cure.BACK_OFF),
    ],
)
def test_the_table(found: Verdict, cure: Cure) -> None:
    """Each verdict has the cure that the documented table gives it."""
    assert cure == cure_of(found)


def test_a_fault_elsewhere_decides_nothing() -> None:
    """Another GPU left the bus: the engine's own verdict decides."""
    lost = verdict(Kind.DEVICE_LEFT_BUS, device=TWO)
    own = verdict(Kind.APPLICATION_FAULT)

    assert deciding(Diagnosis((lost, own), ()), [ONE]) is own
    assert deciding(Diagnosis((lost,), ()), [ONE]) is None


def test_what_forbids_a_start_decides() -> None:
    """An application fault first, a confirmed hardware fault of the engine's GPU behind it."""
    first = verdict(Kind.APPLICATION_FAULT)
    grave = verdict(Kind.GPU_MEMORY_ERROR, xids=(95,), device=ONE)
    unsure = verdict(Kind.GPU_MEMORY_ERROR, Certainty.POSSIBLE, xids=(63,), device=ONE)

    assert deciding(Diagnosis((first, grave), ()), [ONE]) is grave
    assert deciding(Diagnosis((first, unsure), ()), [ONE]) is first


@pytest.mark.parametrize(
    "other",
    [
        "(EngineCore pid=78) ERROR 09-23 04:11:07 CUDA error: illegal address at 0x7f00aa",
        "(EngineCore pid=991) ERROR 10-02 14:44:58 CUDA error: illegal address at 0x12",
    ],
)
def test_numbers_make_no_other_signature(other: str) -> None:
    """Process ids, times and addresses differ each time; the error is the same."""
    first = "(EngineCore pid=12) ERROR 09-22 04:11:07 CUDA error: illegal address at 0x7fde"

    assert signature_of(verdict(Kind.APPLICATION_FAULT, text=first)) == signature_of(
        verdict(Kind.APPLICATION_FAULT, text=other)
    )


def test_kind_and_words_make_another_signature() -> None:
    """Another error line, or another kind, is another death."""
    marks = {
        signature_of(verdict(Kind.APPLICATION_FAULT, text="CUDA error: illegal address")),
        signature_of(verdict(Kind.APPLICATION_FAULT, text="CUDA error: launch failure")),
        signature_of(verdict(Kind.PROCESS_CRASH, text="CUDA error: launch failure")),
    }

    assert len(marks) == 3


# --- stories ---------------------------------------------------------------------------------


def test_a_poisoned_cache_heals() -> None:
    """One death, one repair, one start."""
    first = death(0, cure=Cure.REPAIR, entries=("triton/A",), kind=Kind.JIT_CACHE_CORRUPT)

    assert decide([first], Limits()) == Decision(True, "its cache entry is out of the way", 1.0)


def test_the_same_entry_twice_stops() -> None:
    """A start heals an entry once, however long ago that was; another entry is another matter."""
    first = death(0, cure=Cure.REPAIR, entries=("triton/A",), signature="a")
    again = death(20 * HOUR, 19 * HOUR, cure=Cure.REPAIR, entries=("triton/A",), signature="a")
    other = death(20 * HOUR, 19 * HOUR, cure=Cure.REPAIR, entries=("triton/B",), signature="b")

    assert not decide([first, again], Limits()).again
    assert decide([first, other], Limits()).again


def test_an_entry_that_stays_stops() -> None:
    """What could not be moved aside kills the next start too."""
    first = death(0, cure=Cure.REPAIR, entries=("triton/A",))

    decision = decide([first], Limits(), problem="Permission denied")

    assert not decision.again
    assert "Permission denied" in decision.why


def test_a_lost_device_is_never_started_again() -> None:
    """The first death by a confirmed loss is the last."""
    lost = death(0, 100 * HOUR, cure=Cure.STOP, kind=Kind.DEVICE_LEFT_BUS)

    assert decide([lost], Limits()) == Decision(
        False, "starting it again cannot heal device-left-bus"
    )


def test_a_contained_memory_error_is_started_once() -> None:
    """Twice in a row stops, after long service it is once again."""
    first = death(0, 10 * HOUR, cure=Cure.ONCE, signature="a")
    soon = death(HOUR, HOUR, cure=Cure.ONCE, signature="b")
    late = death(20 * HOUR, 7 * HOUR, cure=Cure.ONCE, signature="b")

    assert decide([first], Limits()).again
    assert not decide([first, soon], Limits()).again
    assert decide([first, late], Limits()).again


def test_three_deaths_in_the_window_stop() -> None:
    """Different errors, a minute apart: pauses of 1 and 2 s, then the end."""
    deaths = [death(60.0 * n, 50.0, signature=str(n)) for n in range(3)]

    pauses = [decide(deaths[:n], Limits()).pause_s for n in (1, 2)]
    number, decision = starts(deaths)

    assert pauses == [1.0, 2.0]
    assert number == 3
    assert decision is not None
    assert decision.why == "third death within 15 min"


def test_a_fatal_request_every_ten_minutes_stops_at_the_third() -> None:
    """Five minutes of load, five of service, the same error: never three within 15 minutes."""
    deaths = [death(20 * MINUTE * n, 10 * MINUTE) for n in range(3)]

    number, decision = starts(deaths)

    assert number == 3
    assert decision is not None
    assert decision.why == "third death in a row with the same error"


def test_a_day_between_is_no_excuse_where_it_never_served_well() -> None:
    """Hours of pause between do not count as service."""
    deaths = [death(24 * HOUR * n, 5 * HOUR) for n in range(3)]

    assert starts(deaths)[0] == 3


def test_healthy_service_begins_a_new_row() -> None:
    """Six hours of service before the third: it is the first again, with the shortest pause."""
    deaths = [death(0), death(HOUR), death(9 * HOUR, 7 * HOUR), death(10 * HOUR)]

    assert decide(deaths[:3], Limits()) == Decision(True, "1 of 3 deaths within 15 min", 1.0)
    assert decide(deaths, Limits()).again


def test_pauses_grow_to_a_minute() -> None:
    """1, 2, 4 … 60 s for errors that differ and lie far apart."""
    deaths = [death(HOUR * n, signature=str(n)) for n in range(ANY_IN_A_ROW)]

    pauses = [decide(deaths[: n + 1], Limits()).pause_s for n in range(ANY_IN_A_ROW - 1)]

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert starts(deaths)[0] == ANY_IN_A_ROW


# --- no loop ---------------------------------------------------------------------------------

DEATHS = st.tuples(
    st.floats(0.0, 6 * HOUR - 1),
    st.sampled_from([Cure.BACK_OFF, Cure.REPAIR, Cure.ONCE]),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([(), ("A",), ("B",), ("C",)]),
    st.floats(0.0, 30 * HOUR),
)


def sequence(drawn: Sequence[tuple[float, Cure, str, tuple[str, ...], float]]) -> list[Death]:
    at = 0.0
    found = []
    for served, cure, signature, entries, pause in drawn:
        at += pause + served
        found.append(death(at, served, cure=cure, signature=signature, entries=entries))
    return found


@given(st.lists(DEATHS, min_size=ANY_IN_A_ROW, max_size=40))
def test_a_loop_ends(drawn: list[tuple[float, Cure, str, tuple[str, ...], float]]) -> None:
    """Whatever the deaths are and however far apart, an engine that never serves well stops."""
    assert starts(sequence(drawn))[0] <= ANY_IN_A_ROW


@given(st.lists(DEATHS, min_size=3, max_size=40))
def test_one_signature_ends_at_the_third(
    drawn: list[tuple[float, Cure, str, tuple[str, ...], float]],
) -> None:
    """Deaths of one signature are never followed by a third start anew."""
    same = [(served, cure, "a", entries, pause) for served, cure, _, entries, pause in drawn]

    assert starts(sequence(same), Limits(max_deaths=100))[0] <= 3


@given(st.lists(DEATHS, min_size=12, max_size=40))
def test_forgetting_old_deaths_changes_nothing(
    drawn: list[tuple[float, Cure, str, tuple[str, ...], float]],
) -> None:
    """Only the last twelve are kept from run to run: an engine is stopped all the same."""
    deaths = sequence(drawn)
    going = [decide(deaths[max(0, n - 12) : n], Limits()).again for n in range(1, len(deaths) + 1)]

    assert going.index(False) < ANY_IN_A_ROW


@given(st.lists(DEATHS, min_size=1, max_size=12))
def test_deaths_survive_being_stored(
    drawn: list[tuple[float, Cure, str, tuple[str, ...], float]],
) -> None:
    """What is read back decides as before."""
    deaths = sequence(drawn)
    back = [Death.from_list(one.to_list()) for one in deaths]

    assert decide(back, Limits()).again == decide(deaths, Limits()).again


def test_all_that_is_remembered_fits_into_one_message() -> None:
    """The longest kinds, every entry: what the front carries to the next start is one packet."""
    entries = tuple("f" * 16 for _ in range(MARKS))
    worst = Death(1.9e9 + 0.1, 123456.7, Kind.COLLECTIVE_TIMEOUT, Cure.BACK_OFF, "f" * 16, entries)
    deaths = [worst.to_list() for _ in range(REMEMBERED)]
    memory = json.dumps({"number": 1000, "deaths": deaths}, separators=(",", ":"))
    word = {"code": None, "leave": False, "again": 60.0, "memory": memory, "done": True}

    assert len(json.dumps(word, separators=(",", ":"))) < PACKET_BYTES - 200


# --- what a death is -------------------------------------------------------------------------

_ORIGIN = Origin("engine", 1, "a line")


def _worker() -> EngineChanged:
    return EngineChanged(origin=_ORIGIN, what="worker-exited")


def test_workers_that_die_together_are_one_death() -> None:
    """Eight ranks die of one error within seconds; the engine's end a minute later adds none."""
    deaths = EngineDeaths(0.0)
    first = deaths.take([_worker()], 100.0)
    rest = [deaths.take([_worker()], 100.0 + n) for n in range(1, 8)]
    end = deaths.end(160.0)

    assert (first, any(rest), end) == (True, False, False)
    assert deaths.times == [100.0]
    assert deaths.served_s() == 100.0


def test_an_engine_that_replaces_its_workers_dies_each_time() -> None:
    """Three worker deaths four minutes apart are three, served four minutes each."""
    deaths = EngineDeaths(0.0)
    new = [deaths.take([_worker()], 240.0 * n) for n in (1, 2, 3)]

    assert new == [True, True, True]
    assert deaths.served_s() == 240.0


def test_a_silent_end_and_a_named_entry_are_noted() -> None:
    """SIGSEGV without a word asks for a look at the caches; a traceback names the entry."""
    deaths = EngineDeaths(0.0)
    deaths.take([ProcessCrashed(origin=_ORIGIN, signal="SIGABRT")], 1.0)
    before = deaths.silent
    deaths.take([ProcessCrashed(origin=_ORIGIN, signal="SIGBUS")], 1.0)
    deaths.take([JitCacheFailed(origin=_ORIGIN, cache="triton", why="cut", key="KEY")], 1.0)

    assert (before, deaths.silent) == (False, True)
    assert deaths.entries == [("triton", "KEY")]
