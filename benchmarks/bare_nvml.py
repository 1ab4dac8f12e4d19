"""What one would write oneself: NVML calls in a loop. `python -m benchmarks.bare_nvml RATE CALLS`.

CALLS is JSON, `[[function, arguments, names of values, seconds apart], ...]`; of two calls that
give the same values the first that a GPU answers is made, of several fields those that it has, and
none more often than it says.
Nothing else is imported, so that memory compares.
Ends on SIGTERM and writes `{"stamps": {GPU: [monotonic seconds, ...]}}`.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

# The yardstick; gpuprobe itself has one door to NVML.
import pynvml  # noqa: TID251

Calls = list[tuple[str, list[Any], list[str], float]]
Made = list[tuple[Callable[..., Any], list[Any], float]]


def main(rate_hz: float, calls: Calls) -> None:
    """Make the calls at that rate."""
    got: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        got.append(number)

    signal.signal(signal.SIGTERM, note)
    pynvml.nvmlInit()
    handles = [
        pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
    ]
    answered = [answering(handle, calls) for handle in handles]
    stamps: list[list[float]] = [[] for _ in handles]
    due = time.monotonic()
    due_of = dict.fromkeys((apart_s for *_, apart_s in calls), due)
    while not got:
        now = {apart_s for apart_s, at in due_of.items() if due + 0.5 / rate_hz >= at}
        due_of.update((apart_s, due + apart_s) for apart_s in now)
        for place, handle in enumerate(handles):
            stamps[place].append(time.monotonic())
            for function, arguments, apart_s in answered[place]:
                if apart_s in now:
                    function(handle, *arguments)
        due = max(due + 1 / rate_hz, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    pynvml.nvmlShutdown()
    print(
        json.dumps(
            {
                "stamps": dict(enumerate(stamps)),
                "calls": [len(made) for made in answered],
            }
        )
    )


def answering(handle: Any, calls: Calls) -> Made:
    """The calls that this GPU answers, each value once."""
    found: Made = []
    given: set[str] = set()
    for name, arguments, values, apart_s in calls:
        function = getattr(pynvml, name, None)
        if function is None or given.issuperset(values):
            continue
        try:
            answer = function(handle, *arguments)
        except pynvml.NVMLError:
            continue
        if "FieldValues" in name:
            (fields,) = arguments
            known = [
                (field, name)
                for field, name, value in zip(fields, values, answer, strict=True)
                if not value.nvmlReturn
            ]
            if not known:
                continue
            arguments, values = [[field for field, _ in known]], [name for _, name in known]
        given.update(values)
        found.append((function, arguments, apart_s))
    return found


if __name__ == "__main__":
    main(float(sys.argv[1]), json.loads(sys.argv[2]))
