"""When a GPU hangs without a word of bus or firmware."""

from __future__ import annotations

from _judging import findings, kinds, only, pci

from gpuprobe.diagnosis import Certainty, Kind

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
