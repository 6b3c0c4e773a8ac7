"""The small dual problems of the bundle method, over the weights alpha of t cuts.

Cuts a_k, b_k bound the risk from below: R(w) >= <a_k, w> + b_k. The model's minimum
min_w l2/2 |w|^2 + max_k (<a_k, w> + b_k) has the dual, over alpha in the simplex::

    D(alpha) = <b, alpha> - |A^T alpha|^2 / (2 l2),            w = -A^T alpha / l2
    D(alpha) = <b, alpha> - |max(0, -A^T alpha)|^2 / (2 l2),   w = max(0, -A^T alpha) / l2

the second with the constraint w >= 0. Every feasible alpha, optimal or not, gives a true lower
bound of the objective, so an inaccurate inner solution can never cause a false stop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.shards import add_rows, dot, rows_dot

__all__ = ["interior_dual", "maximise_dual", "maximise_dual_positive", "solve_dual"]

#: Exchanges of weight between two cuts. Nearly parallel cuts need thousands times more: the
#: interior-point method, whose cost does not depend on that, takes over after these.
MAX_STEPS = 20_000
#: Newton steps of the interior-point method; it gains about a digit a step.
INTERIOR_STEPS = 60
#: Every step aims at this part of the mean of alpha z, and goes this part of the way to a wall.
CENTRING = 0.2
INSIDE = 0.95
#: Weights below this are put to zero afterwards.
DUST = 1e-12


@jit
def maximise_dual(
    gram: NDArray[np.float64],
    b: NDArray[np.float64],
    l2: float,
    alpha: NDArray[np.float64],
    tol: float,
) -> float:
    """Improve a feasible ``alpha`` in place until its optimality gap is at most ``tol``.

    Moves weight from one cut to another (sequential minimal optimisation): the receiver has the
    largest gradient, the giver promises the largest gain. Returns the gap
    max_i g_i - min over the support of g_j.
    """
    n = b.shape[0]
    gradient = b - rows_dot(gram, alpha) / l2
    gap = np.inf
    for _ in range(MAX_STEPS):
        i = np.argmax(gradient)
        giver, best, lowest = -1, 0.0, np.inf
        for k in range(n):
            if alpha[k] > 0.0:
                lowest = min(lowest, gradient[k])
                rise = gradient[i] - gradient[k]
                if rise > 0.0:
                    bend = max(1e-300, (gram[i, i] + gram[k, k] - 2.0 * gram[i, k]) / l2)
                    step = min(alpha[k], rise / bend)
                    gain = step * rise - 0.5 * step * step * bend
                    if gain > best:
                        best, giver = gain, k
        gap = gradient[i] - lowest
        if gap <= tol or giver < 0:
            break
        bend = max(1e-300, (gram[i, i] + gram[giver, giver] - 2.0 * gram[i, giver]) / l2)
        step = min(alpha[giver], (gradient[i] - gradient[giver]) / bend)
        alpha[i] += step
        alpha[giver] -= step
        if alpha[giver] < 1e-16:
            alpha[i] += alpha[giver]
            alpha[giver] = 0.0
        for k in range(n):
            gradient[k] -= step * (gram[k, i] - gram[k, giver]) / l2
    return gap


@jit
def _solve_two(matrix: Any, first: Any, second: Any) -> bool:
    """Solve M u = first and M v = second in place by Cholesky's factors; False if M has none.

    ``matrix`` is overwritten. Not LAPACK, whose bits depend on the number of threads.
    """
    n = matrix.shape[0]
    for j in range(n):
        total = matrix[j, j]
        for k in range(j):
            total -= matrix[j, k] * matrix[j, k]
        if not total > 0.0:
            return False
        pivot = np.sqrt(total)
        matrix[j, j] = pivot
        for i in range(j + 1, n):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = total / pivot
    for vector in (first, second):
        for i in range(n):
            for k in range(i):
                vector[i] -= matrix[i, k] * vector[k]
            vector[i] /= matrix[i, i]
        for i in range(n - 1, -1, -1):
            for k in range(i + 1, n):
                vector[i] -= matrix[k, i] * vector[k]
            vector[i] /= matrix[i, i]
    return True


@jit
def interior_dual(
    gram: NDArray[np.float64],
    b: NDArray[np.float64],
    l2: float,
    alpha: NDArray[np.float64],
    tol: float,
) -> None:
    """Improve a feasible ``alpha`` in place by a primal-dual interior-point method.

    With H = A A^T / l2 the optimum has H alpha - b = lambda 1 + z, alpha z = 0, z >= 0. Every step
    solves these equations, linearised, for alpha z = a fifth of its mean (Wright 1997, chapter 5).
    """
    n = b.shape[0]
    x, z = np.empty(n), np.empty(n)
    move, ones, matrix = np.empty(n), np.empty(n), np.empty((n, n))
    for k in range(n):
        x[k] = 1.0 / n
    slope = rows_dot(gram, x)
    least, most = np.inf, -np.inf
    for k in range(n):
        least, most = min(least, slope[k] / l2 - b[k]), max(most, slope[k] / l2 - b[k])
    shift = least - (most - least) - tol
    for k in range(n):
        z[k] = slope[k] / l2 - b[k] - shift
    for _ in range(INTERIOR_STEPS):
        slope = rows_dot(gram, x)
        aim = CENTRING * dot(x, z) / n
        worst, excess = 0.0, 1.0
        for k in range(n):
            residual = slope[k] / l2 - b[k] - shift - z[k]
            worst = max(worst, abs(residual))
            excess -= x[k]
            move[k] = aim / x[k] - z[k] - residual
            ones[k] = 1.0
            for j in range(n):
                matrix[k, j] = gram[k, j] / l2
            matrix[k, k] += z[k] / x[k]
        if n * aim <= CENTRING * 0.1 * tol and worst <= 0.1 * tol:
            break
        if not _solve_two(matrix, move, ones):
            break
        turn, spread, step = excess, 0.0, 1.0
        for k in range(n):
            turn -= move[k]
            spread += ones[k]
        turn /= spread
        for k in range(n):
            move[k] += turn * ones[k]
            ones[k] = aim / x[k] - z[k] - z[k] / x[k] * move[k]  # the change of z
            if move[k] < 0.0:
                step = min(step, -INSIDE * x[k] / move[k])
            if ones[k] < 0.0:
                step = min(step, -INSIDE * z[k] / ones[k])
        for k in range(n):
            x[k] += step * move[k]
            z[k] += step * ones[k]
        shift += step * turn
    total = 0.0
    for k in range(n):
        x[k] = x[k] if x[k] > DUST else 0.0
        total += x[k]
    for k in range(n):
        x[k] /= total
    # Keep what is better: far from the optimum rounding may have spoilt the equations.
    before = dot(b, alpha) - dot(alpha, rows_dot(gram, alpha)) / (2.0 * l2)
    if dot(b, x) - dot(x, rows_dot(gram, x)) / (2.0 * l2) > before:
        for k in range(n):
            alpha[k] = x[k]


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


def solve_dual(
    gram: NDArray[np.float64],
    b: NDArray[np.float64],
    l2: float,
    alpha: NDArray[np.float64],
    tol: float,
) -> float:
    """Improve ``alpha`` by exchanges, and where these creep by the interior-point method.

    Returns the gap that is left; one above ``tol`` means that numbers are too coarse for the cuts.
    """
    gap = float(maximise_dual(gram, b, l2, alpha, tol))
    if gap > tol:
        interior_dual(gram, b, l2, alpha, tol)
        gap = float(maximise_dual(gram, b, l2, alpha, tol))
    return gap


def maximise_dual_positive(
    cuts: NDArray[np.float64],
    b: NDArray[np.float64],
    l2: float,
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
        w = np.maximum(0.0, -pull) / l2
        gradient = b + rows_dot(cuts, w)
        if gradient.max() - gradient[alpha > 0].min() <= tol:
            break
        target = alpha.copy()
        solve_dual(_masked_gram(cuts, (pull < 0).astype(np.float64)), b, l2, target, 0.1 * tol)
        move, shift = target - alpha, add_rows(cuts, target) - pull
        step = _dual_step(b, l2, pull, move, shift)
        if step == 0.0:
            break
        alpha = np.maximum(0.0, alpha + step * move)
        alpha /= alpha.sum()
        pull = add_rows(cuts, alpha)
    return alpha


def _dual_step(
    b: NDArray[np.float64],
    l2: float,
    pull: NDArray[np.float64],
    move: NDArray[np.float64],
    shift: NDArray[np.float64],
) -> float:
    """Largest step in [0, 1] at which the concave dual still rises along ``move``."""
    linear = dot(b, move)

    def slope(step: float) -> float:
        return float(linear + dot(np.maximum(0.0, -(pull + step * shift)), shift) / l2)

    if slope(1.0) >= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) >= 0.0 else (low, middle)
    return low
