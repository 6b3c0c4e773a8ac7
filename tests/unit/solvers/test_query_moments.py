"""Sums over queries equal sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.data import Dataset
from rankine.losses.pair_queries import pair_risk
from rankine.solvers.problem import RowsProblem

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("long_queries", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_moments_are_sums_over_queries(loss, long_queries, monkeypatch):
    if long_queries:  # products by column in place of matrices of queries
        monkeypatch.setattr("rankine.losses.query_curvature.LONGEST", 2)
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(5), [3, 4, 5, 4, 3])
    data = Dataset.from_arrays(rng.normal(size=(19, 3)), np.arange(19) % 2, qid)
    weight = rng.random(5) + 0.5
    risk, w = pair_risk(data, weight, loss), rng.normal(size=3)
    problem = RowsProblem.from_dataset(data, risk)
    moments = problem.query_moments(w)
    slopes, curvature = risk.evaluate_with_curvature(data.X @ w)[1:]
    gradients = np.array([data.X[qid == q].T @ slopes[qid == q] for q in range(5)])
    shares = weight / weight.sum()
    columns = np.column_stack([curvature.times(np.ascontiguousarray(x)) for x in data.X.T])
    np.testing.assert_allclose(moments.curvature, data.X.T @ columns, atol=1e-12)
    np.testing.assert_allclose(moments.outer, gradients.T @ gradients, atol=1e-12)
    np.testing.assert_allclose(moments.gradient, gradients.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(moments.shared, shares @ gradients, atol=1e-12)
    assert moments.squared_shares == pytest.approx(shares @ shares)
    assert moments.n_queries == 5
