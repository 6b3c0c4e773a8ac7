"""Domination error: an item is an error if an item with a lower label outranks it."""

from __future__ import annotations

import pytest

from rankine.metrics import evaluate, parse_metric
from reference import ranking_metrics as slow

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(
    ("rule", "value"), [("strict", 2 / 3), ("errors", 1.0), ("expected", (2 + 2 / 3) / 3)]
)
def test_ties_with_two_lower_items(rule, value):
    # The item of label 2 has the score of both items of label 0, which those of label 1 are below.
    labels, scores = [2, 1, 1, 0, 0], [0.5, 0.1, 0.4, 0.5, 0.5]
    assert evaluate(f"domination-error:ties={rule}", labels, scores) == pytest.approx(value)
    if rule != "expected":
        expected = slow.domination_error(labels, scores, rule)
        assert evaluate(f"domination-error:ties={rule}", labels, scores) == pytest.approx(expected)


def test_items_of_the_lowest_label_dominate_nothing():
    assert evaluate("domination-error", [1, 0, 0, 0], [0.0, 1.0, -1.0, -2.0]) == 1.0


def test_queries_or_items_weigh_equally():
    labels, scores = [1, 0, 2, 1, 0], [0.0, 1.0, 3.0, 2.0, 1.0]
    qid = [0, 0, 1, 1, 1]
    assert evaluate("domination-error", labels, scores, qid) == 0.5
    by_items = evaluate("domination-error:mean=items", labels, scores, qid)
    assert by_items == pytest.approx(1 / 3)


def test_worst_ties_are_errors():
    assert str(parse_metric("domination-error:ties=worst")) == str(
        parse_metric("domination:ties=errors")
    )
    assert evaluate("domination-error:ties=worst", [1, 0], [0.0, 0.0]) == 1.0
