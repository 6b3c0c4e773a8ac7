"""Truncated Newton method for l2/2 |w|^2 + R(w) with a piecewise quadratic risk R.

Each step solves the Newton equations only as far as it pays, by conjugate gradients (Lee and Lin
2014, section 3), then backtracks. Scores are affine along a direction, so trials cost one count
pass and no product with X. The objective is l2-strongly convex, which certifies the result::

    J* >= J(w) + min_v [ <g, v - w> + l2/2 |v - w|^2 ] = J(w) - |g|^2 / (2 l2)

and, with the constraint v >= 0, the same minimum taken coordinate by coordinate. With w >= 0 asked
for, steps are projected and coordinates at 0 that want to leave downwards are held (two-metric
projection, Bertsekas 1982).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import dot, norm
from rankine.solvers.base import Callback, Solution, require_finite
from rankine.solvers.report import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.solvers.summed_oracle import Parts, SummedOracle

__all__ = ["solve_newton"]

MAX_INNER = 200
#: Armijo: accept a step that gains this fraction of what the slope promises.
SUFFICIENT = 1e-4
MIN_STEP = 1e-10
#: Below this fraction of the objective a gap is rounding.
PRECISION = 1e-14


@dataclass
class _Point:
    """Weights with everything the oracle said about them."""

    w: NDArray[np.float64]
    scores: Parts
    objective: float
    slopes: Parts
    curvatures: Parts


@dataclass
class _Direction:
    """A Newton direction with its scores and the products it took."""

    d: NDArray[np.float64]
    scores: Parts
    products: int


def solve_newton(
    oracle: SummedOracle,
    l2: float,
    *,
    start: NDArray[np.float64] | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    positive: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Minimise l2/2 |w|^2 + R(w), w >= 0 if ``positive``, to a certified gap of ``tol`` J(0)."""
    w = np.zeros(oracle.n_features) if start is None else np.array(start, dtype=np.float64)
    point = _look(oracle, l2, np.maximum(0.0, w) if positive else w)
    low, reason, iteration, products, first = 0.0, "max_iter", 0, 0, 0.0
    trace: list[dict[str, float]] = []
    for iteration in range(max_iter + 1):
        gradient = l2 * point.w + oracle.gradient(point.slopes)
        require_finite(gradient, iteration, "the Newton method")
        low = max(low, _lower_bound(point, gradient, l2, positive=positive))
        gap = point.objective - low
        free = (point.w > 0.0) | (gradient < 0.0) if positive else np.ones(len(w), dtype=np.bool_)
        size = norm(gradient * free)
        first = max(first, size)
        record = {"objective": point.objective, "lower_bound": low, "gap": gap}
        trace.append({"iteration": iteration, **record, "products": products})
        stop = report(callbacks, "newton", iteration, max_iter, record, point.w)
        if stop or gap <= tol * oracle.at_zero or gap <= PRECISION * point.objective or size == 0.0:
            reason = "callback" if stop else "converged"
            break
        if iteration == max_iter:
            break
        forcing = min(0.1, float(np.sqrt(size / first)))
        direction = _direction(oracle, l2, point, -gradient * free, free, forcing)
        products += direction.products
        moved = _step(oracle, l2, point, gradient, direction, positive=positive)
        if moved is None:
            reason = "precision"
            break
        point = moved
    certificate = {
        "objective": point.objective,
        "lower_bound": low,
        "gap": point.objective - low,
        "relative_gap": (point.objective - low) / oracle.at_zero,
        "products": float(products),
    }
    return Solution(point.w, point.objective, certificate, iteration, trace, reason)


def _look(
    oracle: SummedOracle, l2: float, w: NDArray[np.float64], scores: Parts | None = None
) -> _Point:
    scores = oracle.scores(w) if scores is None else scores
    risk, slopes, curvatures = oracle.evaluate_curved(scores)
    return _Point(w, scores, 0.5 * l2 * dot(w, w) + risk, slopes, curvatures)


def _lower_bound(point: _Point, g: NDArray[np.float64], l2: float, *, positive: bool) -> float:
    if not positive:
        return float(point.objective - dot(g, g) / (2.0 * l2))
    move = np.maximum(0.0, point.w - g / l2) - point.w
    return float(point.objective + dot(g, move) + 0.5 * l2 * dot(move, move))


def _direction(
    oracle: SummedOracle,
    l2: float,
    point: _Point,
    residual: NDArray[np.float64],
    free: NDArray[np.bool_],
    forcing: float,
) -> _Direction:
    """Preconditioned conjugate gradients on H d = -g within the free coordinates.

    Ends when the residual, measured by the diagonal preconditioner, has shrunk to ``forcing``.
    """
    scale = l2 + oracle.curvature_scale(point.curvatures)
    d = np.zeros_like(residual)
    scaled = residual / scale
    search, squared = scaled, dot(residual, scaled)
    enough = squared * forcing * forcing
    scores = oracle.blend(0.0, point.scores, 0.0, point.scores)
    products = 0
    while products < MAX_INNER and squared > enough:
        products += 1
        searched = oracle.scores(search)
        product = l2 * search + oracle.curvature_times(point.curvatures, searched)
        product *= free
        step = squared / dot(search, product)
        d += step * search
        scores = oracle.blend(1.0, scores, step, searched)
        residual = residual - step * product
        scaled = residual / scale
        before, squared = squared, dot(residual, scaled)
        search = scaled + (squared / before) * search
    return _Direction(d, scores, products)


def _step(
    oracle: SummedOracle,
    l2: float,
    point: _Point,
    gradient: NDArray[np.float64],
    direction: _Direction,
    *,
    positive: bool,
) -> _Point | None:
    """Backtrack to a sufficient decrease; None when rounding leaves none."""
    step = 1.0
    while step >= MIN_STEP:
        w = point.w + step * direction.d
        if positive:
            w = np.maximum(0.0, w)
            trial = _look(oracle, l2, w)
        else:
            scores = oracle.blend(1.0, point.scores, step, direction.scores)
            trial = _look(oracle, l2, w, scores)
        promised = dot(gradient, w - point.w)
        if trial.objective <= point.objective + SUFFICIENT * promised:
            return trial if trial.objective < point.objective else None
        step *= 0.5
    return None
