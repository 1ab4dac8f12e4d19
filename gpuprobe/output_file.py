"""Files that are made for people: whole or not at all, and never over what was read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpuprobe.errors import UsageError


def refuse_to_overwrite(output: Path, inputs: Sequence[str]) -> None:
    """A log is evidence: nothing is written over it.

    Raises:
        UsageError: The output is one of the inputs.
    """
    for path in _files(inputs):
        try:
            same = path != "-" and output.exists() and output.samefile(path)
        except (OSError, ValueError):
            # A file that is gone is not the same as one that is there.
            continue
        if same:
            raise UsageError(f"{output} is one of the inputs", hint="Give the output another name.")


def _files(inputs: Sequence[str]) -> Iterator[str]:
    """The inputs and the archives they are members of, each once."""
    seen: set[str] = set()
    for path in inputs:
        parts = path.split("!")
        seen.update("!".join(parts[:count]) for count in range(1, len(parts) + 1))
    return iter(sorted(seen))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file; a device or a pipe is written to as it is.

    Raises:
        UsageError: It cannot be written there.
    """
    if path.exists() and not path.is_file():
        # There is nothing to put in its place.
        try:
            path.write_bytes(data)
        except OSError as error:
            raise _cannot(path, error) from error
        return
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its place when it is whole, so that no half one is left.

    Raises:
        UsageError: It cannot be written there.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise _cannot(path, error) from error
    finally:
        # On a file system that cannot be written, taking away what is not there fails, too.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _cannot(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}", hint="Choose another place."
    )
