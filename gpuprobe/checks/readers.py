"""How each part of a scene is read on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprobe.boots import read_boot
from gpuprobe.checks.bus import read_bus
from gpuprobe.checks.gather import Readers
from gpuprobe.checks.host import read_host
from gpuprobe.checks.recordings import read_recordings
from gpuprobe.checks.scene import NVIDIA, BootLog, GpuOnBus, LoadSample, NvmlValues
from gpuprobe.checks.versions import read_versions
from gpuprobe.events import Event, GpuSampled, taken_apart
from gpuprobe.reading import Known, Reading, Reason, Unavailable

if TYPE_CHECKING:
    from gpuprobe.jitcache.report import ScanReport

SAMPLE_HZ = 10.0
"""Rate of the sampling under load."""

MARGIN_S = 0.6
"""What of the deadline is kept for handing the answer over."""


def machine_readers(
    root: Path = Path("/"),
    *,
    env: Mapping[str, str] | None = None,
    nvml: bool = True,
    boots: Callable[[int], Reading[BootLog]] = read_boot,
) -> Readers:
    """Readers of this machine, or of a copy of its files.

    Args:
        root: Where `/sys`, `/proc`, `/dev`, `/run` and `/var` are looked for.
        env: Environment of the process that opens NVML; None for this one's.
        nvml: False leaves NVML alone.
        boots: Reads the kernel log of a boot.
    """
    folders = (env if env is not None else os.environ).get("LD_LIBRARY_PATH", "").split(":")
    return Readers(
        bus=lambda: read_bus(root),
        nvml=lambda gpus, deadline_s: _nvml(root, env, gpus, deadline_s),
        driver=lambda: read_versions(root, library_path=folders),
        host=lambda: read_host(
            root, kernel_log=lambda: _kernel_log(root), udev=lambda: _udev(root)
        ),
        this_boot=lambda: boots(0),
        previous_boot=lambda: boots(-1),
        recordings=lambda: read_recordings(env),
        jit_caches=_jit_caches,
        load=lambda gpus, seconds: _load(root, env, nvml, seconds),
    )


def _jit_caches(unclean_at: float, deadline_s: float) -> ScanReport:
    from gpuprobe.jitcache.api import scan

    return scan(deadline_s=deadline_s, unclean_at=unclean_at or None)


def _kernel_log(root: Path) -> Reading[str]:
    from gpuprobe.sources.kernel_log import KernelLog

    return KernelLog(kmsg=root / "dev/kmsg", root=root).available()


def _udev(root: Path) -> Reading[str]:
    from gpuprobe.sources.pci.udev import UdevSource

    return UdevSource().available()


def _nvml(
    root: Path, env: Mapping[str, str] | None, gpus: Sequence[GpuOnBus], deadline_s: float
) -> Reading[NvmlValues]:
    from gpuprobe.live.nvml.snapshot import read_snapshot

    own = [gpu for gpu in gpus if gpu.vendor_id == NVIDIA]
    if gpus and not own:
        return Unavailable(Reason.NOT_THERE, "no NVIDIA GPU is on the bus")
    # By address, so that one which cannot be opened is named; a list by index leaves it out.
    wanted = [gpu.address for gpu in own if gpu.driver == Known("nvidia")]
    snapshot = read_snapshot(
        max(0.5, deadline_s - MARGIN_S), devices=wanted or None, root=root, env=env
    )
    if not snapshot and snapshot.reason is not None:
        return snapshot.reason
    return Known(snapshot)


def _load(
    root: Path, env: Mapping[str, str] | None, nvml: bool, seconds: float
) -> Reading[tuple[LoadSample, ...]]:
    """Sample through NVML; without it only the counters before and after can be compared."""
    if not nvml:
        time.sleep(seconds)
        return Unavailable(Reason.NOT_THERE, "without NVML nothing tells whether a load runs")
    from gpuprobe.live.nvml.probe import NvmlProbe

    probe = NvmlProbe(rate_hz=SAMPLE_HZ, root=root, env=env)
    begin = time.monotonic()
    samples: list[LoadSample] = []
    probe.start()
    try:
        while (passed := time.monotonic() - begin) < seconds:
            for event in taken_apart(probe.poll()):
                if (sample := _sample(event, begin)) is not None:
                    samples.append(sample)
            time.sleep(min(0.1, seconds - passed))
    finally:
        probe.stop()
    if samples:
        return Known(tuple(samples))
    available = probe.available()
    if isinstance(available, Unavailable):
        return available
    return Unavailable(Reason.TIMED_OUT, "NVML gave no sample")


def _sample(event: Event, begin: float) -> LoadSample | None:
    if not isinstance(event, GpuSampled) or event.device is None or event.lost:
        return None
    at = event.stamp.monotonic_s if event.stamp and event.stamp.monotonic_s else time.monotonic()
    return LoadSample(
        device=event.device,
        at_s=at - begin,
        util_percent=event.util_percent,
        power_w=event.power_w,
        limit_w=event.limit_w,
        temp_c=event.temp_c,
        link_gen=event.link_gen,
        link_width=event.link_width,
        reasons=event.clocks_event_reasons,
    )
