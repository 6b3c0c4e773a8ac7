"""Weighted variance of every column within queries, summed over queries.

    out_j = sum_q [ sum_i c_i x_ij^2 - (sum_i c_i x_ij)^2 / sum_i c_i ]

It is the diagonal of X^T C X when C joins all rows of a query alike, and close to it otherwise:
what a diagonal preconditioner needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import question
from rankine.kernels.linalg import tree_sum
from rankine.kernels.rows import CsrRows, DenseRows, Rows
from rankine.kernels.shards import map_shards

__all__ = ["column_variances"]


@question
def no_moments(rows: Rows, n_features: int) -> Any:
    """Zero moments of n_features columns, laid out as the storage visits them."""


@no_moments.answer(DenseRows)
def _dense_no_moments(_rows: Any, n_features: Any) -> Any:
    return np.zeros((2, n_features)).T


@no_moments.answer(CsrRows)
def _csr_no_moments(_rows: Any, n_features: Any) -> Any:
    return np.zeros((n_features, 2))


@question
def add_moments(rows: Rows, members: Any, c: Any, moments: Any) -> None:
    """moments[:, 0] += c_i x_i and moments[:, 1] += c_i x_i^2 over rows ``members``."""


@question
def fold_means(rows: Rows, members: Any, factor: float, moments: Any) -> None:
    """Second moments -= factor (first moments)^2; then first moments = 0."""


@add_moments.answer(DenseRows)
def _dense_moments(rows: Any, members: Any, c: Any, moments: Any) -> Any:
    for i in members:
        for j in range(rows.values.shape[1]):
            x = np.float64(rows.values[i, j])
            moments[j, 0] += c[i] * x
            moments[j, 1] += c[i] * x * x


@add_moments.answer(CsrRows)
def _csr_moments(rows: Any, members: Any, c: Any, moments: Any) -> Any:
    for i in members:
        for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            j, x = rows.indices[k], np.float64(rows.values[k])
            moments[j, 0] += c[i] * x
            moments[j, 1] += c[i] * x * x


@jit
def _fold_all(factor: float, moments: Any) -> None:
    for j in range(moments.shape[0]):
        moments[j, 1] -= factor * moments[j, 0] * moments[j, 0]
        moments[j, 0] = 0.0


@fold_means.answer(DenseRows)
def _dense_fold(_rows: Any, _members: Any, factor: Any, moments: Any) -> Any:
    _fold_all(factor, moments)


@fold_means.answer(CsrRows)
def _csr_fold(rows: Any, members: Any, factor: Any, moments: Any) -> Any:
    if members.shape[0] > moments.shape[0] // 32:  # most columns were touched
        _fold_all(factor, moments)
        return
    for i in members:
        for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
            j = rows.indices[k]
            moments[j, 1] -= factor * moments[j, 0] * moments[j, 0]
            moments[j, 0] = 0.0


@jit
def _variances(
    rows: Rows, members: Any, starts: Any, c: Any, begin: int, end: int, n_features: int
) -> Any:
    moments = no_moments(rows, n_features)
    for q in range(begin, end):
        mine = members[starts[q] : starts[q + 1]]
        total = 0.0
        for i in mine:
            total += c[i]
        if total > 0.0:
            add_moments(rows, mine, c, moments)
            fold_means(rows, mine, 1.0 / total, moments)
    return moments[:, 1].copy()


def column_variances(
    rows: Rows,
    members: NDArray[Any],
    starts: NDArray[np.int64],
    cuts: NDArray[np.int64],
    c: NDArray[np.float64],
    n_features: int,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """The sums above; query q holds rows ``members[starts[q]:starts[q + 1]]``, ``c`` per row."""
    parts = map_shards(
        lambda begin, end: _variances(rows, members, starts, c, begin, end, n_features),
        cuts,
        threads,
    )
    total: NDArray[np.float64] = np.maximum(tree_sum(parts), 0.0)
    return total
