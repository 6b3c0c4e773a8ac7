"""What holds of every metric: bounds, swaps, permutations, monotone transforms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties.strategies import lists, tied_lists
from rankine.metrics import evaluate, parse_metric
from rankine.metrics.metric import DEFINITIONS

pytestmark = pytest.mark.kernels

#: Diversity, exposure and probabilities, which are not about orders by label, have other tests.
METRICS = [
    f"{n}@3" if d.cutoff == "required" else n
    for n, d in DEFINITIONS.items()
    if "by" not in d.defaults and d.family != "rows"
]


@settings(max_examples=40, deadline=None)
@given(lists)
def test_bounds_are_met_by_the_best_and_the_worst_order(query):
    y, s = np.array(query[0]), np.array(query[1], dtype=float)
    for metric in METRICS:
        low, value, high = (evaluate(metric, y, v) for v in (-1.0 * y, s, 1.0 * y))
        if parse_metric(metric).ties == "errors":
            high, low = 0.0, 1.0
        if not parse_metric(metric).larger_is_better:
            low, value, high = -low, -value, -high
        assert low - 1e-12 <= value <= high + 1e-12


@settings(max_examples=40, deadline=None)
@given(lists, st.randoms(use_true_random=False))
def test_putting_a_better_item_first_never_hurts(query, random):
    y, s = np.array(query[0]), np.array(query[1], dtype=float)
    i, j = random.sample(range(len(y)), 2)
    if y[i] == y[j]:
        return
    good, bad = (i, j) if y[i] > y[j] else (j, i)
    swapped = s.copy()
    if swapped[good] < swapped[bad]:
        swapped[[good, bad]] = swapped[[bad, good]]
    for metric in METRICS:
        sign = 1 if parse_metric(metric).larger_is_better else -1
        # An item of a middle grade that moves down may newly be dominated: two grades only.
        labels = np.minimum(y, 1) if parse_metric(metric).name == "domination-error" else y
        before, after = evaluate(metric, labels, s), evaluate(metric, labels, swapped)
        assert sign * after >= sign * before - 1e-12


@settings(max_examples=25, deadline=None)
@given(lists, st.randoms(use_true_random=False))
def test_row_order_and_monotone_transforms_change_nothing_without_ties(query, random):
    y, s = np.array(query[0]), np.array(query[1], dtype=float)
    order = list(range(len(y)))
    random.shuffle(order)
    for metric in METRICS:
        value = evaluate(metric, y, s)
        assert evaluate(metric, y[order], s[order]) == pytest.approx(value, abs=1e-12)
        assert evaluate(metric, y, np.exp(s) - 3) == value


@settings(max_examples=60, deadline=None)
@given(st.lists(tied_lists, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_row_order_changes_nothing_with_ties_either(queries, random):
    y = np.array([label for labels, _ in queries for label in labels])
    s = np.array([score for _, scores in queries for score in scores])
    qid = np.repeat(np.arange(len(queries)), [len(labels) for labels, _ in queries])
    order = list(range(len(y)))
    random.shuffle(order)
    for metric in METRICS:
        value = evaluate(metric, y, s, qid)
        assert evaluate(metric, y[order], s[order], qid[order]) == pytest.approx(value, abs=1e-12)
