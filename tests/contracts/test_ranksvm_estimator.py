"""scikit-learn's own checks on RankSVM."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from rankine.rankers.ranksvm import RankSVM

pytestmark = [
    pytest.mark.estimators,
    # The checks cut max_iter to 5 and expect a warning rather than an error.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

WITHIN_TOL = (
    "the hinge has kinks: runs on weighted and on repeated rows take different subgradients there "
    "and stop at different points within tol; test_weights_equal_repetitions checks a tight tol"
)


def excused(ranker):
    if ranker.loss == "squared_hinge":
        return {}
    return {
        "check_sample_weight_equivalence_on_dense_data": WITHIN_TOL,
        "check_sample_weight_equivalence_on_sparse_data": WITHIN_TOL,
    }


@parametrize_with_checks([RankSVM(), RankSVM(loss="squared_hinge")], expected_failed_checks=excused)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data],
)
def test_weights_equal_repetitions(check):
    check("RankSVM", RankSVM(tol=1e-14))
