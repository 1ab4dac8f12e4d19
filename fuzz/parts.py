"""The parts of gpuprobe that read what a stranger may have written, as modules."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def _of(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names.split())


PARTS: Final[dict[str, tuple[str, ...]]] = {
    "framings": _of("sources/framing", "*"),
    "wording": _of("sources/wording", "*"),
    "files, archives, lines": _of(
        "sources",
        "files/archives files/inputs files/magic files/raw_input files/unpack ingest input_kind "
        "line_reader line_shapes lines lines_around output record scanning/familiar "
        "scanning/needles scanning/regions scanning/repeats scanning/scan setting",
    ),
    "recordings": _of(
        "recording", "codec doubt evidence faults frames opening reader tables unseen"
    ),
    "JIT caches": _of(
        "jitcache",
        "base binaries content cuda deepgemm elf inductor jax kinds look ninja numba_cache "
        "pickles sglang streams tilelang torch_kernels tree triton vllm zips",
    ),
    "reports read again": _of("report", "saved"),
    "the redactor": _of("reporters", "identifying known_names redact secret_shapes spelled"),
    "messages between processes": _of(
        "live",
        "engine/relay_frames nvml/driver_samples nvml/known nvml/messages nvml/rows nvml/wire",
    ),
}
"""A part to its modules, below `gpuprobe/`."""


def files_of(part: str) -> list[Path]:
    """The modules of one part.

    Raises:
        LookupError: A module that the part names is not there.
    """
    found = [path for glob in PARTS[part] for path in sorted((ROOT / "gpuprobe").glob(glob))]
    if missing := [glob for glob in PARTS[part] if not any((ROOT / "gpuprobe").glob(glob))]:
        raise LookupError(f"no {', '.join(missing)}, which the part {part!r} names")
    return found


def import_all() -> None:
    """Import every module of every part, those that gpuprobe itself imports late too."""
    for part in PARTS:
        for path in files_of(part):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))
