"""The domination loss as a function of the scores: value's slope by rows.

With Z_k, S_k and the factors e^M[k, l] of ``state``, a row j of level l and mass E_j has

    dL/dp_j = E_j sum_{k > l} e^M[k, l] S_k / Z_k  -  v a sigma_j (if j is a term)

so that X^T dL/dp is the gradient. One pass over rows and levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.losses.domination.levels import LEVEL, LEVELS, ROWS
from rankine.losses.domination.state import BELOW, SLOPE, Domination, refresh_all

__all__ = ["row_slopes", "set_scores"]


def set_scores(state: Domination, scores: NDArray[np.float64]) -> None:
    """Bring the state to given scores, computing everything afresh."""
    state.score[:] = scores
    refresh_all(state)


@jit
def _pull(state: Any, q: int, label: Any, first: Any) -> float:
    """Sum over the levels from ``first`` of e^M[k, label] S_k / Z_k."""
    levels = state.levels
    n_queries = levels.term.shape[0]
    total = 0.0
    for k in range(first, levels.query[q + 1, LEVELS]):
        if state.level[k, BELOW] > 0.0:
            part = state.level[k, SLOPE] / state.level[k, BELOW]
            if levels.table.shape[0] > 0:
                part *= levels.table[levels.label[n_queries + k], label]
            total += part
    return total


@jit
def row_slopes(state: Domination, out: Any) -> None:
    """dL/dp of every row; 0 for rows that take no part."""
    levels = state.levels
    n_queries = levels.term.shape[0]
    n_bottoms = np.uint32(n_queries + 1)
    tabled = levels.table.shape[0] > 0
    pulls = np.zeros(levels.level.shape[0])
    out[:] = 0.0
    for q in range(n_queries):
        first, last = levels.query[q, LEVELS], levels.query[q + 1, LEVELS]
        bottom = _pull(state, q, levels.label[q] if tabled else 0, first)
        for l in range(first, last):
            label = levels.label[n_queries + l] if tabled else 0
            pulls[l] = _pull(state, q, label, l + 1)
        for p in range(levels.query[q, ROWS], levels.query[q + 1, ROWS]):
            row = levels.order[p]
            code = levels.code[row]
            if code < n_bottoms:
                out[row] = state.mass[row] * bottom
            else:
                d = code - n_bottoms
                pull = pulls[levels.place[d, LEVEL]]
                out[row] = state.mass[row] * pull - state.slot[d, 0]
