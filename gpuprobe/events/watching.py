"""What gpuprobe's own sources saw of a device, of themselves and of a followed program."""

from __future__ import annotations

from typing import Literal

from gpuprobe.events.base import Event, observed


@observed
class PresenceTested(Event):
    """Somebody looked whether a device is still there.

    Attributes:
        directory: Its directory in sysfs exists.
        config: `answers`, `all-ones`, `unreadable` or `not-asked` (asleep, or no permission).
        driver: `answers`, `lost`, `silent` (no answer in time) or `not-asked`.
    """

    directory: bool
    config: Literal["answers", "all-ones", "unreadable", "not-asked"]
    driver: Literal["answers", "lost", "silent", "not-asked"] = "not-asked"


@observed
class ProbeStalled(Event):
    """A call into the driver did not return in time: evidence, never a verdict.

    Attributes:
        call: The NVML call that hangs.
        pid: The child's process id; tid: the thread's.
        state: Process state from /proc (`D` uninterruptible, `R`, `S`), or "".
        wchan: Kernel function it waits in, or "".
        waited_s: Seconds since the call began.
    """

    call: str
    pid: int
    tid: int = 0
    state: str = ""
    wchan: str = ""
    waited_s: float = 0.0


@observed
class SourceChanged(Event):
    """A live source started, stopped, was released, or lost messages.

    Attributes:
        name: The source.
        what: `started`, `stopped`, `released`, `taken`, `gap`, `unavailable`.
    """

    name: str
    what: str


@observed
class ProcessesListed(Event):
    """NVML listed the processes that use a GPU.

    Attributes:
        pids: Their process ids, in the namespace of the driver.
    """

    pids: tuple[int, ...] = ()


@observed
class OutputWritten(Event):
    """Lines that a followed program wrote: kept for the reader, never weighed.

    What they mean, if anything, arrives as events of its own.

    Attributes:
        stream: `stdout`, `stderr`, or "" where the two cannot be told apart.
        lines: Line number from 1 since the program began, and the text without its line end.
        dropped: Bytes that came too fast before these lines and were not read.
    """

    stream: str = ""
    lines: tuple[tuple[int, str], ...] = ()
    dropped: int = 0
