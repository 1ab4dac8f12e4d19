"""Values: frozen, equal by value, and made as a frozen dataclass is."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from gpuprobe.values import Value


class Point(Value):
    """A place on a map."""

    x: int
    y: int = 0
    name: str = "here"


class Corner(Value):
    """The same fields in another class."""

    x: int
    y: int = 0
    name: str = "here"


def test_fields_are_given_in_order_by_name_or_by_default() -> None:
    """All three ways make equal values."""
    assert Point(1, 0) == Point(x=1) == Point(1, name="here")
    assert (Point(1, 2).x, Point(1, 2).y, Point(1, 2).name) == (1, 2, "here")


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((1, 2, "there", 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((), {"y": 1})],
)
def test_wrong_fields_are_refused(values: tuple[object, ...], named: dict[str, object]) -> None:
    """Missing, one too many, twice, unknown."""
    with pytest.raises(TypeError, match="Point takes x, y, name"):
        Point(*values, **named)  # type: ignore[arg-type]


def test_values_never_change() -> None:
    """Neither by assignment nor by deletion, and no field can be added."""
    point = Point(1)

    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.z = 1  # type: ignore[attr-defined]
    assert point == Point(1)


def test_equal_values_are_one_key_and_other_classes_differ() -> None:
    """Equality and hash go by class and fields."""
    assert len({Point(1), Point(1), Point(2)}) == 2
    assert Point(1) != Corner(1)
    assert Point(1) != (1, 0, "here")


def test_tools_for_dataclasses_work() -> None:
    """`replace`, `fields`, `repr`, matching by place and copying are those of a dataclass."""
    point = Point(1, 2)

    assert replace(point, y=3) == Point(1, 3)
    assert [item.name for item in fields(point)] == ["x", "y", "name"]
    assert repr(point) == "Point(x=1, y=2, name='here')"
    assert copy.deepcopy(point) == copy.copy(point) == point
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)
