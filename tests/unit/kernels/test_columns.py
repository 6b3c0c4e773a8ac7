"""Column storage."""

import numpy as np
import pytest
from scipy import sparse

from rankine.data.dataset import as_rows
from rankine.kernels.columns import (
    _row_type,
    add_column_products,
    column_row,
    column_start,
    column_stop,
    columns_of,
    n_columns,
)

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("m", [0, 1, 13])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_columns_hold_the_matrix(storage, dtype, threads, m):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(m, 7)) * (rng.random((m, 7)) < 0.4)).astype(dtype)
    X[:, 3] = 0
    columns = columns_of(as_rows(storage(X)), 7, threads)
    assert n_columns(columns) == (7 if m or storage is sparse.csr_array else 0)
    assert columns.values.dtype == dtype
    back = np.zeros((m, 7), dtype)
    for r in range(7):
        rows = [
            int(column_row(columns, r, p))
            for p in range(column_start(columns, r), column_stop(columns, r))
        ]
        assert rows == sorted(set(rows))
        back[rows, r] = columns.values[column_start(columns, r) : column_stop(columns, r)]
    np.testing.assert_array_equal(back, X)
    w = rng.normal(size=7)
    w[5] = 0.0
    out = np.ones(m)
    add_column_products(columns, w, out)
    np.testing.assert_allclose(out, 1 + X.astype(float) @ w, rtol=1e-12)


def test_rows_are_numbered_by_the_smallest_type_that_holds_the_last():
    for n_rows, kind in ((1, np.uint32), (2**32, np.uint32), (2**32 + 1, np.uint64)):
        assert _row_type(n_rows) is kind
        assert np.iinfo(kind).max >= n_rows - 1
