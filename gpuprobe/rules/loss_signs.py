"""The signs of a loss, one an event: what each says, of which GPU and how strongly.

`device_left_bus` weighs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from gpuprobe.diagnosis import Certainty
from gpuprobe.events import (
    AdapterInitFailed,
    AerReported,
    ConfigSpaceUnreadable,
    DeviceChanged,
    DpcTriggered,
    Event,
    FirmwareFaulted,
    GpuLostReported,
    LinkStateReported,
    LossHinted,
    PresenceTested,
    SlotChanged,
    XidReported,
    is_evidence,
)
from gpuprobe.identity import PciAddress
from gpuprobe.rules import xids
from gpuprobe.rules.absence import CAME_BACK_S, answered_again, came_back
from gpuprobe.rules.base import LOST_XID, RM_STATUS_LOST
from gpuprobe.rules.listings import is_told, is_trouble, no_longer_listed
from gpuprobe.timeline import SAME_MOMENT_S, Timeline
from gpuprobe.values import Value


class Test(StrEnum):
    """Which of the three tests a sign belongs to."""

    DIRECTORY = "directory"
    CONFIG = "config"
    DRIVER = "driver"
    LINK = "link"


class Sign(Value):
    """One event that speaks for a loss, and how strongly.

    Attributes:
        event: The event.
        device: The GPU it speaks about, or None.
        test: Which of the three tests failed (or the link above).
        strength: Best certainty that this sign alone can carry.
        says: What it means, one clause.
        uuid: The GPU's UUID where the event has no address.
        kind: Name of the wording, to tell two independent witnesses from one.
    """

    event: Event
    device: PciAddress | None
    test: Test
    strength: Certainty
    says: str
    kind: str
    uuid: str | None = None


def proofs(timeline: Timeline) -> Iterator[Sign]:
    """Signs that a loss leaves of its own: the driver's, config space's, the link's."""
    yield from _driver_signs(timeline)
    yield from _config_signs(timeline)
    yield from _link_signs(timeline)


def _driver_signs(timeline: Timeline) -> Iterator[Sign]:
    for event in timeline.of(XidReported, GpuLostReported):
        uuid = event.uuid
        device = event.device
        if device is None and uuid is not None:
            known = timeline.identify(None, uuid=uuid)
            device = known.pci if known else None
        if isinstance(event, XidReported):
            if event.code == LOST_XID:
                says = f"the driver's reads no longer reach this GPU's registers{_witness(event)}"
                yield Sign(event, device, Test.DRIVER, Certainty.CONFIRMED, says, event.via, uuid)
            continue
        says = {
            "driver": "the driver lost the GPU",
            "probe": "the driver found the GPU dead when it was loaded",
            "nvml": "NVML answers GPU_IS_LOST",
            "amdgpu": "PCI_COMMAND reads all ones",
        }[event.by]
        test = Test.CONFIG if event.by == "amdgpu" else Test.DRIVER
        kind = "kernel" if event.by == "driver" else event.by
        yield Sign(event, device, test, Certainty.CONFIRMED, says, kind, uuid)


def _witness(event: XidReported) -> str:
    """The process an Xid 79 names touched the GPU first and noticed: no cause."""
    if not event.process or "unknown" in event.process:
        return ""
    return f"; {event.process} noticed it and is no cause"


def _config_signs(timeline: Timeline) -> Iterator[Sign]:
    for event in timeline.of(ConfigSpaceUnreadable):
        if not timeline.is_gpu(event.device) or event.how == "waiting":
            continue
        ones = event.how == "all-ones"
        if ones and (_suspended(timeline, event) or answered_again(timeline, event)):
            continue
        awake = ones and _was_awake(timeline, event)
        asleep = event.from_state in ("D3cold", "D3hot") or (ones and not awake)
        strength = Certainty.LIKELY if asleep else Certainty.CONFIRMED
        says = {
            "power-state": "config space reads all ones",
            "not-ready": "the device did not come back after a reset",
            "all-ones": "config space reads all ones"
            + (" (or the card is powered down)" if asleep else ", and the device is not asleep"),
        }[event.how]
        yield Sign(event, event.device, Test.CONFIG, strength, says, "config")
    for aer in timeline.of(AerReported):
        if aer.layer == "Inaccessible" and timeline.is_gpu(aer.device):
            says = "AER could not read the device any more"
            yield Sign(aer, aer.device, Test.CONFIG, Certainty.CONFIRMED, says, "aer")
    for change in timeline.of(DeviceChanged):
        bound = change.driver in ("nvidia", "amdgpu", "nouveau")
        if change.what == "removed" and bound and timeline.is_gpu(change.device):
            says = "the device was removed while its driver was bound"
            yield Sign(change, change.device, Test.DIRECTORY, Certainty.CONFIRMED, says, "removed")


def _power_states(timeline: Timeline, event: Event, what: str) -> Iterator[DeviceChanged]:
    """Readings of the device's runtime power state that say `what`."""
    for change in timeline.of(DeviceChanged):
        if (
            change.what == what
            and change.device is not None
            and event.device is not None
            and change.device.slot == event.device.slot
            and timeline.same_run(change, event)
        ):
            yield change


def _suspended(timeline: Timeline, event: Event) -> bool:
    """Whether the inputs say that the device is powered down on purpose: all ones, too."""
    return any(True for _ in _power_states(timeline, event, "suspended"))


def _was_awake(timeline: Timeline, event: Event) -> bool:
    """Whether somebody, or a live probe, looked at the power state too, and it was on."""
    probed = any(
        test.config == "all-ones"
        and test.device == event.device
        and (gap := timeline.seconds_between(test, event)) is not None
        and abs(gap) <= SAME_MOMENT_S
        for test in timeline.of(PresenceTested)
    )
    return probed or any(
        (gap := timeline.seconds_between(state, event)) is None or abs(gap) <= CAME_BACK_S
        for state in _power_states(timeline, event, "active")
    )


def presence(timeline: Timeline, device: PciAddress, signs: Sequence[Sign]) -> Iterator[Sign]:
    """What tests of presence add to a loss that something else shows."""
    silent = any(isinstance(sign.event, ConfigSpaceUnreadable) for sign in signs)
    for test in timeline.of(PresenceTested):
        if test.device is None or test.device.slot != device:
            continue
        gaps = [timeline.seconds_between(sign.event, test) for sign in signs]
        if not any(gap is not None and abs(gap) <= CAME_BACK_S for gap in gaps):
            continue
        if not test.directory:
            says = "its directory in sysfs is gone"
            yield Sign(test, device, Test.DIRECTORY, Certainty.LIKELY, says, "presence")
        elif test.config == "all-ones" and not silent and not answered_again(timeline, test):
            says = "config space reads all ones, and the device is not asleep"
            yield Sign(test, device, Test.CONFIG, Certainty.CONFIRMED, says, "presence")


def _link_signs(timeline: Timeline) -> Iterator[Sign]:
    """Signs at the port above a GPU, unless the link came back."""
    for event in timeline.of(AerReported, DpcTriggered, SlotChanged, LinkStateReported):
        says = _link_words(event)
        if not says:
            continue
        gpus: tuple[PciAddress, ...] = timeline.gpus_below(event.device)
        if isinstance(event, DpcTriggered) and timeline.is_gpu(event.sender):
            gpus = (event.sender.slot,) if event.sender else ()
        elif isinstance(event, AerReported) and timeline.is_gpu(event.device):
            gpus = (event.device.slot,) if event.device else ()
        if len(gpus) != 1 or came_back(timeline, event, gpus[0]) or _slot_setup(event):
            continue
        yield Sign(event, gpus[0], Test.LINK, Certainty.CONFIRMED, says, "link")


def _link_words(event: Event) -> str:
    match event:
        case AerReported(bits=bits) if "SDES" in bits:
            return "Surprise Down: the link went away without being asked to"
        case DpcTriggered():
            return "the port's containment cut the link below it"
        case SlotChanged(what="link-down"):
            return "the hot-plug port above it lost the link"
        case SlotChanged(what="card-not-present"):
            return "the hot-plug port above it finds no card"
        case LinkStateReported(what="inactive"):
            return "the data link layer below the port is down"
        case _:
            return ""


def _slot_setup(event: Event) -> bool:
    """An empty slot says "Card not present" while the kernel sets its port up."""
    if not isinstance(event, SlotChanged) or event.what != "card-not-present":
        return False
    stamp = event.stamp
    return stamp is not None and stamp.monotonic_s is not None and stamp.monotonic_s < 10


def unlisted(timeline: Timeline) -> Iterator[Sign]:
    """GPUs that nvidia-smi lists no more, where something else tells of trouble too."""
    if any(is_trouble(event) for event in timeline.events if is_evidence(event)):
        strength = Certainty.LIKELY
    elif any(map(is_told, timeline.events)):
        strength = Certainty.POSSIBLE
    else:
        return
    for before, after, gpu in no_longer_listed(timeline):
        says = f"nvidia-smi does not list {gpu}, which it listed in line {before.origin.line}"
        device = PciAddress.try_parse(gpu)
        uuid = gpu if device is None else None
        known = timeline.identify(None, uuid=uuid) if uuid else None
        device = known.pci if known else device
        yield Sign(after, device, Test.DRIVER, strength, says, "unlisted", uuid)


def supports(timeline: Timeline) -> Iterator[Sign]:
    """Signs that only support one: what the driver prints while it cleans up."""
    words = {
        "status-lost": "a driver call ended with status 0x0f, GPU is lost",
        "rc-all-channels": "the driver failed every channel for Xid 79",
        "attached-check": "a driver call was refused as the GPU is no longer attached",
        "no-handle": "NVML has no handle for the GPU",
        "cannot-attach": "the driver cannot attach the GPU",
        "uvm-fatal": "UVM met an error that it treats as global",
        "modeset-lost": "the display side got status 0x0f",
        "remove-busy": "the device was removed while in use",
        "surprise-removed": "Windows found the GPU missing on the bus",
        "smu-all-ones": "the power controller reads all ones",
        "crash-dump": "the driver wrote a crash dump",
        "bridge-error": "another function of the card died with it",
        "smi-error": "nvidia-smi shows an error in place of a reading",
        "unavailable": "NVML's event says that the GPU is unavailable",
        "gpuprobe": "gpuprobe asked it beside the engine and found it lost",
    }
    yield from unlisted(timeline)
    for event in timeline.of(LossHinted):
        if event.what in words and not (event.what == "rc-all-channels" and event.xid != LOST_XID):
            yield Sign(
                event, event.device, Test.DRIVER, Certainty.LIKELY, words[event.what], event.what
            )
    for cleanup in xids.blaming(timeline, lambda code: code == LOST_XID):
        says = "the clean-up of a program's channels names Xid 79"
        yield Sign(cleanup, cleanup.device, Test.DRIVER, Certainty.LIKELY, says, "rc-all-channels")
    for fault in timeline.of(AdapterInitFailed, FirmwareFaulted):
        if fault.status == RM_STATUS_LOST:
            says = "the driver gave up with status 0x0f, GPU is lost"
            yield Sign(fault, fault.device, Test.DRIVER, Certainty.LIKELY, says, "status-lost")
