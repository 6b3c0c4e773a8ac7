"""Sparse matrices are checked before anything reads them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import SchemaError
from rankine.data.compressed import check_sparse

DENSE = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
def test_a_matrix_in_order_is_returned_as_it_is(kind):
    X = kind(DENSE)
    assert check_sparse(X) is X


@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.bsr_array, sparse.lil_array])
def test_other_formats_become_csr(kind):
    X = check_sparse(kind(DENSE))
    assert X.format == "csr"
    np.testing.assert_array_equal(X.toarray(), DENSE)


def test_values_of_one_index_are_added_in_a_copy():
    X = sparse.csr_array(([1.0, 2.0, 4.0], [2, 0, 2], [0, 3]), shape=(1, 3))
    assert check_sparse(X).toarray().tolist() == [[2.0, 0.0, 5.0]]
    assert X.nnz == 3


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("indices", [0, 3, 1]),
        ("indices", [0, -1, 1]),
        ("indices", [0.0, 1.0, 2.0]),
        ("indptr", [0, 2]),
        ("indptr", [1, 2, 3]),
        ("indptr", [0, 3, 2]),
        ("indptr", [0, 1, 9]),
    ],
)
def test_broken_matrices_are_refused(part, values):
    X = sparse.csr_array(DENSE)
    setattr(X, part, np.array(values))
    with pytest.raises(SchemaError):
        check_sparse(X)
