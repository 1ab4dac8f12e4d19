"""Tables of a recording as pandas frames with fixed types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

ROWS_AT_ONCE: Final = 50_000

TIME: Final = "datetime64[ns, UTC]"
FLOAT: Final = "float64"
WHOLE: Final = "Int64"
TEXT: Final = "string[python]"

_NOT_A_TIME: Final = -(2**63)


def frame(rows: Iterable[tuple[Any, ...]], types: Mapping[str, str]) -> pd.DataFrame:
    """Rows as a frame; what is not of its column's type becomes missing.

    Args:
        rows: Values in the order of `types`.
        types: Column to one of `TIME`, `FLOAT`, `WHOLE`, `TEXT`.
    """
    import pandas as pd

    parts: list[list[Any]] = [[] for _ in types]
    for chunk in _chunks(rows):
        for part, values, kind in zip(parts, zip(*chunk, strict=True), types.values(), strict=True):
            part.append(_array(values, kind))
    columns = {
        name: _column(part, kind) for part, (name, kind) in zip(parts, types.items(), strict=True)
    }
    return pd.DataFrame(columns)


def _chunks(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, ROWS_AT_ONCE)):
        yield chunk


def _array(values: Sequence[Any], kind: str) -> Any:
    """One column of some rows, small: numbers as numbers, texts as they are."""
    import numpy as np
    import pandas as pd

    if kind == TIME:
        return np.array([v if isinstance(v, int) else _NOT_A_TIME for v in values], "int64")
    if kind == FLOAT:
        return np.array([v if isinstance(v, int | float) else math.nan for v in values], FLOAT)
    if kind == WHOLE:
        return pd.array([v if isinstance(v, int) else None for v in values], dtype=WHOLE)
    return [v if isinstance(v, str) else None for v in values]


def _column(part: list[Any], kind: str) -> pd.Series:
    import numpy as np
    import pandas as pd

    if kind == TIME:
        times: np.ndarray = np.concatenate(part) if part else np.array([], "int64")
        return pd.Series(times.view("datetime64[ns]")).dt.tz_localize("UTC")
    if kind == FLOAT:
        return pd.Series(np.concatenate(part) if part else [], dtype=FLOAT)
    if kind == WHOLE:
        if not part:
            return pd.Series([], dtype=WHOLE)
        return pd.concat([pd.Series(one) for one in part], ignore_index=True)
    return pd.Series([value for one in part for value in one], dtype=TEXT)
