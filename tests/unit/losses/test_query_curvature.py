"""Slopes and curvature of a query are those of the whole risk."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.data import Dataset
from rankine.losses.pair_queries import PairQueries, pair_risk
from rankine.losses.query_curvature import (
    LONGEST,
    has_long_queries,
    pair_curvature,
    query_derivatives,
)

pytestmark = pytest.mark.kernels


def dataset(sizes, seed=0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    y = np.arange(len(qid)) % 3
    return Dataset.from_arrays(rng.normal(size=(len(qid), 2)), y, qid)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_products_are_those_of_the_whole_curvature(loss):
    data = dataset([4, 5])
    scores = np.random.default_rng(1).normal(size=data.n_rows)
    risk = pair_risk(data, np.array([1.0, 3.0]), loss)
    curvature = pair_curvature(risk, scores, 0.0)
    _, all_slopes, whole = risk.evaluate_with_curvature(scores)
    for q, size in enumerate([4, 5]):
        slopes, out = np.empty(size), np.empty((size, size))
        query_derivatives(curvature, q, np.eye(size), slopes, out)
        rows = risk.queries.rows[risk.queries.starts[q] : risk.queries.starts[q + 1]]
        np.testing.assert_allclose(slopes, all_slopes[rows], atol=1e-12)
        for k, row in enumerate(rows):
            unit = np.zeros(data.n_rows)
            unit[row] = 1.0
            np.testing.assert_allclose(out[:, k], whole.times(unit)[rows], atol=1e-12)


def test_a_kink_counts_within_its_width():
    data = Dataset.from_arrays(np.zeros((2, 1)), [1, 0], [0, 0])
    risk = pair_risk(data, None, "hinge")
    for difference, expected in ((1.0, 4.0), (1.12, 4.0), (1.13, 0.0), (0.5, 0.0)):
        slopes, out = np.empty(2), np.empty((2, 2))
        curvature = pair_curvature(risk, np.array([difference, 0.0]), 0.25)
        query_derivatives(curvature, 0, np.eye(2), slopes, out)
        assert out.tolist() == [[expected, -expected], [-expected, expected]]


def test_long_queries_are_found():
    assert not has_long_queries(PairQueries.from_dataset(dataset([10] * 20)))
    assert has_long_queries(PairQueries.from_dataset(dataset([LONGEST + 1, 2])))
    assert has_long_queries(PairQueries.from_dataset(dataset([1500, 1500])))
