import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankine.core.errors import ParameterError, SchemaError
from rankine.data import tiers


def test_a_grade_counts_the_cuts_reached():
    np.testing.assert_array_equal(
        tiers([0, 0.5, 1, 4, 5, 20, 99], cuts=[1, 5, 20]), [0, 0, 1, 1, 2, 3, 3]
    )


def test_quantiles_divide_the_positive_counts():
    counts = [0] * 50 + list(range(1, 101))
    grades = tiers(counts, quantiles=[0.5, 0.9])
    assert np.bincount(grades.astype(int)).tolist() == [50, 50, 40, 10]


@given(st.lists(st.integers(0, 50), max_size=60))
def test_grades_are_monotone_dense_and_keep_zero(counts):
    grades = tiers(counts, quantiles=[0.25, 0.5, 0.75])
    order = np.argsort(counts, kind="stable")
    assert (np.diff(grades[order]) >= 0).all()
    assert all(grade == 0 for grade, count in zip(grades, counts, strict=True) if count == 0)
    assert all(grade >= 1 for grade, count in zip(grades, counts, strict=True) if count > 0)
    positive = sorted({g for g, c in zip(grades.tolist(), counts, strict=True) if c > 0})
    assert positive == list(range(1, len(positive) + 1))


@pytest.mark.parametrize("counts", [[1, -1], [np.nan], [np.inf], [[1, 2]]])
def test_bad_counts(counts):
    with pytest.raises(SchemaError, match="counts"):
        tiers(counts, cuts=[1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cuts": [1], "quantiles": [0.5]},
        {"cuts": []},
        {"cuts": [2, 1]},
        {"cuts": [0, 1]},
        {"cuts": [1, 1]},
        {"quantiles": [0.5, 1.0]},
        {"quantiles": [np.nan]},
    ],
)
def test_bad_cuts(options):
    with pytest.raises(ParameterError):
        tiers([0, 1, 2], **options)


def test_counts_without_feedback_have_grade_zero():
    assert tiers([0, 0], quantiles=[0.5]).tolist() == [0.0, 0.0]
    assert tiers([], cuts=[1]).tolist() == []
    with pytest.raises(SchemaError, match=r"counts\[2\] is -1.0"):
        tiers([0, 3, -1], cuts=[1])
    for cuts in ([[1, 2]], [np.inf], [1, np.nan]):
        with pytest.raises(ParameterError, match="not increasing positive numbers"):
            tiers([1], cuts=cuts)
