"""How the library is used, for mypy: checked with the package, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import gpuprobe
from gpuprobe import (
    Certainty,
    DeviceLostError,
    Diagnosis,
    Kind,
    PciAddress,
    Verdict,
    device_present,
    explain_exception,
    guard,
    install_excepthook,
)
from gpuprobe.reading import Known, Unavailable

# --- from logs

diagnosis = gpuprobe.diagnose("kernel.log", "engine.log")
assert_type(diagnosis, Diagnosis)
assert_type(diagnosis.answer, Kind)
assert_type(diagnosis.verdicts[0].certainty, Certainty | None)
assert_type(gpuprobe.diagnose_text("a line"), Diagnosis)

# --- inside an engine

with guard():
    pass
with guard("0000:04:00.0") as entered:
    assert_type(entered, guard)
with guard(0), guard(PciAddress.parse("0000:04:00.0")), guard(device=None):
    pass


@guard()
def step(batch: list[int], *, greedy: bool = False) -> float:
    """A function keeps its signature,"""
    return float(len(batch) + greedy)


@guard(1)
async def later(batch: list[int]) -> float:
    """a coroutine is one still,"""
    async with guard():
        return step(batch)


@guard()
def each(batch: list[int]) -> Iterator[int]:
    """a generator yields what it did,"""
    yield from batch


@guard()
async def stream(batch: list[int]) -> AsyncIterator[int]:
    """and so does one in a coroutine."""
    for item in batch:
        yield item


async def use() -> None:
    """Types come through."""
    assert_type(step([1], greedy=True), float)
    assert_type(await later([1]), float)
    assert_type(next(iter(each([1]))), int)
    async for item in stream([1]):
        assert_type(item, int)
    step("batch")  # type: ignore[arg-type]


class Engine:
    """Methods, too."""

    @guard()
    def step(self, batch: list[int]) -> float:
        """One."""
        return step(batch)


assert_type(Engine().step([1]), float)

match device_present(0):
    case Known(there):
        assert_type(there, bool)
    case Unavailable(reason=reason, detail=detail, hint=hint):
        assert_type((reason.value, detail, hint), tuple[str, str, str])

try:
    step([1])
except DeviceLostError as lost:
    assert_type(lost.verdict, Verdict | None)
    assert_type(lost.device, PciAddress | None)
    assert_type(lost.present, Known[bool] | Unavailable | None)
    assert_type(lost.hint, str)
except Exception as error:
    assert_type(explain_exception(error), Verdict | None)
install_excepthook()
