"""Bad values in arrays: the error names the row and the column."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse

from rankine import LeastSquaresRanker, RankSVM
from rankine.core.errors import SchemaError
from rankine.data import Dataset, QueryIndex

NAMES = ["price", "rating"]


def _refused(X: object, **options: object) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        Dataset.from_arrays(X, np.zeros(3), **options)
    return caught.value


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix])
def test_what_is_not_finite(value, make):
    X = make([[1.0, 2.0], [0.0, value], [3.0, 0.0]])
    error = _refused(X, feature_names=NAMES)
    assert error.column == "rating"
    assert f"X[1, 'rating'] is {value}" in error.reason
    assert f"X[1, 1] is {value}" in _refused(X).reason


@pytest.mark.parametrize("value", ["dear", np.datetime64("2026-01-01"), [1, 2]])
def test_what_is_no_number(value):
    X = np.array([[1.0, 2.0], [0.5, 1.0], [3.0, 0.0]], dtype=object)
    X[2, 0] = value
    error = _refused(X, feature_names=NAMES)
    assert error.column == "price"
    assert "X[2, 'price'] is" in error.reason


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]", "complex128"])
def test_types_that_are_no_numbers_are_not_cast(kind):
    assert kind in _refused(np.zeros((3, 2), dtype=kind)).reason


@pytest.mark.parametrize(
    ("qid", "reason"),
    [
        ([1, 2, np.nan], "row 2 is missing"),
        ([1, None, 2], "row 1 is missing"),
        (["a", np.nan, "b"], "row 1 is missing"),
        (np.array(["a", None, "b"], dtype=object), "row 1 is missing"),
        ([1, 2.5, 3], "row 1 is"),
        (np.array(["a", 7, "b"], dtype=object), "row 1 is 7"),
        (np.array([1, 2, "c"], dtype=object), "row 2 is 'c'"),
        ([1.0, 2.0, 1e300], "row 2 is"),
    ],
)
def test_query_ids_name_the_row(qid, reason):
    with pytest.raises(SchemaError, match=reason) as caught:
        QueryIndex.from_qid(np.asarray(qid, dtype=object if "a" in qid else None), 3)
    assert caught.value.column == "qid"
    assert caught.value.fix


def test_times_are_no_query_ids():
    with pytest.raises(SchemaError, match="datetime64"):
        QueryIndex.from_qid(np.zeros(3, dtype="datetime64[s]"), 3)


def test_query_ids_have_one_dimension():
    with pytest.raises(SchemaError, match="one-dimensional"):
        Dataset.from_arrays(np.eye(4), np.arange(4), np.zeros((4, 1), dtype=int))


def test_finite_values_whose_sum_is_not_finite_are_fine():
    X = np.full((4, 2), 1e308)
    assert Dataset.from_arrays(X, np.arange(4), np.zeros(4, dtype=int)).X.max() == 1e308
    X[2, 1] = np.inf
    with pytest.raises(SchemaError, match=r"X\[2, 1\]"):
        Dataset.from_arrays(X, np.arange(4), np.zeros(4, dtype=int))


@pytest.mark.parametrize("value", [2e75, 5e-76, 1e300, 5e-324])
def test_weights_whose_products_are_lost_are_refused(value):
    weight = np.array([1.0, 0.0, value, value])
    given = np.arange(4.0)[:, None], [0, 1, 0, 1]
    with pytest.raises(SchemaError, match=re.escape(f"{value:g} at position 2 is not")):
        Dataset.from_arrays(*given, [1, 1, 2, 2], weight=weight)
    with pytest.raises(SchemaError, match="not between 1e-75 and 1e"):
        RankSVM().fit(*given, qid=[1, 1, 2, 2], query_weight={1: 1.0, 2: value})


@pytest.mark.parametrize("value", [1e75, 1e-75])
def test_weights_of_any_one_unit_train_the_same_model(value):
    rng = np.random.default_rng(2)
    X, y, qid = rng.normal(size=(12, 2)), rng.integers(0, 3, 12), np.repeat([1, 2], 6)
    for ranker in (RankSVM(tol=1e-8, loss="squared_hinge"), LeastSquaresRanker()):
        plain = ranker.fit(X, y, qid=qid).coef_
        other = ranker.fit(X, y, qid=qid, sample_weight=np.full(12, value)).coef_
        np.testing.assert_allclose(other, plain, rtol=1e-4)
