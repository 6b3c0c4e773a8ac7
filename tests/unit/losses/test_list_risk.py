"""Risks of whole lists, and the words of their objectives, against their definitions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from rankine.core.errors import ParameterError
from rankine.data import Dataset
from rankine.kernels.lists import DcgGain, RecallGain, UnitGain, list_work
from rankine.losses.base import list_loss, needs_pairs
from rankine.losses.list_objectives import (
    METRIC_OBJECTIVES,
    NO_CUTOFF,
    objective_names,
    parse_objective,
)
from rankine.losses.list_risk import DeltaRisk, SoftmaxRisk, gain_shares
from rankine.losses.lists import LambdaWeighted, Pointwise, PointwiseSquared
from rankine.losses.pair_queries import PairQueries
from rankine.losses.pairwise.hinge import Hinge
from reference.elastic_rank import exchange_weight

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
def test_delta_weighs_pairs_by_the_change_of_ndcg(cutoff, weighted):
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


def test_a_pair_exactly_at_the_margin_bends_nothing():
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


# -- the words of an objective


def columned(y, qid, **columns):
    return Dataset.from_arrays(np.zeros((len(y), 1)), y, qid, columns=columns)


def test_objectives_become_what_kernels_read():
    longest = 7
    spec = parse_objective("ndcg@5").spec(longest)
    assert isinstance(spec.gain, DcgGain)
    assert spec.gain.normalised
    assert len(spec.gain.discounts) == longest
    assert len(parse_objective("ndcg@5").spec(0).gain.discounts) == 1
    assert not parse_objective("dcg").spec(longest).gain.normalised
    assert not spec.rank_by_label
    assert parse_objective("ndcg", delta="target").spec(longest).rank_by_label
    assert parse_objective("recall@3").spec(longest).gain == RecallGain()
    plain = parse_objective("pairwise", loss="hinge", margin=0.5).spec(longest)
    assert plain == LambdaWeighted(Hinge(0.5), UnitGain(), False)
    assert parse_objective("pointwise", loss="hinge").spec(longest) == Pointwise(Hinge(1.0))
    assert parse_objective("pointwise", loss="squared").spec(longest) == PointwiseSquared()
    assert isinstance(parse_objective("pairwise", loss="squared").spec(longest), LambdaWeighted)
    assert [bool(needs_pairs(s)) for s in (plain, Pointwise(Hinge()), PointwiseSquared())] == [
        True, False, False,
    ]  # fmt: skip
    assert objective_names() == ("pairwise", "ndcg", "dcg", "recall@10", "mrr", "map")
    assert set(METRIC_OBJECTIVES) == {"ndcg", "dcg", "recall", "mrr", "map"}


@pytest.mark.parametrize("words", ["map@3", "precision@3", "err@5"])
def test_metrics_without_an_exchange_cannot_be_trained_for(words):
    with pytest.raises(ParameterError, match=repr(words)):
        parse_objective(words)


def test_wrong_words_of_an_objective_are_refused():
    for wrong in ({"loss": "cubic"}, {"delta": "best"}, {"margin": -0.1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            parse_objective("pairwise", **wrong)
    assert parse_objective("pairwise", margin=0.0).margin == 0.0
    assert parse_objective("map").metric.cutoff is None


def test_levels_are_gains_relevance_or_labels():
    y, qid = np.array([0.0, 2.0, 1.0, -1.0, 3.0, 0.0]), np.array([1, 1, 1, 2, 2, 3])
    data = columned(y, qid)
    np.testing.assert_array_equal(parse_objective("pairwise").levels(data), y)
    raised = np.array([0.0, 2.0, 1.0, 0.0, 4.0, 0.0])  # from the lowest of a list, if negative
    np.testing.assert_array_equal(parse_objective("ndcg").levels(data), 2.0**raised - 1.0)
    np.testing.assert_array_equal(parse_objective("ndcg:gain=linear").levels(data), raised)
    found = parse_objective("recall@2:threshold=2").levels(data)
    np.testing.assert_array_equal(found, [0, 1, 0, 0, 1, 0])
    np.testing.assert_array_equal(parse_objective("mrr").levels(data), [0, 1, 1, 0, 1, 0])
    graded = columned(np.abs(y), qid)
    found = parse_objective("dcg:gain=0,1,3,9").levels(graded)
    np.testing.assert_array_equal(found, [0, 3, 1, 1, 9, 0])
    alone = columned(np.array([-2.0]), np.zeros(1, int))
    assert parse_objective("ndcg:gain=linear").levels(alone).tolist() == [0.0]
    empty = data.take(slice(0, 0))
    assert parse_objective("ndcg").levels(empty).shape == (0,)


@pytest.mark.parametrize(("top", "sensible"), [(31.0, True), (32.0, False)])
def test_gains_of_large_labels_are_refused(top, sensible):
    data = columned(np.array([0.0, top]), np.zeros(2, int))
    if sensible:
        assert parse_objective("ndcg").levels(data).tolist() == [0.0, 2.0**31 - 1.0]
        return
    with pytest.raises(ParameterError, match="a label spans 32, "):
        parse_objective("ndcg").levels(data)


def test_cutoffs_and_displayed_items_come_from_columns():
    y, qid = np.array([1.0, 0.0, 2.0, 1.0]), np.array([1, 1, 2, 2])
    data = columned(y, qid, shown=np.array([1, 1, 2, 2]), seen=np.array([1, 0, 1, 1]))
    assert parse_objective("pairwise").cutoffs(data).tolist() == [NO_CUTOFF] * 2
    assert parse_objective("ndcg").cutoffs(data).tolist() == [NO_CUTOFF] * 2
    assert parse_objective("ndcg@7").cutoffs(data).tolist() == [7, 7]
    assert parse_objective("recall@shown").cutoffs(data).tolist() == [1, 2]
    assert parse_objective("pairwise").row_weights(data) is None
    seen = parse_objective("ndcg:displayed=seen")
    assert seen.row_weights(data).tolist() == [1.0, 0.0, 1.0, 1.0]
    assert seen.levels(data).tolist() == [1.0, 0.0, 3.0, 1.0]
    weighed = Dataset.from_arrays(
        data.X, y, qid, weight=np.array([2.0, 3.0, 4.0, 5.0]), columns=data.columns
    )
    assert seen.row_weights(weighed).tolist() == [2.0, 0.0, 4.0, 5.0]
    assert parse_objective("ndcg").row_weights(weighed).tolist() == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("target", [False, True], ids=["model", "target"])
@pytest.mark.parametrize("objective", ["pairwise", "ndcg", "ndcg@2", "recall@2", "mrr", "map"])
def test_weighted_pairs_are_those_of_listed_pairs(objective, target):
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
        ranks, value, slope = work.ranks[:n].copy(), 0.0, np.zeros(n)
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
                    slope[[i, j]] += [-share * (gap > 0), share * (gap > 0)]
        assert found == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(work.slopes[:n], slope, atol=1e-13)


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
    np.testing.assert_allclose(work.slopes[:n], slopes(by_hand, at), atol=1e-8)
