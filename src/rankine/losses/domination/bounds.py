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
from rankine.losses.domination.state import Domination

__all__ = ["dual_value", "loss_value"]


@jit
def loss_value(state: Domination) -> float:
    """L = sum_i v a_i log(1 + e^{log Z_k - rho_i})."""
    levels = state.levels
    total = 0.0
    for k in range(levels.level_query.shape[0]):
        if state.level_below[k] <= 0.0:
            continue
        log_below = np.log(state.level_below[k]) + state.anchor[levels.level_query[k]]
        for d in range(levels.slot_ptr[k], levels.slot_ptr[k + 1]):
            z = log_below - (state.score[levels.slot_row[d]] - levels.slot_margin[d])
            total += levels.slot_term[d] * (max(z, 0.0) + np.log1p(np.exp(-abs(z))))
    return total


@jit
def _entropy(v: float) -> float:
    return v * np.log(v) if v > 0.0 else 0.0


@jit
def _score_sums(state: Any) -> Any:
    """Sum of E f over every bottom and every dominating level."""
    levels = state.levels
    n_queries = levels.query_term.shape[0]
    n_bottoms = np.uint32(n_queries + 1)
    bottom = np.zeros(n_queries)
    level = np.zeros(levels.level_query.shape[0])
    for q in range(n_queries):
        for p in range(levels.query_ptr[q], levels.query_ptr[q + 1]):
            row = levels.order[p]
            code = levels.code[row]
            part = state.mass[row] * state.score[row]
            if code < n_bottoms:
                bottom[q] += part
            else:
                level[levels.slot_level[code - n_bottoms]] += part
    return bottom, level


@jit
def dual_value(state: Domination, kappa: float) -> float:
    """The dual without the term of l2."""
    levels = state.levels
    bottom, level = _score_sums(state)
    tabled = levels.table.shape[0] > 0
    total = 0.0
    for q in range(levels.query_term.shape[0]):
        scores = bottom[q]
        for k in range(levels.level_ptr[q], levels.level_ptr[q + 1]):
            if tabled:
                scores = levels.table[levels.level_label[k], levels.bottom_label[q]] * bottom[q]
                for l in range(levels.level_ptr[q], k):
                    scores += levels.table[levels.level_label[k], levels.level_label[l]] * level[l]
            if state.level_below[k] > 0.0:
                log_below = np.log(state.level_below[k]) + state.anchor[q]
                pull = scores / state.level_below[k] - log_below
                for d in range(levels.slot_ptr[k], levels.slot_ptr[k + 1]):
                    sigma = kappa * state.slot_slope[d] / levels.slot_term[d]
                    part = -_entropy(sigma) - _entropy(1.0 - sigma)
                    part -= sigma * (pull - levels.slot_margin[d])
                    total += levels.slot_term[d] * part
            scores += level[k]
    return total
