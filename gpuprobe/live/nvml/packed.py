"""Sequences that stay packed until somebody reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item", covariant=True)


class Packed(Sequence[Item]):
    """Equal to, hashed as and shown as the tuple of what it holds."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
