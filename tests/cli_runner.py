"""click's test runner with standard error kept apart, for tests of what goes where."""

from __future__ import annotations

import inspect

from click.testing import CliRunner


def runner() -> CliRunner:
    """Give a runner whose results have `stdout` and `stderr` apart.

    click 8.2 always keeps them apart; 8.1 mixes them unless `mix_stderr` is false, which 8.2 does
    not take.
    """
    if "mix_stderr" in inspect.signature(CliRunner).parameters:
        return CliRunner(mix_stderr=False)
    return CliRunner()
