"""List scaling against the formula, for every storage."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from rankine.data import Dataset
from rankine.data.dataset import as_rows
from rankine.kernels.list_range import _slot_of, list_range_values
from rankine.transforms.scaling import scale_lists

pytestmark = pytest.mark.kernels


def _by_hand(X: NDArray[np.float64], qid: NDArray[np.int64]) -> NDArray[np.float64]:
    out = np.zeros_like(X)
    for q in np.unique(qid):
        rows = qid == q
        span = X[rows].max(axis=0) - X[rows].min(axis=0)
        out[rows] = np.divide(X[rows], span, out=np.zeros_like(X[rows]), where=span > 0)
    return out


def _matrix(seed: int, n_features: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (50, n_features)) * (rng.random((50, n_features)) < 0.3) / 2.0
    X[:, 0] = 1.5  # constant everywhere: becomes 0
    return X, rng.integers(0, 7, 50)


# 5 columns: a slot for each; 700: by hashing, with lists of a few values or of many
@pytest.mark.parametrize(("n_features", "used"), [(5, 5), (700, 40), (700, 400)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_and_sparse_agree_with_the_formula(n_features: int, used: int, dtype: type) -> None:
    X, qid = _matrix(n_features, used)
    wide = np.zeros((50, n_features))
    wide[:, np.linspace(0, n_features - 1, X.shape[1]).astype(int)] = X
    expected = _by_hand(wide, qid)
    dense = Dataset.from_arrays(wide.astype(dtype), np.zeros(50), qid)
    np.testing.assert_allclose(scale_lists(dense), expected, rtol=1e-6)
    stored = Dataset.from_arrays(sparse.csr_array(wide.astype(dtype)), np.zeros(50), qid)
    scaled = scale_lists(stored)
    assert scaled.dtype == np.float64  # whatever the rows' type: predict and Scorer agree
    np.testing.assert_array_equal(scaled.toarray(), scale_lists(dense))


def test_many_lists_share_a_small_table() -> None:
    """Lists of eight values each, the last of sixteen: few slots, used by every list in turn."""
    rng = np.random.default_rng(3)
    X = np.zeros((40, 900))
    for row in X:
        row[rng.choice(900, 4, replace=False)] = rng.integers(1, 9, 4)
    starts, order = np.array([*range(0, 36, 2), 40]), rng.permutation(40)
    qid = np.empty(40, dtype=np.int64)
    qid[order] = np.minimum(np.arange(40) // 2, 17)
    stored = sparse.csr_array(X)
    scaled = list_range_values(as_rows(stored), 900, starts, order)
    back = sparse.csr_array((scaled, stored.indices, stored.indptr), stored.shape)
    np.testing.assert_array_equal(back.toarray(), _by_hand(X, qid))


@pytest.mark.parametrize("free", range(16))
def test_a_column_finds_the_last_free_slot(free: int) -> None:
    for column in (0, 5, 899):
        keys = np.full(16, 1000)
        keys[free] = -1
        assert _slot_of(keys, np.uint64(28), False, column) == free
        assert keys[free] == column
        assert _slot_of(keys, np.uint64(28), False, column) == free


def test_explicit_zeros_and_empty_lists_change_nothing() -> None:
    indptr, indices = np.array([0, 2, 3]), np.array([0, 2, 2])
    stored = sparse.csr_array((np.array([0.0, 4.0, 2.0]), indices, indptr), shape=(2, 3))
    starts = np.array([0, 0, 2, 2])
    np.testing.assert_array_equal(list_range_values(as_rows(stored), 3, starts), [0.0, 2.0, 1.0])


def test_huge_values_of_opposite_sign_stay_finite() -> None:
    rows = as_rows(np.array([[1.7e308], [-1.7e308]]))
    values = list_range_values(rows, 1, np.array([0, 2]))
    np.testing.assert_allclose(values, [[0.5], [-0.5]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # with the JIT off
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_not_hidden(bad: float) -> None:
    dense = list_range_values(as_rows(np.array([[bad], [1.0]])), 1, np.array([0, 2]))
    alone = list_range_values(as_rows(np.array([[bad]])), 1, np.array([0, 1]))
    assert not np.isfinite(dense).all()
    assert not np.isfinite(alone).any()
