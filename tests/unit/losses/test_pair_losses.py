"""What is known of pair losses, means over listed pairs, and pairwise squares as matrices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import NoPairsError, ParameterError
from rankine.data import Dataset
from rankine.kernels.products import Products
from rankine.losses import pair_loss
from rankine.losses.active_pairs import HingeRisk, SquaredHingeRisk
from rankine.losses.all_pairs import MEAN_OF_SAMPLING, MeanPairLoss, PairMean
from rankine.losses.base import (
    PAIR_LOSSES,
    add_normal_product,
    find_pair_loss,
    pair_loss_names,
    pair_loss_spec,
)
from rankine.losses.least_squares import LeastSquaresRisk, least_squares_risk, least_squares_totals
from rankine.losses.pair_queries import PairQueries, pair_risk, pair_totals
from rankine.losses.pairwise.hinge import Hinge
from rankine.losses.pairwise.logistic import Logistic
from rankine.losses.pairwise.squared import Squared
from rankine.losses.pairwise.squared_hinge import SquaredHinge
from reference import pairs as listed

pytestmark = pytest.mark.kernels

NORMALIZATIONS = ("query", "pair", "sum")
#: Of the queries 0 to 5, the last of which holds one label alone.
QUERY_WEIGHT = np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.0])


def lists(weighted, seed=0, m=40):
    """Interleaved lists; in some of them only one label has a positive weight."""
    rng = np.random.default_rng(seed)
    qid, y = rng.integers(0, 6, m), rng.integers(0, 4, m).astype(float)
    y[qid == 5] = 1.0
    weight = None
    if weighted:
        weight = rng.choice([0.0, 0.5, 1.0, 3.0], m)
        weight[(qid == 2) & (y > 0)] = 0.0
    data = Dataset.from_arrays(rng.normal(size=(m, 5)), y, qid, weight=weight)
    return data, QUERY_WEIGHT[data.queries.ids]


def blocks(data, query_weight):
    """The lists one by one."""
    for q in range(data.n_queries):
        yield data.take(data.queries.rows_of(q)), query_weight[q : q + 1]


def test_losses_are_known_by_name():
    assert pair_loss_names() == tuple(PAIR_LOSSES)
    assert set(pair_loss_names(exact=True)) == {"hinge", "squared_hinge", "logistic"}
    assert pair_loss_spec("hinge", 0.25) == Hinge(0.25)
    assert pair_loss_spec("logistic", 0.25) == Logistic()
    assert find_pair_loss("squared_hinge", exact=True).spec() == SquaredHinge(1.0)
    assert [PAIR_LOSSES[name].can_be_smoothed for name in ("hinge", "squared")] == [True, False]
    for find in (pair_loss_spec, find_pair_loss, partial(find_pair_loss, exact=True)):
        with pytest.raises(ParameterError, match="hinge") as caught:
            find("cubic")
        assert caught.value.parameter == "loss"
    with pytest.raises(ParameterError):
        find_pair_loss("squared", exact=True)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("mean", list(PairMean))
def test_means_over_pairs_are_those_of_listed_pairs(mean, weighted):
    data, query_weight = lists(weighted)
    scores = np.random.default_rng(1).normal(size=data.n_rows)
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    of_query = dict(zip(data.queries.ids.tolist(), query_weight, strict=True))
    cells: dict = {}
    for i, j in zip(*listed.pair_list(data.y, data.qid), strict=True):
        mass = weight[i] * weight[j]
        key = (data.qid[i], (data.y[i], data.y[j]) if mean is PairMean.LABELS else None)
        total, weighs = cells.get(key, (0.0, 0.0))
        value = pair_loss(Logistic(), scores[i] - scores[j])[0]
        cells[key] = total + mass * value, weighs + mass
    sums: dict = {}
    for (q, _), (total, weighs) in cells.items():
        if weighs > 0:
            part = (total / weighs, 1.0) if mean is PairMean.LABELS else (total, weighs)
            sums[q] = np.add(sums.get(q, (0.0, 0.0)), part)
    if mean is not PairMean.PAIRS:
        sums = {q: part / part[1] for q, part in sums.items()}
    total, weighs = sum(of_query[q] * part for q, part in sums.items())
    whole, cut = MeanPairLoss(Logistic(), mean), MeanPairLoss(Logistic(), mean)
    assert np.isnan(whole.value)
    whole.add(data, scores, query_weight)
    assert whole.value == pytest.approx(total / weighs, rel=1e-12)
    for q, (block, share) in enumerate(blocks(data, query_weight)):
        cut.add(block, scores[data.queries.rows_of(q)], share)
    assert cut.value == whole.value


def test_every_sampling_has_a_mean():
    assert MEAN_OF_SAMPLING == {
        "query": PairMean.QUERIES,
        "uniform": PairMean.PAIRS,
        "rejection": PairMean.PAIRS,
        "indexed": PairMean.LABELS,
    }


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_the_risk_of_partitions_adds_up_to_the_whole(loss, normalization, weighted):
    data, _ = lists(weighted)
    scores = np.random.default_rng(2).normal(size=data.n_rows)
    whole = pair_risk(data, None, loss, normalization)
    value, slopes = whole.evaluate(scores)
    totals = pair_totals(data)
    assert totals.n_queries == whole.queries.n_queries == (4 if weighted else 5)
    sums = np.zeros(data.n_rows)
    added = 0.0
    for q, (block, _) in enumerate(blocks(data, np.ones(data.n_queries))):
        rows = data.queries.rows_of(q)
        part = pair_risk(block, None, loss, normalization, totals=totals)
        assert part.at_zero == whole.at_zero
        if part.queries.n_queries:
            found, sums[rows] = part.evaluate(scores[rows])
            added += found
    assert added == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(sums, slopes, atol=1e-13)
    assert whole.evaluate(np.zeros(data.n_rows))[0] == pytest.approx(whole.at_zero, rel=1e-12)


def test_counted_losses_have_the_margin_one():
    queries = PairQueries.from_dataset(lists(False)[0])
    for risk in (HingeRisk, SquaredHingeRisk):
        with pytest.raises(ParameterError, match=r"2\.0") as caught:
            risk(Hinge(2.0), queries, np.ones(queries.n_queries))
        assert caught.value.parameter == "margin"


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("width", [0.25, 0.9, 1.0, 3.0])
def test_the_rounded_hinge_is_its_formula_over_listed_pairs(width, weighted):
    data, _ = lists(weighted)
    rng = np.random.default_rng(3)
    p, v = rng.normal(size=data.n_rows), rng.normal(size=data.n_rows)
    high, low = listed.pair_list(data.y, data.qid)
    omega = listed.pair_weights(data.y, data.qid, "query", data.weight)
    short = 1.0 - (p[high] - p[low])
    if width >= 1.0:
        value, pull, bend = 0.5 * short**2, -short, np.ones(len(short))
    else:
        near = short < width
        value = np.where(near, short**2 / (2 * width), short - width / 2)
        pull, bend = -np.where(near, short / width, 1.0), near / width
    pull, bend = (omega * part * (short > 0) for part in (pull, bend))
    slopes, bent, degrees = np.zeros((3, data.n_rows))
    for rows, sign in ((high, 1.0), (low, -1.0)):
        np.add.at(slopes, rows, sign * pull)
        np.add.at(bent, rows, sign * bend * (v[high] - v[low]))
        np.add.at(degrees, rows, bend)
    risk = pair_risk(data).smoothed(width)
    found, by_row, curvature = risk.evaluate_with_curvature(p)
    assert found == pytest.approx((omega * value)[short > 0].sum(), rel=1e-12)
    np.testing.assert_allclose(by_row, slopes, atol=1e-13)
    np.testing.assert_allclose(curvature.times(v), bent, atol=1e-13)
    np.testing.assert_allclose(curvature.diagonal(), degrees, atol=1e-13)
    assert (curvature.diagonal() >= 0.0).all()
    assert risk.evaluate(np.zeros(data.n_rows))[0] == pytest.approx(risk.at_zero, rel=1e-12)
    double = replace_at_zero(pair_risk(data), 4.0).smoothed(width)
    assert double.at_zero == pytest.approx(4.0 * risk.at_zero)


def replace_at_zero(risk, value):
    risk.at_zero = value
    return risk


def test_lists_far_from_each_other_cost_no_accuracy():
    """Each list is centred by a score of its own."""
    data, _ = lists(False)
    p = np.round(np.random.default_rng(4).normal(size=data.n_rows) * 64) / 64
    far = p + 2.0**34 * (data.qid - 2)
    for loss in ("hinge", "squared_hinge"):
        risk = pair_risk(data, None, loss)
        assert risk.evaluate(far)[0] == pytest.approx(risk.evaluate(p)[0], rel=1e-13)


def test_many_rows_are_moved_in_parts(monkeypatch):
    data, _ = lists(True)
    p = np.random.default_rng(5).normal(size=data.n_rows)
    value, slopes = pair_risk(data, None, "squared_hinge").evaluate(p)
    monkeypatch.setattr("rankine.losses.pair_queries.LONG", 8)
    for threads in (1, 3):
        risk = pair_risk(data, None, "squared_hinge", threads=threads)
        found, by_row = risk.evaluate(p)
        assert found == value
        np.testing.assert_array_equal(by_row, slopes)
        assert len(risk.queries.row_cuts) == 17


def matrix_of_squares(data, query_weight, normalization, untied):
    """L by listing pairs: e^T L e = om_q / (2 W_q) sum of w_i w_j (e_i - e_j)^2."""
    m = data.n_rows
    weight = np.ones(m) if data.weight is None else data.weight
    out, masses = np.zeros((m, m)), {}
    for q, v in zip(data.queries.ids.tolist(), query_weight, strict=True):
        rows = np.flatnonzero(data.qid == q)
        part, pairs, between = np.zeros((m, m)), 0.0, 0.0
        for i in rows:
            for j in rows:
                both = weight[i] * weight[j] * (i != j)
                between += both * (data.y[i] != data.y[j])
                if data.y[i] == data.y[j] and untied:
                    continue
                pairs += both / 2
                part[[i, j], [i, j]] += both / 2
                part[[i, j], [j, i]] -= both / 2
        if v * between > 0:
            masses[q] = v, weight[rows].sum(), pairs, part
    for v, total, _, part in masses.values():
        omega = {
            "query": v / (sum(v for v, *_ in masses.values()) * total),
            "pair": v * total / sum(v * pairs for v, _, pairs, _ in masses.values()),
            "sum": v,
        }[normalization]
        out += omega * part / total
    return out


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("pairs", ["all", "untied"])
def test_squares_are_the_matrix_of_listed_pairs(pairs, normalization, weighted):
    data, query_weight = lists(weighted)
    squares = least_squares_risk(data, query_weight, normalization, pairs)
    L = matrix_of_squares(data, query_weight, normalization, pairs == "untied")
    p = np.random.default_rng(6).normal(size=data.n_rows) + 3.0
    e = p - data.y
    np.testing.assert_allclose(squares.times(p), L @ p, atol=1e-12)
    np.testing.assert_allclose(squares.right_hand_side(), L @ data.y, atol=1e-12)
    assert squares.value(p) == pytest.approx(e @ L @ e, rel=1e-11)
    assert squares.query_values(p).sum() == pytest.approx(e @ L @ e, rel=1e-11)
    rows = squares.queries.rows[squares.queries.starts[0] : squares.queries.starts[1]]
    assert squares.query_values(p)[0] == pytest.approx((e[rows] * (L @ e)[rows]).sum(), rel=1e-11)
    w = np.random.default_rng(7).normal(size=5)
    expected = data.X.T @ L @ data.X @ w
    for storage in (np.asarray, sparse.csr_array):
        stored = Dataset.from_arrays(storage(data.X), data.y, data.qid, weight=data.weight)
        products = Products(stored.rows, 5)
        for sum_cuts in (products.sum_cuts, np.array([0, data.n_rows])):
            products.sum_cuts = sum_cuts
            np.testing.assert_allclose(squares.normal_product(products, w), expected, atol=1e-11)
        parts = squares.blocks(products, 3)
        assert len(parts) == 3
        np.testing.assert_allclose(sum(part(w) for part in parts), expected, atol=1e-11)


@pytest.mark.parametrize("pairs", ["all", "untied"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_an_offset_of_all_scores_costs_squares_no_accuracy(pairs, weighted):
    squares = least_squares_risk(lists(weighted)[0], None, "query", pairs)
    p = np.random.default_rng(8).integers(-99, 99, 40) / 64.0
    far = squares.times(p + 2.0**40)
    np.testing.assert_allclose(far, squares.times(p), atol=1e-12)


@pytest.mark.parametrize("pairs", ["all", "untied"])
def test_products_of_one_query_are_added_with_a_factor(pairs):
    data, query_weight = lists(True)
    squares = least_squares_risk(data, query_weight, "query", pairs)
    L = matrix_of_squares(data, query_weight, "query", pairs == "untied")
    v, offset = np.random.default_rng(9).normal(size=5), np.linspace(-1.0, 1.0, data.n_rows)
    for q in range(squares.queries.n_queries):
        rows = squares.queries.rows[squares.queries.starts[q] : squares.queries.starts[q + 1]]
        X = np.zeros_like(data.X)
        X[rows] = data.X[rows]
        for residual in (False, True):
            scores = data.X @ v - offset if residual else data.X @ v
            out = np.ones(5)
            add_normal_product(squares.laplacian, data.rows, q, v, offset, residual, -0.5, out)
            np.testing.assert_allclose(out, 1.0 - 0.5 * X.T @ L @ scores, atol=1e-12)


@pytest.mark.parametrize("pairs", ["all", "untied"])
def test_totals_of_squares_are_those_of_the_usable_lists(pairs):
    for weighted in (False, True):
        data, _ = lists(weighted)
        totals = least_squares_totals(data, pairs)
        weight = np.ones(data.n_rows) if data.weight is None else data.weight
        mass, usable = 0.0, 0
        for q in data.queries.ids:
            mine = data.qid == q
            both = np.outer(weight[mine], weight[mine])
            apart = data.y[mine][:, None] != data.y[mine][None, :]
            if (both * apart).sum() > 0:
                usable += 1
                counted = apart if pairs == "untied" else ~np.eye(mine.sum(), dtype=bool)
                mass += (both * counted).sum() / 2
        assert totals.query_weight == totals.n_queries == usable
        assert totals.pair_weight == pytest.approx(mass)
        squares = least_squares_risk(data, None, "query", pairs)
        assert squares.row_weight_sum == pytest.approx(1.0)


def test_a_partition_without_pairs_adds_nothing_to_squares():
    data, _ = lists(False)
    totals = least_squares_totals(data)
    for given in (None, np.ones(6)):
        alone = Dataset.from_arrays(data.X[:6], np.ones(6), np.zeros(6, int), weight=given)
        squares = least_squares_risk(alone, None, "pair", totals=totals)
        assert not squares.times(np.arange(6.0)).any()
        product = squares.normal_product(Products(alone.rows, 5), np.ones(5))
        assert product.tolist() == [0.0] * 5
        with pytest.raises(NoPairsError, match="no query holds two different labels"):
            LeastSquaresRisk(PairQueries.from_dataset(alone), alone.y).normalise(
                "query", pair_totals(alone)
            )
    assert pair_loss(Squared(2.0), 0.5) == (2.25, -3.0, 2.0)


def test_row_weights_are_those_of_the_data():
    data, _ = lists(True)
    ones = replace(data, weight=None, query_index=data.queries)
    assert PairQueries.from_dataset(ones).weight is None
    chosen = PairQueries.from_dataset(ones, QUERY_WEIGHT[data.queries.ids])
    assert set(data.qid[chosen.rows].tolist()) == {0, 1, 2, 4}  # neither 3, of no weight, nor 5
    assert chosen.totals.n_queries == 4
    queries = PairQueries.from_dataset(data)
    np.testing.assert_array_equal(queries.weight, data.weight[queries.rows])
    for k, (a, b) in enumerate(zip(queries.starts[:-1], queries.starts[1:], strict=True)):
        mine = queries.rows[a:b]
        labels = np.unique(data.y[mine])
        np.testing.assert_array_equal(queries.ranks[a:b], 1 + np.searchsorted(labels, data.y[mine]))
        assert queries.n_levels[k] == len(labels)
        own = data.weight[mine]
        above = data.y[mine][:, None] > data.y[mine][None, :]
        assert queries.pair_weight[k] == pytest.approx((np.outer(own, own) * above).sum())
