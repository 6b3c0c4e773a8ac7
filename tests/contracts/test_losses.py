"""Every pair loss of ``rankine.losses.pairwise`` keeps the contract of ``pair_loss``."""

from __future__ import annotations

import numpy as np
import pytest

from rankine import ElasticRanker, RankSVM, SPDRanker
from rankine.data import Dataset
from rankine.kernels.compile import jit
from rankine.losses import AllPairsRisk, pair_loss
from rankine.losses.base import PAIR_LOSSES
from rankine.losses.pair_queries import PairQueries
from rankine.losses.pairwise.hinge import Hinge
from rankine.losses.pairwise.logistic import Logistic
from rankine.losses.pairwise.squared import Squared
from rankine.losses.pairwise.squared_hinge import SquaredHinge

pytestmark = pytest.mark.kernels

LOSSES = [pytest.param(kind(), id=kind.__name__) for kind in pair_loss.implementations]
# Not 0 and not 1, where losses with several pieces have kinks.
AWAY_FROM_KINKS = np.array([-30.0, -3.0, -1.3, -0.3, 0.05, 0.2, 0.9, 1.3, 2.3, 7.0, 30.0])


@jit
def evaluate_all(loss, points):
    out = np.empty((points.shape[0], 3))
    for k in range(points.shape[0]):
        value, slope, curvature = pair_loss(loss, points[k])
        out[k, 0], out[k, 1], out[k, 2] = value, slope, curvature
    return out


def test_the_four_losses_are_enrolled_and_registered():
    assert {Hinge, SquaredHinge, Squared, Logistic} <= set(pair_loss.implementations)
    assert {registered.spec_type for registered in PAIR_LOSSES.values()} == set(
        pair_loss.implementations
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_slope_is_the_derivative_of_the_value(loss):
    step = 1e-6
    low, high = (
        evaluate_all(loss, AWAY_FROM_KINKS - step),
        evaluate_all(loss, AWAY_FROM_KINKS + step),
    )
    slope = evaluate_all(loss, AWAY_FROM_KINKS)[:, 1]
    np.testing.assert_allclose((high[:, 0] - low[:, 0]) / (2 * step), slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_curvature_is_the_derivative_of_the_slope(loss):
    step = 1e-6
    low, high = (
        evaluate_all(loss, AWAY_FROM_KINKS - step),
        evaluate_all(loss, AWAY_FROM_KINKS + step),
    )
    curvature = evaluate_all(loss, AWAY_FROM_KINKS)[:, 2]
    np.testing.assert_allclose(
        (high[:, 1] - low[:, 1]) / (2 * step), curvature, rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_tangents_lie_below_a_convex_loss(loss):
    points = np.linspace(-4, 4, 33)
    value, slope, curvature = evaluate_all(loss, points).T
    tangent = value[:, None] + slope[:, None] * (points[None, :] - points[:, None])
    assert (tangent <= value[None, :] + 1e-12).all()
    assert (curvature >= 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_extreme_differences_stay_finite(loss):
    assert np.isfinite(
        evaluate_all(loss, np.array([-1e150, -1e4, -750.0, 750.0, 1e4, 1e150]))
    ).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_compiled_results_equal_interpreted_ones(loss):
    interpreted = np.array([pair_loss(loss, z) for z in AWAY_FROM_KINKS])
    np.testing.assert_allclose(evaluate_all(loss, AWAY_FROM_KINKS), interpreted, rtol=1e-14, atol=0)


@pytest.mark.parametrize("loss", LOSSES)
def test_single_precision_differences_give_the_same_results(loss):
    points = AWAY_FROM_KINKS.astype(np.float32)
    np.testing.assert_allclose(
        evaluate_all(loss, points),
        evaluate_all(loss, points.astype(np.float64)),
        rtol=1e-5,
        atol=1e-30,
    )


def lists(weighted):
    rng = np.random.default_rng(4)
    weight = rng.choice([0.0, 0.5, 2.0], 60) if weighted else None
    y, qid = rng.integers(0, 4, 60), rng.integers(0, 5, 60)
    return Dataset.from_arrays(np.zeros((60, 1)), y, qid, weight=weight), 2 * rng.normal(size=60)


def sum_over_listed_pairs(loss, data, scores, omega, v):
    """Value, slopes and curvature times v, by listing pairs."""
    weight = np.ones(60) if data.weight is None else data.weight
    value, slopes, bent = 0.0, np.zeros(60), np.zeros(60)
    for i in range(60):
        for j in range(60):
            if data.qid[i] == data.qid[j] and data.y[i] > data.y[j]:
                share = omega[data.qid[i]] * weight[i] * weight[j]
                pair_value, slope, bend = pair_loss(loss, scores[i] - scores[j])
                value += share * pair_value
                pull = share * np.array([slope, bend * (v[i] - v[j])])
                slopes[i], bent[i] = slopes[i] + pull[0], bent[i] + pull[1]
                slopes[j], bent[j] = slopes[j] - pull[0], bent[j] - pull[1]
    return value, slopes, bent


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_exact_sums_equal_sums_over_listed_pairs(name, weighted):
    registered = PAIR_LOSSES[name]
    data, scores = lists(weighted)
    queries = PairQueries.from_dataset(data)
    omega = np.linspace(0.5, 2.0, queries.n_queries)
    by_id = np.zeros(5)
    by_id[data.qid[queries.rows[queries.starts[:-1]]]] = omega
    spec, v = registered.spec(), np.random.default_rng(5).normal(size=60)
    value, slopes, bent = sum_over_listed_pairs(spec, data, scores, by_id, v)
    for exact_sum in {AllPairsRisk, registered.exact_sum} - {None}:
        risk = exact_sum(spec, queries, omega, "tree", 1)
        computed, by_row = risk.evaluate(scores)
        assert computed == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(by_row, slopes, rtol=1e-10, atol=1e-12)
        if registered.smooth:
            curvature = risk.evaluate_with_curvature(scores)[2]
            np.testing.assert_allclose(curvature.times(v), bent, rtol=1e-9, atol=1e-11)
            diagonal_entry = curvature.times(np.eye(60)[7])[7]
            assert curvature.diagonal()[7] == pytest.approx(diagonal_entry, abs=1e-12)


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_exact_sum_of_a_single_pair_is_its_loss(name):
    registered = PAIR_LOSSES[name]
    queries = PairQueries.from_dataset(Dataset.from_arrays(np.zeros((2, 1)), [0, 1]))
    spec, scores, v = registered.spec(), np.array([0.25, -0.5]), np.array([3.0, 1.0])
    value, slope, bend = pair_loss(spec, -0.75)
    for exact_sum in {AllPairsRisk, registered.exact_sum} - {None}:
        risk = exact_sum(spec, queries, np.array([2.0]), "tree", 1)
        computed, by_row = risk.evaluate(scores)
        assert computed == pytest.approx(2.0 * value, rel=1e-14)
        np.testing.assert_allclose(by_row, [-2.0 * slope, 2.0 * slope], rtol=1e-14)
        if registered.smooth:
            curvature = risk.evaluate_with_curvature(scores)[2]
            np.testing.assert_allclose(curvature.times(v), [4.0 * bend, -4.0 * bend], rtol=1e-14)
            np.testing.assert_allclose(curvature.diagonal(), [2.0 * bend] * 2, rtol=1e-14)


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_every_pairwise_ranker_accepts_every_loss(name):
    """SPDRanker and ElasticRanker accept all losses, RankSVM those with an exact sum."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 3))
    data = Dataset.from_arrays(X, X @ [1.0, -2.0, 0.5] > 0.0, np.repeat(np.arange(30), 10))
    rankers = [
        SPDRanker(loss=name, n_steps=4000, l2=0.1, random_state=0),
        ElasticRanker(loss=name, objective="pairwise", eta0=0.01, random_state=0),
    ]
    if PAIR_LOSSES[name].exact_sum is not None:
        rankers.append(RankSVM(loss=name, l2=0.1))
    for ranker in rankers:
        assert ranker.fit(data).score(data) > 0.85
