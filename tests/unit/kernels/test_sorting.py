"""Sorting and ranking agree with Python's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rankine.data import LabelIndex, QueryIndex
from rankine.kernels.sorting import (
    RADIX_FROM,
    _merge_half,
    _radix_sort,
    list_ranks,
    merge_sort,
    order_descending,
    rank_order,
    rank_order_by_key,
    sort_queries,
    sort_scores,
    tie_ends,
    top_order,
    top_order_by_key,
    top_values,
)

pytestmark = pytest.mark.kernels

SIZES = (0, 1, 2, 11, 12, 13, 31, 33, 64, 65, 200)


def _scores(size: int, seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed + size)
    return np.asarray(rng.integers(-6, 6, size) / 4.0)


def _sorted_positions(score: NDArray[np.float64], key: NDArray[np.float64]) -> list[int]:
    return sorted(range(len(score)), key=lambda i: (-score[i], key[i], i))


@pytest.mark.parametrize("size", SIZES)
def test_merge_sort_is_stable(size: int) -> None:
    keys, items = _scores(size), np.arange(size)
    expected = np.argsort(keys, kind="stable")
    sorted_keys = keys.copy()
    spares = np.full(size, np.nan), np.full(size, -1)
    merge_sort(sorted_keys, items, *spares)
    np.testing.assert_array_equal(items, expected)
    np.testing.assert_array_equal(sorted_keys, keys[expected])


@pytest.mark.parametrize("size", SIZES)
def test_rankings_break_ties_by_position(size: int) -> None:
    score = _scores(size)
    expected = _sorted_positions(score, np.zeros(size))
    assert rank_order(score).tolist() == expected
    order = np.full(size + 2, -7)
    order_descending(score, size, order)
    assert order.tolist() == [*expected, -7, -7]
    for depth in (0, 1, 5, 64, 65, 1000):
        assert top_order(score, depth).tolist() == expected[:depth]
        assert top_values(score, depth).tolist() == sorted(score.tolist(), reverse=True)[:depth]
        if depth:
            floor = score[expected[:depth][-1]] if size else 0.0
            assert top_order(score, depth, floor).tolist() == expected[:depth]


@pytest.mark.parametrize("size", SIZES)
def test_rankings_break_ties_by_key_and_then_by_position(size: int) -> None:
    score, key = _scores(size), _scores(size, seed=1)
    expected = _sorted_positions(score, key)
    assert rank_order_by_key(score, key).tolist() == expected
    for depth in (0, 1, 5, 64, 65, 1000):
        assert top_order_by_key(score, key, depth).tolist() == expected[:depth]


@pytest.mark.parametrize("size", SIZES[1:])
def test_tie_ends_close_blocks_of_equal_scores(size: int) -> None:
    score = _scores(size)
    order = rank_order(score)
    ends = tie_ends(score, order)
    for rank, end in enumerate(ends.tolist()):
        block = score[order[rank:end]]
        assert (block == score[order[rank]]).all()
        assert end == size or score[order[end]] < score[order[rank]]


@pytest.mark.parametrize(
    "sizes", [[3, 0, 40], [40, 41, 39], [1], [9, 2, 30, 1], [RADIX_FROM - 1, 5, RADIX_FROM + 3]]
)
def test_queries_are_sorted_separately(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.random.default_rng(0).permutation(int(starts[-1]))
    scores = _scores(len(rows)) if sizes[0] != 40 else -np.argsort(rows).astype(float)
    out, items = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
    sort_queries(
        scores, rows, starts, 0, len(sizes), out, items, np.empty_like(out), np.empty_like(items)
    )
    monkeypatch.setattr("rankine.kernels.sorting.LONG", 4)
    for threads in (1, 2, 5):
        shared = sort_scores(scores, rows, starts, threads)
        np.testing.assert_array_equal(shared[0], out)
        np.testing.assert_array_equal(shared[1], items)
    for a, b in zip(starts[:-1], starts[1:], strict=True):
        expected = a + np.argsort(scores[rows[a:b]], kind="stable")
        np.testing.assert_array_equal(items[a:b], expected)
        np.testing.assert_array_equal(out[a:b], scores[rows[expected]])


@pytest.mark.parametrize(("start", "middle", "stop"), [(0, 5, 9), (3, 4, 12), (7, 15, 16)])
def test_each_half_of_a_merge_is_independent(start: int, middle: int, stop: int) -> None:
    rng = np.random.default_rng(stop)
    keys, items = rng.integers(0, 4, 20).astype(float), np.arange(20)
    for run in (slice(start, middle), slice(middle, stop)):
        keys[run].sort()
    order = start + np.argsort(keys[start:stop], kind="stable")
    half = (start + stop) // 2
    for upper, half_slice in ((0, slice(start, half)), (1, slice(half, stop))):
        out, out_items = np.full(20, np.nan), np.full(20, -1)
        _merge_half(keys, items, start, middle, stop, upper, out, out_items)
        expected = np.full(20, -1)
        expected[start:stop] = order
        np.testing.assert_array_equal(out_items[half_slice], expected[half_slice])
        np.testing.assert_array_equal(out[half_slice], keys[expected[half_slice]])
        assert (np.delete(out_items, half_slice) == -1).all()


@pytest.mark.parametrize("size", [5, 40, RADIX_FROM + 1])
def test_zeros_of_both_signs_are_equal(size: int) -> None:
    scores = np.random.default_rng(size).choice([-0.0, 0.0, 1.0, -1.0], size)
    out, items = np.empty(size), np.empty(size, dtype=np.int64)
    sort_queries(
        scores, np.arange(size), np.array([0, size]), 0, 1, out, items, out.copy(), items.copy()
    )
    np.testing.assert_array_equal(items, np.argsort(scores + 0.0, kind="stable"))
    assert not np.signbit(out[out == 0.0]).any()


@pytest.mark.parametrize(
    "digits", [(), (0,), (2,), (5,), (0, 1), (3, 4), (0, 2, 5), (1, 2, 3, 4), (0, 1, 2, 3, 4, 5)]
)
def test_radix_sort_of_keys_that_differ_in_few_digits_is_stable(digits: tuple[int, ...]) -> None:
    """One pass for each digit in which keys differ: an odd or an even number of them, or none."""
    rng = np.random.default_rng(len(digits))
    bits = np.full(60, np.float64(1.5).view(np.uint64))
    for digit in digits:  # the last one holds the sign and most of the exponent
        low, high = (55, 63) if digit == 5 else (11 * digit, 11 * digit + 10)
        for bit in (low, high):
            bits ^= rng.integers(0, 2, 60).astype(np.uint64) << np.uint64(bit)
    keys, items = bits.view(np.float64), rng.permutation(60)
    assert len(set(keys.tolist())) >= 1 + 3 * len(digits)
    order = np.argsort(keys, kind="stable")
    expected = keys[order].copy(), items[order].copy()
    _radix_sort(keys, items, np.full(63, np.nan), np.full(63, -1))
    np.testing.assert_array_equal(keys, expected[0])
    np.testing.assert_array_equal(items, expected[1])


@pytest.mark.parametrize("n", [1, 7, 32, 33, 100])
def test_descending_order_is_stable(n):
    keys = np.random.default_rng(n).integers(0, 5, n).astype(float)
    order = np.zeros(n, dtype=np.int64)
    order_descending(keys, n, order)
    np.testing.assert_array_equal(order, np.argsort(-keys, kind="stable"))


@pytest.mark.parametrize("n_labels", [2, 3, 500])
def test_label_levels_by_counting_and_by_sorting(n_labels: int) -> None:
    rng = np.random.default_rng(n_labels)
    y = rng.integers(0, n_labels, 120) / 7.0
    qid = np.repeat([4, 2, 9], 40)
    levels = LabelIndex.build(QueryIndex.from_qid(qid, 120), y)
    expected = np.concatenate([a + np.argsort(y[a : a + 40], kind="stable") for a in (0, 40, 80)])
    np.testing.assert_array_equal(levels.order, expected)
    for k in range(3):
        mine = y[40 * k : 40 * k + 40]
        first, last = levels.level_ptr[k], levels.level_ptr[k + 1]
        sizes = np.diff(levels.level_starts[first : last + 1])
        np.testing.assert_array_equal(sizes, np.unique(mine, return_counts=True)[1])


def test_ranks_within_lists_are_those_of_a_stable_sort():
    rng = np.random.default_rng(0)
    sizes = np.array([1, 5, 0, 40, 2000])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    scores = rng.integers(-3, 3, starts[-1]).astype(np.float64)
    scores[scores == 0] = rng.choice([0.0, -0.0], (scores == 0).sum())
    ranks = list_ranks(scores, starts)
    for start, stop in zip(starts[:-1], starts[1:], strict=True):
        order = np.argsort(-scores[start:stop], kind="stable")
        assert ranks[start:stop][order].tolist() == list(range(1, stop - start + 1))
