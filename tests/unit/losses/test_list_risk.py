"""Risks of whole lists against their definitions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from rankine.data import Dataset
from rankine.losses.list_risk import DeltaRisk, SoftmaxRisk, gain_shares
from rankine.losses.pair_queries import PairQueries

pytestmark = pytest.mark.kernels


def lists(seed=0, m=30, weighted=False):
    rng = np.random.default_rng(seed)
    y, qid = rng.integers(0, 4, m), rng.integers(0, 5, m)
    weight = rng.choice([0.0, 0.5, 1.0, 30.0], m) if weighted else None
    data = Dataset.from_arrays(np.zeros((m, 1)), y, qid, weight=weight)
    queries = PairQueries.from_dataset(data)
    gains = 2.0 ** data.y[queries.rows] - 1.0
    return data, queries, gains, rng


def slopes(function, p, step=1e-5):
    return np.array(
        [(function(p + step * e) - function(p - step * e)) / (2 * step) for e in np.eye(len(p))]
    )


def check_derivatives(risk, p, v, by_hand):
    """Value, slope, curvature times v and diagonal, for any number of threads."""
    value, slope, curvature = risk.evaluate_with_curvature(p)
    assert value == pytest.approx(by_hand(p), rel=1e-12)
    np.testing.assert_allclose(slope, slopes(by_hand, p), atol=1e-7)
    step = 1e-5
    bent = (risk.evaluate(p + step * v)[1] - risk.evaluate(p - step * v)[1]) / (2 * step)
    np.testing.assert_allclose(curvature.times(v), bent, atol=1e-6)
    diagonal = [curvature.times(e)[k] for k, e in enumerate(np.eye(len(p)))]
    np.testing.assert_allclose(curvature.diagonal(), diagonal, atol=1e-12)
    risk.threads = 3
    assert risk.evaluate(p)[0] == value
    np.testing.assert_array_equal(risk.evaluate(p)[1], slope)


def test_softmax_is_the_cross_entropy_of_shares():
    data, queries, gains, rng = lists()
    omega = rng.random(queries.n_queries) + 0.5
    shares = gain_shares(gains, queries.starts)

    def by_hand(p):
        total = 0.0
        for q, om in enumerate(omega):
            mine = slice(queries.starts[q], queries.starts[q + 1])
            part = p[queries.rows[mine]]
            total -= (
                om * shares[mine] @ (part - part.max() - np.log(np.exp(part - part.max()).sum()))
            )
        return total

    p, v = 3 * rng.normal(size=(2, data.n_rows))
    check_derivatives(SoftmaxRisk(queries, omega, shares), p, v, by_hand)
    far = SoftmaxRisk(queries, omega, shares).evaluate(p + 1e4)
    assert far[0] == pytest.approx(by_hand(p), rel=1e-9)
    wide = SoftmaxRisk(queries, omega, shares).evaluate(1e3 * p)
    assert wide[0] == pytest.approx(by_hand(1e3 * p), rel=1e-12)
    assert np.isfinite(wide[1]).all()


def test_shares_of_gain_add_up_to_one_in_every_list():
    gains = np.array([1.0, 3.0, 0.0, 0.0, 0.0, 5.0, 0.125, 0.375])
    shares = gain_shares(gains, np.array([0, 3, 5, 6, 8]))
    np.testing.assert_allclose(shares, [0.25, 0.75, 0.0, 0.5, 0.5, 1.0, 0.25, 0.75])
    assert gain_shares(np.zeros(0), np.zeros(1, dtype=np.int64)).shape == (0,)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("cutoff", [1, 3, 100])
def test_delta_weights_pairs_by_the_change_of_ndcg(cutoff, weighted):
    data, queries, gains, rng = lists(cutoff, weighted=weighted)
    of_row = np.ones(data.n_rows) if data.weight is None else data.weight
    omega = rng.random(queries.n_queries) + 0.5
    scores = rng.integers(0, 4, data.n_rows).astype(float)  # ties keep the grouped order
    weights = []
    for q, om in enumerate(omega):
        mine = np.arange(queries.starts[q], queries.starts[q + 1])
        ranked = sorted(mine, key=lambda k: (-scores[queries.rows[k]], k))
        rank = {k: r for r, k in enumerate(ranked, 1)}
        discount = {k: 1 / np.log2(rank[k] + 1) if rank[k] <= cutoff else 0.0 for k in mine}
        best = sorted(gains[mine], reverse=True)[:cutoff]
        ideal = sum(g / np.log2(r + 1) for r, g in enumerate(best, 1))
        pairs = [
            of_row[a] * of_row[b]
            for a, b in combinations(queries.rows[mine], 2)
            if data.y[a] != data.y[b] and of_row[a] * of_row[b] > 0
        ]
        for i, j in combinations(mine, 2):
            better, worse = (i, j) if gains[i] > gains[j] else (j, i)
            change = (gains[better] - gains[worse]) * abs(discount[i] - discount[j]) / ideal
            better, worse = queries.rows[[better, worse]]
            weight = of_row[better] * of_row[worse] / np.mean(pairs)
            weights.append((better, worse, om * change * weight))

    def raw(p):
        return sum(w * max(0.0, 1.0 - (p[i] - p[j])) ** 2 for i, j, w in weights)

    factor = omega.sum() / raw(np.zeros(data.n_rows))
    p, v = rng.normal(size=(2, data.n_rows))
    risk = DeltaRisk(queries, omega, gains, scores, cutoff)
    check_derivatives(risk, p, v, lambda p: factor * raw(p))
    assert risk.evaluate(np.zeros(data.n_rows))[0] == pytest.approx(omega.sum())


def test_a_pair_at_the_margin_has_no_curvature():
    """And one just before it bends with all its weight."""
    data = Dataset.from_arrays(np.zeros((2, 1)), [1, 0])
    queries, gains = PairQueries.from_dataset(data), np.array([1.0, 0.0])
    risk = DeltaRisk(queries, np.ones(1), gains, np.zeros(2), 5)
    for gap, bend in ((1.0, 0.0), (1.0 - 2.0**-50, 2.0)):
        p = np.array([gap, 0.0])
        value, slope, curvature = risk.evaluate_with_curvature(p)
        assert value == pytest.approx((1.0 - gap) ** 2)
        np.testing.assert_allclose(slope, np.array([-2.0, 2.0]) * (1.0 - gap))
        np.testing.assert_allclose(curvature.diagonal(), [bend, bend])
        np.testing.assert_allclose(curvature.times(np.array([1.0, 0.0])), [bend, -bend])


def test_lists_without_gain_have_no_delta():
    data, queries, gains, rng = lists()
    risk = DeltaRisk(queries, np.ones(queries.n_queries), 0 * gains, np.zeros(data.n_rows), 3)
    value, slope = risk.evaluate(rng.normal(size=data.n_rows))
    assert value == 0.0
    assert not slope.any()
    one = gains.copy()
    one[: queries.starts[1]] = 0.0
    risk = DeltaRisk(queries, np.ones(queries.n_queries), one, np.zeros(data.n_rows), 3)
    _, slope = risk.evaluate(rng.normal(size=data.n_rows))
    assert not slope[queries.rows[: queries.starts[1]]].any()
    assert slope.any()
