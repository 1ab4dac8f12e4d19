"""Run what this machine allows and print one table: `python -m benchmarks`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import others, scan, startup
from benchmarks.table import circumstances, markdown

_INTRODUCTION = """# Benchmarks

Written by `make bench` (`python -m benchmarks --write docs/benchmarks.md`). Each ratio compares
two programs that ran in turn, in the same run, on the same machine; figures are medians.
`rg` and `grep` look for the same words in the same file. Memory is the peak over all processes.
"""


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", type=int, default=1024, metavar="MIB", help="of the large logs")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each command")
    parser.add_argument("--large", action="store_true", help="also a log of ten times the size")
    names = ("startup", "scan", *(part.name for part in others.PARTS))
    parser.add_argument(
        "--parts", default=",".join(names), help=f"with commas; all by default: {', '.join(names)}"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also write this page")
    arguments = parser.parse_args()
    chosen = frozenset(arguments.parts.split(","))
    if unknown := sorted(chosen - set(names)):
        parser.error(f"no part {', '.join(unknown)}")
    rows = [*startup.run(max(arguments.rounds, 5))] if "startup" in chosen else []
    if "scan" in chosen:
        rows += scan.run(arguments.size, arguments.rounds, large=arguments.large)
    sections = [circumstances(), *((markdown(rows),) if rows else ())]
    print("\n".join(sections), flush=True)
    for section in others.run(chosen):
        print(section, flush=True)
        sections.append(section)
    text = "\n".join(sections)
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(f"{_INTRODUCTION}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
