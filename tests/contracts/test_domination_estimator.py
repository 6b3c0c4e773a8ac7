"""scikit-learn's own checks on DominationRanker."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from rankine import DominationRanker

pytestmark = pytest.mark.estimators

EXCUSED: dict[str, str] = {}


CHECKS = list(
    estimator_checks_generator(DominationRanker(), expected_failed_checks=EXCUSED, mark="skip")
)


@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=[getattr(c, "func", c).__name__ for _, c in CHECKS]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_few_checks_are_excused():
    assert len(EXCUSED) <= 3
