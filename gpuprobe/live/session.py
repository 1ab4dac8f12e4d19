"""A live session: sources polled, a rolling window kept, the rules asked when something happened.

The rules see a timeline, as they do for saved logs, so a live verdict and one from a recording of
the same minutes agree. They are asked when something arrived that is no sample, never at the
sampling rate, and what asking costs is bounded: asking takes a fifth of the time at most.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from gpuprobe import verdict
from gpuprobe.clock import now
from gpuprobe.clock_joining import Clocks
from gpuprobe.diagnosis import Diagnosis, Input, Kind, NotChecked, Verdict
from gpuprobe.events import (
    BridgeLinked,
    ConfigSpaceUnreadable,
    DeviceChanged,
    Event,
    FirmwareFaulted,
    GpuLostReported,
    GpuSampled,
    Origin,
    PresenceTested,
    ProbeStalled,
    SamplesTaken,
    Setting,
    SourceChanged,
    XidReported,
    is_evidence,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.probe import NvmlProbe
from gpuprobe.live.nvml.process import LeftBehind
from gpuprobe.live.nvml.rows import column
from gpuprobe.live.onsets import Onsets
from gpuprobe.live.returned import Returned
from gpuprobe.live.sources import WHAT, SourceState
from gpuprobe.live.window import KEEP_EVENTS, KEEP_S, RollingWindow, is_sample
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.rules.pcie_link_errors import NVML_COUNTERS
from gpuprobe.sources.base import Source
from gpuprobe.sources.pci.tree import ROOT, addresses, device_path, look, path_to_root
from gpuprobe.timeline import Timeline

POLL_S: Final = 0.6
"""Longest pause between two polls: a source that has something ends it early."""

AFTER_SAMPLES: Final = 2.0
"""Behind samples the pause is this many times as long, so that the next ones end it."""

LATE: Final = 1.2
"""And this many times as long as the samples were apart, where that is longer."""

APART_LIMIT_S: Final = 2.0
"""As far as samples are apart at most for that: calls that hang are looked for in between."""

APART_S: Final = 0.02
"""Shortest: a source that has something a thousand times a second does not make it longer."""

GIVE_BACK_S: Final = 3.0
"""A lost device answers with a new driver for so long before NVML asks it again."""

STOP_S: Final = 1.0
"""How long `stop` takes at most, whatever hangs."""

ASK_SHARE: Final = 5.0
"""After the rules were asked, they are left alone for this many times as long as they took."""

ASK_PAUSE_S: Final = 0.2
"""And at least this long."""

FIRMWARE_XIDS: Final = frozenset({119, 120, 175})
FIRMWARE_WORDS: Final = frozenset({"heartbeat", "rpc-timeout", "unresponsive"})
"""A firmware that stopped answering: the next NVML call may not return."""


@dataclass(frozen=True, slots=True)
class Update:
    """What came since the last one.

    Attributes:
        samples: Readings, in order of arrival within each source; see `events.taken_apart`.
        events: Everything else.
        diagnosis: The new diagnosis, where it changed; else None.
    """

    samples: tuple[Event, ...] = ()
    events: tuple[Event, ...] = ()
    diagnosis: Diagnosis | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The first verdict of a diagnosis that changed, else None."""
        return self.diagnosis.verdicts[0] if self.diagnosis is not None else None


class Session:
    """Watches through its sources until it is stopped.

    ```python
    session = Session(live_sources())
    session.start()
    try:
        for update in session.updates():
            if update.verdict is not None:
                print(update.verdict.summary)
    finally:
        session.stop()
    ```

    Args:
        sources: What to listen to.
        keep_s: Seconds of samples kept at full rate; ten minutes before that at one a second.
        keep_events: How many other events are kept.
        devices: What another device says is left out, but for the ports above these; None for
            every device.
        root: Where /sys is looked for, to test presence when the driver says "lost".
        wake: Ends the pause between two polls early; sources without a `wake` are given it.

    Attributes:
        diagnosis: The newest, or None before anything was judged.
        left_behind: After `stop`: processes that are still inside a driver call.
        poll_s: How often `updates` gives something, seconds; behind samples in twice the time.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        *,
        keep_s: float = KEEP_S,
        keep_events: int = KEEP_EVENTS,
        devices: Iterable[PciAddress] | None = None,
        root: Path = ROOT,
        wake: threading.Event | None = None,
    ) -> None:
        self.sources = tuple(sources)
        self.diagnosis: Diagnosis | None = None
        self.left_behind: tuple[LeftBehind, ...] = ()
        self.poll_s = POLL_S
        self._only = None if devices is None else {device.slot for device in devices}
        self._root = root
        self._wake = wake or threading.Event()
        self._window = RollingWindow(
            keep_s=keep_s, keep_events=keep_events, watched=frozenset(NVML_COUNTERS)
        )
        self._onsets = Onsets()
        self._states: dict[str, SourceState] = {}
        self._functions: set[PciAddress] = set()
        self._tested: set[PciAddress] = set()
        self._back = Returned(GIVE_BACK_S, root)
        self._stalls: dict[PciAddress, ProbeStalled] = {}
        self._tests: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._numbers = count(1)
        self._news = False
        self._ask_at = 0.0
        self._told: object = None
        self._over = threading.Event()

    # --- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start every source; one that cannot be used says why in `states`."""
        self._functions = set(addresses(self._root))
        for device in list(self._only or ()):
            self._only = {*(self._only or ()), *path_to_root(device, self._root)}
        for source in self.sources:
            self._states[source.name] = SourceState(source.name, source.available())
            if getattr(source, "wake", self._wake) is None:
                setattr(source, "wake", self._wake)  # noqa: B010 - not every source has one
            source.start()

    def updates(self, poll_s: float | None = None) -> Iterator[Update]:
        """What comes, until `stop`; an update, if an empty one, every so often.

        Args:
            poll_s: How often at least, seconds; `self.poll_s` when None.
        """
        polled = sampled_at = time.monotonic()
        sampled, apart = False, 0.0
        while not self._over.is_set():
            longest = self.poll_s if poll_s is None else poll_s
            if sampled and poll_s is None:
                longest = max(longest * AFTER_SAMPLES, LATE * min(apart, APART_LIMIT_S))
            due = max(0.0, self._ask_at - time.monotonic()) if self._news else longest
            self._wake.wait(min(longest, due))
            if (early := polled + APART_S - time.monotonic()) > 0:
                time.sleep(early)
            self._wake.clear()
            polled = time.monotonic()
            if self._over.is_set():
                return
            update = self.poll()
            sampled = bool(update.samples)
            if sampled:
                apart, sampled_at = polled - sampled_at, polled
            yield update

    def nudge(self) -> None:
        """Have `updates` give an update now. Not from a signal's handler: it takes a lock."""
        self._wake.set()

    def poll(self) -> Update:
        """What came since the last time. Returns at once, but for asking the rules."""
        samples: list[Event] = []
        events: list[Event] = []
        for event in self._arrived():
            if self._window.add(event):
                self._news = True
            (samples if is_sample(event) else events).append(event)
        begin = time.monotonic()
        self._give_back(begin)
        if not self._news or begin < self._ask_at:
            return Update(tuple(samples), tuple(events))
        self._news = False
        if self.nvml is not None:
            self.nvml.flush()  # the last samples before what happened are wanted now
        found = self.judge()
        took = time.monotonic() - begin
        self._ask_at = begin + took + max(ASK_PAUSE_S, ASK_SHARE * took)
        told = _gist(found)
        changed = told != self._told and not (self._told is None and found.answer is Kind.NO_FAULT)
        self._told = told
        return Update(tuple(samples), tuple(events), found if changed else None)

    def stop(self) -> tuple[LeftBehind, ...]:
        """Let go of every source, in a second at most, whatever hangs.

        Returns:
            Processes that are still inside a driver call; each ends when its call returns.
        """
        self._over.set()
        self._wake.set()
        threads = [
            threading.Thread(target=source.stop, name=f"stop-{source.name}", daemon=True)
            for source in self.sources
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + STOP_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if self.nvml is not None:
            self.left_behind = tuple(self.nvml.left_behind)
        return self.left_behind

    # --- what is known --------------------------------------------------------------------

    @property
    def nvml(self) -> NvmlProbe | None:
        """The NVML source, where there is one."""
        return next((one for one in self.sources if isinstance(one, NvmlProbe)), None)

    @property
    def states(self) -> tuple[SourceState, ...]:
        """How each source is doing, in the order of the sources."""
        return tuple(self._states.values())

    @property
    def devices(self) -> tuple[PciAddress, ...]:
        """GPUs seen so far, in order of address."""
        return tuple(sorted(self.timeline().gpus()))

    def timeline(self) -> Timeline:
        """What is remembered, as the rules see it."""
        events = self._window.events()
        return Timeline(events=events, inputs=self._inputs(events), clocks=Clocks())

    def judge(self) -> Diagnosis:
        """Ask the rules now."""
        found = verdict.diagnose(self.timeline())
        first, *rest = found.verdicts
        unseen = tuple(self._not_seen())
        told = {item.what for item in unseen}
        kept = tuple(item for item in first.not_checked if item.what not in told)
        self.diagnosis = replace(
            found, verdicts=(replace(first, not_checked=(*unseen, *kept)), *rest)
        )
        return self.diagnosis

    def _inputs(self, events: Sequence[Event]) -> list[Input]:
        kernel = self._states.get("kernel-log")
        log = kernel.access.value if kernel and isinstance(kernel.access, Known) else None
        paths = dict.fromkeys([log] if log else [])
        paths.update(dict.fromkeys(event.origin.input for event in events))
        names = set(self._states)
        return [
            Input(path, "kmsg" if path == log or path not in names else "live", None, 1)
            for path in paths
            if path != "kernel-log"
        ]

    def _not_seen(self) -> Iterator[NotChecked]:
        for state in self._states.values():
            if isinstance(state.access, Unavailable):
                access = state.access
                what = WHAT.get(state.name, state.name)
                yield NotChecked(what, access.detail or str(access.reason), access.hint)

    # --- what arrives ---------------------------------------------------------------------

    def _arrived(self) -> Iterator[Event]:
        for source in self.sources:
            for event in source.poll():
                if self._only is not None and not self._is_wanted(event):
                    continue
                yield event
                if isinstance(event, SamplesTaken):
                    yield from self._noted_samples(event)
                elif isinstance(event, GpuSampled):
                    yield from self._noted_sample(event)
                else:
                    self._note(source, event)
        while not self._tests.empty():
            yield self._tests.get_nowait()

    def _is_wanted(self, event: Event) -> bool:
        """Whether it is about a device that is watched, a port above one, or about none."""
        if self._only is None or event.device is None:
            return True
        known = event.device.slot in self._only or event.device in self._only
        if known and isinstance(event, BridgeLinked):
            self._only.add(event.parent)
        return known

    def _note(self, source: Source, event: Event) -> None:
        """Do what an event that is no sample makes the session do."""
        if isinstance(event, SourceChanged):
            self._note_source(source, event)
        elif isinstance(event, ProbeStalled) and event.device is not None:
            self._stalls[event.device] = event
        elif is_evidence(event):
            if event.setting is Setting.LOG:  # words that a program prints may be old
                self._stand_off(event)
            if isinstance(event, DeviceChanged) and event.device is not None:
                self._back.note(event, time.monotonic())

    def _noted_samples(self, event: SamplesTaken) -> Iterator[Event]:
        """As `_noted_sample`, for each where one of them is more than a sample; few are."""
        masks = column(event.samples, "clocks_event_reasons")
        if self._stalls or self._onsets.is_new(event.device, masks):
            for sample in event.samples:
                yield from self._noted_sample(sample)

    def _noted_sample(self, sample: GpuSampled) -> Iterator[Event]:
        """Do what a sample makes the session do, and give the events that follow from it."""
        yield from self._onsets.begun(sample)
        self._end_stall(sample)
        if self.nvml is not None and self._onsets.lacks_limits(sample.device):
            readings: Mapping[Any, Mapping[str, Any]] = self.nvml.readings()
            yield from self._onsets.limits(sample, readings.get(sample.device, {}))

    def _give_back(self, here: float) -> None:
        """Let NVML ask devices again that came back with a driver and have answered since."""
        for device in self._back.due(here):
            if self.nvml is not None and device in self.nvml.untouchable:
                self._tested.discard(device)
                self.nvml.give_back(device)

    def _end_stall(self, sample: GpuSampled) -> None:
        """A call that came back late: what was said of it has to be judged anew."""
        stall = self._stalls.get(sample.device) if sample.device is not None else None
        if stall is None or stall.stamp is None or sample.stamp is None:
            return
        if (sample.stamp.monotonic_s or 0.0) > (stall.stamp.monotonic_s or 0.0):
            self._stalls = {pci: one for pci, one in self._stalls.items() if one is not stall}
            self._news = True

    def _note_source(self, source: Source, event: SourceChanged) -> None:
        before = self._states.get(source.name)
        access = before.access if before else source.available()
        if event.what in ("unavailable", "started"):
            access = source.available()
            if event.what == "unavailable" and isinstance(access, Known):
                access = Unavailable(Reason.FAILED, event.origin.text)
        if event.device is None:
            self._states[source.name] = SourceState(
                source.name, access, event.what, event.origin.text
            )

    def _stand_off(self, event: Event) -> None:
        """Leave a lost device alone, and the library after a firmware hang."""
        probe = self.nvml
        hung = (isinstance(event, XidReported) and event.code in FIRMWARE_XIDS) or (
            isinstance(event, FirmwareFaulted) and event.what in FIRMWARE_WORDS
        )
        if hung and probe is not None:
            probe.cease(event.origin.text)
        lost = isinstance(event, GpuLostReported) or (
            isinstance(event, XidReported) and event.code == 79
        )
        silent = isinstance(event, ConfigSpaceUnreadable) and event.how == "all-ones"
        device = event.device.slot if event.device is not None else None
        if device is None or not (lost or silent):
            return
        if probe is not None and event.origin.input != probe.name:
            probe.skip(device)
        if lost and device in self._functions and device not in self._tested:
            self._tested.add(device)
            threading.Thread(
                target=self._test_presence, args=(device,), name="presence", daemon=True
            ).start()

    def _test_presence(self, device: PciAddress) -> None:
        """The tests without the driver, right after the driver said "lost"."""
        found = look([device], self._root)[device]
        words = "its directory is gone" if not found.directory else f"config space {found.config}"
        base: dict[str, Any] = {
            "origin": Origin(
                "sysfs",
                None,
                f"{device}: {words} after the driver said that it is lost ({found.detail})",
                str(device_path(device, self._root)),
                (len(self.sources), next(self._numbers)),
            ),
            "stamp": now(),
            "device": device,
        }
        self._tests.put(
            PresenceTested(**base, directory=found.directory, config=found.config, driver="lost")
        )
        self._wake.set()


def _gist(found: Diagnosis) -> object:
    """What makes two diagnoses the same to somebody who watches: counts and times may differ."""
    return tuple(
        (
            one.kind,
            one.certainty,
            one.device.pci if one.device else None,
            one.xids,
            one.other_devices,
            re.sub(r"\d+", "#", one.summary),
        )
        for one in found.verdicts
    )
