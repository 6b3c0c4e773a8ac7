"""The loop of one-pass learning: score a list, take its gradient, push it; O(non-zeros) a list.

Written once for every optimiser, objective and storage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import question
from rankine.kernels.lists import ListWork
from rankine.kernels.random import random_bits
from rankine.kernels.rows import CsrRows, DenseRows, Rows
from rankine.losses.lambda_weighted import list_loss, needs_pairs
from rankine.penalties.lazy import close_step, open_step, push, weight

__all__ = ["Lists", "learn_lists"]


class Lists(NamedTuple):
    """Lists to learn from.

    Attributes
    ----------
    starts
        List q holds places ``starts[q]:starts[q + 1]``.
    rows
        Row number at each place; empty when place = row.
    levels
        What the objective compares, by row.
    row_weights, list_weights
        Weights by row and by list; empty means 1.
    cutoffs
        The metric's cutoff of each list.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    levels: NDArray[np.float64]
    row_weights: NDArray[np.float64]
    list_weights: NDArray[np.float64]
    cutoffs: NDArray[np.int64]


@question
def lazy_dot(rows: Rows, i: int, optimizer: Any, now: Any, state: Any) -> Any:
    """<w, x_i> with w read through the optimiser."""


@question
def lazy_push(rows: Rows, i: int, c: float, optimizer: Any, now: Any, state: Any) -> Any:
    """Push the gradient c x_i."""


@jit(fastmath=REDUCE)
def _csr_dot(rows: Any, i: int, optimizer: Any, now: Any, state: Any) -> float:
    total = 0.0
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        total += rows.values[k] * weight(optimizer, now, state, rows.indices[k])
    return total


@jit(fastmath=REDUCE)
def _dense_dot(rows: Any, i: int, optimizer: Any, now: Any, state: Any) -> float:
    total = 0.0
    for j in range(np.uint64(rows.values.shape[1])):
        total += rows.values[i, j] * weight(optimizer, now, state, j)
    return total


@lazy_dot.answer(CsrRows)
def _csr_lazy_dot(rows: Any, i: Any, optimizer: Any, now: Any, state: Any) -> Any:
    return _csr_dot(rows, i, optimizer, now, state)


@lazy_dot.answer(DenseRows)
def _dense_lazy_dot(rows: Any, i: Any, optimizer: Any, now: Any, state: Any) -> Any:
    return _dense_dot(rows, i, optimizer, now, state)


@lazy_push.answer(CsrRows)
def _csr_lazy_push(rows: Any, i: Any, c: Any, optimizer: Any, now: Any, state: Any) -> Any:
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        push(optimizer, now, state, rows.indices[k], c * rows.values[k])


@lazy_push.answer(DenseRows)
def _dense_lazy_push(rows: Any, i: Any, c: Any, optimizer: Any, now: Any, state: Any) -> Any:
    for j in range(np.uint64(rows.values.shape[1])):
        value = rows.values[i, j]
        if value != 0.0:
            push(optimizer, now, state, j, c * value)


@jit
def _fill(lists: Any, q: int, work: Any) -> Any:
    """Copy a list's levels and weights into the buffers; its length, and whether it can teach."""
    start = lists.starts[q]
    n = lists.starts[q + 1] - start
    differ = False
    for k in range(n):
        row = lists.rows[start + k] if lists.rows.shape[0] > 0 else start + k
        work.levels[k] = lists.levels[row]
        work.weights[k] = lists.row_weights[row] if lists.row_weights.shape[0] > 0 else 1.0
        differ = differ or work.levels[k] != work.levels[0]
    return n, differ


@jit
def learn_lists(
    rows: Rows,
    lists: Lists,
    order: Any,
    batch: int,
    optimizer: Any,
    objective: Any,
    state: Any,
    clock: Any,
    work: ListWork,
    slopes: Any,
    scores: Any,
    tally: Any,
    seed: Any,
    seen: int,
) -> Any:
    """Learn from ``lists`` in the given order, ``batch`` lists a step.

    ``scores`` receives every row's score before its list was learned from; ``slopes`` (by place in
    the batch) is scratch. ``seen`` lists came before these: it selects the random draws. The score
    of a pointwise model has a constant term, the last weight of ``state``.

    ``tally`` adds up the lists' losses and counts the lists that taught. Returns the first list
    whose scores are not finite (-1: none).
    """
    constant = np.uint64(state.shape[0] - 1)
    pairs = needs_pairs(objective)
    for first in range(0, order.shape[0], batch):
        last = min(first + batch, order.shape[0])
        now = open_step(optimizer, clock)
        used, place = 0, 0
        for p in range(first, last):
            q = order[p]
            start = lists.starts[q]
            n, differ = _fill(lists, q, work)
            bias = 0.0 if pairs else weight(optimizer, now, state, constant)
            check = 0.0
            for k in range(n):
                row = lists.rows[start + k] if lists.rows.shape[0] > 0 else start + k
                score = lazy_dot(rows, row, optimizer, now, state)
                scores[row] = score
                work.scores[k] = score + bias
                check += score - score  # NaN as soon as one score is not finite
            if check != 0.0:
                return q
            if pairs and not differ:
                for k in range(n):
                    slopes[place + k] = 0.0
            else:
                value = list_loss(objective, work, n, lists.cutoffs[q], random_bits(seed, seen + p))
                importance = lists.list_weights[q] if lists.list_weights.shape[0] > 0 else 1.0
                tally[0] += importance * value
                used += 1
                for k in range(n):
                    slopes[place + k] = importance * work.slopes[k]
            place += n
        if used > 0:
            place = 0
            for p in range(first, last):
                start, stop = lists.starts[order[p]], lists.starts[order[p] + 1]
                for k in range(start, stop):
                    slope = slopes[place] / used
                    place += 1
                    if slope != 0.0:
                        row = lists.rows[k] if lists.rows.shape[0] > 0 else k
                        lazy_push(rows, row, slope, optimizer, now, state)
                        if not pairs:
                            push(optimizer, now, state, constant, slope)
            close_step(optimizer, clock, state)
            tally[1] += used
    return -1
