"""Pairwise least squares against the matrix of listed pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import NoPairsError
from rankine.data import Dataset
from rankine.kernels.products import Products
from rankine.losses import pair_loss
from rankine.losses.base import (
    add_normal_product,
)
from rankine.losses.least_squares import LeastSquaresRisk, least_squares_risk, least_squares_totals
from rankine.losses.pair_queries import PairQueries, pair_totals
from rankine.losses.pairwise.squared import Squared
from reference.pair_data import lists

pytestmark = pytest.mark.kernels


NORMALIZATIONS = ("query", "pair", "sum")


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
def test_risk_equals_the_quadratic_form_of_listed_pairs(pairs, normalization, weighted):
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
def test_a_common_offset_of_scores_loses_no_accuracy(pairs, weighted):
    squares = least_squares_risk(lists(weighted)[0], None, "query", pairs)
    p = np.random.default_rng(8).integers(-99, 99, 40) / 64.0
    far = squares.times(p + 2.0**40)
    np.testing.assert_allclose(far, squares.times(p), atol=1e-12)


@pytest.mark.parametrize("pairs", ["all", "untied"])
def test_normal_product_of_one_query_is_added_with_a_factor(pairs):
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
def test_totals_are_sums_over_usable_lists(pairs):
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


def test_a_partition_without_pairs_contributes_nothing():
    data, _ = lists(False)
    totals = least_squares_totals(data)
    for given in (None, np.ones(6)):
        alone = Dataset.from_arrays(data.X[:6], np.ones(6), np.zeros(6, int), weight=given)
        squares = least_squares_risk(alone, None, "pair", totals=totals)
        assert not squares.times(np.arange(6.0)).any()
        product = squares.normal_product(Products(alone.rows, 5), np.ones(5))
        assert product.tolist() == [0.0] * 5
        with pytest.raises(NoPairsError):
            LeastSquaresRisk(PairQueries.from_dataset(alone), alone.y).normalise(
                "query", pair_totals(alone)
            )
    assert pair_loss(Squared(2.0), 0.5) == (2.25, -3.0, 2.0)
