"""The errors gpuprobe raises. Each says what to try next."""

from __future__ import annotations


class GpuprobeError(Exception):
    """Something gpuprobe cannot do, with what the user can try next.

    Attributes:
        hint: What to try next, one sentence, or an empty string.
        exit_code: The code the command line ends with.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(GpuprobeError):
    """The arguments contradict each other or name something that is not there."""


class InputUnreadableError(GpuprobeError):
    """No input, or none of the inputs, could be read."""


class AddressError(GpuprobeError, ValueError):
    """A text is not a PCI address."""


class CatalogueError(GpuprobeError):
    """The catalogue's data files contradict themselves."""
