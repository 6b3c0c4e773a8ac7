"""Truncated Newton method for w'Kw/2 + R(w), w >= 0 where bounded, with a smooth risk R.

Each step solves the Newton equations only as far as it pays, by conjugate gradients (Lee and Lin
2014, section 3), then backtracks. Scores are affine along a direction, so trials cost one count
pass and no product with X. K bounds the curvature of the objective from below, which certifies the
result::

    J* >= J(w) + min_v [ <g, v - w> + (v - w)' K (v - w) / 2 ] = J(w) - g' K^-1 g / 2

and, with the constraint v >= 0, the same minimum taken coordinate by coordinate. Bounded steps are
projected, and coordinates at 0 that want to leave downwards are held (two-metric projection,
Bertsekas 1982). K is l2 times the identity for linear rankers, and couples neighbouring cells of
tables (``rankine.solvers.tables``).

A risk with kinks that can be rounded (R - s/2 R(0) <= R_s <= R) is solved for a falling s, each
from the solution before it: a lower bound of R_s is one of R. The diagonal preconditioner makes
Newton's steps blind to the scale of columns, which the bundle method is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import dot, norm
from rankine.solvers.base import (
    Callback,
    Solution,
    gap_certificate,
    report_progress,
    require_finite,
)
from rankine.solvers.bundle import Bundle, solve_bundle
from rankine.solvers.problem import Problem

MAX_INNER = 200
#: Armijo: accept a step that gains this fraction of what the slope promises.
SUFFICIENT = 1e-4
MIN_STEP = 1e-10
#: Below this fraction of the objective a gap is rounding.
PRECISION = 1e-14
#: Cuts after which the bundle method hands over. Where it works it needs a dozen or, with a tiny
#: l2, a hundred; columns of very different scale would need thousands.
CUTS = 200
#: Widths of the rounding: the first, and the ratio of one to the next.
FIRST_WIDTH = 0.5
NARROWER = 0.2
#: Part of a width to which its problem is solved; the rounding itself costs about a tenth of it.
WIDTH_SHARE = 0.05
#: Part of the tolerance below which a narrower width cannot help: rounding numbers is at fault.
NARROWEST = 0.1


class QuadraticPenalty(Protocol):
    """w'Kw/2 with w >= 0 where ``bounded``.

    ``forcing`` is the share of the residual that may be left of the Newton equations. They are
    solved well enough, too, where what is left would certify ``ahead`` times the gap that is asked
    for, if the curvature stayed as it is.
    """

    bounded: NDArray[np.bool_]
    forcing: float
    ahead: float

    def times(self, w: NDArray[np.float64], /) -> NDArray[np.float64]:
        """K w."""

    def gap(self, w: NDArray[np.float64], gradient: NDArray[np.float64], /) -> float:
        """-min over v of g'v + v'Kv/2 with w + v allowed."""

    def factor(self, diagonal: NDArray[np.float64], /) -> Any:
        """``solve(b)`` of K + diag."""


class _Ridge:
    """l2/2 |w|^2."""

    forcing = 0.1
    ahead = 0.0

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
class _Point:
    """Weights with everything the problem said about them."""

    w: NDArray[np.float64]
    scores: Any
    objective: float
    slopes: Any
    curvature: Any


@dataclass
class _Direction:
    """A Newton direction with its scores and the products it took."""

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

    A number is l2 of l2/2 |w|^2, with w >= 0 if ``positive``. Without ``certify`` it is enough that
    after a step the gap is about that: g' M^-1 g / 2 with the preconditioner M for the curvature.
    """
    if isinstance(penalty, (int, float)):
        penalty = _Ridge(float(penalty), problem.n_features, positive=positive)
    bounded = penalty.bounded
    w = np.zeros(problem.n_features) if start is None else np.array(start, dtype=np.float64)
    point = _look(problem, penalty, np.where(bounded, np.maximum(0.0, w), w))
    low, reason, first = 0.0, "max_iter", 0.0
    begun = products = 0
    trace: list[dict[str, float]] = []
    resume = problem.resume_point("newton")
    if resume.state is not None:
        known, low, begun, products, first, trace = resume.state
        point = _Point(**known)

    def stands() -> Sequence[Any]:
        return vars(point), low, iteration, products, first, trace

    for iteration in range(begun, max_iter + 1):
        resume.save(stands)
        gradient = penalty.times(point.w) + problem.gradient(point.slopes)
        require_finite(gradient, iteration, "the Newton method")
        low = max(low, point.objective - penalty.gap(point.w, gradient))
        gap = point.objective - low
        free = ~bounded | (point.w > 0.0) | (gradient < 0.0)
        size = norm(gradient * free)
        first = max(first, size)
        record = {"objective": point.objective, "lower_bound": low, "gap": gap}
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
        forcing = min(penalty.forcing, float(np.sqrt(size / first)))
        allowed = penalty.ahead * tol * problem.at_zero
        scale = problem.curvature_scale(point.curvature)
        require_finite(scale, iteration, "the Newton method")
        factor, wanted = penalty.factor(scale), -gradient * free
        about = dot(wanted, factor.solve(wanted)) / 2.0 if iteration and not certify else np.inf
        if about <= tol * problem.at_zero:
            reason = "estimated"
            break
        direction = _direction(problem, penalty, point, wanted, free, factor, forcing, allowed)
        products += direction.products
        point.slopes = point.curvature = None  # large, and not needed beside those of a trial
        moved = _step(problem, penalty, point, gradient, direction)
        if moved is None:
            reason = "precision"
            break
        point = moved
    certificate = gap_certificate(point.objective, low, problem.at_zero, products=float(products))
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
    """Minimise l2/2 |w|^2 + R(w): by cuts, and by Newton steps where cuts are slow."""
    few = min(max_iter, CUTS)
    cuts = solve_bundle(problem, l2, start=start, max_iter=few, bundle=bundle, **options)
    if not cuts.unfinished or max_iter <= CUTS:
        return cuts
    return solve_smoothed(problem, l2, before=cuts, max_iter=max_iter - cuts.n_iter, **options)


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
    """Minimise l2/2 |w|^2 + R(w) by Newton steps on risks that are rounded less and less.

    ``before`` may give the solution of another method to go on from.
    """
    best = np.zeros(problem.n_features) if start is None else np.array(start, dtype=np.float64)
    low, done, products = 0.0, 0, 0.0
    trace: list[dict[str, float]] = []
    if before is not None:
        best, low, done = before.coef, before.certificate["lower_bound"], before.n_iter
        trace = [dict(record) for record in before.trace]
    last = done + max_iter
    value = 0.5 * l2 * dot(best, best) + problem.value_and_gradient(best)[0]
    w, width, reason = best, 1.0, "max_iter"
    resume = problem.resume_point("rounded")
    if resume.state is not None:
        best, value, w, width, low, done, products, trace = resume.state

    def stands() -> Sequence[Any]:
        return best, value, w, width, low, done, products, trace

    while done < last:
        resume.save(stands)
        rounded = solve_newton(
            problem.smoothed(width),
            l2,
            start=w,
            tol=WIDTH_SHARE * width,
            max_iter=last - done,
            positive=positive,
            callbacks=callbacks,
        )
        w, done = rounded.coef, done + rounded.n_iter
        products += rounded.certificate["products"]
        here = 0.5 * l2 * dot(w, w) + problem.value_and_gradient(w)[0]
        if here < value:
            best, value = w, here
        else:
            w = best
        if width < 1.0:
            low = max(low, rounded.certificate["lower_bound"])
        gap = value - low
        record = {"iteration": done, "objective": value, "lower_bound": low, "gap": gap}
        trace.append({**record, "width": width})
        if rounded.stop_reason == "callback":
            reason = "callback"
            break
        if gap <= tol * problem.at_zero:
            reason = "converged"
            break
        if width < NARROWEST * tol:
            reason = "precision"
            break
        width = FIRST_WIDTH if width >= 1.0 else NARROWER * width
    certificate = gap_certificate(value, low, problem.at_zero, products=products)
    return Solution(best, value, certificate, done, trace, reason)


def _look(
    problem: Problem, penalty: QuadraticPenalty, w: NDArray[np.float64], scores: Any = None
) -> _Point:
    scores = problem.scores(w) if scores is None else scores
    risk, slopes, curvature = problem.evaluate_with_curvature(scores)
    return _Point(w, scores, 0.5 * dot(w, penalty.times(w)) + risk, slopes, curvature)


def _direction(
    problem: Problem,
    penalty: QuadraticPenalty,
    point: _Point,
    residual: NDArray[np.float64],
    free: NDArray[np.bool_],
    factor: Any,
    forcing: float,
    allowed: float,
) -> _Direction:
    """Preconditioned conjugate gradients on H d = -g within the free coordinates.

    ``factor`` solves K plus about the diagonal of the risk's curvature; ends when the residual,
    measured by it, has shrunk to ``forcing``, or certifies a gap of ``allowed``.
    """
    d = np.zeros_like(residual)
    scaled = factor.solve(residual) * free
    search, squared = scaled, dot(residual, scaled)
    enough = squared * forcing * forcing
    scores = problem.blend(0.0, point.scores, 0.0, point.scores)
    products = 0
    resume = problem.resume_point("newton direction")
    if resume.state is not None:
        d, scores, residual, search, squared, products = resume.state

    def stands() -> Sequence[Any]:
        return d, scores, residual, search, squared, products

    while products < MAX_INNER and squared > enough:
        resume.save(stands)
        products += 1
        searched = problem.scores(search)
        product = penalty.times(search) + problem.curvature_times(point.curvature, searched)
        product *= free
        curved = dot(search, product)
        if curved == 0.0:
            break  # a product below the smallest number: no digit is left to improve
        step = squared / curved
        d += step * search
        scores = problem.blend(1.0, scores, step, searched)
        residual = residual - step * product
        scaled = factor.solve(residual) * free
        before, squared = squared, dot(residual, scaled)
        if allowed and penalty.gap(point.w + d, -residual) <= allowed:
            break
        search = scaled + (squared / before) * search
    return _Direction(d, scores, products)


def _step(
    problem: Problem,
    penalty: QuadraticPenalty,
    point: _Point,
    gradient: NDArray[np.float64],
    direction: _Direction,
) -> _Point | None:
    """Backtrack to a sufficient decrease; None when rounding leaves none."""
    step, bounded = 1.0, penalty.bounded
    while step >= MIN_STEP:
        w = point.w + step * direction.d
        outside = bounded & (w < 0.0)
        if outside.any():
            w = np.where(outside, 0.0, w)
            trial = _look(problem, penalty, w)
        else:
            scores = problem.blend(1.0, point.scores, step, direction.scores)
            trial = _look(problem, penalty, w, scores)
        promised = dot(gradient, w - point.w)
        if trial.objective <= point.objective + SUFFICIENT * promised:
            return trial if trial.objective < point.objective else None
        step *= 0.5
    return None
