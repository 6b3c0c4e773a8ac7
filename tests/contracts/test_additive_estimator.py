"""scikit-learn's own checks, with the few that do not apply to rankers explained."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankine import AdditiveRanker

pytestmark = pytest.mark.estimators

EXCUSED = {
    "check_sample_weight_equivalence_on_dense_data": "cuts are quantiles of rows, not of weights",
    "check_sample_weight_equivalence_on_sparse_data": "cuts are quantiles of rows, not of weights",
}


@parametrize_with_checks(
    [AdditiveRanker(smooth=1.0, pairs=2)], expected_failed_checks=lambda _ranker: EXCUSED
)
def test_estimator_checks(estimator, check):
    check(estimator)
