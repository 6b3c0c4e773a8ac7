"""Pair weights and normalisations of risks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankine.losses.pair_queries import PairQueries, pair_risk, pair_totals
from reference.pair_data import QUERY_WEIGHT, blocks, lists

pytestmark = pytest.mark.kernels


NORMALIZATIONS = ("query", "pair", "sum")


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_risks_of_partitions_sum_to_the_risk_of_all_data(loss, normalization, weighted):
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


def test_risk_is_accurate_for_lists_with_distant_scores():
    """Each list is centred by a score of its own."""
    data, _ = lists(False)
    p = np.round(np.random.default_rng(4).normal(size=data.n_rows) * 64) / 64
    far = p + 2.0**34 * (data.qid - 2)
    for loss in ("hinge", "squared_hinge"):
        risk = pair_risk(data, None, loss)
        assert risk.evaluate(far)[0] == pytest.approx(risk.evaluate(p)[0], rel=1e-13)


def test_risk_of_many_rows_has_the_same_bits_in_row_shards(monkeypatch):
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
