"""Products of a matrix equal numpy's and do not depend on the number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rankine.data.dataset import as_rows
from rankine.kernels.products import Products

pytestmark = pytest.mark.kernels


def matrices(dtype=np.float64, m=90, n=7):
    rng = np.random.default_rng(1)
    dense = (rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.5)).astype(dtype)
    return dense, sparse.csr_array(dense)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [0, 1])
def test_products_equal_numpy(dtype, kind):
    dense = matrices(dtype)[0]
    products = Products(as_rows(matrices(dtype)[kind]), 7, 1)
    rng = np.random.default_rng(2)
    w, v = rng.normal(size=7), rng.normal(size=90)
    np.testing.assert_allclose(products.scores(w), dense.astype(float) @ w, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        products.transpose_times(v), dense.astype(float).T @ v, rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("kind", [0, 1])
def test_products_have_the_same_bits_for_any_number_of_threads(kind):
    X = matrices(m=500)[kind]
    v = np.random.default_rng(3).normal(size=500)
    one, many = Products(as_rows(X), 7, 1), Products(as_rows(X), 7, 4)
    assert len(one.sum_cuts) > 3
    np.testing.assert_array_equal(one.transpose_times(v), many.transpose_times(v))
    np.testing.assert_array_equal(one.scores(v[:7]), many.scores(v[:7]))


def test_wide_data_has_one_sum():
    X = sparse.csr_array((np.ones(4), np.array([0, 1, 2, 3]), np.arange(5)), shape=(4, 100_000))
    products = Products(as_rows(X), 100_000, 4)
    assert len(products.sum_cuts) == 2
    assert products.transpose_times(np.ones(4))[:5].tolist() == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize(("m", "sums"), [(1, 1), (7, 1), (8, 2), (63, 15), (64, 16), (500, 16)])
def test_there_are_four_values_per_entry_of_the_sums(m, n, sums):
    """Dense and compressed rows are cut at the same rows."""
    X = np.ones((m, n))
    cuts = [Products(as_rows(kind(X)), n).sum_cuts for kind in (np.asarray, sparse.csr_array)]
    np.testing.assert_array_equal(*cuts)
    assert len(cuts[0]) == sums + 1


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("m", "n"), [(0, 3), (5, 0), (0, 0)])
def test_products_of_empty_matrices_are_zeros(kind, m, n):
    products = Products(as_rows(kind(np.ones((m, n)))), n)
    assert products.scores(np.ones(n)).tolist() == [0.0] * m
    assert products.transpose_times(np.ones(m)).tolist() == [0.0] * n
