"""Value of the domination loss, and of its dual.

For any w and any 0 <= kappa <= 1 the numbers sigma' = kappa sigma_i are a point of the dual; with
fbar_k the mean of the raw scores <w, x_j> of the rows below level k under their softmax,

    Dual = sum_i v a_i [-xl(sigma') - xl(1 - sigma') - sigma' (fbar_k - log Z_k - s_i)]
           - (l2 > 0) sum_r max(kappa |g_r| - l1, 0)^2 / (2 l2),      xl(v) = v log v

is a lower bound of the regularised optimum provided that kappa |g_r| <= l1 wherever l2 = 0. (The
entropy of the softmax has been eliminated by log pi_j = rho_j + log a_j + M - log Z; margins, row
weights and a table of gaps therefore enter only through Z.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.kernels.compile import jit
from rankine.losses.domination.levels import LEVEL, LEVELS, MARGIN, QUERY, ROW, ROWS, SLOTS, TERM
from rankine.losses.domination.state import ANCHOR, BELOW, Domination

__all__ = ["dual_value", "loss_value"]


@jit
def loss_value(state: Domination) -> float:
    """L = sum_i v a_i log(1 + e^{log Z_k - rho_i})."""
    levels = state.levels
    total = 0.0
    for k in range(levels.level.shape[0] - 1):
        if state.level[k, BELOW] <= 0.0:
            continue
        log_below = np.log(state.level[k, BELOW]) + state.query[levels.level[k, QUERY], ANCHOR]
        for d in range(levels.level[k, SLOTS], levels.level[k + 1, SLOTS]):
            z = log_below - (state.score[levels.place[d, ROW]] - levels.slot[d, MARGIN])
            total += levels.slot[d, TERM] * (max(z, 0.0) + np.log1p(np.exp(-abs(z))))
    return total


@jit
def _entropy(v: float) -> float:
    return v * np.log(v) if v > 0.0 else 0.0


@jit
def _score_sums(state: Any, q: int, level: Any) -> float:
    """Sum of E f over the bottom of a query; over its dominating levels into ``level``."""
    levels = state.levels
    n_bottoms = np.uint32(levels.term.shape[0] + 1)
    bottom = 0.0
    for p in range(levels.query[q, ROWS], levels.query[q + 1, ROWS]):
        row = levels.order[p]
        code = levels.code[row]
        part = state.mass[row] * state.score[row]
        if code < n_bottoms:
            bottom += part
        else:
            level[levels.place[code - n_bottoms, LEVEL]] += part
    return bottom


@jit
def dual_value(state: Domination, kappa: float) -> float:
    """The dual without the term of l2."""
    levels = state.levels
    n_queries = levels.term.shape[0]
    sums = np.zeros(levels.level.shape[0] - 1)
    total = 0.0
    for q in range(n_queries):
        bottom = _score_sums(state, q, sums)
        scores = bottom
        for k in range(levels.query[q, LEVELS], levels.query[q + 1, LEVELS]):
            if levels.table.shape[0] > 0:
                gaps = levels.table[levels.label[n_queries + k]]
                scores = gaps[levels.label[q]] * bottom
                for l in range(levels.query[q, LEVELS], k):
                    scores += gaps[levels.label[n_queries + l]] * sums[l]
            below = state.level[k, BELOW]
            if below > 0.0:
                pull = scores / below - np.log(below) - state.query[q, ANCHOR]
                for d in range(levels.level[k, SLOTS], levels.level[k + 1, SLOTS]):
                    sigma = kappa * state.slot[d, 0] / levels.slot[d, TERM]
                    part = -_entropy(sigma) - _entropy(1.0 - sigma)
                    part -= sigma * (pull - levels.slot[d, MARGIN])
                    total += levels.slot[d, TERM] * part
            scores += sums[k]
    return total
