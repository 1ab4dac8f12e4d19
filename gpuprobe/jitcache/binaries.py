"""Compiled files of a cache: what is wrong with one, and what it does to a program."""

from __future__ import annotations

from gpuprobe.jitcache import elf
from gpuprobe.jitcache.base import Harm, Problem
from gpuprobe.jitcache.tree import Folder


def cubin(folder: Folder, name: str, *, kernel: str = "") -> Problem | None:
    """A kernel for a GPU: an empty one raises an error, a cut one kills with SIGSEGV."""
    machine = elf.AMDGPU if name.endswith(".hsaco") else elf.CUDA
    with folder.open(name) as opened:
        file = elf.read_once(opened)
        fault = elf.check(file, machine)
        built_for = elf.architecture(file) if fault is None else None
    if built_for is not None:
        folder.root.architectures.add(built_for)
    if fault is None:
        return None
    return Problem(name, fault.why, Harm.FATAL, kernel=kernel, expected=fault.expected)


def library(folder: Folder, name: str, *, refused: Harm = Harm.FATAL) -> Problem | None:
    """A shared library: a cut one kills with SIGBUS, one that a loader refuses raises an error.

    Args:
        folder: Where it lies.
        name: Its name.
        refused: What the program does when the loader refuses it.
    """
    with folder.open(name) as opened:
        file = elf.read_once(opened)
        fault = elf.check(file, 0)
        machine = int.from_bytes(file.at(18, 2), "little")
    if fault is None:
        host = elf.host_machine()
        if not host or machine == host:
            return None
        why = f"is built for another machine (ELF {machine})"
        return Problem(name, why, Harm.UNKNOWN, bad=False)
    harm = Harm.FATAL if fault.loads else refused
    return Problem(name, fault.why, harm, expected=fault.expected)
