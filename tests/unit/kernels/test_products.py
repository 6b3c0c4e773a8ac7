"""Products, column variances and ordered sums equal plain numpy and ignore the thread count."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import sparse

from rankine.data.dataset import as_rows
from rankine.kernels.columns import column_variances
from rankine.kernels.products import Products
from rankine.kernels.shards import (
    add_rows,
    dot,
    n_threads,
    norm,
    rows_dot,
    tree_sum,
)

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


def test_wide_data_keeps_one_sum():
    X = sparse.csr_array((np.ones(4), np.array([0, 1, 2, 3]), np.arange(5)), shape=(4, 100_000))
    products = Products(as_rows(X), 100_000, 4)
    assert len(products.sum_cuts) == 2
    assert products.transpose_times(np.ones(4))[:5].tolist() == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("n_queries", [1, 2, 6])
@pytest.mark.parametrize("idle", [False, True], ids=["all weigh", "one weighs nothing"])
def test_column_variances_equal_numpy(kind, n_queries, idle):
    dense = matrices()[0]
    rng = np.random.default_rng(4)
    members = rng.permutation(90)[:80].astype(np.uint32)
    starts = np.linspace(0, 80, n_queries + 1).astype(np.int64)
    c = rng.random(90)
    if idle:
        c[members[starts[0] : starts[1]]] = 0.0
    expected = np.zeros(7)
    for a, b in zip(starts[idle:-1], starts[idle + 1 :], strict=True):
        x, weight = dense[members[a:b]], c[members[a:b]]
        centred = x - np.average(x, axis=0, weights=weight)
        expected += weight @ centred**2
    found = column_variances(as_rows(matrices()[kind]), members, starts, 3, c, 7, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    again = column_variances(as_rows(matrices()[kind]), members, starts, 3, c, 7, 4)
    np.testing.assert_array_equal(found, again)


def test_sparse_variances_of_short_queries_touch_only_their_columns():
    X = sparse.random_array((12, 900), density=0.01, rng=np.random.default_rng(5), format="csr")
    members, starts = np.arange(12, dtype=np.uint32), np.array([0, 5, 12])
    found = column_variances(as_rows(X), members, starts, 2, np.ones(12), 900)
    dense = X.toarray()
    expected = sum(((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in (dense[:5], dense[5:]))
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_vector_kernels():
    rng = np.random.default_rng(6)
    A, a = rng.normal(size=(4, 9)), rng.normal(size=9)
    np.testing.assert_allclose(rows_dot(A, a), A @ a)
    c = np.array([1.0, 0.0, -2.0, 0.5])
    np.testing.assert_allclose(add_rows(A, c), c @ A)
    assert dot(a, a) == pytest.approx(a @ a)


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1.0, 1e200])
def test_norm_neither_overflows_nor_underflows(scale):
    assert norm(np.array([3.0, 4.0]) * scale) == pytest.approx(5.0 * scale)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_tree_sum_adds_every_part_once(count):
    assert tree_sum([10.0**k for k in range(count)]) == sum(10.0**k for k in range(count))


def test_threads_are_those_asked_for_else_the_cpus_we_may_use(monkeypatch):
    monkeypatch.setenv("RANKINE_NUM_THREADS", "5")
    assert (n_threads(3), n_threads()) == (3, 5)
    monkeypatch.delenv("RANKINE_NUM_THREADS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 4, 7}, raising=False)
    assert n_threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, threads in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert n_threads() == threads
