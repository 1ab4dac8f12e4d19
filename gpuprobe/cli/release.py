"""`gpuprobe release`: have the probe of a running engine let go of NVML."""

from __future__ import annotations

import click


@click.command("release")
@click.option("--take", is_flag=True, help="Use NVML again.")
@click.argument("pid", type=click.IntRange(2))
def command(pid: int, take: bool) -> int:
    """Let go of NVML beside an engine, so that the driver can be unloaded.

    PID is that of `gpuprobe run` or of its engine. The engine itself is left alone: it has to let
    go of the driver too. The kernel log, sysfs and presence are watched on.

    Exit codes: 0 done, 1 it could not be done, 2 there is no such probe.
    """
    from gpuprobe.live.doorbell import ring
    from gpuprobe.reporters.plain import printable

    answer = ring(pid, "take" if take else "release")
    click.echo(printable(answer))
    return 0 if answer.startswith("NVML is") else 1
