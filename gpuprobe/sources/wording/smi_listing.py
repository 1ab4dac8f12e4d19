"""Which GPUs nvidia-smi lists, as a whole: by `-L` or in its table.

One row says that a GPU is there. That another is not is said by the whole list, and only where
it is whole: not filtered, not cut short, not made in a container that was given a part of them.

Source: nvidia-smi's output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from gpuprobe.events import GpusListed
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Record, Window

LISTED = regex(
    r"GPU (?P<index>\d{1,3}): (?P<name>[^()]{3,60}?) \(UUID: (?P<uuid>GPU-[0-9a-fA-F-]{36})\)"
)
"""A GPU's line of `nvidia-smi -L`."""

ROW = regex(
    r"(?:\|\s+|\A\s*)(?P<index>\d{1,3})\s+(?P<name>\S[^|]*?)(?:\s+(?:On|Off|N/A|ERR!))?\s*\|"
    r" {1,5}(?P<address>0[0-9A-Fa-f]{3,7}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*(?P<rest>[^+]*)"
)
"""The first row of a GPU in nvidia-smi's table."""

_WITHOUT_HANDLE = regex(r"to determine the device handle for")
_INSTANCE = regex(r"\bMIG \w.*\(UUID: MIG-")
_ELIDED = regex(r"\s*[\[(<]?(?:\.{3}|…|snip)")
_OF_TABLE = regex(r"\|\s*\Z|\+\s*\Z")
_DAY = regex(
    r"(?P<day>[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2}) \d\d:\d\d:\d\d(?: [A-Z]{2,5})? (?P<year>\d{4})"
)
_SHELL = regex(r"(?P<shell>[\w.-]+@[\w.-]+)[^$#>]{0,60}[$#>] ?\S")

_CONTAINED = regex(
    r"\b(?:docker|podman|nerdctl|kubectl|crictl|apptainer|singularity|containers?|compose|pods?|lxc|incus|srun|salloc|sbatch|slurm|guests?|vms?|virsh|qemu|passthrough|vfio)\b",
    re.IGNORECASE,
)
"""Between two lists: the later may come from where a part of the GPUs is to be seen."""

_CHOSEN = regex(
    r"\bssh\b|(?i:\b(?:removed|removing|took out|taken out|unplugged|pulled|swapped|sold|disabled|without the)\b)|_VISIBLE_DEVICES|--gpus\b|--gres\b|nvidia-smi[^\n]*(?:\||\s-i\b|\s--id\b)"
)
"""Just above a list: it was filtered, is another machine's, or came after a card was taken out."""

_ABOVE = 5
"""Lines above a list in which its command and what was done before it are looked for."""


def row_above(window: Window) -> re.Match[str] | None:
    """The address row that a row of readings belongs to: the nearest of the two lines above."""
    for record in window.before(2):
        if row := ROW.search(record.raw):
            return row
    return None


def read_list(window: Window) -> GpusListed | None:
    """The list of `nvidia-smi -L` that begins at this record; None within it, or cut short."""
    above = window.before(1)
    if above and (LISTED.search(above[0].message) or _WITHOUT_HANDLE.search(above[0].message)):
        return None
    found: list[re.Match[str]] = []
    silent = 0
    lines = [window.record, *window.after(window.REACH)]
    for record in lines:
        row = LISTED.search(record.message)
        if row:
            found.append(row)
        elif _WITHOUT_HANDLE.search(record.message):
            silent += 1
        elif _ELIDED.match(record.message):
            return None
        elif not _INSTANCE.search(record.message):
            break
    else:
        if len(lines) > window.REACH:
            return None
    if not _in_order([int(row["index"]) for row in found], silent):
        return None
    return _listed(window, tuple(row["uuid"] for row in found))


def read_table(window: Window, driver: str) -> GpusListed | None:
    """The GPUs of the table below this heading; None where it is cut short or has no date.

    Addresses are alike in many machines, so it counts for one machine's only with its day and
    driver.

    Args:
        window: The table's heading.
        driver: Its driver's version.
    """
    day = next((day for record in window.before(3) if (day := _DAY.search(record.raw))), None)
    if day is None:
        return None
    found: list[re.Match[str]] = []
    lines = window.after(window.REACH)
    for record in lines:
        row = ROW.search(record.raw)
        if row:
            found.append(row)
        elif _ELIDED.match(record.message):
            return None
        elif not _OF_TABLE.search(record.raw) or "Processes" in record.raw:
            break
    else:
        if len(lines) == window.REACH:
            return None
    if not _in_order([int(row["index"]) for row in found], 0):
        return None
    return _listed(
        window,
        tuple(f"{row['address'][-12:].lower()} {row['name'].strip()}" for row in found),
        f"{driver} {day['day']} {day['year']}",
    )


def _in_order(indexes: Sequence[int], silent: int) -> bool:
    """Whether the numbers are those of a whole list, in which so many GPUs gave no name."""
    rising = all(before < after for before, after in pairwise(indexes))
    return bool(indexes) and rising and indexes[-1] < len(indexes) + silent


def _listed(window: Window, gpus: tuple[str, ...], machine: str = "") -> GpusListed:
    above: Sequence[Record] = window.before(_ABOVE)
    prompt = next((prompt for record in above if (prompt := _SHELL.search(record.raw))), None)
    return GpusListed(
        gpus=gpus,
        machine=machine,
        prompt=prompt["shell"] if prompt else "",
        apart=_is_apart(window),
        **window.base(),
    )


def _is_apart(window: Window) -> bool:
    """Whether a line between this list and the one before says that it shows a part of them."""
    for distance, record in enumerate(window.before(window.REACH)):
        if LISTED.search(record.raw) or ROW.search(record.raw):
            return False
        if _CONTAINED.search(record.raw) or (distance < _ABOVE and _CHOSEN.search(record.raw)):
            return True
    return False
