"""The whole check: gather, run every check, put the report together."""

from __future__ import annotations

import time

from gpuprobe.checks import presence, run_checks
from gpuprobe.checks.base import known
from gpuprobe.checks.gather import DEADLINE_S, Readers, gather
from gpuprobe.checks.readers import machine_readers
from gpuprobe.checks.report import CheckedGpu, CheckReport
from gpuprobe.checks.scene import Requirements, Scene
from gpuprobe.identity import PciAddress
from gpuprobe.reading import value_or_none


def examine(
    *,
    under_load_s: float = 0.0,
    needs: Requirements | None = None,
    device: PciAddress | None = None,
    nvml: bool = True,
    deadline_s: float | None = None,
    readers: Readers | None = None,
) -> CheckReport:
    """See `gpuprobe.api.check`."""
    begin = time.monotonic()
    scene = gather(
        readers or machine_readers(nvml=nvml),
        under_load_s=under_load_s,
        needs=needs,
        device=device,
        nvml=nvml,
        deadline_s=DEADLINE_S if deadline_s is None else deadline_s,
    )
    return judge(scene, took_s=time.monotonic() - begin - under_load_s)


def judge(scene: Scene, *, took_s: float = 0.0) -> CheckReport:
    """The report of what was gathered."""
    findings = tuple(run_checks(scene))
    told = {finding.subject for finding in findings if finding.subject is not None}
    addresses = sorted({*scene.addresses(), *told})
    return CheckReport(
        findings=findings,
        gpus=tuple(_gpu(scene, address) for address in addresses),
        took_s=max(0.0, took_s),
    )


def _gpu(scene: Scene, address: PciAddress) -> CheckedGpu:
    there = scene.on_bus(address)
    return CheckedGpu(
        pci=address,
        name=scene.name(address),
        uuid=known(scene.nvml_value(address, "uuid"), str),
        driver=value_or_none(there.driver) if there is not None else None,
        looked_at=presence.looked_at(scene, address),
    )
