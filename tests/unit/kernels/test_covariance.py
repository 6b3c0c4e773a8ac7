from __future__ import annotations

import numpy as np

from rankine.kernels.covariance import cholesky, pivoted_cholesky, solve_columns


def positive_definite(n: int) -> np.ndarray:
    root = np.random.default_rng(n).normal(size=(n, n + 3))
    return root @ root.T


def test_cholesky_is_that_of_numpy():
    matrix = positive_definite(7)
    np.testing.assert_allclose(cholesky(matrix), np.linalg.cholesky(matrix))


def test_an_indefinite_matrix_leaves_nan():
    assert np.isnan(cholesky(np.diag([1.0, -1.0]))).any()


def test_solving_gives_the_inverse():
    matrix, columns = positive_definite(6), np.eye(6)
    solve_columns(cholesky(matrix), columns)
    np.testing.assert_allclose(columns @ matrix, np.eye(6), atol=1e-9)


def test_a_singular_matrix_has_a_factor_of_its_rank():
    root = np.random.default_rng(1).normal(size=(8, 3))
    root[5] = 0.0
    factor = pivoted_cholesky(root @ root.T, 1e-12)
    assert factor.shape == (8, 3)
    np.testing.assert_allclose(factor @ factor.T, root @ root.T, atol=1e-12)
    assert not factor[5].any()


def test_a_matrix_of_zeros_has_a_factor_without_columns():
    assert pivoted_cholesky(np.zeros((3, 3)), 1e-12).shape == (3, 0)
