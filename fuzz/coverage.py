"""Which share of the parsers the targets reach: `python -m fuzz.coverage [TARGET …]`.

Each target runs over its seeds and, with `--corpus`, over what fuzzing kept there. Counted are
the lines inside functions: what importing a module runs is reached by no input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from coverage import Coverage  # the extra `fuzz` alone has it

from fuzz.parts import PARTS, ROOT, files_of, import_all


def inputs_of(target: str, corpus: Path | None) -> Iterator[bytes]:
    """Its seeds, and what was kept of fuzzing it."""
    from fuzz.seeds import seeds

    yield from seeds(target)
    if corpus is not None and (corpus / target).is_dir():
        for path in sorted((corpus / target).iterdir()):
            yield path.read_bytes()


def measure(
    targets: Sequence[str], corpus: Path | None = None
) -> dict[Path, tuple[set[int], set[int]]]:
    """Each module of the parts to its lines in functions, and to those no input reached.

    To be called once in a process, before gpuprobe is imported.
    """
    found = Coverage(data_file=None, source_pkgs=["gpuprobe"], config_file=False)
    paths = [path for part in PARTS for path in files_of(part)]
    found.start()
    import_all()
    from fuzz.targets import TARGETS

    found.stop()
    data = found.get_data()
    by_import = {path: set(data.lines(str(path)) or ()) for path in paths}
    found.start()
    for target in targets or TARGETS:
        for given in inputs_of(target, corpus):
            TARGETS[target](given)
    found.stop()
    measured = {}
    for path in paths:
        _, lines, _, missing, _ = found.analysis2(str(path))
        measured[path] = (set(lines) - by_import[path], set(missing))
    return measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a row for each part."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.coverage", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them by default")
    parser.add_argument("--corpus", type=Path, help="folder of inputs kept by `python -m fuzz`")
    parser.add_argument("--missing", action="store_true", help="name the lines not reached")
    given = parser.parse_args(arguments)
    measured = measure(given.targets, given.corpus)
    print("| part | modules | lines in functions | reached |")
    print("|---|---|---|---|")
    for part in PARTS:
        files = files_of(part)
        lines = sum(len(measured[path][0]) for path in files)
        missing = sum(len(measured[path][1]) for path in files)
        print(f"| {part} | {len(files)} | {lines:,} | {1 - missing / lines:.0%} |")
    for path, (lines_in, not_reached) in measured.items() if given.missing else ():
        if not_reached:
            share = 1 - len(not_reached) / len(lines_in)
            print(f"{path.relative_to(ROOT)} ({share:.0%}): {_spans(not_reached)}")
    return 0


def _spans(lines: set[int]) -> str:
    """Line numbers as spans: `3-5, 9`."""
    spans: list[list[int]] = []
    for line in sorted(lines):
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in spans)


if __name__ == "__main__":
    sys.exit(main())
