"""When a GPU hangs without a word of bus or firmware."""

from __future__ import annotations

import pytest
from _judging import findings, kinds, lines, only, pci

from gpuprobe.diagnosis import Certainty, Kind, Role

KIND = Kind.GPU_HANG


def test_xid_109_is_a_hang() -> None:
    """A context switch that never ends hangs the GPU it names."""
    verdict = only(
        "[  700.000000] NVRM: Xid (PCI:0000:1a:00): 109, pid=33, name=game, Ch 00000044, errorString CTX SWITCH TIMEOUT, Info 0x3c044\n"
    )

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert pci(verdict) == "0000:1a:00.0"


def test_amdgpu_ring_timeout_is_a_hang() -> None:
    """Another maker's driver has its own words for it."""
    verdict = only(
        "[  700.000000] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=4100, emitted seq=4102\n"
    )

    assert verdict.kind is KIND
    assert pci(verdict) == "0000:03:00.0"


def test_a_hang_of_no_named_gpu_is_likely() -> None:
    """Where no line says which GPU it was, the verdict is not sure and names none."""
    verdict = only(
        "[   12.500000] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3\n"
    )

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert verdict.device is None


def test_device_lost_of_vulkan_alone_decides_nothing() -> None:
    """A graphics API prints the same for a reset, a hang and a loss."""
    text = "vk::Queue::submit: ErrorDeviceLost\n"

    assert findings(KIND, text) == []
    assert kinds(text) in ([Kind.CANNOT_TELL], [Kind.NO_FAULT])


def test_a_healthy_line_of_the_driver_is_quiet() -> None:
    """Initialised is no hang."""
    assert (
        findings(
            KIND, "[    4.000000] [drm] Initialized amdgpu 3.61.0 for 0000:03:00.0 on minor 1\n"
        )
        == []
    )


def test_what_a_graphics_api_said_belongs_to_the_hang_wherever_it_was_pasted() -> None:
    """A program's lines without a clock stand above the kernel's, and are its consequence."""
    text = (
        "terminate called after throwing an instance of 'vk::DeviceLostError'\n"
        "  what():  vk::Queue::submit: ErrorDeviceLost\n"
        "[ 812.100000] amdgpu 0000:0a:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=10, emitted seq=12\n"
    )

    assert kinds(text) == [KIND]


def test_a_windows_event_off_the_bus_is_no_hang_beside_the_loss() -> None:
    """All that an event's text says is one event's."""
    text = (
        "Log Name:      System\nSource:        nvlddmkm\nDate:          3/3/2026 8:15:22 PM\n"
        "Event ID:      14\nTask Category: None\nLevel:         Error\nDescription:\n"
        "The description for Event ID 14 from source nvlddmkm cannot be found.\n\n"
        "The following information was included with the event: \n\n\\Device\\Video3\n"
        "0cec(3098) 00000000 00000000\nGPU has fallen off the bus\n"
    )

    loss = only(text)
    assert (loss.kind, lines(loss, Role.PROOF)) == (Kind.DEVICE_LEFT_BUS, [14])
    assert kinds(text.replace("GPU has fallen off the bus", "00000000")) == [KIND]


@pytest.mark.parametrize(
    "line",
    [
        'Der Anzeigetreiber "nvlddmkm" reagiert nicht mehr und wurde wiederhergestellt.',
        "El controlador de pantalla nvlddmkm dejó de responder y se recuperó correctamente.",
        "显示器驱动程序 nvlddmkm 已停止响应，并且已成功恢复。",
    ],
)
def test_windows_tells_of_a_reset_in_its_own_language(line: str) -> None:
    """Event 4101, as people copy it."""
    verdict = only(line + "\n")

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)


def test_an_event_as_xml_over_several_lines() -> None:
    """The provider and the number stand on lines of their own."""
    text = (
        "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'>\n  <System>\n"
        "    <Provider Name='nvlddmkm' />\n    <EventID Qualifiers='0'>14</EventID>\n  </System>\n"
        "  <EventData>\n    <Data>\\Device\\Video3</Data>\n    <Data>{}</Data>\n  </EventData>\n</Event>\n"
    )

    assert kinds(text.format("00000000")) == [KIND]
    assert kinds(text.format("GPU has fallen off the bus")) == [Kind.DEVICE_LEFT_BUS]


def test_a_kernel_that_the_watchdog_ended_is_a_hang() -> None:
    """CUDA 702 is likely alone, and a consequence beside the driver's own Xid 8."""
    said = "RuntimeError: CUDA error: the launch timed out and was terminated\n"
    alone = only(said)
    both = only("[   12.500000] NVRM: Xid (PCI:0000:1a:00): 8, pid=33, Channel 00000020\n" + said)

    assert (alone.kind, alone.certainty) == (KIND, Certainty.LIKELY)
    assert (both.kind, both.certainty, pci(both)) == (KIND, Certainty.CONFIRMED, "0000:1a:00.0")
