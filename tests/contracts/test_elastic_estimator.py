"""scikit-learn's own checks of ElasticRanker."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from rankine import ElasticRanker

pytestmark = pytest.mark.estimators

#: Checks that a ranker cannot meet, with the reason.
EXCUSED: dict[str, str] = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight multiplies the pairs of a row, while a repeated row also changes the ranks of "
        "the list and so every |Delta|"
    ),
    "check_sample_weight_equivalence_on_sparse_data": "as on dense data",
}


def test_check_estimator():
    check_estimator(ElasticRanker(random_state=0), expected_failed_checks=EXCUSED, on_skip=None)


def test_excused_checks_exist():
    names = {
        getattr(check, "func", check).__name__
        for _, check in estimator_checks_generator(ElasticRanker())
    }
    assert set(EXCUSED) <= names
