"""Sums kept up to date while weights move.

With an anchor c_q per query, E_i = a_i e^{rho_i - c_q}; A_l is the sum of E over level l, and a
term of level k sees Z_k = sum_{l<k} e^{M[k,l]} A_l (M = 0 without a table of gaps). For a term i
of level k, sigma_i = Z_k / (Z_k + e^{rho_i - c_q}); S_k and T_k are the sums of v a sigma and of
v a sigma (1 - sigma) over the level. See ALGORITHM in docs/rankers/domination.md.

Sums that are changed a million times drift. A query is computed afresh, around a new anchor, when
its drift could exceed 1e-10 of a sum in use, or when a sum leaves the safe range.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.columns import Columns, add_column_products
from rankine.kernels.compile import jit
from rankine.losses.domination.levels import Levels

__all__ = [
    "Domination",
    "Scratch",
    "dominated_mass",
    "move_to",
    "new_scratch",
    "new_state",
    "refresh_query",
    "settle_query",
    "weigh_query",
]

#: Largest relative error of a sum that drift may cause before it is computed afresh.
DRIFT = 1e-10
#: Above this a query's sums are re-anchored.
LARGE = 1e100
#: Exponents are cut here; the sums then exceed ``LARGE`` and the query is re-anchored at once.
TOP_EXPONENT = 600.0


class Domination(NamedTuple):
    """The domination loss of one task at the current weights."""

    levels: Levels
    score: NDArray[np.float64]
    """<w, x_i> of every row that takes part."""
    mass: NDArray[np.float64]
    """E_i."""
    bottom_mass: NDArray[np.float64]
    """A of each query's bottom."""
    level_mass: NDArray[np.float64]
    """A of each dominating level."""
    level_below: NDArray[np.float64]
    """Z_k of each dominating level."""
    level_slope: NDArray[np.float64]
    """S_k."""
    level_bend: NDArray[np.float64]
    """T_k."""
    slot_slope: NDArray[np.float64]
    """v a sigma of each slot."""
    slot_bend: NDArray[np.float64]
    """v a sigma (1 - sigma) of each slot."""
    anchor: NDArray[np.float64]
    """c_q."""
    peak: NDArray[np.float64]
    """Largest sum of each query since it was computed afresh."""
    moves: NDArray[np.float64]
    """Changes of each query's sums since then."""


class Scratch(NamedTuple):
    """Work space of one thread."""

    bottom: NDArray[np.float64]
    """[query, (sum E x, sum E x^2)] of the column at hand."""
    level: NDArray[np.float64]
    """[level, (sum E x, sum E x^2, sum v a sigma (1 - sigma) x)] of the column at hand."""
    seen: NDArray[np.int64]
    """Column visit that last touched each query."""
    touched: NDArray[np.uint32]
    """Queries touched by the column at hand."""
    tally: NDArray[np.int64]
    """[visits, queries touched]."""
    span: NDArray[np.float64]
    """[query, (min, max, rows)] of the column at hand."""


def new_state(levels: Levels) -> Domination:
    """Give the loss at w = 0."""
    n_queries, n_levels = len(levels.query_term), len(levels.level_query)
    n_slots = len(levels.slot_row)
    state = Domination(
        levels,
        np.zeros(len(levels.code)),
        np.zeros(len(levels.code)),
        np.zeros(n_queries + 1),
        np.zeros(n_levels),
        np.zeros(n_levels),
        np.zeros(n_levels),
        np.zeros(n_levels),
        np.zeros(n_slots),
        np.zeros(n_slots),
        np.zeros(n_queries + 1),
        np.zeros(n_queries),
        np.zeros(n_queries),
    )
    _refresh_all(state)
    return state


def new_scratch(levels: Levels) -> Scratch:
    """Work space for the loss of a task."""
    n_queries, n_levels = len(levels.query_term), len(levels.level_query)
    return Scratch(
        np.zeros((n_queries + 1, 2)),
        np.zeros((n_levels, 3)),
        np.zeros(n_queries, dtype=np.int64),
        np.zeros(n_queries, dtype=np.uint32),
        np.zeros(2, dtype=np.int64),
        np.zeros((n_queries, 3)),
    )


def move_to(state: Domination, columns: Columns, w: NDArray[np.float64]) -> None:
    """Bring the state to the weights w, computing everything afresh."""
    state.score[:] = 0.0
    add_column_products(columns, w, state.score)
    _refresh_all(state)


@jit
def dominated_mass(state: Domination, q: int, k: int) -> float:
    """Z_k by its definition: sum of e^{M[k, l]} A_l over the levels below k of query q."""
    levels = state.levels
    own = levels.level_label[k]
    total = levels.table[own, levels.bottom_label[q]] * state.bottom_mass[q]
    for l in range(np.uint64(levels.level_ptr[q]), np.uint64(k)):
        total += levels.table[own, levels.level_label[l]] * state.level_mass[l]
    return total


@jit
def weigh_query(state: Domination, q: int) -> None:
    """Z, sigma, S and T of a query from its sums."""
    levels = state.levels
    below = state.bottom_mass[q]
    for k in range(np.uint64(levels.level_ptr[q]), np.uint64(levels.level_ptr[q + 1])):
        if levels.table.shape[0] > 0:
            below = dominated_mass(state, q, k)
        slope = 0.0
        bend = 0.0
        for d in range(np.uint64(levels.slot_ptr[k]), np.uint64(levels.slot_ptr[k + 1])):
            own = state.mass[levels.slot_row[d]] / levels.slot_weight[d]
            total = below + own
            sigma = below / total if total > 0.0 else 0.0
            state.slot_slope[d] = levels.slot_term[d] * sigma
            state.slot_bend[d] = state.slot_slope[d] * (own / total) if total > 0.0 else 0.0
            slope += state.slot_slope[d]
            bend += state.slot_bend[d]
        state.level_below[k] = below
        state.level_slope[k] = slope
        state.level_bend[k] = bend
        below += state.level_mass[k]


@jit
def refresh_query(state: Domination, q: int) -> None:
    """Everything about a query from its scores, around the largest of them."""
    levels = state.levels
    first, last = np.uint64(levels.query_ptr[q]), np.uint64(levels.query_ptr[q + 1])
    has_offset = levels.offset.shape[0] > 0
    anchor = -np.inf
    for p in range(first, last):
        row = levels.order[p]
        rho = state.score[row]
        if has_offset:
            rho += levels.offset[row]
        anchor = max(anchor, rho)
    state.anchor[q] = anchor
    state.bottom_mass[q] = 0.0
    for k in range(levels.level_ptr[q], levels.level_ptr[q + 1]):
        state.level_mass[k] = 0.0
    n_bottoms = np.uint32(levels.query_term.shape[0] + 1)
    for p in range(first, last):
        row = levels.order[p]
        rho = state.score[row]
        if has_offset:
            rho += levels.offset[row]
        mass = np.exp(rho - anchor)
        state.mass[row] = mass
        code = levels.code[row]
        if code < n_bottoms:
            state.bottom_mass[q] += mass
        else:
            state.level_mass[levels.slot_level[code - n_bottoms]] += mass
    weigh_query(state, q)
    top = np.uint64(levels.level_ptr[q + 1] - 1)
    state.peak[q] = state.level_below[top]
    state.moves[q] = 0.0


@jit
def settle_query(state: Domination, q: int) -> None:
    """After sums of a query have moved: weigh it again, afresh when drift or range demand it."""
    levels = state.levels
    smallest = state.bottom_mass[q]
    total = smallest
    for k in range(levels.level_ptr[q], levels.level_ptr[q + 1] - 1):
        smallest = min(smallest, state.level_mass[k])
        total += state.level_mass[k]
    top = state.level_mass[levels.level_ptr[q + 1] - 1]
    state.peak[q] = max(state.peak[q], total)
    drift = 2.2e-16 * np.sqrt(state.moves[q] + 1.0) * state.peak[q]
    # Written so that NaN asks for a refresh too.
    safe = smallest > 0.0 and total < LARGE and top < LARGE and drift <= DRIFT * smallest
    if safe:
        weigh_query(state, q)
    else:
        refresh_query(state, q)


@jit
def _refresh_all(state: Domination) -> None:
    for q in range(state.levels.query_term.shape[0]):
        refresh_query(state, q)
