"""Divide each feature by its range within its list (``ListRange``), for each row storage.

    x_ij  ->  x_ij / (max_k x_kj - min_k x_kj),   k over the rows of i's list,

implicit zeros included; a feature that is constant within the list becomes 0. The cost depends on
the number of stored values, not on the width of the feature space.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
from rankine.kernels.rows import CsrRows, DenseRows, Rows, n_rows

#: Knuth's multiplier, 2^32 / golden ratio: the high bits of a product are the first slot to try.
_KNUTH = np.uint64(2654435769)
_LOW = np.uint64(0xFFFFFFFF)
_FREE = np.int64(-1)


@generic
def _divide_lists(rows: Rows, n_features: int, starts: Any, order: Any, out: Any) -> None:
    """Write the divided values to ``out``; list q has the rows order[starts[q]:starts[q + 1]]."""


@jit
def _half_range(low: float, high: float) -> float:
    """Return half the range: the range of two huge numbers of opposite sign would overflow."""
    return high * 0.5 - low * 0.5


@jit
def _divided(value: Any, half: float) -> float:
    x = np.float64(value)
    if half != 0.0:
        return x * 0.5 / half
    return x - x  # 0, or NaN for values that are not finite


@_divide_lists.implementation(DenseRows)
def _divide_dense(rows: Any, n_features: Any, starts: Any, order: Any, out: Any) -> Any:
    low, high, half = np.empty(n_features), np.empty(n_features), np.empty(n_features)
    for q in range(starts.shape[0] - 1):
        for j in range(n_features):
            low[j], high[j] = np.inf, -np.inf
        for k in range(starts[q], starts[q + 1]):
            i = order[k]
            for j in range(n_features):
                x = np.float64(rows.values[i, j])
                low[j] = min(low[j], x)
                high[j] = max(high[j], x)
        for j in range(n_features):
            half[j] = _half_range(low[j], high[j])
        for k in range(starts[q], starts[q + 1]):
            i = order[k]
            for j in range(n_features):
                out[i, j] = _divided(rows.values[i, j], half[j])


@jit
def _slot_of(keys: Any, shift: Any, direct: bool, j: Any) -> Any:
    """Return the slot of column j: slot j if ``direct``, else one found by open addressing.

    Steps grow (1, 2, 3 ...), so that columns chosen to collide in one region make no long chains.
    """
    if direct:
        return np.int64(j)
    column = np.int64(j)
    slot = np.int64((((np.uint64(j) & _LOW) * _KNUTH) & _LOW) >> shift)
    step = 1
    while keys[slot] != _FREE and keys[slot] != column:
        slot = (slot + step) & (keys.shape[0] - 1)
        step += 1
    keys[slot] = column
    return slot


@_divide_lists.implementation(CsrRows)
def _divide_csr(rows: Any, n_features: Any, starts: Any, order: Any, out: Any) -> Any:
    longest = 0
    for q in range(starts.shape[0] - 1):
        stored = 0
        for k in range(starts[q], starts[q + 1]):
            stored += rows.indptr[order[k] + 1] - rows.indptr[order[k]]
        longest = max(longest, stored)
    # A table at most half full, so that collisions are rare; one slot per column if that is less.
    bits = 4
    while (1 << bits) < 2 * longest:
        bits += 1
    direct = n_features <= (1 << bits)
    size = n_features if direct else 1 << bits
    shift = np.uint64(32 - bits)
    keys = np.full(size, _FREE)
    low, high, counts = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)
    slots = np.empty(longest, dtype=np.int64)
    for q in range(starts.shape[0] - 1):
        n_list_rows = starts[q + 1] - starts[q]
        n_values = 0
        for k in range(starts[q], starts[q + 1]):
            for p in range(rows.indptr[order[k]], rows.indptr[order[k] + 1]):
                slot = _slot_of(keys, shift, direct, rows.indices[p])
                x = np.float64(rows.values[p])
                low[slot] = x if counts[slot] == 0 else min(low[slot], x)
                high[slot] = x if counts[slot] == 0 else max(high[slot], x)
                counts[slot] += 1
                slots[n_values] = slot
                n_values += 1
        n_values = 0
        for k in range(starts[q], starts[q + 1]):
            for p in range(rows.indptr[order[k]], rows.indptr[order[k] + 1]):
                slot = slots[n_values]
                bottom, top = low[slot], high[slot]
                if counts[slot] < n_list_rows:  # a row without the feature has a zero
                    bottom, top = min(bottom, 0.0), max(top, 0.0)
                out[p] = _divided(rows.values[p], _half_range(bottom, top))
                n_values += 1
        # Reset only the slots that this list used, so that the cost does not depend on the width.
        for p in range(n_values):
            keys[slots[p]] = _FREE
            counts[slots[p]] = 0


# Called from Python, a generic function runs interpreted; this compiled entry point does not.
@jit
def _divide(rows: Any, n_features: int, starts: Any, order: Any, out: Any) -> None:
    _divide_lists(rows, n_features, starts, order, out)


def list_range_values(
    rows: Rows,
    n_features: int,
    starts: NDArray[np.int64],
    order: NDArray[np.int64] | None = None,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Divide the values of ``rows`` by their ranges; the result has the shape of ``rows.values``.

    List q has the rows ``order[starts[q]:starts[q + 1]]``; the default is the order of the rows.
    """
    if order is None:
        order = np.arange(n_rows(rows), dtype=np.int64)
    out = np.empty(rows.values.shape, dtype=dtype)
    _divide(rows, n_features, starts, order, out)
    return out
