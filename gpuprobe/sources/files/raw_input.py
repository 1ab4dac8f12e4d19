"""What stands behind a path: a stream to read, or the reason why there is none."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from gpuprobe.errors import InputUnreadableError
from gpuprobe.sources.files.unpack import BLOCK, Blocks, BlockStream, Notes
from gpuprobe.values import Value


@dataclass(slots=True)
class RawInput:
    """An input that can be read as a stream of bytes, decompressed.

    A member of an archive and stdin can be opened once, and a member only until the next input
    is asked for.

    Attributes:
        path: As reports show it: the file's path, `-`, or `archive!member`.
        name: Its last part, a hint at what it is.
        size: Bytes where known: of the text, or of the compressed file.
        compressed: True when `size` is that of the compressed file.
        format: A framing's name where the source settles it, else None.
        notes: What went wrong while it was read; filled by reading.
        looked_up: True where nobody named it: it lay in a folder or an archive that was named.
    """

    path: str
    name: str
    _opener: Callable[[RawInput], Blocks] = field(repr=False)
    size: int | None = None
    compressed: bool = False
    format: str | None = None
    notes: Notes = field(default_factory=Notes)
    looked_up: bool = False

    def blocks(self) -> Blocks:
        """The bytes in blocks of at most `BLOCK`, to be read to the end or closed.

        Raises:
            InputUnreadableError: It was a one-time stream and is used up, or the file is gone.
        """
        try:
            return self._opener(self)
        except OSError as error:
            raise InputUnreadableError(
                f"{self.path}: {error.strerror or error}", hint="Was it moved while being read?"
            ) from error

    def open(self) -> BinaryIO:
        """The same as a stream, to be read in blocks and closed."""
        return io.BufferedReader(BlockStream(self.blocks()), BLOCK)


class UnreadableInput(Value):
    """An input that is left out.

    Attributes:
        path: See `RawInput.path`.
        reason: Why, in a few words.
        hint: What to try next, or an empty string.
        expected: True when nobody would look for a log there: an image, a program, a link.
        own: True when gpuprobe wrote it, so that its words are no evidence.
        in_part: True when some of it was read and the rest could not be.
    """

    path: str
    reason: str
    hint: str = ""
    expected: bool = False
    own: bool = False
    in_part: bool = False


@dataclass(slots=True)
class RecordingInput:
    """A recording: a database that is read by its own tables.

    Attributes:
        path: As reports show it. file: Where it lies.
    """

    path: str
    file: Path


Input = RawInput | RecordingInput | UnreadableInput
