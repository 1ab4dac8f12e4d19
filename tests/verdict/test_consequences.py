"""What follows from a fault, and what only came later."""

from __future__ import annotations

from gpuprobe.diagnosis import Kind, Role
from gpuprobe.events import DeviceChanged, EngineChanged, Event, ProcessCrashed
from tests.live_events import base, facts, judged, lost


def _life(at_s: float, what: str, run: str, code: int | None = None) -> EngineChanged:
    fields = base(at_s, f"{run} {what} {code}", source=run, device=None)
    return EngineChanged(**fields, what=what, who=run, code=code)


def _follow(kind: Kind, *events: Event) -> list[str]:
    found = judged(*events).verdicts[0]
    assert found.kind is kind
    return [line.text for line in found.evidence if line.role is Role.CONSEQUENCE]


def test_a_clean_end_of_another_program_does_not_follow_from_a_crash() -> None:
    """Two runs, recorded one after the other: the second ends well."""
    crash = ProcessCrashed(**base(5, "ended by SIGSEGV", "first", None), signal="SIGSEGV", pid=1)

    assert not _follow(Kind.PROCESS_CRASH, crash, _life(8, "stopped", "second", 0))


def test_a_server_that_ends_with_0_because_of_a_loss() -> None:
    """It said itself that a part of it died, or it is told of where the loss is."""
    died = _life(6, "worker-exited", "engine")
    end = _life(7, "stopped", "engine", 0)

    assert end.origin.text in _follow(Kind.DEVICE_LEFT_BUS, *facts(), lost(5), died, end)
    assert end.origin.text not in _follow(Kind.DEVICE_LEFT_BUS, *facts(), lost(5), end)


def test_what_was_read_of_a_device_does_not_follow_from_its_loss() -> None:
    """A scan of the bus and a look at the power state are no effects."""
    for what in ("added", "active", "suspended"):
        read = DeviceChanged(**base(9, "read"), what=what)
        gone = DeviceChanged(**base(9, "gone"), what="unbound")

        assert _follow(Kind.DEVICE_LEFT_BUS, *facts(), lost(5), read, gone) == ["gone"]
