"""Products, column variances and ordered sums equal plain numpy and ignore the thread count."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import sparse

from rankine.data.dataset import as_rows
from rankine.kernels.columns import _member_cuts, column_variances
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


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize(("m", "sums"), [(1, 1), (7, 1), (8, 2), (63, 15), (64, 16), (500, 16)])
def test_every_sum_has_four_values_behind_each_of_its_entries(m, n, sums):
    """Dense or compressed, the same rows are cut at the same places."""
    X = np.ones((m, n))
    cuts = [Products(as_rows(kind(X)), n).sum_cuts for kind in (np.asarray, sparse.csr_array)]
    np.testing.assert_array_equal(*cuts)
    assert len(cuts[0]) == sums + 1


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("m", "n"), [(0, 3), (5, 0), (0, 0)])
def test_products_of_nothing_are_zeros(kind, m, n):
    products = Products(as_rows(kind(np.ones((m, n)))), n)
    assert products.scores(np.ones(n)).tolist() == [0.0] * m
    assert products.transpose_times(np.ones(m)).tolist() == [0.0] * n


@pytest.mark.parametrize("n_shards", [1, 3, 16])
@pytest.mark.parametrize(
    "sizes", [[5], [100], [8, 4], [1] * 40, [3, 90, 2, 2], [50, 1, 50], [7, 0, 30, 1]]
)
def test_members_are_cut_between_queries_and_within_long_ones(sizes, n_shards):
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
@pytest.mark.parametrize("idle", [False, True], ids=["all weigh", "one weighs nothing"])
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


def test_columns_that_rows_of_a_short_query_share_are_folded_once():
    X = np.zeros((6, 900))
    X[:, [3, 7]] = np.random.default_rng(7).normal(size=(6, 2))
    X[[0, 2], 500] = 2.0, -1.0
    members, starts = np.arange(6, dtype=np.uint32), np.array([0, 3, 6])
    c = np.arange(1.0, 7.0)
    found = column_variances(as_rows(sparse.csr_array(X)), members, starts, 2, c, 900)
    expected = np.zeros(900)
    for part, weight in ((X[:3], c[:3]), (X[3:], c[3:])):
        expected += weight @ (part - np.average(part, axis=0, weights=weight)) ** 2
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_vector_kernels():
    rng = np.random.default_rng(6)
    A, a = rng.normal(size=(4, 9)), rng.normal(size=9)
    np.testing.assert_allclose(rows_dot(A, a), A @ a)
    c = np.array([1.0, 0.0, -2.0, 0.5])
    np.testing.assert_allclose(add_rows(A, c), c @ A)
    assert dot(a, a) == pytest.approx(a @ a)


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1.0, 1e200])
def test_norm_neither_overflows_nor_underflows(scale):
    assert norm(np.array([0.0, 3.0, -4.0]) * scale) == pytest.approx(5.0 * scale)


def test_norms_at_the_ends():
    assert norm(np.zeros(0)) == 0.0
    assert norm(np.array([1.0, -np.inf])) == np.inf
    assert np.isnan(norm(np.array([1.0, np.nan])))


class _Written:
    """A sum that is written down instead of added."""

    def __init__(self, words):
        self.words = words

    def __add__(self, other):
        return _Written(f"({self.words}+{other.words})")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "a"),
        (2, "(a+b)"),
        (3, "((a+b)+c)"),
        (5, "(((a+b)+(c+d))+e)"),
        (8, "(((a+b)+(c+d))+((e+f)+(g+h)))"),
    ],
)
def test_tree_sum_adds_by_halves(count, words):
    assert tree_sum([_Written(letter) for letter in "abcdefgh"[:count]]).words == words


def test_threads_are_those_asked_for_else_the_cpus_we_may_use(monkeypatch):
    monkeypatch.setenv("RANKINE_NUM_THREADS", "5")
    assert (n_threads(3), n_threads(1), n_threads(0), n_threads()) == (3, 1, 5, 5)
    monkeypatch.setenv("RANKINE_NUM_THREADS", "0")
    assert n_threads() == 1
    monkeypatch.delenv("RANKINE_NUM_THREADS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 4, 7}, raising=False)
    assert n_threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, threads in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert n_threads() == threads
