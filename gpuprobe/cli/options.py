"""Options that several commands take, each said once, with what reads its value.

Light: `run` takes them, and the engine waits for it. Checks of values are in `values`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from gpuprobe.cli.values import FiniteRange
from gpuprobe.identity import PciAddress

Decorator = Callable[[Any], Any]
"""What `click.option` returns."""


def parse_address(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> PciAddress | None:
    """Read `--device` in any spelling."""
    address = PciAddress.try_parse(value)
    if value is not None and address is None:
        raise click.BadParameter(f"{value!r} is not a PCI address such as 0000:04:00.0")
    return address


def parse_addresses(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[PciAddress, ...]:
    """Read every `--device`."""
    found = (parse_address(context, parameter, text) for text in value)
    return tuple(address for address in found if address is not None)


def device(help_: str) -> Decorator:
    """`--device ADDRESS`, once."""
    return click.option("--device", metavar="ADDRESS", callback=parse_address, help=help_)


def check_time(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Refuse what is no time before anything is read; its zone is that of another option.

    Raises:
        UsageError: It is none.
    """
    if value is not None:
        from gpuprobe.spoken_times import parse_time

        parse_time(value)
    return value


def devices(
    help_: str = "Only this GPU, as 0000:04:00.0; may be given more than once.",
) -> Decorator:
    """`--device ADDRESS`, as often as wanted; the parameter is `devices`."""
    return click.option(
        "--device",
        "devices",
        metavar="ADDRESS",
        multiple=True,
        callback=parse_addresses,
        help=help_,
    )


def format_(*names: str, help_: str = "What to write.", by_ending: bool = False) -> Decorator:
    """`--format`, the first name being the default; the parameter is `format_`.

    Args:
        names: What can be written.
        help_: Of the option.
        by_ending: Without the option the value is None, for `output.format_for`.
    """
    return click.option(
        "--format",
        "format_",
        type=click.Choice(names),
        default=None if by_ending else names[0],
        show_default=f"by the ending of -o, else {names[0]}" if by_ending else True,
        help=help_,
    )


def output() -> Decorator:
    """`-o FILE`, for what otherwise goes to standard output."""
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Write to this file.",
    )


def rate(
    help_: str = "Samples a second of what is cheap to read; the rest is read once a second.",
) -> Decorator:
    """`--rate HZ` of the fast readings."""
    return click.option(
        "--rate",
        type=FiniteRange(0.1, 100),
        metavar="HZ",
        default=10.0,
        show_default=True,
        help=help_,
    )


def no_nvml(help_: str = "Leave NVML to others: logs, sysfs and presence.") -> Decorator:
    """`--no-nvml`."""
    return click.option("--no-nvml", is_flag=True, help=help_)


def color(help_: str = "Colour of the text format.") -> Decorator:
    """`--color`, as `wants_colour` reads it."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help=help_,
    )


def exit_codes(more: str = "") -> Decorator:
    """`--exit-codes`, as `checks.report.translate` reads it."""
    return click.option(
        "--exit-codes",
        type=click.Choice(["npd", "nagios"]),
        help=f"Exit codes of node-problem-detector or Nagios instead of gpuprobe's{more}.",
    )


_OF_LOGS: Final = (
    click.option(
        "--since",
        metavar="TIME",
        callback=check_time,
        help="Leave out what is earlier: '2026-09-22 07:44', 07:44, yesterday, -2h.",
    ),
    click.option(
        "--until", metavar="TIME", callback=check_time, help="Leave out what is later; as --since."
    ),
    click.option("--boot", metavar="ID", help="Only this boot: an id, 0 the last, -1 before it."),
    device("Only this PCI device, as 0000:04:00.0."),
    click.option("--timezone", metavar="ZONE", help="Zone of stamps without one: Europe/Berlin."),
    click.option(
        "--boot-time",
        metavar="TIME",
        callback=check_time,
        help="When the machine of the logs booted.",
    ),
    click.option("--host", metavar="NAME", help="Host of inputs that do not name theirs."),
)


def of_logs(command: Any) -> Any:
    """The options that say how logs are read; their names are those of `gpuprobe.Options`."""
    for option in reversed(_OF_LOGS):
        command = option(command)
    return command
