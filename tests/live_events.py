"""Live events by hand, for tests that need no driver: a GPU, its port, and seconds on one clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from gpuprobe.clock import Stamp
from gpuprobe.clock_joining import Clocks
from gpuprobe.diagnosis import Diagnosis, Input
from gpuprobe.events import (
    BridgeLinked,
    CountersSampled,
    DeviceIdentified,
    Event,
    GpuLostReported,
    GpuSampled,
    Origin,
    PowerSampled,
    ThermalReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import diagnose

GPU = PciAddress.parse("0000:41:00.0")
OTHER = PciAddress.parse("0000:81:00.0")
PORT = PciAddress.parse("0000:40:01.1")
START = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def base(
    at_s: float, text: str = "read", source: str = "nvml", device: Any = GPU
) -> dict[str, Any]:
    """The fields of an event `at_s` seconds after noon."""
    wall = START + timedelta(seconds=at_s)
    return {
        "origin": Origin(source, None, text, "ref", (1, round(at_s * 1000))),
        "stamp": Stamp(wall.isoformat(), 1000.0 + at_s, wall, True, 0.001),
        "device": device,
        "source": source,
    }


def facts() -> list[Event]:
    """Who the GPU is, and which port it hangs on."""
    return [
        DeviceIdentified(**base(0, source="sysfs"), is_gpu=True, name="NVIDIA L40S", index=0),
        BridgeLinked(**base(0, source="sysfs"), parent=PORT),
        ThermalReported(**base(0), what="reading", slowdown_c=90.0),
    ]


def steady(seconds: float = 60.0, hz: float = 10.0, **changed: Any) -> list[Event]:
    """Samples of a GPU at work; `changed` gives other values, or functions of the second."""
    values: dict[str, Any] = {
        "power_w": 210.0,
        "limit_w": 350.0,
        "temp_c": 61.0,
        "sm_clock_mhz": 2200.0,
        "util_percent": 98.0,
        "link_gen": 4,
        "link_width": 16,
        "clocks_event_reasons": 0,
        **changed,
    }
    found: list[Event] = []
    for number in range(round(seconds * hz)):
        at = number / hz
        row = {name: value(at) if callable(value) else value for name, value in values.items()}
        found.append(GpuSampled(**base(at), **row))
    return found


def lost(at_s: float) -> GpuLostReported:
    """NVML says that the GPU is lost."""
    return GpuLostReported(**base(at_s, "nvmlDeviceGetPowerUsage returned GPU_IS_LOST"), by="nvml")


def counted(at_s: float, device: PciAddress = PORT, **counters: int) -> CountersSampled:
    """A reading of AER counters (`correctable_BadTLP=3`)."""
    named = tuple((f"aer_dev_{k.replace('_', '.', 1)}", v) for k, v in counters.items())
    return CountersSampled(**base(at_s, source="sysfs", device=device), counters=named)


def drawn(at_s: float, *watts: float) -> PowerSampled:
    """The driver's own samples, 10 ms apart."""
    at = (START + timedelta(seconds=at_s)).timestamp()
    samples = tuple((at + n / 100, value) for n, value in enumerate(watts))
    return PowerSampled(**base(at_s), samples=samples)


def timeline(*events: Event) -> Timeline:
    """A live timeline."""
    ordered = sorted(events, key=lambda event: event.stamp.wall if event.stamp else START)
    inputs = [Input(path, "live", None) for path in ("nvml", "sysfs")]
    return Timeline(events=ordered, inputs=inputs, clocks=Clocks())


def judged(*events: Event) -> Diagnosis:
    """What the rules say."""
    return diagnose(timeline(*events))
