"""Order, boots, GPUs and the ports above them."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprobe.boot_numbers import number_boots
from gpuprobe.clock import Stamp
from gpuprobe.clock_joining import Clocks
from gpuprobe.diagnosis import Input
from gpuprobe.events import (
    AerReported,
    BootStarted,
    BridgeLinked,
    CudaFailed,
    DeviceChanged,
    DeviceIdentified,
    Event,
    LinkStateReported,
    Origin,
    Setting,
    SystemDescribed,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.timeline import Timeline

GPU = PciAddress.parse("0000:41:00.0")
SWITCH = PciAddress.parse("0000:40:08.0")
ROOT = PciAddress.parse("0000:3f:01.0")


class Lines:
    """Builds events on consecutive lines of inputs."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(
        self, kind: type[Event], path: str = "k.log", up: float | None = None, **fields: Any
    ) -> Event:
        line = len(self.events) + 1
        stamp = None if up is None else Stamp(f"[{up:.6f}]", monotonic_s=up, resolution_s=1e-6)
        event = kind(
            origin=Origin(path, line, f"line {line}", order=(0, line)), stamp=stamp, **fields
        )
        self.events.append(event)
        return event

    def timeline(self, form: str = "text") -> Timeline:
        paths = dict.fromkeys(["k.log", *(event.origin.input for event in self.events)])
        inputs = [Input(path, form, None) for path in paths]
        clocks = Clocks()
        clocks.learn([], self.events)
        return Timeline(self.events, inputs, clocks=clocks)


@pytest.fixture
def lines() -> Lines:
    return Lines()


def test_evidence_leaves_prose_and_code_out(lines: Lines) -> None:
    """`of` gives a log's and a program's own words, `all_of` everything."""
    settings = [Setting.LOG, Setting.BARE, Setting.PROSE, Setting.CODE]
    for setting in settings:
        lines.add(XidReported, code=79, setting=setting)
    timeline = lines.timeline()

    assert [event.setting for event in timeline.of(XidReported)] == settings[:2]
    assert [event.setting for event in timeline.all_of(XidReported)] == settings


def test_messages_of_one_moment_are_in_no_order(lines: Lines) -> None:
    """Within two seconds neither is first; beyond, time decides and not the place."""
    late = lines.add(XidReported, up=20.0, code=79)
    early = lines.add(XidReported, up=10.0, code=31)
    near = lines.add(XidReported, up=21.0, code=154)
    timeline = lines.timeline()

    assert timeline.precedes(early, late) is True
    assert timeline.precedes(late, early) is False
    assert timeline.precedes(late, near) is None


def test_without_time_the_place_in_one_file_decides(lines: Lines) -> None:
    """Order within each file only; across files nothing is said."""
    first = lines.add(CudaFailed, code=719, name=None, message="m")
    second = lines.add(CudaFailed, code=719, name=None, message="m")
    other = lines.add(CudaFailed, path="e.log", code=719, name=None, message="m")
    timeline = lines.timeline()

    assert timeline.precedes(first, second) is True
    assert timeline.precedes(first, other) is None


def test_between_takes_what_can_be_compared(lines: Lines) -> None:
    """Only evidence with a known distance is near."""
    root = lines.add(XidReported, up=100.0, code=79)
    inside = lines.add(XidReported, up=95.0, code=31)
    lines.add(XidReported, up=10.0, code=31)
    lines.add(XidReported, code=31)

    assert list(lines.timeline().between(root, 10, 0)) == [root, inside]


def test_a_log_that_starts_with_its_boot_holds_one_boot(lines: Lines) -> None:
    """The kernel's first line and what else that line says are of one boot."""
    start = lines.add(BootStarted, up=0.0)
    timeline = Timeline([*lines.events], [])

    assert timeline.boots_in("k.log") == 1
    assert timeline.boot_of(start) == "k.log#0"


def test_facts_of_the_boot_s_first_line_belong_to_the_new_boot(lines: Lines) -> None:
    """`Linux version` names the kernel and starts the boot: no boot of its own for the name."""
    lines.add(XidReported, up=50.0, code=79)
    start = lines.add(BootStarted, up=0.0)
    named = SystemDescribed(origin=start.origin, stamp=start.stamp, key="kernel", value="6.12")
    boots = number_boots([lines.events[0], named, start])

    assert boots[id(named)] == boots[id(start)] != boots[id(lines.events[0])]


def test_a_kernel_clock_that_falls_back_is_another_boot(lines: Lines) -> None:
    """Nobody said so, and yet seconds since boot cannot run backwards."""
    before = lines.add(XidReported, up=5000.0, code=79)
    jitter = lines.add(XidReported, up=4999.5, code=154)
    after = lines.add(DeviceChanged, up=8.0, what="bound", device=GPU)
    boots = number_boots(lines.events)

    assert boots[id(before)] == boots[id(jitter)] != boots[id(after)]


def test_uptimes_of_two_boots_are_not_compared(lines: Lines) -> None:
    """Seconds since boot count anew: only the place in the file tells the order."""
    first = lines.add(XidReported, up=900.0, code=79)
    lines.add(BootStarted, up=0.0)
    second = lines.add(XidReported, up=700.0, code=79)
    timeline = lines.timeline()

    assert timeline.seconds_between(first, second) is None
    assert timeline.precedes(first, second) is True


def test_a_program_s_log_above_a_boot_is_no_earlier_boot(lines: Lines) -> None:
    """Two logs pasted into one text: the engine's lines stand above the kernel's first line."""
    engine = lines.add(CudaFailed, code=719, name=None, message="m")
    start = lines.add(BootStarted, up=0.0)
    boots = number_boots(lines.events)

    assert boots[id(engine)] == boots[id(start)]


def test_a_journal_s_boot_id_is_the_boot_s_name(lines: Lines) -> None:
    """Two inputs with one boot id hold one boot."""
    boot = "0123456789abcdef0123456789abcdef"
    first = lines.add(XidReported, path="a", code=79, boot=boot)
    second = lines.add(XidReported, path="b", code=79, boot=boot)
    timeline = lines.timeline()

    assert timeline.boot_of(first) == timeline.boot_of(second) == boot


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (XidReported, {"code": 31}),
        (DeviceIdentified, {"is_gpu": True}),
        (DeviceChanged, {"what": "bound", "driver": "nvidia"}),
        (DeviceChanged, {"what": "added", "class_code": 0x030200}),
        (AerReported, {"severity": "correctable", "driver": "amdgpu"}),
    ],
)
def test_a_line_that_shows_a_gpu_makes_its_slot_one(
    lines: Lines, kind: type[Event], fields: dict[str, Any]
) -> None:
    """A driver, a class, an Xid: then every function of the slot is a GPU's."""
    lines.add(kind, device=GPU, **fields)
    timeline = lines.timeline()

    assert timeline.is_gpu(PciAddress.parse("0000:41:00.1"))
    assert not timeline.is_gpu(SWITCH)
    assert not timeline.is_gpu(None)


def test_a_sound_driver_or_a_disk_class_shows_no_gpu(lines: Lines) -> None:
    """vfio-pci, snd_hda_intel and class 0x0108 say nothing of a GPU."""
    lines.add(AerReported, device=GPU, severity="correctable", driver="vfio-pci")
    lines.add(DeviceChanged, device=SWITCH, what="added", class_code=0x010802)

    assert lines.timeline().gpus() == frozenset()


def test_prose_shows_no_gpu(lines: Lines) -> None:
    """An address in somebody's sentence is no device of this machine."""
    lines.add(XidReported, code=79, device=GPU, setting=Setting.PROSE)

    assert lines.timeline().gpus() == frozenset()


def test_a_gpu_is_found_below_every_port_above_it(lines: Lines) -> None:
    """Hop by hop up to the root port, and not below a stranger."""
    lines.add(XidReported, code=31, device=GPU)
    lines.add(BridgeLinked, device=GPU, parent=SWITCH)
    lines.add(BridgeLinked, device=SWITCH, parent=ROOT)
    timeline = lines.timeline()

    assert timeline.gpus_below(SWITCH) == (GPU,)
    assert timeline.gpus_below(ROOT) == (GPU,)
    assert timeline.gpus_below(PciAddress.parse("0000:00:1c.0")) == ()
    assert timeline.gpus_below(None) == ()


def test_what_a_port_says_concerns_the_gpu_below_it(lines: Lines) -> None:
    """A function of the card, a port above it and a line without an address; no other device."""
    lines.add(DeviceIdentified, device=GPU, is_gpu=True)
    lines.add(BridgeLinked, device=GPU, parent=SWITCH)
    own = lines.add(AerReported, device=PciAddress.parse("0000:41:00.1"), severity="fatal")
    above = lines.add(AerReported, device=SWITCH, severity="fatal")
    nameless = lines.add(XidReported, code=79)
    other = lines.add(AerReported, device=PciAddress.parse("0000:05:00.0"), severity="fatal")
    timeline = lines.timeline()

    assert [timeline.concerns(e, GPU) for e in (own, above, nameless, other)] == [
        True,
        True,
        True,
        False,
    ]
    assert timeline.concerns(other, None)


def test_aer_and_a_limiting_hop_tie_a_port_to_its_device(lines: Lines) -> None:
    """The port that got a message, and the one that limits a link, lie above the device."""
    lines.add(AerReported, device=GPU, severity="correctable", port=ROOT)
    lines.add(
        LinkStateReported,
        device=PciAddress.parse("0000:51:00.0"),
        what="limited",
        limited_by=SWITCH,
    )

    assert lines.timeline().parents() == {GPU: ROOT, PciAddress.parse("0000:51:00.0"): SWITCH}


def test_names_of_one_device_are_joined_and_never_guessed(lines: Lines) -> None:
    """UUID, name and index come from lines that name this very device."""
    lines.add(DeviceIdentified, device=GPU, uuid="GPU-aaaa")
    lines.add(DeviceIdentified, uuid="GPU-aaaa", name="NVIDIA L40S", index=2)
    lines.add(DeviceIdentified, device=SWITCH, name="another", index=0)
    timeline = lines.timeline()
    device = timeline.identify(GPU)

    assert device is not None
    assert (device.pci, device.uuid, device.name, device.index) == (
        GPU,
        "GPU-aaaa",
        "NVIDIA L40S",
        2,
    )
    assert timeline.identify(None) is None
    by_uuid = timeline.identify(None, uuid="GPU-aaaa")
    assert by_uuid is not None
    assert by_uuid.pci == GPU


def test_a_kernel_log_is_known_by_its_source_or_its_format(lines: Lines) -> None:
    """An engine's log is none, a dmesg without events is one."""
    lines.add(CudaFailed, code=719, name=None, message="m")

    assert not lines.timeline("text").has_kernel_log()
    assert lines.timeline("dmesg").has_kernel_log()
    lines.add(DeviceChanged, device=GPU, what="bound", source="kernel")
    assert lines.timeline("text").has_kernel_log()


def test_the_last_description_counts(lines: Lines) -> None:
    """A later line about the machine is newer."""
    lines.add(SystemDescribed, key="kernel", value="6.1")
    lines.add(SystemDescribed, key="kernel", value="6.12")
    found = lines.timeline().described("kernel")

    assert found is not None
    assert found.value == "6.12"
    assert lines.timeline().described("chassis") is None


def test_the_frame_has_one_row_an_event_and_fixed_types(lines: Lines) -> None:
    """pandas gets the same columns whatever the events are, even without any."""
    lines.add(XidReported, code=79, device=GPU)
    types = {
        "at": "datetime64[ns, UTC]", "kind": "string", "device": "string", "host": "string",
        "boot": "string", "setting": "string", "input": "string", "line": "Int64",
        "count": "int64", "text": "string",
    }  # fmt: skip

    for timeline in (lines.timeline(), Timeline([], [])):
        frame = timeline.to_frame()
        assert len(frame) == len(timeline.events)
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == types
