"""The errors gpuprobe raises. Each says what to try next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprobe.diagnosis import Verdict
    from gpuprobe.identity import PciAddress
    from gpuprobe.reading import Known, Unavailable


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


class RecordingError(InputUnreadableError):
    """A recording cannot be made, or cannot be read."""


class AddressError(GpuprobeError, ValueError):
    """A text is not a PCI address."""


class CatalogueError(GpuprobeError):
    """The catalogue's data files contradict themselves."""


class DeviceLostError(GpuprobeError, RuntimeError):
    """A CUDA error was raised and a GPU of this process is really gone.

    A RuntimeError too, as most frameworks' own errors are, so that what catches those still does.

    Attributes:
        verdict: What was found, with its proof and what to do next; None only where code other
            than gpuprobe's raised it.
        device: The GPU's address, or None.
        present: `Known(False)` where it left the bus; `Known(True)` where its config space still
            answers and the driver lost it; None as for `verdict`.
    """

    exit_code = 79

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        verdict: Verdict | None = None,
        present: Known[bool] | Unavailable | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.verdict = verdict
        self.present = present

    @property
    def device(self) -> PciAddress | None:
        """The GPU's address, or None where the verdict names none."""
        if self.verdict is None or self.verdict.device is None:
            return None
        return self.verdict.device.pci
