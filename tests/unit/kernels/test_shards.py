"""Shards on threads, sums in a fixed order, and vector kernels."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from rankine.kernels.shards import (
    add_rows,
    cut_by_weight,
    dot,
    map_shards,
    n_threads,
    norm,
    rows_dot,
    tree_sum,
)

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("threads", [1, 2, 3, 40])
def test_results_are_in_the_order_of_the_shards(threads):
    def slow(first, last):
        time.sleep(0.002 * (first % 3))
        return first, last

    assert map_shards(slow, range(9), threads) == [(k, k + 1) for k in range(8)]
    assert map_shards(slow, [3], threads) == []


@pytest.mark.parametrize("bad", range(6))
def test_an_error_in_any_shard_is_raised_when_all_threads_are_done(bad):
    working = set()

    def work(first, _last):
        working.add(first)
        time.sleep(0.002)
        working.discard(first)
        if first == bad:
            raise ZeroDivisionError(first)

    with pytest.raises(ZeroDivisionError):
        map_shards(work, range(7), 2)
    assert not working


def test_shards_can_be_nested():
    def inner(first, _last):
        return map_shards(lambda a, b: (a, b), range(first, first + 6), 2)

    assert map_shards(inner, range(0, 9, 3), 2) == [
        [(first + k, first + k + 1) for k in range(5)] for first in (0, 3)
    ]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_more_threads_work_than_requested(threads):
    def work(_first, _last):
        time.sleep(0.002)
        return threading.get_ident()

    thread_ids = set(map_shards(work, range(13), threads))
    assert len(thread_ids) <= threads
    assert threads > 1 or thread_ids == {threading.get_ident()}


def test_two_threads_work_at_the_same_time():
    barrier = threading.Barrier(2)
    assert set(map_shards(lambda _first, _last: barrier.wait(10), range(3), 2)) == {0, 1}


@pytest.mark.parametrize("n_shards", [1, 2, 3, 16])
@pytest.mark.parametrize("size", [0, 1, 2, 5, 40])
def test_a_shard_ends_with_the_item_that_reaches_its_share(n_shards, size):
    weights = np.random.default_rng(size).integers(0, 4, size)
    weights[:1] = 0
    ends = np.concatenate([[0], np.cumsum(weights)])
    share = [int(ends[-1]) * k // n_shards for k in range(1, n_shards)]
    reached = [next(i for i, end in enumerate(ends) if end >= target) for target in share]
    assert cut_by_weight(ends, n_shards).tolist() == sorted({0, *reached, size})


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


def test_norms_of_empty_and_non_finite_vectors():
    assert norm(np.zeros(0)) == 0.0
    assert norm(np.array([1.0, -np.inf])) == np.inf
    assert np.isnan(norm(np.array([1.0, np.nan])))


class _RecordedSum:
    """A sum that records the order of its additions."""

    def __init__(self, formula):
        self.formula = formula

    def __add__(self, other):
        return _RecordedSum(f"({self.formula}+{other.formula})")


@pytest.mark.parametrize(
    ("count", "formula"),
    [
        (1, "a"),
        (2, "(a+b)"),
        (3, "((a+b)+c)"),
        (5, "(((a+b)+(c+d))+e)"),
        (8, "(((a+b)+(c+d))+((e+f)+(g+h)))"),
    ],
)
def test_tree_sum_adds_by_halves(count, formula):
    assert tree_sum([_RecordedSum(letter) for letter in "abcdefgh"[:count]]).formula == formula


def test_the_default_number_of_threads_is_that_of_available_cpus(monkeypatch):
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
