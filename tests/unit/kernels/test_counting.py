"""Sums over active partners against their definition, in every way of counting."""

import numpy as np
import pytest

from rankine.kernels.counting import Each, Ones, SortedRows, active_sums, levels_sums, pairs_sums

pytestmark = pytest.mark.kernels

WAYS = [active_sums, levels_sums, pairs_sums]


def by_definition(p, y, g, upward):
    """above_i and below_i: sums of g over j with y_j > y_i and p_i - p_j > -1, or the other way."""
    n = range(len(p))
    if upward:
        return [sum(g[j] for j in n if y[j] > y[i] and p[i] - p[j] > -1) for i in n]
    return [sum(g[j] for j in n if y[j] < y[i] and p[j] - p[i] > -1) for i in n]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("upward", [True, False])
@pytest.mark.parametrize("sums", WAYS)
def test_sums_over_active_partners_in_queries_of_every_kind(sums, upward, weighted):
    rng = np.random.default_rng(3)
    # (rows, levels): one row, one level, two levels, more levels than a power of two
    kinds = [(1, 1), (0, 0), (5, 1), (6, 2), (9, 3), (12, 4), (20, 5), (30, 9), (17, 17)]
    sizes = [size for size, _ in kinds]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    # Quarters: many gaps are exactly 1, where a pair is not active, and many scores are equal.
    scores = np.concatenate([np.sort(rng.integers(0, 12, size)) / 4.0 for size in sizes])
    ranks = np.concatenate(
        [rng.permutation(np.resize(np.arange(1, n + 1), size)) for size, n in kinds]
    ).astype(np.uint32)
    rows = SortedRows(scores, ranks, np.array([n for _, n in kinds]), starts)
    g = rng.integers(1, 9, len(scores)) / 8.0 if weighted else np.ones(len(scores))
    kind = np.float64 if weighted else np.int32
    values = Each(g) if weighted else Ones()
    expected = [
        total
        for a, b in zip(starts[:-1], starts[1:], strict=True)
        for total in by_definition(scores[a:b], ranks[a:b], g[a:b], upward)
    ]
    for first, last in ((0, len(sizes)), (2, 6), (4, 4)):
        tree = np.full(18, 77, dtype=kind)  # what it held before does not matter
        out = np.full(len(scores), -1.0)
        sums(rows, (first, last), values, tree, upward, out)
        inside = slice(starts[first], starts[last])
        assert out[inside].tolist() == expected[inside]
        assert (np.delete(out, np.arange(starts[first], starts[last])) == -1.0).all()
    assert max(expected) > 5 * g.min()


@pytest.mark.parametrize("sums", WAYS)
def test_every_active_pair_is_counted_from_both_sides(sums):
    rng = np.random.default_rng(8)
    p, y = np.sort(rng.normal(size=60)), rng.integers(1, 8, 60).astype(np.uint32)
    rows = SortedRows(p, y, np.array([7]), np.array([0, 60]))
    found = []
    for upward in (True, False):
        out = np.empty(60)
        sums(rows, (0, 1), Ones(), np.zeros(8, dtype=np.int32), upward, out)
        found.append(out.sum())
    assert found[0] == found[1] > 0
