"""Tables of a recording as pandas frames with fixed types."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

ROWS_AT_ONCE: Final = 500
"""Rows that are Python objects at a time: so few stay in the cache of a core."""

TIME: Final = "datetime64[ns, UTC]"
FLOAT: Final = "float64"
WHOLE: Final = "Int64"
TEXT: Final = "string[python]"

_NOT_A_TIME: Final = -(2**63)

_NUMBERS: Final = frozenset({int, float, type(None)})
_INTEGERS: Final = frozenset({int, type(None)})
_TEXTS: Final = frozenset({str, type(None)})


def frame(rows: Iterable[tuple[Any, ...]], types: Mapping[str, str]) -> pd.DataFrame:
    """Rows as a frame; what is not of its column's type becomes missing.

    Args:
        rows: Values in the order of `types`.
        types: Column to one of `TIME`, `FLOAT`, `WHOLE`, `TEXT`.
    """
    remaining = iter(rows)
    return frame_of(iter(lambda: list(islice(remaining, ROWS_AT_ONCE)), []), types)


def frame_of(
    lists: Iterable[Sequence[tuple[Any, ...]]],
    types: Mapping[str, str],
    *,
    words: Mapping[str, Callable[[Any], Any]] | None = None,
) -> pd.DataFrame:
    """Lists of rows as a frame; what is not of its column's type becomes missing.

    Args:
        lists: Rows, some at a time: values in the order of `types`, behind others that are left
            out, such as an id.
        types: Column to one of `TIME`, `FLOAT`, `WHOLE`, `TEXT`.
        words: Column to what makes its value of the one in the row.
    """
    import pandas as pd

    parts: dict[str, list[Any]] = {name: [] for name in types}
    for rows in lists:
        if not rows:
            continue
        columns = list(zip(*rows, strict=True))[-len(types) :]
        for (name, kind), values in zip(types.items(), columns, strict=True):
            said = words.get(name) if words else None
            parts[name].append(_ARRAYS[kind](tuple(map(said, values)) if said else values))
    # One column after the other, each in place of its parts, and none copied into one block.
    return pd.DataFrame({name: _column(parts.pop(name), types[name]) for name in types}, copy=False)


# A column mostly holds what it should, which looking at its types shows at a thirtieth of the cost
# of looking at each value in Python.


def _times(values: Sequence[Any]) -> Any:
    import numpy as np

    if set(map(type, values)) != {int}:
        values = [v if isinstance(v, int) else _NOT_A_TIME for v in values]
    return np.array(values, "int64")


def _floats(values: Sequence[Any]) -> Any:
    import numpy as np

    if not set(map(type, values)) <= _NUMBERS:
        values = [v if isinstance(v, int | float) else math.nan for v in values]
    return np.array(values, FLOAT)


def _integers(values: Sequence[Any]) -> tuple[Any, Any]:
    """The numbers, and where there is none."""
    import numpy as np
    import pandas as pd

    kinds = set(map(type, values))
    if kinds == {int}:
        return np.array(values, "int64"), np.zeros(len(values), "bool")
    if not kinds <= _INTEGERS:
        values = [v if isinstance(v, int) else None for v in values]
    found = np.array(values, "object")
    missing = pd.isna(found)
    found[missing] = 0
    return found.astype("int64"), missing


def _texts(values: Sequence[Any]) -> Any:
    import numpy as np

    if not set(map(type, values)) <= _TEXTS:
        values = [v if isinstance(v, str) else None for v in values]
    return np.array(values, "object")


_ARRAYS: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    TIME: _times,
    FLOAT: _floats,
    WHOLE: _integers,
    TEXT: _texts,
}


def _column(parts: list[Any], kind: str) -> pd.Series:
    import pandas as pd

    if kind == TIME:
        times = _joined(parts, "int64").view("datetime64[ns]")
        return pd.Series(times, copy=False).dt.tz_localize("UTC")
    if kind == WHOLE:
        numbers = _joined([one for one, _ in parts], "int64")
        missing = _joined([one for _, one in parts], "bool")
        return pd.Series(pd.arrays.IntegerArray(numbers, missing), copy=False)
    made = _joined(parts, FLOAT if kind == FLOAT else "object")
    return pd.Series(made, copy=False) if kind == FLOAT else pd.Series(pd.array(made, dtype=TEXT))


def _joined(parts: list[Any], kind: str) -> np.ndarray:
    import numpy as np

    return np.concatenate(parts) if parts else np.array([], kind)
