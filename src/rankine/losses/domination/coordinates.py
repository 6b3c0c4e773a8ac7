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

from rankine.kernels.columns import column_row, column_start, column_stop
from rankine.kernels.compile import jit
from rankine.kernels.coordinates import curvature_bounds, shift, slope_and_curvature
from rankine.losses.domination.state import TOP_EXPONENT, Domination, settle_query

__all__: list[str] = []


@jit
def _open_query(state: Any, q: int, scratch: Any) -> None:
    """Note that the column at hand touches a query, and clear its sums."""
    scratch.seen[q] = scratch.tally[0]
    scratch.touched[scratch.tally[1]] = q
    scratch.tally[1] += 1
    scratch.bottom[q, 0] = 0.0
    scratch.bottom[q, 1] = 0.0
    for k in range(state.levels.level_ptr[q], state.levels.level_ptr[q + 1]):
        scratch.level[k, 0] = 0.0
        scratch.level[k, 1] = 0.0
        scratch.level[k, 2] = 0.0


@jit
def _open_column(state: Any, stored: int, scratch: Any) -> bool:
    """Begin a column; True when it is long enough to take every query without looking."""
    scratch.tally[0] += 1
    scratch.tally[1] = 0
    n_queries = state.levels.query_term.shape[0]
    every = n_queries + state.levels.level_query.shape[0] <= stored or n_queries == 1
    if every:
        for q in range(n_queries):
            _open_query(state, q, scratch)
    return every


@jit
def _query_of(levels: Any, code: Any, n_bottoms: Any) -> Any:
    if code < n_bottoms:
        return np.uint32(code)
    return levels.level_query[levels.slot_level[code - n_bottoms]]


@jit
def _gather(state: Any, columns: Any, r: int, scratch: Any) -> Any:
    """Sums over the stored values of a column: sum v a sigma x and sum v a sigma (1-sigma) x^2."""
    levels = state.levels
    code_of, mass_of, values = levels.code, state.mass, columns.values
    bottom, level = scratch.bottom, scratch.level
    n_queries = np.uint32(levels.query_term.shape[0])
    n_bottoms = np.uint32(n_queries + 1)
    start, stop = column_start(columns, r), column_stop(columns, r)
    every = _open_column(state, stop - start, scratch)
    slope = 0.0
    bend = 0.0
    for p in range(start, stop):
        row = column_row(columns, r, p)
        code = code_of[row]
        if code == n_queries:
            continue
        if not every:
            q = _query_of(levels, code, n_bottoms)
            if scratch.seen[q] != scratch.tally[0]:
                _open_query(state, q, scratch)
        x = np.float64(values[p])
        first = mass_of[row] * x
        if code < n_bottoms:
            bottom[code, 0] += first
            bottom[code, 1] += first * x
        else:
            d = np.uint64(code - n_bottoms)
            k = levels.slot_level[d]
            pull = state.slot_bend[d] * x
            level[k, 0] += first
            level[k, 1] += first * x
            level[k, 2] += pull
            slope += state.slot_slope[d] * x
            bend += pull * x
    return slope, bend


@jit
def _dominated_moments(state: Any, q: int, k: int, scratch: Any) -> Any:
    """Sums of e^{M[k, l]} E x and E x^2 over the levels below k of query q."""
    levels = state.levels
    own = levels.level_label[k]
    factor = levels.table[own, levels.bottom_label[q]]
    first = factor * scratch.bottom[q, 0]
    second = factor * scratch.bottom[q, 1]
    for l in range(np.uint64(levels.level_ptr[q]), np.uint64(k)):
        factor = levels.table[own, levels.level_label[l]]
        first += factor * scratch.level[l, 0]
        second += factor * scratch.level[l, 1]
    return first, second


@slope_and_curvature.answer(Domination)
def _domination_slope(loss: Any, columns: Any, r: Any, scratch: Any) -> Any:
    return _derivatives(loss, columns, r, scratch)


@jit
def _derivatives(state: Any, columns: Any, r: int, scratch: Any) -> Any:
    slope, h = _gather(state, columns, r, scratch)
    levels = state.levels
    g = -slope
    tabled = levels.table.shape[0] > 0
    for t in range(scratch.tally[1]):
        q = scratch.touched[t]
        first, second = scratch.bottom[q, 0], scratch.bottom[q, 1]
        for k in range(np.uint64(levels.level_ptr[q]), np.uint64(levels.level_ptr[q + 1])):
            if tabled:
                first, second = _dominated_moments(state, q, k, scratch)
            below = state.level_below[k]
            if below > 0.0:
                mean = first / below
                variance = max(0.0, second / below - mean * mean)
                g += state.level_slope[k] * mean
                h += state.level_slope[k] * variance
                h += mean * (state.level_bend[k] * mean - 2.0 * scratch.level[k, 2])
            first += scratch.level[k, 0]
            second += scratch.level[k, 1]
    return g, max(h, 0.0)


@shift.answer(Domination)
def _domination_shift(loss: Any, columns: Any, r: Any, step: Any, scratch: Any) -> Any:
    _move(loss, columns, r, step, scratch)


@jit
def _move(state: Any, columns: Any, r: int, step: float, scratch: Any) -> None:
    levels = state.levels
    code_of, mass_of, score_of, values = levels.code, state.mass, state.score, columns.values
    n_queries = np.uint32(levels.query_term.shape[0])
    n_bottoms = np.uint32(n_queries + 1)
    has_offset = levels.offset.shape[0] > 0
    for p in range(column_start(columns, r), column_stop(columns, r)):
        row = column_row(columns, r, p)
        code = code_of[row]
        if code == n_queries:
            continue
        score_of[row] += step * values[p]
        rho = score_of[row]
        if has_offset:
            rho += levels.offset[row]
        q = _query_of(levels, code, n_bottoms)
        mass = np.exp(min(rho - state.anchor[q], TOP_EXPONENT))
        change = mass - mass_of[row]
        mass_of[row] = mass
        state.moves[q] += 1.0
        if code < n_bottoms:
            state.bottom_mass[q] += change
        else:
            state.level_mass[levels.slot_level[code - n_bottoms]] += change
    for t in range(scratch.tally[1]):
        settle_query(state, scratch.touched[t])


@curvature_bounds.answer(Domination)
def _domination_bounds(loss: Any, columns: Any, r: Any, scratch: Any) -> Any:
    return _bounds(loss, columns, r, scratch)


@jit
def _bounds(state: Any, columns: Any, r: int, scratch: Any) -> Any:
    """R = largest range within a query; beta = sum_q V_q range_q^2 / 4; crude = sum_q V_q max x^2.

    V_q is the query's sum of v a. A variance is at most a quarter of the squared range
    (Popoviciu), and at most the largest square (the paper's bound, its eq. 1.3). Rows that are
    not stored are zeros of the query.
    """
    levels = state.levels
    n_queries = np.uint32(levels.query_term.shape[0])
    n_bottoms = np.uint32(n_queries + 1)
    span = scratch.span
    scratch.tally[0] += 1
    scratch.tally[1] = 0
    for p in range(column_start(columns, r), column_stop(columns, r)):
        code = levels.code[column_row(columns, r, p)]
        if code == n_queries:
            continue
        q = _query_of(levels, code, n_bottoms)
        x = np.float64(columns.values[p])
        if scratch.seen[q] != scratch.tally[0]:
            _open_query(state, q, scratch)
            span[q, 0] = x
            span[q, 1] = x
            span[q, 2] = 0.0
        span[q, 0] = min(span[q, 0], x)
        span[q, 1] = max(span[q, 1], x)
        span[q, 2] += 1.0
    widest = 0.0
    beta = 0.0
    crude = 0.0
    for t in range(scratch.tally[1]):
        q = scratch.touched[t]
        low, high = span[q, 0], span[q, 1]
        if span[q, 2] < levels.query_ptr[q + 1] - levels.query_ptr[q]:
            low, high = min(low, 0.0), max(high, 0.0)
        widest = max(widest, high - low)
        beta += levels.query_term[q] * (high - low) ** 2 / 4.0
        crude += levels.query_term[q] * max(low * low, high * high)
    return widest, beta, crude
