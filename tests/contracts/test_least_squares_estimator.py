"""scikit-learn's own checks on LeastSquaresRanker."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankine.rankers.least_squares import LeastSquaresRanker

pytestmark = [
    pytest.mark.estimators,
    # The checks cut max_iter to 5 and expect a warning rather than an error.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@parametrize_with_checks([LeastSquaresRanker()])
def test_scikit_learn_check(estimator, check):
    check(estimator)
