"""Truncated Newton method for w'Kw/2 + R(w), w >= 0 where bounded, with a smooth risk R.

Each step solves the Newton equations only as accurately as it pays, by conjugate gradients (Lee and
Lin 2014, section 3), then backtracks. Scores are affine along a direction, so a trial costs one
evaluation of R at scores and no product with X. K bounds the curvature of the objective from below,
which certifies the result::

    J* >= J(w) + min_v [ <g, v - w> + (v - w)' K (v - w) / 2 ] = J(w) - g' K^-1 g / 2

and, with the constraint v >= 0, the same minimum coordinate by coordinate. Bounded steps are
projected, and coordinates at 0 whose gradient points outside are fixed (two-metric projection,
Bertsekas 1982). K is l2 times the identity for linear rankers, and couples neighbouring cells of
tables (``rankine.solvers.tables``).

A risk whose kinks can be smoothed (R - s/2 R(0) <= R_s <= R) is solved for a decreasing s, each
from the previous solution: a lower bound of R_s is one of R. The diagonal preconditioner makes
Newton's method independent of the scale of columns, unlike the bundle method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import dot, norm
from rankine.solvers.base import (
    Callback,
    Solution,
    gap_certificate,
    initial_weights,
    report_progress,
    require_finite,
)
from rankine.solvers.bundle import Bundle, solve_bundle
from rankine.solvers.problem import Problem

#: Largest number of iterations of the conjugate gradient method per Newton step.
MAX_INNER = 200
#: Armijo's condition: accept a step that achieves this fraction of the linear decrease.
SUFFICIENT = 1e-4
MIN_STEP = 1e-10
#: A gap below this fraction of the objective is rounding error.
PRECISION = 1e-14
#: Cuts after which the bundle method gives way to Newton. Where it works it needs a dozen or, with
#: a tiny l2, a hundred; columns of very different scale would need thousands.
CUTS = 200
#: First width s of the smoothing, and the ratio of one width to the previous.
FIRST_WIDTH = 0.5
NARROWER = 0.2
#: Tolerance of a smoothed problem as a share of its width. The smoothing itself costs about a tenth
#: of the width.
WIDTH_SHARE = 0.05
#: A width below this share of the tolerance cannot help: rounding errors prevent a smaller gap.
NARROWEST = 0.1


class CurvaturePenalty(Protocol):
    """The part of the Newton equations that does not come from the risk."""

    def times(self, w: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return K w."""

    def gap(self, w: NDArray[np.float64], gradient: NDArray[np.float64], /) -> float:
        """Return -min over v of g'v + v'Kv/2 with w + v allowed."""


class QuadraticPenalty(CurvaturePenalty, Protocol):
    """w'Kw/2 with w >= 0 where ``bounded``.

    ``forcing`` is the relative residual up to which the Newton equations are solved. They are
    also solved well enough if the remaining residual would certify ``predicted_gap_share`` times
    the requested gap under the present curvature; 0 disables this test.
    """

    bounded: NDArray[np.bool_]
    forcing: float
    predicted_gap_share: float

    def factor(self, diagonal: NDArray[np.float64], /) -> Any:
        """Return an object whose ``solve(b)`` returns (K + diag)^-1 b."""


class _Ridge:
    """l2/2 |w|^2, K = l2 I."""

    forcing = 0.1
    predicted_gap_share = 0.0

    def __init__(self, l2: float, n_features: int, *, positive: bool) -> None:
        self.l2 = l2
        self.bounded = np.full(n_features, positive)

    def times(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.l2 * w

    def gap(self, w: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
        if not self.bounded.any():
            return float(dot(gradient, gradient) / (2.0 * self.l2))
        move = np.maximum(0.0, w - gradient / self.l2) - w
        return float(-dot(gradient, move) - 0.5 * self.l2 * dot(move, move))

    def factor(self, diagonal: NDArray[np.float64]) -> _Diagonal:
        return _Diagonal(self.l2 + diagonal)


@dataclass(frozen=True)
class _Diagonal:
    scale: NDArray[np.float64]

    def solve(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        return b / self.scale


@dataclass
class Point:
    """Weights with the scores, slopes and curvature of the problem there."""

    w: NDArray[np.float64]
    scores: Any
    objective: float
    slopes: Any
    curvature: Any


@dataclass
class Direction:
    """A Newton direction with its scores and the number of products it took."""

    d: NDArray[np.float64]
    scores: Any
    products: int


def solve_newton(
    problem: Problem,
    penalty: float | QuadraticPenalty,
    *,
    start: NDArray[np.float64] | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    positive: bool = False,
    certify: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Minimise the penalty + R(w) to a certified gap of ``tol`` J(0).

    A number as ``penalty`` is the l2 of l2/2 |w|^2, with w >= 0 if ``positive``. Without
    ``certify`` the run also stops after a step at which the estimate g' M^-1 g / 2 of the gap is
    small enough; M is the preconditioner, used in place of the curvature.
    """
    if isinstance(penalty, (int, float)):
        penalty = _Ridge(float(penalty), problem.n_features, positive=positive)
    bounded = penalty.bounded
    w = initial_weights(start, problem.n_features)
    point = evaluate_point(problem, penalty, np.where(bounded, np.maximum(0.0, w), w))
    lower_bound, reason, largest_gradient = 0.0, "max_iter", 0.0
    first_iteration = products = 0
    trace: list[dict[str, float]] = []
    resume = problem.resume_point("newton")
    if resume.state is not None:
        point_state, lower_bound, first_iteration, products, largest_gradient, trace = resume.state
        point = Point(**point_state)

    def loop_state() -> Sequence[Any]:
        return vars(point), lower_bound, iteration, products, largest_gradient, trace

    for iteration in range(first_iteration, max_iter + 1):
        resume.save(loop_state)
        gradient = penalty.times(point.w) + problem.gradient(point.slopes)
        require_finite(gradient, iteration, "the Newton method")
        lower_bound = max(lower_bound, point.objective - penalty.gap(point.w, gradient))
        gap = point.objective - lower_bound
        # Coordinates at their bound whose gradient points outside stay there.
        free = ~bounded | (point.w > 0.0) | (gradient < 0.0)
        gradient_norm = norm(gradient * free)
        largest_gradient = max(largest_gradient, gradient_norm)
        record = {"objective": point.objective, "lower_bound": lower_bound, "gap": gap}
        trace.append({"iteration": iteration, **record, "products": products})
        stop = report_progress(callbacks, "newton", iteration, max_iter, record, point.w)
        if stop:
            reason = "callback"
            break
        if gap <= tol * problem.at_zero:
            reason = "converged"
            break
        if gap <= PRECISION * point.objective:
            reason = "precision"
            break
        if iteration == max_iter:
            break
        # Far from the optimum, a rough solution of the Newton equations is as good as an exact one
        # and costs fewer products (Dembo, Eisenstat and Steihaug 1982).
        forcing = min(penalty.forcing, float(np.sqrt(gradient_norm / largest_gradient)))
        allowed_gap = penalty.predicted_gap_share * tol * problem.at_zero
        curvature_scale = problem.curvature_scale(point.curvature)
        require_finite(curvature_scale, iteration, "the Newton method")
        factor = problem.preconditioner(penalty, point.curvature, curvature_scale)
        descent_rhs = -gradient * free
        if iteration > 0 and not certify:
            estimated_gap = dot(descent_rhs, factor.solve(descent_rhs)) / 2.0
            if estimated_gap <= tol * problem.at_zero:
                reason = "estimated"
                break
        direction = newton_direction(
            problem, penalty, point, descent_rhs, free, factor, forcing, allowed_gap
        )
        products += direction.products
        # Release large arrays before the trials of the line search allocate theirs.
        point.slopes = point.curvature = None
        next_point = _step(problem, penalty, point, gradient, direction)
        if next_point is None:
            reason = "precision"
            break
        point = next_point
    certificate = gap_certificate(
        point.objective, lower_bound, problem.at_zero, products=float(products)
    )
    return Solution(point.w, point.objective, certificate, iteration, trace, reason)


def solve_nonsmooth(
    problem: Problem,
    l2: float,
    *,
    start: NDArray[np.float64] | None = None,
    max_iter: int = 1000,
    bundle: Bundle | None = None,
    **options: Any,
) -> Solution:
    """Minimise l2/2 |w|^2 + R(w) by cuts, and continue by Newton steps if cuts are slow."""
    max_cuts = min(max_iter, CUTS)
    by_cuts = solve_bundle(problem, l2, start=start, max_iter=max_cuts, bundle=bundle, **options)
    if not by_cuts.unfinished or max_iter <= CUTS:
        return by_cuts
    max_steps = max_iter - by_cuts.n_iter
    return solve_smoothed(problem, l2, before=by_cuts, max_iter=max_steps, **options)


def solve_smoothed(
    problem: Problem,
    l2: float,
    *,
    start: NDArray[np.float64] | None = None,
    before: Solution | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    positive: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Minimise l2/2 |w|^2 + R(w) by Newton steps on risks that are smoothed less and less.

    ``before`` is the solution of another method to continue from, in place of ``start``.
    """
    best = initial_weights(start, problem.n_features)
    lower_bound, n_done, products = 0.0, 0, 0.0
    trace: list[dict[str, float]] = []
    if before is not None:
        best, lower_bound, n_done = before.coef, before.certificate["lower_bound"], before.n_iter
        trace = [dict(record) for record in before.trace]
    last_iteration = n_done + max_iter
    best_value = 0.5 * l2 * dot(best, best) + problem.value_and_gradient(best)[0]
    w, width, reason = best, 1.0, "max_iter"
    resume = problem.resume_point("smoothed newton")
    if resume.state is not None:
        best, best_value, w, width, lower_bound, n_done, products, trace = resume.state

    def loop_state() -> Sequence[Any]:
        return best, best_value, w, width, lower_bound, n_done, products, trace

    while n_done < last_iteration:
        resume.save(loop_state)
        solution = solve_newton(
            problem.smoothed(width),
            l2,
            start=w,
            tol=WIDTH_SHARE * width,
            max_iter=last_iteration - n_done,
            positive=positive,
            callbacks=callbacks,
        )
        w, n_done = solution.coef, n_done + solution.n_iter
        products += solution.certificate["products"]
        value_here = 0.5 * l2 * dot(w, w) + problem.value_and_gradient(w)[0]
        # The minimiser of a smoothed risk may be worse than an earlier point.
        if value_here < best_value:
            best, best_value = w, value_here
        else:
            w = best
        # A width of 1 or more gives half the squared hinge, which is no lower bound of the hinge.
        if width < 1.0:
            lower_bound = max(lower_bound, solution.certificate["lower_bound"])
        gap = best_value - lower_bound
        record = {
            "iteration": n_done,
            "objective": best_value,
            "lower_bound": lower_bound,
            "gap": gap,
        }
        trace.append({**record, "width": width})
        if solution.stop_reason == "callback":
            reason = "callback"
            break
        if gap <= tol * problem.at_zero:
            reason = "converged"
            break
        if width < NARROWEST * tol:
            reason = "precision"
            break
        if width >= 1.0:
            width = FIRST_WIDTH
        else:
            width *= NARROWER
    certificate = gap_certificate(best_value, lower_bound, problem.at_zero, products=products)
    return Solution(best, best_value, certificate, n_done, trace, reason)


def move_solution(
    problem: Problem,
    penalty: float | QuadraticPenalty,
    solution: Solution,
    w: NDArray[np.float64],
) -> tuple[Solution, NDArray[np.float64]]:
    """Return a solution at other weights with its certificate, and the gradient there.

    The weights have no bounds. The risk may have kinks: its subgradients certify as well.
    """
    if isinstance(penalty, (int, float)):
        penalty = _Ridge(float(penalty), problem.n_features, positive=False)
    risk, gradient = problem.value_and_gradient(w)
    pull = penalty.times(w)
    gradient = gradient + pull
    objective = risk + 0.5 * dot(w, pull)
    lower_bound = max(solution.certificate["lower_bound"], objective - penalty.gap(w, gradient))
    certificate = gap_certificate(objective, lower_bound, problem.at_zero)
    n_iter = solution.n_iter + 1
    record = {"iteration": n_iter, "objective": objective, "lower_bound": lower_bound}
    moved = replace(
        solution,
        coef=w,
        objective=objective,
        certificate={**solution.certificate, **certificate},
        n_iter=n_iter,
        trace=[*solution.trace, {**record, "gap": objective - lower_bound}],
    )
    return moved, gradient


def evaluate_point(
    problem: Problem, penalty: QuadraticPenalty, w: NDArray[np.float64], scores: Any = None
) -> Point:
    """Evaluate the problem at weights, whose scores may be given."""
    if scores is None:
        scores = problem.scores(w)
    risk, slopes, curvature = problem.evaluate_with_curvature(scores)
    return Point(w, scores, 0.5 * dot(w, penalty.times(w)) + risk, slopes, curvature)


def newton_direction(
    problem: Problem,
    penalty: CurvaturePenalty,
    point: Point,
    residual: NDArray[np.float64],
    free: NDArray[np.bool_],
    factor: Any,
    forcing: float,
    allowed_gap: float,
) -> Direction:
    """Solve H d = -g for the free coordinates by preconditioned conjugate gradients.

    ``factor`` is the ``preconditioner`` of the problem. The iteration ends when the
    residual, in the norm of this preconditioner, has shrunk to ``forcing``, or when it certifies a
    gap of ``allowed_gap`` (if that is not 0).
    """
    d = np.zeros_like(residual)
    preconditioned = factor.solve(residual) * free
    search, squared_residual = preconditioned, dot(residual, preconditioned)
    squared_target = squared_residual * forcing * forcing
    # Zero scores, in the representation that the problem uses.
    scores = problem.combine(0.0, point.scores, 0.0, point.scores)
    products = 0
    resume = problem.resume_point("newton direction")
    if resume.state is not None:
        d, scores, residual, search, squared_residual, products = resume.state

    def loop_state() -> Sequence[Any]:
        return d, scores, residual, search, squared_residual, products

    while products < MAX_INNER and squared_residual > squared_target:
        resume.save(loop_state)
        products += 1
        search_scores = problem.scores(search)
        product = penalty.times(search) + problem.curvature_times(point.curvature, search_scores)
        product *= free
        curvature_along = dot(search, product)
        if curvature_along == 0.0:
            break  # the product underflowed: nothing is left to improve
        step = squared_residual / curvature_along
        d += step * search
        scores = problem.combine(1.0, scores, step, search_scores)
        residual = residual - step * product
        preconditioned = factor.solve(residual) * free
        previous_squared, squared_residual = squared_residual, dot(residual, preconditioned)
        if allowed_gap and penalty.gap(point.w + d, -residual) <= allowed_gap:
            break
        search = preconditioned + (squared_residual / previous_squared) * search
    return Direction(d, scores, products)


def _step(
    problem: Problem,
    penalty: QuadraticPenalty,
    point: Point,
    gradient: NDArray[np.float64],
    direction: Direction,
) -> Point | None:
    """Backtrack to a sufficient decrease; return None if rounding leaves none."""
    step, bounded = 1.0, penalty.bounded
    while step >= MIN_STEP:
        w = point.w + step * direction.d
        outside = bounded & (w < 0.0)
        if outside.any():
            # The projection is not linear, so the scores have to be computed from the weights.
            w = np.where(outside, 0.0, w)
            trial = evaluate_point(problem, penalty, w)
        else:
            scores = problem.combine(1.0, point.scores, step, direction.scores)
            trial = evaluate_point(problem, penalty, w, scores)
        predicted_change = dot(gradient, w - point.w)
        if trial.objective <= point.objective + SUFFICIENT * predicted_change:
            return trial if trial.objective < point.objective else None
        step *= 0.5
    return None
