"""Truncated Newton method for R(scores(theta)) + theta' K theta / 2, theta >= 0 where bounded.

Directions come from conjugate gradients, preconditioned by K plus the diagonal of the risk's
curvature, whose factors cost no more than a product with K; then the step is halved until the
objective falls enough. Scores are affine along a direction, so that trials cost no look-ups. Bounds
are kept by projection, and parameters that press against theirs are held (Bertsekas 1982).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.linalg import dot, norm
from rankine.solvers.base import Callback, Solution, require_finite
from rankine.solvers.report import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.solvers.tables import TablePenalty, TableProblem

__all__ = ["solve_tables"]

MAX_INNER = 200
#: Accept a step that gains this fraction of what the slope promises.
SUFFICIENT = 1e-4
MIN_STEP = 1e-10
#: Below this fraction of the objective a gap is rounding.
PRECISION = 1e-14


@dataclass
class _Point:
    theta: NDArray[np.float64]
    scores: NDArray[np.float64]
    objective: float
    slope: NDArray[np.float64]
    curvature: Any


def solve_tables(
    problem: TableProblem,
    penalty: TablePenalty,
    *,
    start: NDArray[np.float64] | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Minimise to a certified gap of ``tol`` times the objective at theta = 0."""
    size, bounded = problem.space.size, penalty.bounded
    theta = np.zeros(size) if start is None else np.where(bounded, np.maximum(start, 0.0), start)
    point = _look(problem, penalty, theta)
    at_zero = point.objective if start is None else _at_zero(problem)
    enough = tol * at_zero
    low, reason, iteration, products, first = 0.0, "max_iter", 0, 0, 0.0
    trace: list[dict[str, float]] = []
    for iteration in range(max_iter + 1):
        gradient = penalty.times(point.theta) + problem.gradient(point.slope)
        require_finite(gradient, iteration, "the Newton method")
        low = max(low, point.objective - penalty.gap(point.theta, gradient))
        gap = point.objective - low
        free = (~bounded | (point.theta > 0.0) | (gradient < 0.0)).astype(np.float64)
        size_now = norm(gradient * free)
        first = max(first, size_now)
        record = {"objective": point.objective, "lower_bound": low, "gap": gap}
        trace.append({"iteration": iteration, **record, "products": products})
        stop = report(callbacks, "newton", iteration, max_iter, record, point.theta)
        if stop or gap <= enough or gap <= PRECISION * point.objective or size_now == 0.0:
            reason = "callback" if stop else "converged"
            break
        if iteration == max_iter:
            break
        forcing = min(0.25, float(np.sqrt(size_now / first)))
        direction, scores, used = _direction(
            problem, penalty, point, -gradient * free, free, forcing
        )
        products += used
        moved = _step(problem, penalty, point, gradient, direction, scores)
        if moved is None:
            reason = "precision"
            break
        point = moved
    certificate = {
        "objective": point.objective,
        "lower_bound": low,
        "gap": point.objective - low,
        "relative_gap": (point.objective - low) / at_zero if at_zero > 0.0 else 0.0,
        "products": float(products),
    }
    return Solution(point.theta, point.objective, certificate, iteration, trace, reason)


def _at_zero(problem: TableProblem) -> float:
    value: float = problem.risk.evaluate(np.zeros(problem.products.rows.n_rows))[0]
    return value


def _look(
    problem: TableProblem,
    penalty: TablePenalty,
    theta: NDArray[np.float64],
    scores: NDArray[np.float64] | None = None,
) -> _Point:
    scores = problem.scores(theta) if scores is None else scores
    risk, slope, curvature = problem.risk.evaluate_curved(scores)
    return _Point(theta, scores, risk + 0.5 * dot(theta, penalty.times(theta)), slope, curvature)


def _direction(
    problem: TableProblem,
    penalty: TablePenalty,
    point: _Point,
    residual: NDArray[np.float64],
    free: NDArray[np.float64],
    forcing: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Conjugate gradients on H d = -g within the free parameters; d, its scores, products used."""
    factor = penalty.factor(problem.diagonal(point.curvature))
    d, scores = np.zeros_like(residual), np.zeros_like(point.scores)
    scaled = factor.solve(residual) * free
    search, squared = scaled, dot(residual, scaled)
    enough = squared * forcing * forcing
    products = 0
    while products < MAX_INNER and squared > enough:
        products += 1
        searched = problem.scores(search)
        product = penalty.times(search) + problem.gradient(point.curvature.times(searched))
        product *= free
        step = squared / dot(search, product)
        d += step * search
        scores += step * searched
        residual = residual - step * product
        scaled = factor.solve(residual) * free
        before, squared = squared, dot(residual, scaled)
        search = scaled + (squared / before) * search
    return d, scores, products


def _step(
    problem: TableProblem,
    penalty: TablePenalty,
    point: _Point,
    gradient: NDArray[np.float64],
    direction: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> _Point | None:
    """Halve the step to a sufficient decrease; None when rounding leaves none."""
    step, bounded = 1.0, penalty.bounded
    while step >= MIN_STEP:
        theta = point.theta + step * direction
        if (bounded & (theta < 0.0)).any():
            theta = np.where(bounded, np.maximum(theta, 0.0), theta)
            trial = _look(problem, penalty, theta)
        else:
            trial = _look(problem, penalty, theta, point.scores + step * scores)
        promised = dot(gradient, theta - point.theta)
        if trial.objective <= point.objective + SUFFICIENT * promised:
            return trial if trial.objective < point.objective else None
        step *= 0.5
    return None
