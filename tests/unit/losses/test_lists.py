"""Losses of lists against listed pairs."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.kernels.lists import list_work
from rankine.losses.base import list_loss
from rankine.losses.list_objectives import (
    parse_objective,
)
from rankine.losses.lists import SORT_FROM, AllPairs, Pointwise, PointwiseSquared
from rankine.losses.pairwise.hinge import Hinge
from rankine.losses.pairwise.squared import Squared
from rankine.losses.pairwise.squared_hinge import SquaredHinge
from reference.elastic_rank import exchange_weight

pytestmark = pytest.mark.kernels


def slopes(function, p, step=1e-5):
    return np.array(
        [(function(p + step * e) - function(p - step * e)) / (2 * step) for e in np.eye(len(p))]
    )


@pytest.mark.parametrize("target", [False, True], ids=["model", "target"])
@pytest.mark.parametrize("objective", ["pairwise", "ndcg", "ndcg@2", "recall@2", "mrr", "map"])
def test_lambda_loss_equals_the_sum_over_listed_pairs(objective, target):
    """Also where the first item of a list has the lowest level, and where scores are equal."""
    rng = np.random.default_rng(3)
    parsed = parse_objective(objective, loss="hinge", delta="target" if target else "model")
    name, cutoff = parsed.name, None if parsed.metric is None else parsed.metric.cutoff
    work = list_work(9)
    for levels in ([0.0, 1, 0, 1, 1], [1.0, 0, 0], [0.0, 0, 1, 1], [0.0, 0], [1.0, 1, 1]):
        n = len(levels)
        scores, weights = rng.permutation(n) / 4.0, rng.random(n) + 0.5
        work.scores[:n], work.levels[:n], work.weights[:n] = scores, levels, weights
        work.slopes[:n] = np.nan
        found = list_loss(parsed.spec(9), work, n, cutoff or 10**9, 5)
        ranks, value, zero_value, slope = work.ranks[:n].copy(), 0.0, 0.0, np.zeros(n)
        if name != "pairwise":
            keys = np.array(levels) if target else scores
            assert sorted(ranks.tolist()) == list(range(1, n + 1))
            assert (np.diff(keys[np.argsort(ranks)]) <= 0).all()
        for i in range(n):
            for j in range(n):
                if levels[i] > levels[j]:
                    change = 1.0
                    if name != "pairwise":
                        change = exchange_weight(name, ranks, np.array(levels), i, j, cutoff=cutoff)
                    share = change * weights[i] * weights[j]
                    gap = 1.0 - (scores[i] - scores[j])
                    value += share * max(gap, 0.0)
                    zero_value += share
                    slope[[i, j]] += [-share * (gap > 0), share * (gap > 0)]
        assert found == pytest.approx(value, rel=1e-12)
        assert work.zero_loss[0] == pytest.approx(zero_value, rel=1e-12)
        np.testing.assert_allclose(work.slopes[:n], slope, atol=1e-13)


@pytest.mark.parametrize("loss", [Hinge, SquaredHinge, Squared])
@pytest.mark.parametrize("margin", [0.0, 0.7, 1.0])
def test_long_lists_are_summed_by_sorting(loss, margin):
    """Weights, equal scores, pairs at exactly the margin and a common offset of the scores."""
    rng = np.random.default_rng(5)
    n, work = SORT_FROM + 60, list_work(SORT_FROM + 60)
    scores, weights = rng.integers(-9, 9, n) / 10, rng.random(n)
    levels = rng.integers(0, 4, n) * (np.arange(n) < SORT_FROM + 40) * 1.0
    scores[-1], weights[3] = 1e-3, 0.0
    work.scores[:n], work.levels[:n], work.weights[:n] = scores + 4096, levels, weights
    total = list_loss(AllPairs(loss(margin)), work, n, 10, 0)
    gaps = margin - (work.scores[:n, None] - work.scores[:n])
    counts = (levels[:, None] > levels) * weights[:, None] * weights
    if loss is not Squared:
        gaps = np.maximum(gaps, 0.0)
    powers = (gaps > 0, gaps) if loss is Hinge else (2 * gaps, gaps**2)
    pair_slopes = counts * powers[0]
    assert total == pytest.approx((counts * powers[1]).sum(), rel=1e-11)
    power = 1 if loss is Hinge else 2
    assert work.zero_loss[0] == pytest.approx(counts.sum() * margin**power, rel=1e-11)
    expected = pair_slopes.sum(0) - pair_slopes.sum(1)
    np.testing.assert_allclose(work.slopes[:n], expected, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("spec", [Pointwise(Hinge(0.5)), PointwiseSquared()])
def test_pointwise_losses_are_means_over_items(spec):
    rng = np.random.default_rng(2)
    n, work = 5, list_work(5)
    work.levels[:n], work.weights[:n] = [0.0, 2.0, 0.0, 1.0, 3.0], rng.random(n) + 0.5
    at = rng.normal(size=n)

    def by_hand(p):
        if spec == PointwiseSquared():
            each = (work.levels[:n] - p) ** 2 / 2
        else:
            each = np.maximum(0.0, 0.5 - np.where(work.levels[:n] > 0, p, -p))
        return (work.weights[:n] * each).sum() / n

    work.scores[:n] = at
    assert list_loss(spec, work, n, 10, 0) == pytest.approx(by_hand(at), rel=1e-12)
    assert work.zero_loss[0] == pytest.approx(by_hand(np.zeros(n)), rel=1e-12)
    np.testing.assert_allclose(work.slopes[:n], slopes(by_hand, at), atol=1e-8)
