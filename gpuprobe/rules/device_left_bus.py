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
    "Cannot attach gpu", Windows' "surprise removed as it was reported as missing on the bus", a
    GPU that nvidia-smi listed before and lists no more while programs fail, a config space that
    reads all ones while the device may be powered down on purpose. With these alone the verdict
    is at most likely. `power/runtime_status` decides: where it reads "suspended" the device is
    powered down on purpose, and all ones say nothing; where it reads "active", all ones are proof.

What is no proof:
    Any CUDA error by itself: "unspecified launch failure" is printed for a lost device and for a
    kernel that executes a trap on a healthy one. Xid 154, which the driver logs for every GPU it
    manages. "No devices were found". A hung nvidia-smi. A lower link generation at idle. A device
    that somebody removed, unbound or reset on purpose. Kernel lines that a watched engine prints,
    while the driver goes on reading that GPU: they are old.

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
from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import (
    CudaFailed,
    Event,
    FirmwareFaulted,
    LinkStateReported,
    PresenceTested,
    ProbeStalled,
    Setting,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.rules import loss_signs
from gpuprobe.rules.absence import CAME_BACK_S, asked_for, sampled_after
from gpuprobe.rules.base import RM_STATUS_LOST, Finding, Rule, gpu_name, moment, stall_words
from gpuprobe.rules.loss_signs import Sign, Test
from gpuprobe.timeline import Timeline

CARRIES_ALONE = frozenset(
    {"status-lost", "rc-all-channels", "smu-all-ones", "surprise-removed", "gpuprobe", "unlisted"}
)
"""Supporting words that carry a likely loss when no firmware fault came before them."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """Losses, one finding a GPU."""
    by_gpu: dict[PciAddress | str | None, list[Sign]] = defaultdict(list)
    for sign in loss_signs.proofs(timeline):
        if not (asked_for(timeline, sign.event, sign.device) or _is_old(timeline, sign)):
            key = sign.device.slot if sign.device else sign.uuid
            by_gpu[key].append(sign)
    support = [
        sign
        for sign in loss_signs.supports(timeline)
        if not asked_for(timeline, sign.event, sign.device)
    ]
    _join_nameless(by_gpu)
    for key, signs in by_gpu.items():
        if isinstance(key, PciAddress) and signs:
            signs.extend(list(loss_signs.presence(timeline, key, signs)))
    findings = [_finding(timeline, signs) for signs in by_gpu.values() if signs]
    if findings:
        for finding in findings:
            _add_support(timeline, finding, support, alone=len(findings) == 1)
        return findings
    return _from_support(timeline, support)


def _is_old(timeline: Timeline, sign: Sign) -> bool:
    """Whether a program shows kernel lines of another time: the driver still reads the GPU."""
    return sign.event.setting is Setting.BARE and sampled_after(timeline, sign.event, sign.device)


def _join_nameless(by_gpu: dict[PciAddress | str | None, list[Sign]]) -> None:
    """Signs that name no device, or only a UUID, join the only device that is named."""
    named = [key for key in by_gpu if isinstance(key, PciAddress)]
    if len(named) != 1:
        return
    for key in [key for key in by_gpu if not isinstance(key, PciAddress)]:
        by_gpu[named[0]].extend(by_gpu.pop(key))


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
) -> LinkStateReported | PresenceTested | None:
    """A reading of the GPU's own config space after the loss and before the next boot."""
    tested = [
        test
        for test in timeline.of(PresenceTested)
        if device is not None
        and test.device is not None
        and test.device.slot == device
        and timeline.same_run(test, root)
        and (timeline.seconds_between(root, test) or 0.0) > 0
    ]
    if tested and tested[-1].directory and tested[-1].config == "answers":
        return tested[-1]
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
    for stall in timeline.of(ProbeStalled):
        gap = timeline.seconds_between(finding.root, stall)
        here = stall.device is None or stall.device.slot == finding.device
        if here and gap is not None and abs(gap) <= CAME_BACK_S:
            finding.cite(Role.SUPPORT, [stall], stall_words(stall))
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
    uuids = {sign.uuid for sign in signs if sign.uuid}
    finding = Finding(
        kind=Kind.DEVICE_LEFT_BUS,
        certainty=max((sign.strength for sign in signs), key=lambda certainty: certainty.rank),
        summary="",
        root=signs[0].event,
        device=device,
        uuid=uuids.pop() if len(uuids) == 1 else None,
        tags={"any-loss"},
    )
    for sign in signs:
        finding.cite(Role.SUPPORT, [sign.event], sign.says)
    known_by = (
        "the inputs hold only what the driver printed while it cleaned up, not the line that "
    )
    known_by += "says so"
    if kinds == {"surprise-removed"}:
        known_by = (
            "Windows found it missing on the bus, as it does for a card that was unplugged or "
            "switched off on purpose"
        )
    if kinds <= {"unlisted", "no-handle", "smi-error"}:
        known_by = "nvidia-smi listed it and does not any more, and the kernel log would say why"
    if kinds == {"gpuprobe"}:
        known_by = "gpuprobe asked it beside the engine, and the kernel log would confirm it"
        own = {sign.event.origin.line for sign in signs}
        noticed = [
            event
            for event in timeline.of(CudaFailed)
            if event.origin.input == finding.root.origin.input and event.origin.line not in own
        ]
        finding.cite(Role.CONSEQUENCE, noticed, "the error that made gpuprobe ask")
    name = gpu_name(device, finding.uuid)
    how = "probably" if finding.certainty is Certainty.LIKELY else "may have"
    finding.summary = f"{name[0].upper()}{name[1:]} {how} left the bus: {known_by}"
    return [finding]


RULE = Rule(Kind.DEVICE_LEFT_BUS, find)
