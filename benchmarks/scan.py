"""`gpuprobe diagnose` of large logs against programs that look for the same words."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.make_logs import make_log
from benchmarks.measure import Command, gpuprobe, interleave
from benchmarks.table import Row

TARGETS = {"clean.log": 1.0, "half-aer.log": 3.0, "clean.json": 1.0}
"""At most so many times ripgrep's time, by file: a kind of log, as text or as JSON lines."""

MEMORY_MIB = 200.0
"""Peak resident memory over all processes, for any input."""

FORMS: dict[str, Callable[[bytes], bytes]] = {
    "in UTF-16": lambda text: text.decode("ascii").encode("utf-16"),
    "with carriage returns alone": lambda text: text.replace(b"\n", b"\r"),
}
"""Other forms of the same lines."""

FORM_RATIO = 3.0
"""At most so many times as long in another form."""

READ_LOGS = ("half-aer.json", "faults.log")
"""Logs of which nearly each line is read slowly, a hundredth of the others' size."""

GROWTH = 12.0
"""At most so many times as long for ten times as much."""

FREE_FACTOR = 3
"""So many times a log's size has to be free on the disk."""

SEARCH = """
import sys
from gpuprobe.sources.scanning.needles import HyperscanMatcher
matcher = HyperscanMatcher()
with open(sys.argv[1], "rb", buffering=0) as stream:
    while block := stream.read(1 << 20):
        matcher.hits(block)
"""
"""The search for the words, with nothing around it."""


def run(size_mib: int, rounds: int, *, large: bool = False) -> Iterator[Row]:
    """Measure logs of a size.

    Args:
        size_mib: Of each log, MiB.
        rounds: Runs of each command; their median counts.
        large: Also measure a log ten times as large.
    """
    with tempfile.TemporaryDirectory(prefix="gpuprobe-bench-") as name:
        folder = Path(name)
        if not _has_room(folder, size_mib):
            return
        words = folder / "needles"
        words.write_text("\n".join(_needles()) + "\n", encoding="utf-8")
        for file, target in TARGETS.items():
            log = folder / file
            make_log(log, log.stem, size_mib << 20)
            yield from _against_others(log, words, target, rounds)
            if file == "clean.log":
                search = [sys.executable, "-c", SEARCH, str(log)]
                floors = [Command("cat", ["cat", str(log)]), Command("Hyperscan alone", search)]
                yield from _limits(log, floors, rounds)
                yield from _compressed(log, words, rounds)
            log.unlink()
        yield from _other_forms(folder, max(size_mib // 10, 1), rounds)
        for file in READ_LOGS:
            yield _slowly_read(folder / file, max(size_mib // 100, 1), rounds)
        sizes = [size_mib // 100, size_mib // 10, size_mib, *([size_mib * 10] if large else [])]
        yield from _growth(folder, [size for size in sizes if size], rounds)
        yield _bomb(folder / "zeros.log.gz", size_mib)


def _has_room(folder: Path, size_mib: int) -> bool:
    if shutil.disk_usage(folder).free >= FREE_FACTOR * size_mib << 20:
        return True
    print(f"too little disk space for logs of {size_mib} MiB: skipped")
    return False


def _needles() -> tuple[str, ...]:
    from gpuprobe.sources.scanning.needles import NEEDLES

    return NEEDLES


def _diagnose(path: Path) -> Command:
    return Command("gpuprobe", gpuprobe("diagnose", str(path)), ok=(0, 1, 2, 3))


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e9:.2f} GB" if size > 2e8 else f"{size / 1e6:.0f} MB"


def _took(command: Command) -> str:
    return f"{command.seconds:.2f} s ({command.cpu:.2f} s of a core)"


def _against_others(log: Path, words: Path, target: float, rounds: int) -> Iterator[Row]:
    options = ["-F", "-f", str(words), str(log)]
    ours = _diagnose(log)
    others = [
        Command("rg", ["rg", *options], ok=(0, 1)),
        Command("rg -c", ["rg", "-c", *options], ok=(0, 1)),
        # Writing to /dev/null it would stop at the first line.
        Command("grep", ["sh", "-c", 'LC_ALL=C grep "$@" | cat', "sh", *options]),
    ]
    form = "JSON" if log.suffix == ".json" else "text"
    what = f"a {log.stem} {form} log of {_size(log)}"
    yield from _compared(what, ours, others, target, rounds)


def _compressed(log: Path, words: Path, rounds: int) -> Iterator[Row]:
    """The same log, compressed; others need a pipe."""
    packed = log.with_suffix(".log.gz")
    with log.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as out:
        shutil.copyfileobj(source, out, 1 << 20)
    pipe = 'gzip -dc "$1" | rg -F -f "$2" || test $? = 1'
    ours = _diagnose(packed)
    others = [Command("gzip -dc and rg", ["sh", "-c", pipe, "sh", str(packed), str(words)])]
    yield from _compared(f"a clean gzip log of {_size(log)}", ours, others, 1.0, rounds)
    yield from _limits(packed, [Command("gzip -dc", ["gzip", "-dc", str(packed)])], rounds)
    packed.unlink()


def _compared(
    what: str, ours: Command, others: list[Command], target: float, rounds: int
) -> Iterator[Row]:
    """A row for each of the other programs that is installed, and one for memory."""
    yield from _rows(f"diagnose of {what}", ours, others, target, rounds)
    yield _memory(f"memory for {what}", ours)


def _is_installed(command: Command) -> bool:
    script = " ".join(command.arguments)
    for program in ("rg", "grep", "gzip"):
        if f"{program} " in script and shutil.which(program) is None:
            print(f"{program} is not installed: {command.name} is left out")
            return False
    return True


def _limits(log: Path, floors: list[Command], rounds: int) -> Iterator[Row]:
    """How far the time is from what a part of the work takes by itself."""
    yield from _rows(f"limit for {log.name} of {_size(log)}", _diagnose(log), floors, None, rounds)


def _rows(
    what: str, ours: Command, others: list[Command], target: float | None, rounds: int
) -> Iterator[Row]:
    """All in turn, and a row for each of the others that is installed."""
    others = [other for other in others if _is_installed(other)]
    interleave([ours, *others], rounds)
    for other in others:
        yield Row(
            what,
            _took(ours),
            f"{other.name}: {_took(other)}",
            f"{ours.seconds / other.seconds:.2f}x",
            "-" if target is None else f"{target:g}x",
            None if target is None else ours.seconds <= target * other.seconds,
        )


def _other_forms(folder: Path, size_mib: int, rounds: int) -> Iterator[Row]:
    """The same lines in UTF-8 with line feeds, and in other forms."""
    plain = folder / "clean.log"
    make_log(plain, "clean", size_mib << 20)
    for form, change in FORMS.items():
        other = folder / "other.log"
        other.write_bytes(change(plain.read_bytes()))
        ours, usual = _diagnose(other), _diagnose(plain)
        interleave([ours, usual], rounds)
        ratio = ours.seconds / usual.seconds
        yield Row(
            f"diagnose of a clean log {form} of {_size(other)}",
            _took(ours),
            f"in UTF-8 with line feeds: {usual.seconds:.2f} s",
            f"{ratio:.2f}x",
            f"{FORM_RATIO:g}x",
            ratio <= FORM_RATIO,
        )
        other.unlink()
    plain.unlink()


def _slowly_read(log: Path, size_mib: int, rounds: int) -> Row:
    """What a line takes that has to be read."""
    make_log(log, log.stem, size_mib << 20)
    lines = log.read_bytes().count(b"\n")
    ours = _diagnose(log)
    interleave([ours], rounds)
    form = "JSON" if log.suffix == ".json" else "text"
    what = f"diagnose of a {log.stem} {form} log of {_size(log)}"
    log.unlink()
    return Row(what, _took(ours), "-", f"{ours.seconds / lines * 1e6:.0f} us a line", "-", None)


def _growth(folder: Path, sizes_mib: list[int], rounds: int) -> Iterator[Row]:
    before: Command | None = None
    for size_mib in sizes_mib:
        if not _has_room(folder, size_mib):
            return
        log = folder / "clean.log"
        make_log(log, "clean", size_mib << 20)
        ours = _diagnose(log)
        interleave([ours], rounds)
        size = _size(log)
        log.unlink()
        if before is not None:
            growth = ours.seconds / before.seconds
            yield Row(
                f"diagnose of {size}, ten times as much",
                _took(ours),
                f"a tenth: {before.seconds:.2f} s",
                f"{growth:.2f}x",
                f"{GROWTH:g}x",
                growth <= GROWTH,
            )
        yield _memory(f"memory for a clean log of {size}", ours)
        before = ours


def _bomb(path: Path, size_mib: int) -> Row:
    """A file that unpacks to a thousand times its size."""
    with gzip.open(path, "wb", compresslevel=9) as out:
        zeros = b"\n" * (1 << 20)
        for _ in range(size_mib):
            out.write(zeros)
    command = _diagnose(path)
    command.run()
    return _memory(f"memory for a gzip bomb of {size_mib} MiB", command)


def _memory(what: str, command: Command) -> Row:
    peak = command.peak_mib
    return Row(what, f"{peak:.0f} MiB", "-", "-", f"{MEMORY_MIB:.0f} MiB", peak <= MEMORY_MIB)
