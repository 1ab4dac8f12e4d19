"""The texts of the cause rules."""

from __future__ import annotations

import pytest

from gpuprobe.catalog.causes import cause_rules, cause_texts


def test_causes_in_the_order_of_the_scorecard():
    """The six causes."""
    assert list(cause_texts()) == ["power", "link", "heat", "firmware", "card", "host"]


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, id=rule.id) for rule in cause_rules().values()]
)
def test_rule_is_whole(rule):
    """A rule has its condition, its words, what it needs, and a source."""
    assert rule.condition.endswith(".")
    assert not rule.text.endswith(".")
    assert rule.needs
    assert rule.source


@pytest.mark.parametrize(
    ("rule", "cause", "weight"),
    [
        ("L1", "link", "++"),
        ("L2", "link", "+"),
        ("L2", "power", "+"),
        ("L3", "link", "-"),
        ("P1", "power", "++"),
        ("P8", "card", "-"),
        ("T1", "heat", "++"),
        ("T3", "heat", "-"),
        ("F1", "firmware", "++"),
        ("F1", "link", "-"),
        ("C2", "card", "++"),
        ("H1", "host", "++"),
        ("P2", "power", None),
        ("C3", "card", None),
    ],
)
def test_weights(rule, cause, weight):
    """What a rule does to a cause."""
    assert cause_rules()[rule].weight(cause) == weight


def test_every_cause_has_a_rule_for_it():
    """Each cause can be spoken for."""
    for cause in cause_texts():
        assert any(rule.weight(cause) in ("+", "++") for rule in cause_rules().values()), cause
