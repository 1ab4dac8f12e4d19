"""Inside an engine: was it a fault of the program, or is the GPU gone?

```python
from gpuprobe import guard  # at the top: what is there now can be missed later

with guard():
    engine.step()
```

Standard library alone, no framework, no thread, no signal handler. Nothing is done until an
exception passes; then, for a CUDA error of whichever framework, the bus is asked first (sysfs, no
driver call), then NVML in a process of its own, all within two seconds even where the CUDA
context is dead and NVML hangs. Nothing here raises an error of its own.

The only state is the list of GPUs that sysfs showed when this was imported.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from gpuprobe.diagnosis import Certainty, Kind, Role, Verdict
from gpuprobe.errors import DeviceLostError, UsageError
from gpuprobe.identity import PciAddress
from gpuprobe.live import presence
from gpuprobe.live.presence import device_present
from gpuprobe.reading import Known, Unavailable

__all__ = [
    "DeviceLostError",
    "device_present",
    "explain_exception",
    "guard",
    "install_excepthook",
]

LIMIT_S: Final = 1.7
"""Time for all questions together; with starting and reading, two seconds are kept."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class guard:  # noqa: N801 - used as a statement: `with guard():`
    """Raise `DeviceLostError` from a CUDA error when a GPU of this process is really gone.

    A context manager, also `async with`, and a decorator (`@guard()`) of functions, coroutines
    and generators. Every other exception passes untouched: the same object, the same traceback. A
    CUDA error on a GPU that is there passes too, after at most two seconds; in a coroutine the
    event loop waits that long. Keeps no state, so one may be shared, nested and used by threads.

    Args:
        device: As for `device_present`, or None for the GPUs that this process has open, else
            those that it may use.

    Raises:
        AddressError: `device` is a text and no PCI address.
        UsageError: `device` is a function: `@guard` without its parentheses.
        DeviceLostError: On leaving, from the CUDA error.
    """

    __slots__ = ("_device",)

    def __init__(self, device: PciAddress | str | int | None = None) -> None:
        if device is not None:
            device = _checked(device)
        self._device = device

    def __enter__(self) -> guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exception is not None and (lost := _lost(exception, self._device)) is not None:
            raise lost from exception

    async def __aenter__(self) -> guard:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, exception, traceback)

    def __call__(self, function: _Function) -> _Function:
        """Guard every call of a function."""
        return cast("_Function", functools.wraps(function)(self._wrap(function)))

    def _wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isasyncgenfunction(function):

            async def each_later(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
                with self:
                    async with contextlib.aclosing(function(*args, **kwargs)) as items:
                        async for item in items:
                            yield item

            return each_later
        if inspect.iscoroutinefunction(function):

            async def later(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return later
        if inspect.isgeneratorfunction(function):

            def each(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                with self:
                    return (yield from function(*args, **kwargs))

            return each

        def at_once(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return at_once


@functools.lru_cache(64)
def _checked(device: PciAddress | str | int) -> PciAddress | int:
    if callable(device):
        raise UsageError("guard was given a function", hint="Write @guard() with parentheses.")
    return PciAddress.parse(device) if isinstance(device, str) else device


def explain_exception(
    exception: BaseException, device: PciAddress | str | int | None = None
) -> Verdict | None:
    """What a CUDA error was: a GPU that is gone, a fault of the program, or not to be told.

    Looks at the exception, at what it was raised from, and at the members of a group. Takes a
    tenth of a second where the GPU answers, at most two seconds. Never raises.

    Args:
        exception: Any exception.
        device: As for `guard`.

    Returns:
        The verdict, or None where there is no CUDA error. `device-left-bus` is `confirmed` where a
        GPU of this process is gone, and `likely` where one is gone that may be another's. On a GPU
        that answers, the kind that the error hints at is `possible`.
    """
    if isinstance(exception, DeviceLostError) and exception.verdict is not None:
        return exception.verdict
    try:
        return _examine(exception, device)
    except Exception:  # a helper in the moment of failure must not become the failure
        return None


def _examine(exception: BaseException, device: PciAddress | str | int | None) -> Verdict | None:
    # Imported when they are needed: all together take longer than what an engine imports this for,
    # and most exceptions need the first alone.
    from gpuprobe.inside import cuda

    until = time.monotonic() + LIMIT_S
    error = cuda.find(exception)
    if error is None:
        return None
    from gpuprobe.inside import driver, judge
    from gpuprobe.inside.whose import gpus_of_this_process
    from gpuprobe.sources.pci.tree import NVIDIA, device_path, look, read_hex

    before = presence.AT_IMPORT
    meant = presence.gpus_meant(device, before)
    if device is None and isinstance(meant, presence.Visible):
        meant = gpus_of_this_process(before)
    if isinstance(meant, Unavailable):
        return judge.judge(judge.Findings(error, meant))
    known = [
        one
        for one in meant.gpus
        if one in before.functions or device_path(one, before.root).exists()
    ]
    bus = look(known, before.root)
    answers = {}
    if error.code != cuda.OUT_OF_MEMORY and not any(seen.gone for seen in bus.values()):
        # Whoever runs out of memory goes on with less, and often: that is not worth a process.
        asked = [
            one
            for one, seen in bus.items()
            if seen.config == "answers"
            and read_hex(device_path(one, before.root) / "vendor") == NVIDIA
        ]
        answers = driver.ask(asked, until) if asked else {}
    return judge.judge(judge.Findings(error, meant, bus, answers))


def _lost(
    exception: BaseException, device: PciAddress | str | int | None
) -> DeviceLostError | None:
    """The error to raise instead, or None where the exception is to pass."""
    if not isinstance(exception, Exception) or isinstance(exception, DeviceLostError):
        return None
    verdict = explain_exception(exception, device)
    if (
        verdict is None
        or verdict.kind is not Kind.DEVICE_LEFT_BUS
        or verdict.certainty is not Certainty.CONFIRMED
    ):
        return None
    hint = verdict.next_steps[0].text if verdict.next_steps else ""
    proofs = [line.input for line in verdict.evidence if line.role is Role.PROOF]
    on_bus = "NVML" in proofs  # it was asked only where the bus answered
    return DeviceLostError(verdict.summary, hint=hint, verdict=verdict, present=Known(on_bus))


def install_excepthook() -> None:
    """Print one sentence on stderr after the traceback of an uncaught CUDA error.

    For the main program and for threads; the hooks that were there before are called first. Once
    installed, a second call does nothing. asyncio keeps an error to itself until its task is
    awaited; for those nobody awaits, set the loop's own handler (see `docs/library.md`).
    """
    if not getattr(sys.excepthook, "_by_gpuprobe", False):
        sys.excepthook = _after(sys.excepthook)
    if not getattr(threading.excepthook, "_by_gpuprobe", False):
        threading.excepthook = _after_in_thread(threading.excepthook)


def _after(previous: Callable[..., Any]) -> Callable[..., Any]:
    def hook(
        kind: type[BaseException], exception: BaseException, traceback: TracebackType | None
    ) -> None:
        previous(kind, exception, traceback)
        _say(exception)

    hook._by_gpuprobe = True  # type: ignore[attr-defined]
    return hook


def _after_in_thread(previous: Callable[..., Any]) -> Callable[..., Any]:
    def hook(args: threading.ExceptHookArgs) -> None:
        previous(args)
        if args.exc_value is not None:
            _say(args.exc_value)

    hook._by_gpuprobe = True  # type: ignore[attr-defined]
    return hook


def _say(exception: BaseException) -> None:
    """Print the verdict's sentence."""
    if not isinstance(exception, Exception) or isinstance(exception, DeviceLostError):
        return  # the traceback of the latter ends in the sentence
    verdict = explain_exception(exception)
    if verdict is None:
        return
    with contextlib.suppress(Exception):  # stderr may be closed, or None
        from gpuprobe.reporters.plain import printable

        sys.stderr.write(f"gpuprobe: {printable(verdict.summary)}\n")
        sys.stderr.flush()
