"""The domination loss along one weight: derivatives, bounds, and moving.

For a column with values x_i, over the levels k of the queries it touches, with pi the softmax of
the rows below k, xbar_k = sum pi_j x_j and var_k = sum pi_j x_j^2 - xbar_k^2,

    g = sum_k S_k xbar_k - sum_i v a sigma_i x_i
    h = sum_k [S_k var_k + T_k xbar_k^2 - 2 xbar_k N_k] + sum_i v a sigma_i (1 - sigma_i) x_i^2

where N_k = sum_{i in k} v a sigma_i (1 - sigma_i) x_i. One pass over the stored values of the
column gives all sums, so a look costs O(non-zeros of the column + levels of touched queries).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.kernels.columns import (
    column_row,
    column_start,
    column_stop,
    curvature_bounds,
    shift,
    slope_and_curvature,
)
from rankine.kernels.compile import jit
from rankine.losses.domination.state import (
    ANCHOR,
    BELOW,
    BEND,
    BOTTOM,
    MASS,
    MOVES,
    SLOPE,
    TOP_EXPONENT,
    Domination,
    settle_query,
)
from rankine.losses.domination.task import LEVEL, LEVELS, QUERY, ROWS


@jit
def _open_query(levels: Any, q: Any, scratch: Any) -> None:
    """Note that the column at hand touches a query, and clear its sums."""
    scratch.seen[q] = scratch.tally[0]
    scratch.touched[scratch.tally[1]] = q
    scratch.tally[1] += 1
    scratch.query[q, 0] = 0.0
    scratch.query[q, 1] = 0.0
    for k in range(levels.query[q, LEVELS], levels.query[q + 1, LEVELS]):
        scratch.level[k, 0] = 0.0
        scratch.level[k, 1] = 0.0
        scratch.level[k, 2] = 0.0


@jit
def _query_of(levels: Any, code: Any, n_bottoms: Any) -> Any:
    if code < n_bottoms:
        return np.int64(code)
    return np.int64(levels.level[levels.place[code - n_bottoms, LEVEL], QUERY])


@jit
def _gather(state: Any, columns: Any, r: Any, scratch: Any) -> Any:
    """Sums over the stored values of a column: sum v a sigma x and sum v a sigma (1-sigma) x^2.

    A column longer than the list of levels takes every query without looking; a shorter one
    clears a query's sums when it first meets it.
    """
    levels = state.levels
    code_of, mass_of, values = levels.code, state.mass, columns.values
    in_query, in_level = scratch.query, scratch.level
    none = np.uint32(levels.term.shape[0])
    n_bottoms = np.uint32(none + 1)
    start, stop = column_start(columns, r), column_stop(columns, r)
    scratch.tally[0] += 1
    scratch.tally[1] = 0
    every = none == 1 or np.int64(levels.level.shape[0]) + np.int64(none) <= np.int64(stop - start)
    if every:
        for q in range(np.int64(none)):
            _open_query(levels, q, scratch)
    slope = 0.0
    bend = 0.0
    for p in range(start, stop):
        row = column_row(columns, r, p)
        code = code_of[row]
        if code == none:
            continue
        if not every:
            q = _query_of(levels, code, n_bottoms)
            if scratch.seen[q] != scratch.tally[0]:
                _open_query(levels, q, scratch)
        x = np.float64(values[p])
        first = mass_of[row] * x
        if code < n_bottoms:
            in_query[code, 0] += first
            in_query[code, 1] += first * x
        else:
            d = np.uint64(code - n_bottoms)
            k = levels.place[d, LEVEL]
            pull = state.slot[d, 1] * x
            in_level[k, 0] += first
            in_level[k, 1] += first * x
            in_level[k, 2] += pull
            slope += state.slot[d, 0] * x
            bend += pull * x
    return slope, bend


@slope_and_curvature.implementation(Domination)
def _derivatives(loss: Any, columns: Any, r: Any, scratch: Any) -> Any:
    slope, h = _gather(loss, columns, r, scratch)
    levels = loss.levels
    n_queries = levels.term.shape[0]
    g = -slope
    for t in range(scratch.tally[1]):
        q = np.int64(scratch.touched[t])
        start = levels.query[q, LEVELS]
        first, second = scratch.query[q, 0], scratch.query[q, 1]
        for k in range(np.uint64(start), np.uint64(levels.query[q + 1, LEVELS])):
            if levels.table.shape[0] > 0:
                gaps = levels.table[levels.label[n_queries + k]]
                factor = gaps[levels.label[q]]
                first = factor * scratch.query[q, 0]
                second = factor * scratch.query[q, 1]
                for l in range(np.uint64(start), k):
                    factor = gaps[levels.label[n_queries + l]]
                    first += factor * scratch.level[l, 0]
                    second += factor * scratch.level[l, 1]
            below = loss.level[k, BELOW]
            if below > 0.0:
                mean = first / below
                variance = max(0.0, second / below - mean * mean)
                g += loss.level[k, SLOPE] * mean
                h += loss.level[k, SLOPE] * variance
                h += mean * (loss.level[k, BEND] * mean - 2.0 * scratch.level[k, 2])
            first += scratch.level[k, 0]
            second += scratch.level[k, 1]
    return g, max(h, 0.0)


@shift.implementation(Domination)
def _move(loss: Any, columns: Any, r: Any, step: Any, scratch: Any) -> Any:
    levels = loss.levels
    code_of, mass_of, score_of, values = levels.code, loss.mass, loss.score, columns.values
    none = np.uint32(levels.term.shape[0])
    n_bottoms = np.uint32(none + 1)
    has_offset = levels.offset.shape[0] > 0
    for p in range(column_start(columns, r), column_stop(columns, r)):
        row = column_row(columns, r, p)
        code = code_of[row]
        if code == none:
            continue
        rho = score_of[row] + step * values[p]
        score_of[row] = rho
        if has_offset:
            rho += levels.offset[row]
        q = _query_of(levels, code, n_bottoms)
        mass = np.exp(min(rho - loss.query[q, ANCHOR], TOP_EXPONENT))
        change = mass - mass_of[row]
        mass_of[row] = mass
        loss.query[q, MOVES] += 1.0
        if code < n_bottoms:
            loss.query[q, BOTTOM] += change
        else:
            loss.level[levels.place[code - n_bottoms, LEVEL], MASS] += change
    for t in range(scratch.tally[1]):
        settle_query(loss, np.int64(scratch.touched[t]))


@curvature_bounds.implementation(Domination)
def _bounds(loss: Any, columns: Any, r: Any, scratch: Any) -> Any:
    """R = largest range within a query; beta = sum_q V_q range_q^2 / 4; crude = sum_q V_q max x^2.

    V_q is the query's sum of v a. A variance is at most a quarter of the squared range
    (Popoviciu), and at most the largest square (the paper's bound, its eq. 1.3). Rows that are
    not stored are zeros of the query.
    """
    levels = loss.levels
    none = np.uint32(levels.term.shape[0])
    n_bottoms = np.uint32(none + 1)
    span = scratch.query
    scratch.tally[0] += 1
    scratch.tally[1] = 0
    for p in range(column_start(columns, r), column_stop(columns, r)):
        code = levels.code[column_row(columns, r, p)]
        if code == none:
            continue
        q = _query_of(levels, code, n_bottoms)
        x = np.float64(columns.values[p])
        if scratch.seen[q] != scratch.tally[0]:
            _open_query(levels, q, scratch)
            span[q, 2] = x
            span[q, 3] = x
            span[q, 4] = 0.0
        span[q, 2] = min(span[q, 2], x)
        span[q, 3] = max(span[q, 3], x)
        span[q, 4] += 1.0
    widest = 0.0
    beta = 0.0
    crude = 0.0
    for t in range(scratch.tally[1]):
        q = np.int64(scratch.touched[t])
        low, high = span[q, 2], span[q, 3]
        if span[q, 4] < levels.query[q + 1, ROWS] - levels.query[q, ROWS]:
            low, high = min(low, 0.0), max(high, 0.0)
        widest = max(widest, high - low)
        beta += levels.term[q] * (high - low) ** 2 / 4.0
        crude += levels.term[q] * max(low * low, high * high)
    return widest, beta, crude
