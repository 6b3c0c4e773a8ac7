"""Column storage has the values of the matrix; column variances equal numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rankine.data.dataset import as_rows
from rankine.kernels.columns import (
    _member_cuts,
    _row_type,
    add_column_products,
    column_row,
    column_start,
    column_stop,
    column_variances,
    columns_of,
    n_columns,
)

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("m", [0, 1, 13])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_columns_have_the_values_of_the_matrix(storage, dtype, threads, m):
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


def test_row_numbers_have_the_smallest_sufficient_type():
    for n_rows, dtype in ((1, np.uint32), (2**32, np.uint32), (2**32 + 1, np.uint64)):
        assert _row_type(n_rows) is dtype
        assert np.iinfo(dtype).max >= n_rows - 1


def matrices(dtype=np.float64, m=90, n=7):
    rng = np.random.default_rng(1)
    dense = (rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.5)).astype(dtype)
    return dense, sparse.csr_array(dense)


@pytest.mark.parametrize("n_shards", [1, 3, 16])
@pytest.mark.parametrize(
    "sizes", [[5], [100], [8, 4], [1] * 40, [3, 90, 2, 2], [50, 1, 50], [7, 0, 30, 1]]
)
def test_shards_end_between_queries_and_within_long_ones(sizes, n_shards):
    starts = np.concatenate([[0], np.cumsum(sizes)])
    cuts = _member_cuts(starts, n_shards)
    size = max(1, starts[-1] // n_shards)
    assert (cuts[0], cuts[-1]) == (0, starts[-1])
    gaps = np.diff(cuts)
    assert ((gaps > 0) & (gaps < 2 * size)).all()
    inside = ~np.isin(cuts, starts)
    assert (gaps[inside[:-1] | inside[1:]] >= size).all()


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("n_queries", [0, 1, 2, 6])
@pytest.mark.parametrize("idle", [False, True], ids=["all have weight", "one has none"])
def test_column_variances_equal_numpy(kind, n_queries, idle):
    dense = matrices()[0]
    rng = np.random.default_rng(4)
    members = rng.permutation(90)[:80].astype(np.uint32)
    starts = np.linspace(0, 80, n_queries + 1).astype(np.int64)
    c = rng.random(90)
    if n_queries == 0:
        starts = np.zeros(1, dtype=np.int64)
    elif idle:
        c[members[starts[0] : starts[1]]] = 0.0
    expected = np.zeros(7)
    for a, b in list(zip(starts[:-1], starts[1:], strict=True))[idle:]:
        x, weight = dense[members[a:b]], c[members[a:b]]
        centred = x - np.average(x, axis=0, weights=weight)
        expected += weight @ centred**2
    variances = column_variances(as_rows(matrices()[kind]), members, starts, 3, c, 7, 1)
    np.testing.assert_allclose(variances, expected, rtol=1e-10)
    again = column_variances(as_rows(matrices()[kind]), members, starts, 3, c, 7, 4)
    np.testing.assert_array_equal(variances, again)


def test_sparse_variances_of_short_queries_touch_only_their_columns():
    X = sparse.random_array((12, 900), density=0.01, rng=np.random.default_rng(5), format="csr")
    members, starts = np.arange(12, dtype=np.uint32), np.array([0, 5, 12])
    variances = column_variances(as_rows(X), members, starts, 2, np.ones(12), 900)
    dense = X.toarray()
    expected = sum(((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in (dense[:5], dense[5:]))
    np.testing.assert_allclose(variances, expected, atol=1e-14)


def test_columns_shared_by_rows_of_a_short_query_are_counted_once():
    X = np.zeros((6, 900))
    X[:, [3, 7]] = np.random.default_rng(7).normal(size=(6, 2))
    X[[0, 2], 500] = 2.0, -1.0
    members, starts = np.arange(6, dtype=np.uint32), np.array([0, 3, 6])
    c = np.arange(1.0, 7.0)
    variances = column_variances(as_rows(sparse.csr_array(X)), members, starts, 2, c, 900)
    expected = np.zeros(900)
    for part, weight in ((X[:3], c[:3]), (X[3:], c[3:])):
        expected += weight @ (part - np.average(part, axis=0, weights=weight)) ** 2
    np.testing.assert_allclose(variances, expected, atol=1e-13)
