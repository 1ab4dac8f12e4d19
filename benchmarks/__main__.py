"""Run what this machine allows and print one table: `python -m benchmarks`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import scan, startup
from benchmarks.table import circumstances, markdown

_INTRODUCTION = """# Benchmarks

Written by `make bench` (`python -m benchmarks --write docs/benchmarks.md`). Each ratio compares
two programs that ran in turn, in the same run, on the same machine; figures are medians.
`rg` looks for the same words in the same file. Memory is the peak over all processes.
"""


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", type=int, default=1024, metavar="MIB", help="of the large logs")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each command")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also write this page")
    arguments = parser.parse_args()
    rows = [*startup.run(max(arguments.rounds, 5)), *scan.run(arguments.size, arguments.rounds)]
    text = f"{circumstances()}\n{markdown(rows)}"
    print(text)
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(f"{_INTRODUCTION}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
