"""What was measured or counted, by a tool that printed it or by a live source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuprobe.events.base import Event, observed


@observed
class ThermalReported(Event):
    """A GPU's temperature passed a limit, or a tool printed temperatures.

    Attributes:
        what: `slowdown`, `shutdown`, `critical` (a board's sensor of it), `reading`.
        temp_c: Core temperature. slowdown_c: Its slowdown limit. memory_temp_c: Memory.
    """

    what: str
    temp_c: float | None = None
    slowdown_c: float | None = None
    memory_temp_c: float | None = None


@observed
class PowerReported(Event):
    """Something about power.

    Attributes:
        what: `brake` (clock-event reason 0x80), `external-missing`, `under-voltage` (host),
            `supply` (a supply's own event, BMC), `reading`, `voltage-normal`.
        power_w: Draw, watts. limit_w: Limit, watts.
        gpu: False when it is about the host only.
    """

    what: str
    power_w: float | None = None
    limit_w: float | None = None
    gpu: bool = True


@observed
class GpuMemoryCounted(Event):
    """A tool printed a count of a GPU's memory errors that is not zero.

    Attributes:
        what: `uncorrectable` (since the driver was loaded), `remapped`, `remap-pending`,
            `remap-failed`, `ras` (amdgpu: in one of its blocks).
        value: The count; 1 where the tool says Yes.
    """

    what: str
    value: int = 1


@observed
class GpuSampled(Event):
    """One row of a sampling tool (`nvidia-smi --query-gpu`, dmon); None for what it left out.

    Attributes:
        power_w: Watts. limit_w: Watts. temp_c: Celsius. sm_clock_mhz: MHz. util_percent: Percent.
        link_gen: PCIe generation. link_width: Lanes. clocks_event_reasons: NVML's bit mask.
        lost: The row says `[GPU is lost]`.
        memory_temp_c: Celsius. mem_clock_mhz: MHz. pstate: 0 (fastest) to 15.
        memory_used_bytes: Bytes. memory_total_bytes: Bytes.
        rx_bytes_per_s: PCIe to the GPU, bytes per second. tx_bytes_per_s: From it.
    """

    power_w: float | None = None
    limit_w: float | None = None
    temp_c: float | None = None
    sm_clock_mhz: float | None = None
    util_percent: float | None = None
    link_gen: int | None = None
    link_width: int | None = None
    clocks_event_reasons: int | None = None
    lost: bool = False
    memory_temp_c: float | None = None
    mem_clock_mhz: float | None = None
    pstate: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    rx_bytes_per_s: float | None = None
    tx_bytes_per_s: float | None = None


@observed
class SamplesTaken(Event):
    """Samples of one device that a live source gives together.

    Few of them are ever looked at one by one, so they are taken apart when somebody does.

    Attributes:
        samples: In order, at least one.
    """

    samples: Sequence[GpuSampled]


def taken_apart(events: Iterable[Event]) -> Iterator[Event]:
    """The same events, with samples that came together one by one."""
    for event in events:
        if isinstance(event, SamplesTaken):
            yield from event.samples
        else:
            yield event


@observed
class HostSampled(Event):
    """The host's memory and pressure at one moment; None for what could not be read.

    Attributes:
        memory_available_bytes: What programs could still get without swapping.
        memory_total_bytes: All of it.
        memory_pressure_percent: Share of the last 10 s in which some task waited for memory.
        io_pressure_percent: For a disk. cpu_pressure_percent: For a processor.
    """

    memory_available_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_pressure_percent: float | None = None
    io_pressure_percent: float | None = None
    cpu_pressure_percent: float | None = None


@observed
class CountersSampled(Event):
    """Counter values of one device at one moment. Only rises mean something.

    Attributes:
        counters: Name and value: NVML's PCIe and ECC counters, AER counters of sysfs by their
            file and name (`aer_dev_correctable.RxErr`), remapped rows.
    """

    counters: tuple[tuple[str, int], ...] = ()


@observed
class PowerSampled(Event):
    """The driver's own power samples since the last such event, about 10 ms apart.

    Finer than polling, and far too coarse for the microsecond spikes that trip a supply.

    Attributes:
        samples: Seconds since 1970 by the driver's stamp, and watts; in order. A live source gives
            what reads like a tuple.
    """

    samples: tuple[tuple[float, float], ...] = ()
