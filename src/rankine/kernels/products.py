"""Compute X w and X^T v over fixed ranges of rows, whose results are added in a fixed order.

The ranges depend on the data alone, so any number of threads computes the same bits. They ignore
queries, so that threads share one long query as well as many short ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
from rankine.kernels.rows import CsrRows, DenseRows, Rows, scores_into
from rankine.kernels.shards import N_SHARDS, cut_by_weight, map_shards, tree_sum

#: Each shard of X^T v has a dense sum. There must be this many stored values per entry of the sums,
#: or the sums would need more memory than the data on wide, short problems.
VALUES_PER_SUM = 4


@generic
def add_rows_into(rows: Rows, start: int, stop: int, v: Any, out: Any) -> None:
    """Add the sum of v_i x_i for start <= i < stop to ``out``."""


@add_rows_into.implementation(DenseRows)
def _dense_add_rows(rows: Any, start: Any, stop: Any, v: Any, out: Any) -> Any:
    for i in range(start, stop):
        c = v[i]
        for j in range(rows.values.shape[1]):
            out[j] += c * rows.values[i, j]


@add_rows_into.implementation(CsrRows)
def _csr_add_rows(rows: Any, start: Any, stop: Any, v: Any, out: Any) -> Any:
    # One loop rather than a call per row: rows are short, and a call costs as much as ten values.
    for i in range(start, stop):
        c = v[i]
        for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            out[rows.indices[k]] += c * rows.values[k]


# Called from Python, a generic function runs interpreted; this compiled entry point does not.
@jit
def _add_rows(rows: Rows, start: int, stop: int, v: Any, out: Any) -> None:
    add_rows_into(rows, start, stop, v, out)


class Products:
    """The products of a matrix with vectors; any number of threads computes the same bits."""

    def __init__(self, rows: Rows, n_features: int, threads: int | None = None) -> None:
        self.rows = rows
        self.n_features = n_features
        self.threads = threads
        if isinstance(rows, CsrRows):
            ends, stored = rows.indptr, len(rows.values)
        else:
            stored = rows.values.size
            ends = np.arange(rows.values.shape[0] + 1, dtype=np.int64) * max(n_features, 1)
        self.n_rows = len(ends) - 1
        self.cuts: Sequence[int] | NDArray[np.int64] = cut_by_weight(ends)
        sums = min(N_SHARDS, max(1, stored // (VALUES_PER_SUM * max(n_features, 1))))
        self.sum_cuts: Sequence[int] | NDArray[np.int64] = cut_by_weight(ends, int(sums))

    def scores(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return X w."""
        out = np.empty(self.n_rows)
        map_shards(
            lambda start, stop: scores_into(self.rows, start, stop, w, out), self.cuts, self.threads
        )
        return out

    def transpose_times(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return X^T v."""

        def shard(start: int, stop: int) -> NDArray[np.float64]:
            out = np.zeros(self.n_features)
            _add_rows(self.rows, start, stop, v, out)
            return out

        if self.n_rows == 0:
            return np.zeros(self.n_features)
        return tree_sum(map_shards(shard, self.sum_cuts, self.threads))
