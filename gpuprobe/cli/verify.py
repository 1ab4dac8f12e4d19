"""`gpuprobe verify`: is a report's ZIP as it was made?"""

from __future__ import annotations

from pathlib import Path

import click


@click.command("verify")
@click.argument("file", metavar="REPORT.zip", type=click.Path())
def command(file: str) -> int:
    """Compare every member of a report's ZIP with the manifest in it.

    It finds what was damaged on the way or changed by mistake. It does not say who made the
    report: whoever changes a member on purpose can change the manifest too.

    Exit codes: 0 all as listed, 1 something differs, 2 no report's ZIP.
    """
    from gpuprobe.reporters.bundle import verify
    from gpuprobe.reporters.plain import count, printable

    found = verify(Path(file))
    for sentence in found.differing:
        click.echo(printable(sentence))
    made = f", made {found.made} by gpuprobe {found.version}" if found.made else ""
    click.echo(printable(f"{count(found.checked, 'member')} as listed{made}"))
    return 1 if found.differing else 0
