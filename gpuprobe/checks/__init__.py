"""Is this machine fit to run, and would the next loss be provable? One file a check.

To add a check: write a module with `name` and `run`, and put it into `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.checks import (
    access,
    counters,
    driver,
    heat,
    jit_caches,
    link,
    load,
    memory,
    power,
    presence,
    previous_boot,
    ready,
    recordings,
    recovery,
    requirements,
    xids,
)
from gpuprobe.checks.base import Check, CheckFinding, Status
from gpuprobe.checks.scene import Scene

CHECKS: tuple[Check, ...] = (
    presence,
    driver,
    link,
    counters,
    memory,
    recovery,
    power,
    heat,
    load,
    requirements,
    xids,
    previous_boot,
    recordings,
    jit_caches,
    access,
    ready,
)
"""All checks, in the order in which their findings are shown."""


def run_checks(scene: Scene) -> Iterator[CheckFinding]:
    """The findings of all checks. A check that breaks gives a finding that says so."""
    for check in CHECKS:
        try:
            yield from list(check.run(scene))
        except Exception as error:  # the other checks' findings are worth more than a traceback
            yield CheckFinding(
                check=check.name,
                what=check.name,
                status=Status.NOT_CHECKED,
                text=f"this check failed itself ({type(error).__name__}: {error})",
                how="Please report it with the output of gpuprobe check --format json",
            )
