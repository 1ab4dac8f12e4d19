"""The GPU stopped answering on PCIe (or on the tunnel it hangs on).

What proves it:
    Xid 79. "GPU ... has fallen off the bus", with or without an Xid, at run time or at probe.
    NVML's GPU_IS_LOST. Config space that reads all ones, or cannot be read when the kernel wants
    to change the device's power state. "not ready ... giving up" after a reset. AER that finds
    the device inaccessible. Surprise down, DPC containment, or a hot-plug port's Link Down, at a
    port that the log shows to be above the GPU, unless the device came back within a minute.
    amdgpu's "device lost from bus".

What only supports it:
    Status 0x0000000f in clean-up lines, "Unable to determine the device handle ... Unknown Error",
    "Cannot attach gpu", a config space that reads all ones while the device may be powered down
    on purpose. With these alone the verdict is at most likely. Where `power/runtime_status` reads
    "suspended" it is powered down on purpose, and all ones say nothing.

What is no proof:
    Any CUDA error by itself: "unspecified launch failure" is printed for a lost device and for a
    kernel that executes a trap on a healthy one. Xid 154, which the driver logs for every GPU it
    manages. "No devices were found". A hung nvidia-smi. A lower link generation at idle. A device
    that somebody removed, unbound or reset on purpose.

Three tests:
    (a) is the device's directory still in sysfs, (b) does its config space answer, (c) does the
    driver still reach it. The sentence says which of them failed. When only (c) failed the bus
    may be fine, and that speaks against the link as the cause.

When:
    An Xid 79 is logged when something next touches the GPU, so its time is when the loss was
    noticed. The process it names is the witness, not the cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import (
    AdapterInitFailed,
    AdminActed,
    AerRecoveryEnded,
    AerReported,
    ConfigSpaceUnreadable,
    DeviceChanged,
    DpcTriggered,
    Event,
    FirmwareFaulted,
    GpuLostReported,
    LinkStateReported,
    LossHinted,
    Setting,
    SlotChanged,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.rules import xids
from gpuprobe.rules.base import Finding, Rule, gpu_name, moment
from gpuprobe.timeline import Timeline

CAME_BACK_S = 60.0
"""A link that is up again within this time bounced; the device did not leave."""

ON_PURPOSE_S = 600.0
"""How long after somebody's removal or reset an absence is taken to be asked for."""

RM_STATUS_LOST = 0x0F


class Test(StrEnum):
    """Which of the three tests a sign belongs to."""

    DIRECTORY = "directory"
    CONFIG = "config"
    DRIVER = "driver"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Sign:
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


def _driver_signs(timeline: Timeline) -> Iterator[Sign]:
    for event in timeline.of(XidReported, GpuLostReported):
        uuid = event.uuid
        device = event.device
        if device is None and uuid is not None:
            known = timeline.identify(None, uuid=uuid)
            device = known.pci if known else None
        if isinstance(event, XidReported):
            if event.code == 79:
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
        if event.how == "all-ones" and _suspended(timeline, event):
            continue
        asleep = event.from_state in ("D3cold", "D3hot") or event.how == "all-ones"
        strength = Certainty.LIKELY if asleep else Certainty.CONFIRMED
        says = {
            "power-state": "config space reads all ones",
            "not-ready": "the device did not come back after a reset",
            "all-ones": "config space reads all ones (or the card is powered down)",
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


def _suspended(timeline: Timeline, event: Event) -> bool:
    """Whether the inputs say that the device is powered down on purpose: all ones, too."""
    return any(
        change.what == "suspended"
        and change.device is not None
        and event.device is not None
        and change.device.slot == event.device.slot
        and timeline.same_run(change, event)
        for change in timeline.of(DeviceChanged)
    )


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


def came_back(timeline: Timeline, event: Event, gpu: PciAddress | None) -> bool:
    """Whether the link or the device answered again within `CAME_BACK_S` of `event`."""
    port = event.device
    for later in timeline.of(AerRecoveryEnded, SlotChanged, DeviceChanged, LinkStateReported):
        good = (
            (isinstance(later, AerRecoveryEnded) and later.outcome in ("recovered", "link-reset"))
            or (isinstance(later, SlotChanged) and later.what in ("link-up", "ignored"))
            or (isinstance(later, DeviceChanged) and later.what == "answered")
            or (isinstance(later, LinkStateReported) and later.what == "active")
        )
        if not good or later.device is None:
            continue
        of_gpu = gpu is not None and (
            later.device.slot == gpu.slot or gpu.slot in timeline.gpus_below(later.device)
        )
        if later.device != port and not of_gpu:
            continue
        if not timeline.same_run(later, event):
            continue
        gap = timeline.seconds_between(event, later)
        if gap is None:
            if timeline.precedes(event, later):
                return True
        elif -2 <= gap <= CAME_BACK_S:
            return True
    return False


def _support_signs(timeline: Timeline) -> Iterator[Sign]:
    words = {
        "status-lost": "a driver call ended with status 0x0f, GPU is lost",
        "rc-all-channels": "the driver failed every channel for Xid 79",
        "attached-check": "a driver call was refused as the GPU is no longer attached",
        "no-handle": "NVML has no handle for the GPU",
        "cannot-attach": "the driver cannot attach the GPU",
        "uvm-fatal": "UVM met an error that it treats as global",
        "modeset-lost": "the display side got status 0x0f",
        "remove-busy": "the device was removed while in use",
        "smu-all-ones": "the power controller reads all ones",
        "crash-dump": "the driver wrote a crash dump",
        "bridge-error": "another function of the card died with it",
        "smi-error": "nvidia-smi shows an error in place of a reading",
    }
    for event in timeline.of(LossHinted):
        if event.what in words and not (event.what == "rc-all-channels" and event.xid != 79):
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


LOST_XID = 79

CARRIES_ALONE = frozenset({"status-lost", "rc-all-channels", "smu-all-ones"})
"""Supporting words that carry a likely loss when no firmware fault came before them."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """Losses, one finding a GPU."""
    proofs: dict[PciAddress | str | None, list[Sign]] = defaultdict(list)
    for sign in (
        *_driver_signs(timeline),
        *_config_signs(timeline),
        *_link_signs(timeline),
    ):
        if not asked_for(timeline, sign.event, sign.device):
            key = sign.device.slot if sign.device else sign.uuid
            proofs[key].append(sign)
    support = [
        sign
        for sign in _support_signs(timeline)
        if not asked_for(timeline, sign.event, sign.device)
    ]
    _join_nameless(proofs)
    findings = [_finding(timeline, signs) for signs in proofs.values() if signs]
    if findings:
        for finding in findings:
            _add_support(timeline, finding, support, alone=len(findings) == 1)
        return findings
    return _from_support(timeline, support)


def _join_nameless(proofs: dict[PciAddress | str | None, list[Sign]]) -> None:
    """Signs that name no device, or only a UUID, join the only device that is named."""
    named = [key for key in proofs if isinstance(key, PciAddress)]
    if len(named) != 1:
        return
    for key in [key for key in proofs if not isinstance(key, PciAddress)]:
        proofs[named[0]].extend(proofs.pop(key))


def asked_for(timeline: Timeline, event: Event, device: PciAddress | None) -> bool:
    """Whether somebody removed, unbound or reset the device shortly before `event`."""
    for act in timeline.of(AdminActed):
        if act.what not in ("remove", "unbind", "reset", "rmmod", "slot-power", "bind-vfio"):
            continue
        if act.device is not None and device is not None:
            # Whoever removes a port removes what lies below it.
            below = timeline.gpus_below(act.device)
            if act.device.slot != device.slot and device.slot not in below:
                continue
        if not timeline.same_run(act, event):
            continue
        gap = timeline.seconds_between(act, event)
        if gap is None:
            before = timeline.precedes(act, event)
            if before:
                return True
        elif -1 <= gap <= ON_PURPOSE_S:
            return True
    return False


def _finding(timeline: Timeline, signs: list[Sign]) -> Finding:
    signs = sorted(signs, key=lambda sign: sign.event.origin.order)
    root = _root(timeline, signs)
    device = next((sign.device.slot for sign in signs if sign.device), None)
    uuid = next((sign.uuid for sign in signs if sign.uuid), None)
    tests = {sign.test for sign in signs}
    finding = Finding(
        kind=Kind.DEVICE_LEFT_BUS,
        certainty=_certainty(signs, device),
        summary="",
        root=root.event,
        device=device,
        uuid=uuid,
        tags={"any-loss"},
    )
    for sign in signs:
        finding.cite(Role.PROOF, [sign.event], sign.says)
    answers = _config_answers(timeline, root.event, device)
    if answers is not None and tests == {Test.DRIVER}:
        finding.cite(Role.SUPPORT, [answers], "config space still answers")
        finding.tags.add("config-alive")
    finding.summary = _summary(finding, tests, bool(answers))
    return finding


def _root(timeline: Timeline, signs: list[Sign]) -> Sign:
    """The earliest sign; of one moment, the one that names a device.

    A reading without a time (lspci in a bug report) says that the GPU is gone, not when it went:
    it is the root only where no sign has a time.
    """
    signs = [sign for sign in signs if sign.event.stamp is not None] or signs
    first = signs[0]
    for sign in signs[1:]:
        if timeline.precedes(sign.event, first.event) or (
            first.device is None and sign.device is not None
        ):
            first = sign
    return first


def _certainty(signs: Sequence[Sign], device: PciAddress | None) -> Certainty:
    best = max((sign.strength for sign in signs), key=lambda certainty: certainty.rank)
    if best is not Certainty.CONFIRMED or device is None:
        return min(best, Certainty.LIKELY, key=lambda certainty: certainty.rank)
    if any(
        sign.event.setting is Setting.LOG and sign.strength is Certainty.CONFIRMED for sign in signs
    ):
        return Certainty.CONFIRMED
    # Words without a log around them: two witnesses that do not depend on each other agree.
    return Certainty.CONFIRMED if len({sign.kind for sign in signs}) > 1 else Certainty.LIKELY


def _config_answers(
    timeline: Timeline, root: Event, device: PciAddress | None
) -> LinkStateReported | None:
    """A reading of the GPU's own link after the loss and before the next boot."""
    for event in timeline.of(LinkStateReported):
        if (
            event.what == "sampled"
            and device is not None
            and event.device is not None
            and event.device.slot == device
            and event.width in (1, 2, 4, 8, 12, 16, 32)
            and timeline.same_run(event, root)
            and timeline.precedes(root, event)
        ):
            return event
    return None


def _summary(finding: Finding, tests: set[Test], answers: bool) -> str:
    name = gpu_name(finding.device, finding.uuid)
    when = moment(finding.root)
    noticed = f": noticed {when}" if when else ""
    if tests == {Test.DRIVER} and answers:
        return f"The driver lost {name}; its config space still answers{noticed}"
    failed = {
        Test.DIRECTORY: "its directory is gone",
        Test.CONFIG: "config space reads all ones",
        Test.DRIVER: "the driver lost it",
        Test.LINK: "the link above it went down",
    }
    reasons = [failed[test] for test in Test if test in tests]
    said = " and ".join(filter(None, (", ".join(reasons[:-1]), reasons[-1])))
    return f"{name[0].upper()}{name[1:]} left the bus{noticed} ({said})"


def _add_support(
    timeline: Timeline, finding: Finding, support: Sequence[Sign], *, alone: bool
) -> None:
    for sign in support:
        device = sign.device.slot if sign.device else None
        if (device is None and alone) or (device is not None and device == finding.device):
            role = Role.CONSEQUENCE
            if not timeline.same_run(sign.event, finding.root):
                continue
            finding.cite(role, [sign.event], sign.says)


def _from_support(timeline: Timeline, support: Sequence[Sign]) -> Sequence[Finding]:
    """A likely loss from supporting words alone, when the firmware did not fail first."""
    carrying = [sign for sign in support if sign.kind in CARRIES_ALONE]
    kinds = {sign.kind for sign in support}
    if not carrying and not {"no-handle", "uvm-fatal"} <= kinds:
        return []
    signs = sorted(support, key=lambda sign: sign.event.origin.order)
    for fault in timeline.of(FirmwareFaulted, XidReported):
        firmware = isinstance(fault, FirmwareFaulted) and fault.status != RM_STATUS_LOST
        root_xid = isinstance(fault, XidReported) and fault.code in (62, 119, 120, 175, 48, 95, 109)
        if (firmware or root_xid) and not timeline.precedes(signs[0].event, fault):
            return []
    named = {sign.device.slot for sign in signs if sign.device}
    device = named.pop() if len(named) == 1 else None
    finding = Finding(
        kind=Kind.DEVICE_LEFT_BUS,
        certainty=Certainty.LIKELY,
        summary="",
        root=signs[0].event,
        device=device,
        tags={"any-loss"},
    )
    for sign in signs:
        finding.cite(Role.SUPPORT, [sign.event], sign.says)
    name = gpu_name(device)
    finding.summary = (
        f"{name[0].upper()}{name[1:]} probably left the bus: the inputs hold only what the driver "
        "printed while it cleaned up, not the line that says so"
    )
    return [finding]


RULE = Rule(Kind.DEVICE_LEFT_BUS, find)
