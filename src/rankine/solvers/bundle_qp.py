"""The small dual problems of the bundle method, over the weights alpha of t cuts.

Cuts a_k, b_k bound the risk from below: R(w) >= <a_k, w> + b_k. The model's minimum
min_w Lam/2 |w|^2 + max_k (<a_k, w> + b_k) has the dual, over alpha in the simplex::

    D(alpha) = <b, alpha> - |A^T alpha|^2 / (2 Lam),            w = -A^T alpha / Lam
    D(alpha) = <b, alpha> - |max(0, -A^T alpha)|^2 / (2 Lam),   w = max(0, -A^T alpha) / Lam

the second with the constraint w >= 0. Every feasible alpha, optimal or not, gives a true lower
bound of the objective, so an inaccurate inner solution can never cause a false stop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.shards import add_rows, dot, rows_dot

__all__ = ["maximise_dual", "maximise_dual_positive"]

MAX_STEPS = 200_000


@jit
def maximise_dual(
    gram: NDArray[np.float64],
    b: NDArray[np.float64],
    Lam: float,
    alpha: NDArray[np.float64],
    tol: float,
) -> float:
    """Improve a feasible ``alpha`` in place until its optimality gap is at most ``tol``.

    Moves weight from one cut to another (sequential minimal optimisation): the receiver has the
    largest gradient, the giver promises the largest gain. Returns the gap
    max_i g_i - min over the support of g_j.
    """
    n = b.shape[0]
    gradient = b - rows_dot(gram, alpha) / Lam
    gap = np.inf
    for _ in range(MAX_STEPS):
        i = np.argmax(gradient)
        giver, best, lowest = -1, 0.0, np.inf
        for k in range(n):
            if alpha[k] > 0.0:
                lowest = min(lowest, gradient[k])
                rise = gradient[i] - gradient[k]
                if rise > 0.0:
                    bend = max(1e-300, (gram[i, i] + gram[k, k] - 2.0 * gram[i, k]) / Lam)
                    step = min(alpha[k], rise / bend)
                    gain = step * rise - 0.5 * step * step * bend
                    if gain > best:
                        best, giver = gain, k
        gap = gradient[i] - lowest
        if gap <= tol or giver < 0:
            break
        bend = max(1e-300, (gram[i, i] + gram[giver, giver] - 2.0 * gram[i, giver]) / Lam)
        step = min(alpha[giver], (gradient[i] - gradient[giver]) / bend)
        alpha[i] += step
        alpha[giver] -= step
        if alpha[giver] < 1e-16:
            alpha[i] += alpha[giver]
            alpha[giver] = 0.0
        for k in range(n):
            gradient[k] -= step * (gram[k, i] - gram[k, giver]) / Lam
    return gap


@jit(fastmath=REDUCE)
def _masked_dot(a: Any, b: Any, mask: Any) -> float:
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k] * mask[k]
    return total


@jit
def _masked_gram(cuts: Any, mask: Any) -> Any:
    """A diag(mask) A^T."""
    t = cuts.shape[0]
    out = np.empty((t, t))
    for i in range(t):
        for j in range(i + 1):
            out[i, j] = out[j, i] = _masked_dot(cuts[i], cuts[j], mask)
    return out


def maximise_dual_positive(
    cuts: NDArray[np.float64],
    b: NDArray[np.float64],
    Lam: float,
    alpha: NDArray[np.float64],
    tol: float,
    max_rounds: int = 50,
) -> NDArray[np.float64]:
    """Maximise the dual with w >= 0; returns the improved ``alpha``.

    Semismooth Newton: with the set of positive weights held, the dual is the quadratic one above;
    its maximiser gives a direction, a line search on the true (concave) dual the step.
    """
    pull = add_rows(cuts, alpha)
    for _ in range(max_rounds):
        w = np.maximum(0.0, -pull) / Lam
        gradient = b + rows_dot(cuts, w)
        if gradient.max() - gradient[alpha > 0].min() <= tol:
            break
        target = alpha.copy()
        maximise_dual(_masked_gram(cuts, (pull < 0).astype(np.float64)), b, Lam, target, 0.1 * tol)
        move, shift = target - alpha, add_rows(cuts, target) - pull
        step = _dual_step(b, Lam, pull, move, shift)
        if step == 0.0:
            break
        alpha = np.maximum(0.0, alpha + step * move)
        alpha /= alpha.sum()
        pull = add_rows(cuts, alpha)
    return alpha


def _dual_step(
    b: NDArray[np.float64],
    Lam: float,
    pull: NDArray[np.float64],
    move: NDArray[np.float64],
    shift: NDArray[np.float64],
) -> float:
    """Largest step in [0, 1] at which the concave dual still rises along ``move``."""
    linear = dot(b, move)

    def slope(step: float) -> float:
        return float(linear + dot(np.maximum(0.0, -(pull + step * shift)), shift) / Lam)

    if slope(1.0) >= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) >= 0.0 else (low, middle)
    return low
