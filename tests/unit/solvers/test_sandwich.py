from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import DataError, DivergenceError
from rankine.solvers.query_moments import QueryMoments
from rankine.solvers.sandwich import sandwich


def moments(n_queries=50, curvature=None):
    rng = np.random.default_rng(2)
    gradients = rng.normal(size=(n_queries, 3)) / n_queries
    shares = np.full(n_queries, 1 / n_queries)
    if curvature is None:
        curvature = np.diag([1.0, 2.0, 3.0])
    sums = gradients.sum(axis=0)
    outer = gradients.T @ gradients
    return gradients, QueryMoments(
        curvature, outer, sums, shares @ gradients, float(shares @ shares), n_queries
    )


def test_the_covariance_is_that_of_the_contributions():
    gradients, sums = moments()
    w, l2 = np.array([1.0, -1.0, 0.5]), 0.5
    contributions = gradients + l2 * w / 50
    contributions = contributions - contributions.mean(axis=0)
    inverse = np.diag(1.0 / np.array([1.5, 2.5, 3.5]))
    effective = 1 / 1.5 + 2 / 2.5 + 3 / 3.5
    expected = inverse @ contributions.T @ contributions @ inverse * 50 / (50 - effective)
    found = sandwich(sums, w, l2)
    covariance = found.covariance
    np.testing.assert_allclose(covariance.factor @ covariance.factor.T, expected)
    assert covariance.degrees == pytest.approx(50 - effective)
    step = inverse @ (gradients.sum(axis=0) + l2 * w)
    np.testing.assert_allclose(found.step, step)
    np.testing.assert_allclose(found.solve(2.0 * gradients.sum(axis=0) + l2 * w * 2.0), 2.0 * step)
    largest = np.max(np.abs(step) / np.sqrt(np.diag(expected)))
    assert covariance.largest_distance(step) == pytest.approx(largest)


def test_fewer_queries_than_weights_are_refused():
    with pytest.raises(DataError):
        sandwich(moments(3)[1], np.ones(3), 1e-9)


def test_a_curvature_that_is_not_positive_is_refused():
    with pytest.raises(DivergenceError):
        sandwich(moments(curvature=np.diag([1.0, 1.0, -1.0]))[1], np.ones(3), 0.5)
