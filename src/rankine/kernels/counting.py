"""Sums over active pairs: the core of RankSVM in O(m log m) (Airola et al., Algorithm 1).

In one query with scores p and label ranks y, row i is in an *active pair* with a row j of a higher
label when y_j > y_i and p_i - p_j > -m; the margin m is 1 unless given. For values g (all ones to
count) these kernels compute::

    above_i = sum of g_j over active rows j of higher labels      (c_i when g = 1)
    below_i = sum of g_j over active rows j of lower labels       (d_i when g = 1)

Both scans use the predicate ``p_i - p_j > -m``: IEEE subtraction is antisymmetric, so
``p_j - p_i < m`` is the same test, and sum(above) = sum(below) exactly when counting.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic


class SortedRows(NamedTuple):
    """Increasing scores and label ranks 1..n_levels[q] at positions starts[q]:starts[q + 1]."""

    scores: NDArray[np.float64]
    ranks: NDArray[np.uint32]
    n_levels: NDArray[np.int64]
    starts: NDArray[np.int64]
    margin: float = 1.0


class Ones(NamedTuple):
    """Every value is 1: sums are integer counts."""


class Each(NamedTuple):
    """One value per sorted position."""

    values: NDArray[np.float64]


@generic
def value_at(values: Ones | Each, k: int) -> Any:
    """Return the value at sorted position k."""


@value_at.implementation(Ones)
def _value_of_ones(_values: Any, _k: Any) -> Any:
    return np.int32(1)


@value_at.implementation(Each)
def _value_of_each(values: Any, k: Any) -> Any:
    return values.values[k]


@jit
def _scan_above(p: Any, y: Any, margin: float, base: Any, values: Any, tree: Any, out: Any) -> None:
    """Scan scores in increasing order, with a Fenwick tree over ranks counted from the top.

    Rows of the lowest rank, often the majority, are not in the tree: no row is below them, and all
    other rows are above them, which one sum counts.
    """
    unit, size = np.uint64(1), np.uint64(tree.shape[0])
    for slot in range(tree.shape[0]):
        tree[slot] = 0
    m = np.uint64(p.shape[0])
    j = np.uint64(0)
    higher = tree[0]
    for a in range(m):
        while j < m and p[a] - p[j] > -margin:
            v = size - np.uint64(y[j])  # top rank first; tree[0] is unused
            if y[j] > unit:
                g = value_at(values, base + j)
                higher += g
                while v < size:
                    tree[v] += g
                    v += v & (~v + unit)
            j += unit
        if y[a] == unit:
            out[a] = higher
            continue
        v = size - np.uint64(y[a]) - unit
        total = tree[0]
        while v > np.uint64(0):
            total += tree[v]
            v &= v - unit
        out[a] = total


@jit
def _scan_below(p: Any, y: Any, margin: float, base: Any, values: Any, tree: Any, out: Any) -> None:
    """Scan scores in decreasing order, with a Fenwick tree over ranks counted from the bottom.

    Rows of the lowest rank are in one sum outside the tree.
    """
    unit, size = np.uint64(1), np.uint64(tree.shape[0])
    for slot in range(tree.shape[0]):
        tree[slot] = 0
    m = np.uint64(p.shape[0])
    inserted = m  # rows inserted..m-1 are in the tree
    lowest = tree[0]
    for step in range(m):
        a = m - unit - step
        while inserted > np.uint64(0) and p[inserted - unit] - p[a] > -margin:
            inserted -= unit
            v = np.uint64(y[inserted]) - unit
            g = value_at(values, base + inserted)
            if v == np.uint64(0):
                lowest += g
                continue
            while v < size:
                tree[v] += g
                v += v & (~v + unit)
        if y[a] == unit:
            out[a] = tree[0]
            continue
        v = np.uint64(y[a]) - unit - unit
        total = lowest
        while v > np.uint64(0):
            total += tree[v]
            v &= v - unit
        out[a] = total


@jit
def active_sums(rows: Any, span: Any, values: Any, tree: Any, upward: bool, out: Any) -> None:
    """Sum over active rows of higher (``upward``) or lower labels, for the queries of ``span``.

    ``tree`` is scratch space of at least max(n_levels) + 1 entries.
    """
    for q in range(span[0], span[1]):
        start = rows.starts[q]
        # Only as much of the tree as the query has levels: clearing it is part of the cost.
        ranks = tree[: rows.n_levels[q] + 1]
        positions = slice(start, rows.starts[q + 1])
        p, y = rows.scores[positions], rows.ranks[positions]
        if upward:
            _scan_above(p, y, rows.margin, np.uint64(start), values, ranks, out[positions])
        else:
            _scan_below(p, y, rows.margin, np.uint64(start), values, ranks, out[positions])


@jit
def levels_sums(rows: Any, span: Any, values: Any, tree: Any, upward: bool, out: Any) -> None:
    """Compute the same sums by one scan per level, O(r m) (Joachims 2006); ``tree`` is unused."""
    p, y, margin = rows.scores, rows.ranks, rows.margin
    for q in range(span[0], span[1]):
        start, stop = rows.starts[q], rows.starts[q + 1]
        for level in range(1, rows.n_levels[q] + 1):
            total = tree[0] * 0
            if upward:
                j = start
                for a in range(start, stop):
                    while j < stop and p[a] - p[j] > -margin:
                        if y[j] > level:
                            total += value_at(values, j)
                        j += 1
                    if y[a] == level:
                        out[a] = total
            else:
                j = stop - 1
                for a in range(stop - 1, start - 1, -1):
                    while j >= start and p[j] - p[a] > -margin:
                        if y[j] < level:
                            total += value_at(values, j)
                        j -= 1
                    if y[a] == level:
                        out[a] = total


@jit
def pairs_sums(rows: Any, span: Any, values: Any, tree: Any, upward: bool, out: Any) -> None:
    """Compute the same sums pair by pair, O(m^2); ``tree`` is unused."""
    p, y, margin = rows.scores, rows.ranks, rows.margin
    for q in range(span[0], span[1]):
        start, stop = rows.starts[q], rows.starts[q + 1]
        for a in range(start, stop):
            total = tree[0] * 0
            for j in range(start, stop):
                if upward and y[j] > y[a] and p[a] - p[j] > -margin:
                    total += value_at(values, j)
                if not upward and y[j] < y[a] and p[j] - p[a] > -margin:
                    total += value_at(values, j)
            out[a] = total
