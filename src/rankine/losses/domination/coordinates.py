"""The domination loss along one weight: derivatives, curvature bounds, and updates.

Implements the generic functions of ``kernels.columns``, through which coordinate descent works.

For a column with values x_i, over the levels k of the queries it touches, with pi the softmax of
the rows below k, xbar_k = sum pi_j x_j and var_k = sum pi_j x_j^2 - xbar_k^2,

    g = sum_k S_k xbar_k - sum_i v a sigma_i x_i
    h = sum_k [S_k var_k + T_k xbar_k^2 - 2 xbar_k N_k] + sum_i v a sigma_i (1 - sigma_i) x_i^2

where N_k = sum_{i in k} v a sigma_i (1 - sigma_i) x_i. One pass over the stored values of the
column gives all sums, so the cost is O(non-zeros of the column + levels of the queries it touches).
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
    BOTTOM,
    CURVATURE,
    MASS,
    MOVES,
    SLOPE,
    TOP_EXPONENT,
    Domination,
    settle_query,
)
from rankine.losses.domination.task import LEVEL, LEVELS, QUERY, ROWS


@jit
def _open_query(task: Any, q: Any, scratch: Any) -> None:
    """Record that the current column has a value in a query, and clear the query's sums."""
    scratch.seen[q] = scratch.tally[0]
    scratch.touched[scratch.tally[1]] = q
    scratch.tally[1] += 1
    scratch.query[q, 0] = 0.0
    scratch.query[q, 1] = 0.0
    for k in range(task.query[q, LEVELS], task.query[q + 1, LEVELS]):
        scratch.level[k, 0] = 0.0
        scratch.level[k, 1] = 0.0
        scratch.level[k, 2] = 0.0


# The code of a row (see ``losses.domination.task``) is the number of its query for a bottom row,
# ``excluded`` = n_queries for a row that takes no part, and ``first_term`` + slot for a term.
@jit
def _query_of(task: Any, code: Any, first_term: Any) -> Any:
    if code < first_term:
        return np.int64(code)
    return np.int64(task.level[task.slot_index[code - first_term, LEVEL], QUERY])


@jit
def _gather(state: Any, columns: Any, r: Any, scratch: Any) -> Any:
    """Return the sums of v a sigma x and of v a sigma (1 - sigma) x^2 over a column's values.

    A column with more values than there are levels clears the sums of all queries beforehand; a
    shorter one clears the sums of a query at its first value.
    """
    task = state.task
    code_of, mass_of, values = task.code, state.mass, columns.values
    in_query, in_level = scratch.query, scratch.level
    n_queries = np.int64(task.term.shape[0])
    excluded, first_term = np.uint32(n_queries), np.uint32(n_queries + 1)
    start, stop = column_start(columns, r), column_stop(columns, r)
    scratch.tally[0] += 1
    scratch.tally[1] = 0
    # Clearing all sums at once is cheaper than a test per value if the column is long enough.
    n_sums = np.int64(task.level.shape[0]) + n_queries
    visit_all_queries = n_queries == 1 or n_sums <= np.int64(stop - start)
    if visit_all_queries:
        for q in range(n_queries):
            _open_query(task, q, scratch)
    slope = 0.0
    curvature = 0.0
    for p in range(start, stop):
        row = column_row(columns, r, p)
        code = code_of[row]
        if code == excluded:
            continue
        if not visit_all_queries:
            q = _query_of(task, code, first_term)
            if scratch.seen[q] != scratch.tally[0]:
                _open_query(task, q, scratch)
        x = np.float64(values[p])
        mass_times_x = mass_of[row] * x
        if code < first_term:
            in_query[code, 0] += mass_times_x
            in_query[code, 1] += mass_times_x * x
        else:
            d = np.uint64(code - first_term)
            k = task.slot_index[d, LEVEL]
            curvature_times_x = state.slot[d, 1] * x
            in_level[k, 0] += mass_times_x
            in_level[k, 1] += mass_times_x * x
            in_level[k, 2] += curvature_times_x
            slope += state.slot[d, 0] * x
            curvature += curvature_times_x * x
    return slope, curvature


@slope_and_curvature.implementation(Domination)
def _derivatives(loss: Any, columns: Any, r: Any, scratch: Any) -> Any:
    # g and h are the first and second derivative along the column.
    slope, h = _gather(loss, columns, r, scratch)
    task = loss.task
    n_queries = task.term.shape[0]
    g = -slope
    for t in range(scratch.tally[1]):
        q = np.int64(scratch.touched[t])
        start = task.query[q, LEVELS]
        first, second = scratch.query[q, 0], scratch.query[q, 1]
        for k in range(np.uint64(start), np.uint64(task.query[q + 1, LEVELS])):
            if task.has_table:
                # The factor of a margin depends on both labels, so the sums over the lower levels
                # cannot be carried on from level to level.
                gaps = task.table[task.label[n_queries + k]]
                factor = gaps[task.label[q]]
                first = factor * scratch.query[q, 0]
                second = factor * scratch.query[q, 1]
                for l in range(np.uint64(start), k):
                    factor = gaps[task.label[n_queries + l]]
                    first += factor * scratch.level[l, 0]
                    second += factor * scratch.level[l, 1]
            below = loss.level[k, BELOW]
            if below > 0.0:
                mean = first / below
                # Rounding can make the difference of two squares negative.
                variance = max(0.0, second / below - mean * mean)
                g += loss.level[k, SLOPE] * mean
                h += loss.level[k, SLOPE] * variance
                h += mean * (loss.level[k, CURVATURE] * mean - 2.0 * scratch.level[k, 2])
            first += scratch.level[k, 0]
            second += scratch.level[k, 1]
    return g, max(h, 0.0)


@shift.implementation(Domination)
def _move(loss: Any, columns: Any, r: Any, step: Any, scratch: Any) -> Any:
    task = loss.task
    code_of, mass_of, score_of, values = task.code, loss.mass, loss.score, columns.values
    excluded = np.uint32(task.term.shape[0])
    first_term = np.uint32(excluded + 1)
    for p in range(column_start(columns, r), column_stop(columns, r)):
        row = column_row(columns, r, p)
        code = code_of[row]
        if code == excluded:
            continue
        rho = score_of[row] + step * values[p]
        score_of[row] = rho
        if task.has_offset:
            rho += task.offset[row]
        q = _query_of(task, code, first_term)
        # Clipped, so that a long step does not overflow; ``settle_query`` then moves the anchor.
        mass = np.exp(min(rho - loss.query[q, ANCHOR], TOP_EXPONENT))
        change = mass - mass_of[row]
        mass_of[row] = mass
        loss.query[q, MOVES] += 1.0
        if code < first_term:
            loss.query[q, BOTTOM] += change
        else:
            loss.level[task.slot_index[code - first_term, LEVEL], MASS] += change
    for t in range(scratch.tally[1]):
        settle_query(loss, np.int64(scratch.touched[t]))


@curvature_bounds.implementation(Domination)
def _bounds(loss: Any, columns: Any, r: Any, scratch: Any) -> Any:
    """Return R, beta and the paper's bound of the curvature along a column.

    R is the largest range within a query, beta = sum_q V_q range_q^2 / 4, and the paper's bound
    (its eq. 1.3) is sum_q V_q max x^2, where V_q is the query's sum of v a. A variance is at most a
    quarter of the squared range (Popoviciu), and at most the largest square. Values that are not
    stored are zeros of the query.
    """
    task = loss.task
    excluded = np.uint32(task.term.shape[0])
    first_term = np.uint32(excluded + 1)
    query_range = scratch.query
    scratch.tally[0] += 1
    scratch.tally[1] = 0
    for p in range(column_start(columns, r), column_stop(columns, r)):
        code = task.code[column_row(columns, r, p)]
        if code == excluded:
            continue
        q = _query_of(task, code, first_term)
        x = np.float64(columns.values[p])
        if scratch.seen[q] != scratch.tally[0]:
            _open_query(task, q, scratch)
            query_range[q, 2] = x
            query_range[q, 3] = x
            query_range[q, 4] = 0.0
        query_range[q, 2] = min(query_range[q, 2], x)
        query_range[q, 3] = max(query_range[q, 3], x)
        query_range[q, 4] += 1.0
    widest_range = 0.0
    beta = 0.0
    crude = 0.0
    for t in range(scratch.tally[1]):
        q = np.int64(scratch.touched[t])
        low, high = query_range[q, 2], query_range[q, 3]
        # Fewer values than rows: the others are zeros, which belong to the range.
        if query_range[q, 4] < task.query[q + 1, ROWS] - task.query[q, ROWS]:
            low, high = min(low, 0.0), max(high, 0.0)
        widest_range = max(widest_range, high - low)
        beta += task.term[q] * (high - low) ** 2 / 4.0
        crude += task.term[q] * max(low * low, high * high)
    return widest_range, beta, crude
