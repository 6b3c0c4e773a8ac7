"""Operations on dense and compressed rows equal numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rankine.data.dataset import as_rows
from rankine.kernels.compile import jit
from rankine.kernels.rows import (
    n_rows,
    row_add,
    row_add_diff,
    row_add_tracked,
    row_diff_norm2,
    row_dot,
    row_dot_diff,
    row_prefetch,
    row_size,
    scores_into,
)

pytestmark = pytest.mark.kernels

A, B, C, N = 1, 4, -0.75, 9


def matrix(dtype):
    """Rows that share columns, rows that share none, an empty row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, N)) * (rng.random((6, N)) < 0.5)
    X[2] = 0.0
    X[A, 3], X[B, 3] = 1.5, -2.0
    return X.astype(dtype)


@jit
def apply_all(rows, a, b, c, w, scratch):
    """Return the results of all operations; each starts from a copy of w."""
    row_prefetch(rows, a)
    dots = row_dot(rows, a, w), row_dot_diff(rows, a, b, w)
    scalars = np.array([dots[0], dots[1], row_size(rows, a), n_rows(rows)])
    gap = row_diff_norm2(rows, a, b, scratch)
    added, difference, tracked = w.copy(), w.copy(), w.copy()
    row_add(rows, a, c, added)
    row_add_diff(rows, a, b, c, difference)
    change = row_add_tracked(rows, a, c, tracked)
    return scalars, gap, added, difference, tracked, change


@pytest.mark.parametrize("pair", [(A, B), (B, A), (2, B), (A, 2), (A, A)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_operations_equal_numpy(kind, dtype, pair):
    stored, X = as_rows(kind(matrix(dtype))), matrix(dtype).astype(float)
    a, b = pair
    w, scratch = np.random.default_rng(1).normal(size=N), np.zeros(N)
    scalars, gap, added, difference, tracked, change = apply_all(stored, a, b, C, w, scratch)
    other_scalars = [np.abs(X[a]).sum(), 6]
    np.testing.assert_allclose(scalars, [X[a] @ w, (X[a] - X[b]) @ w, *other_scalars], atol=1e-6)
    assert gap == pytest.approx(((X[a] - X[b]) ** 2).sum(), rel=1e-12)
    assert not scratch.any()
    np.testing.assert_allclose(added, w + C * X[a], atol=1e-6)
    np.testing.assert_allclose(difference, w + C * (X[a] - X[b]), atol=1e-6)
    np.testing.assert_allclose(tracked, added, atol=1e-15)
    assert change == pytest.approx(added @ added - w @ w, abs=1e-6)
    out = np.full(6, np.nan)
    scores_into(stored, 1, 5, w, out)
    np.testing.assert_allclose(out[1:5], X[1:5] @ w, atol=1e-6)
    assert np.isnan(out[[0, 5]]).all()
