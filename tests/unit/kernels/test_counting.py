"""Sums over active pairs equal their definition, for every algorithm."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.kernels.counting import Each, Ones, SortedRows, active_sums, levels_sums, pairs_sums

pytestmark = pytest.mark.kernels

ALGORITHMS = [active_sums, levels_sums, pairs_sums]


def slow_sums(p, y, g, upward):
    """Return above_i or below_i, computed from the definition."""
    n = range(len(p))
    if upward:
        return [sum(g[j] for j in n if y[j] > y[i] and p[i] - p[j] > -1) for i in n]
    return [sum(g[j] for j in n if y[j] < y[i] and p[j] - p[i] > -1) for i in n]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("upward", [True, False])
@pytest.mark.parametrize("sums", ALGORITHMS)
def test_sums_equal_the_definition_for_queries_of_all_sizes(sums, upward, weighted):
    rng = np.random.default_rng(3)
    # (rows, levels): one row, one level, two levels, more levels than a power of two
    shapes = [(1, 1), (0, 0), (5, 1), (6, 2), (9, 3), (12, 4), (20, 5), (30, 9), (17, 17)]
    sizes = [size for size, _ in shapes]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    # Quarters: many gaps are exactly 1, where a pair is not active, and many scores are equal.
    scores = np.concatenate([np.sort(rng.integers(0, 12, size)) / 4.0 for size in sizes])
    ranks = np.concatenate(
        [rng.permutation(np.resize(np.arange(1, n + 1), size)) for size, n in shapes]
    ).astype(np.uint32)
    rows = SortedRows(scores, ranks, np.array([n for _, n in shapes]), starts)
    g = rng.integers(1, 9, len(scores)) / 8.0 if weighted else np.ones(len(scores))
    dtype = np.float64 if weighted else np.int32
    values = Each(g) if weighted else Ones()
    expected = [
        total
        for a, b in zip(starts[:-1], starts[1:], strict=True)
        for total in slow_sums(scores[a:b], ranks[a:b], g[a:b], upward)
    ]
    for first, last in ((0, len(sizes)), (2, 6), (4, 4)):
        tree = np.full(18, 77, dtype=dtype)  # overwritten
        out = np.full(len(scores), -1.0)
        sums(rows, (first, last), values, tree, upward, out)
        span = slice(starts[first], starts[last])
        assert out[span].tolist() == expected[span]
        assert (np.delete(out, np.arange(starts[first], starts[last])) == -1.0).all()
    assert max(expected) > 5 * g.min()


@pytest.mark.parametrize("sums", ALGORITHMS)
def test_every_active_pair_is_counted_from_both_sides(sums):
    rng = np.random.default_rng(8)
    p, y = np.sort(rng.normal(size=60)), rng.integers(1, 8, 60).astype(np.uint32)
    rows = SortedRows(p, y, np.array([7]), np.array([0, 60]))
    totals = []
    for upward in (True, False):
        out = np.empty(60)
        sums(rows, (0, 1), Ones(), np.zeros(8, dtype=np.int32), upward, out)
        totals.append(out.sum())
    assert totals[0] == totals[1] > 0
