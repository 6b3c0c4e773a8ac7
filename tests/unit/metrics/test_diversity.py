"""Metrics of diversity and exposure against their definitions, over all orders of tied items."""

import itertools
import math

import numpy as np
import pytest

from error_checks import raises_at, raises_for
from rankine.core.errors import ParameterError, SchemaError
from rankine.metrics import count_without_value, evaluate, parse_metric

pytestmark = pytest.mark.kernels


def discount(rank):
    return 1 / math.log2(rank + 1)


def coverage(order, k):
    groups = {group for _, group in order if group}
    if not groups:
        return None
    return len({group for _, group in order[:k] if group}) / min(k, len(groups))


def ild(order, k):
    pairs = list(itertools.combinations([group for _, group in order[:k]], 2))
    if not pairs or not any(group for _, group in order):
        return None
    return sum(a != b or not a for a, b in pairs) / len(pairs)


def alpha_dcg(order, k, alpha):
    total = 0.0
    for r, (label, group) in enumerate(order[:k], 1):
        above = sum(l > 0 and g == group and bool(g) for l, g in order[: r - 1])
        total += (label > 0) * (1 - alpha) ** above * discount(r)
    return total


def alpha_ndcg(order, k, alpha=0.5):
    if not any(label > 0 for label, _ in order):
        return None
    best = max(alpha_dcg(each, k, alpha) for each in itertools.permutations(order))
    return alpha_dcg(order, k, alpha) / best


def exposures(order, k, groups):
    """Mean exposure of each group."""
    return [
        np.mean([discount(r) * (r <= k) for r, (_, g) in enumerate(order, 1) if g == group])
        for group in groups
    ]


def tied_orders(items, scores):
    """All orders by falling score."""
    for order in itertools.permutations(range(len(items))):
        ranked = [scores[i] for i in order]
        if all(a >= b for a, b in itertools.pairwise(ranked)):
            yield [items[i] for i in order]


METRICS = {
    "coverage@2:by=brand": lambda order: coverage(order, 2),
    "coverage@4:by=brand": lambda order: coverage(order, 4),
    "ild@3:by=brand": lambda order: ild(order, 3),
    "ild:by=brand": lambda order: ild(order, len(order)),
    "alpha-ndcg@3:by=brand:no_relevant=skip": lambda order: alpha_ndcg(order, 3),
    "alpha-ndcg:by=brand:alpha=0.8:no_relevant=skip": lambda order: alpha_ndcg(order, 9, 0.8),
}


@pytest.mark.parametrize("seed", range(12))
def test_metrics_equal_their_definitions_on_average_over_tied_orders(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    labels = rng.integers(0, 2, n).tolist()
    brands = rng.choice(["a", "b", "c", ""], n).tolist()
    items = list(zip(labels, brands, strict=True))
    columns = {"brand": np.array(brands)}
    strict, tied = rng.permutation(n).astype(float), rng.integers(0, 3, n).astype(float)
    for scores in (strict, tied):
        orders = list(tied_orders(items, scores.tolist()))
        for metric, definition in METRICS.items():
            values = [definition(order) for order in orders]
            value = evaluate(metric, labels, scores, columns=columns, per_query=True)[0]
            if values[0] is None:
                assert np.isnan(value)
            else:
                assert value == pytest.approx(np.mean(values), abs=1e-12), metric
        groups = sorted({brand for brand in brands if brand})
        mean = np.mean([exposures(order, 3, groups) for order in orders], axis=0)
        value = evaluate(
            "exposure-ratio@3:by=brand", labels, scores, columns=columns, per_query=True
        )[0]
        if len(groups) < 2 or max(mean) == 0:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(min(mean) / max(mean), abs=1e-12)


def test_worked_by_hand():
    columns = {"brand": ["a", "a", "b", "a"]}
    y, s = [1, 1, 1, 0], [4.0, 3.0, 2.0, 1.0]
    assert evaluate("coverage@2:by=brand", y, s, columns=columns) == 0.5
    assert evaluate("ild@3:by=brand", y, s, columns=columns) == pytest.approx(2 / 3)
    dcg = 1 + 0.5 / math.log2(3) + 1 / 2
    best = 1 + 1 / math.log2(3) + 0.5 / 2
    value = evaluate("alpha-ndcg@3:by=brand", y, s, columns=columns)
    assert value == pytest.approx(dcg / best)
    a, b = (1 + 1 / math.log2(3) + 1 / math.log2(5)) / 3, 1 / 2
    assert evaluate("exposure-ratio:by=brand", y, s, columns=columns) == pytest.approx(b / a)


def test_items_that_were_not_retrieved_have_no_exposure():
    columns = {"new": [1, 0, 0, 1], "retrieved": [1, 1, 0, 0]}
    value = evaluate("exposure-ratio:by=new", [1, 0, 0, 0], [3.0, 2.0, 1.0, 0.0], columns=columns)
    assert value == pytest.approx((1 / math.log2(3)) / 1.0)


def test_lists_without_groups_are_skipped():
    columns = {"brand": ["a", "a", "", "", "a", "b"]}
    y, s, qid = [1, 0, 1, 0, 0, 1], [1.0, 0.0] * 3, [0, 0, 1, 1, 2, 2]
    assert count_without_value("coverage@2:by=brand", y, qid, columns=columns) == 1
    assert count_without_value("exposure-ratio:by=brand", y, qid, columns=columns) == 2
    assert evaluate("coverage@2:by=brand", y, s, qid, columns=columns) == 1.0


def test_errors_name_the_option_and_the_column():
    with pytest.raises(ParameterError) as caught:
        parse_metric("coverage@10")
    assert caught.value.parameter == "metric"
    assert caught.value.fix == "Write coverage:by=brand, for example"
    with raises_for("metric"):
        parse_metric("coverage@10:by=brand:ties=worst")
    with pytest.raises(ParameterError) as caught:
        parse_metric("map:by=brand")
    assert caught.value.parameter == "metric"
    with raises_at(SchemaError, column="brand") as caught:
        evaluate("coverage@10:by=brand", [1, 0], [1.0, 2.0])
    assert caught.value.column == "brand"
