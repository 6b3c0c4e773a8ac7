"""Tables with shapes: J(theta) minimised under A theta >= 0 by an interior-point method.

A row of A is a step of a curve, of a grid along the column with the shape, a slope of the linear
part, or the change of a curve's slope from one bin to the next. A step of a grid that is the same
in all its lanes can move to the curve without changing the function, so tables that rise each on
their own make up every function whose whole effect rises.

Newton steps for J - mu sum log(A theta) with a decreasing mu (primal-dual, Nocedal and Wright 2006,
section 19.3) stay inside. Multipliers lambda > 0 certify every point: for convex J, with K below
its curvature and r = grad J - A' lambda,

    J* >= J(theta) - lambda' A theta - r' K^-1 r / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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
from rankine.solvers.newton import (
    PRECISION,
    Direction,
    Point,
    QuadraticPenalty,
    evaluate_point,
    newton_direction,
)
from rankine.solvers.problem import Problem

if TYPE_CHECKING:
    from rankine.solvers.tables import TableSpace

Vector = NDArray[np.float64]

#: The numbers that stand for shapes in arrays.
SHAPE_NUMBERS = {"increasing": 1, "decreasing": -1, "convex": 2, "concave": -2}
#: Shapes of columns that take part in no grid: its steps between cells would be kinks.
CURVED = ("convex", "concave")
#: Share of lambda' A theta that a step aims at.
CENTRING = 0.1
#: Products of slacks and multipliers are kept within this factor of their target.
SPREAD = 100.0
#: Share of the way to the boundary that a step goes at most.
INSIDE = 0.95
#: Share of the requested gap that is left to lambda' A theta at last.
COMPLEMENTARY_SHARE = 0.3
#: Height of the ramp that moves a start inside. Slacks that are too small grow slowly.
RAMP = 1.0
#: lambda' A theta of the first step as a share of J(0): from the centre, steps are long.
FIRST_SHARE = 1.0
#: Armijo's condition, and the shortest step.
SUFFICIENT = 1e-4
MIN_STEP = 1e-10


@dataclass(frozen=True, eq=False)
class ShapeRows:
    """The matrix A: at most three entries a row.

    Attributes
    ----------
    cells
        Parameters of every row; a row of fewer entries repeats its first parameter.
    factors
        Entries of A, 0 for repeated parameters.
    """

    cells: NDArray[np.int64]
    factors: Vector

    @classmethod
    def build(cls, space: TableSpace) -> ShapeRows:
        """Create the rows of all shapes of a space."""
        layout = space.layout
        # A convex column of two bins has no row.
        cells: list[NDArray[np.int64]] = [np.zeros((0, 3), dtype=np.int64)]
        factors: list[Vector] = [np.zeros((0, 3))]

        def add(rows: Sequence[NDArray[np.int64]], values: Sequence[Any]) -> None:
            padded = [*rows, *[rows[0]] * (3 - len(rows))]
            cells.append(np.column_stack(padded))
            columns = [*values, *[0.0] * (3 - len(values))]
            factors.append(
                np.column_stack([np.broadcast_to(value, len(rows[0])) for value in columns])
            )

        for j in np.flatnonzero(space.shapes):
            shape, start = int(space.shapes[j]), int(layout.starts[j])
            ordered = np.arange(start, start + max(space.sizes[j] - 1, 0))
            sign = float(np.sign(shape))
            if abs(shape) == 1:
                add((ordered[1:], ordered[:-1]), (sign, -sign))
                add((np.array([layout.size + j]),), (sign,))
            elif len(ordered) > 2:
                # In units of the steps, so that rows of all shapes are of the same size.
                widths = np.diff(space.centres[ordered])
                left, right = widths[:-1], widths[1:]
                scale = sign * 2.0 / (left + right)
                add(
                    (ordered[:-2], ordered[1:-1], ordered[2:]),
                    (scale * right, -scale * (left + right), scale * left),
                )
        for g, (n_rows, n_columns) in enumerate(space.grid_sides.tolist()):
            grid = layout.grid_starts[g] + np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
            for lanes, j in ((grid, layout.firsts[g]), (grid.T, layout.seconds[g])):
                if space.shapes[j]:
                    sign = float(space.shapes[j])
                    add((lanes[1:-1].ravel(), lanes[:-2].ravel()), (sign, -sign))
        return cls(np.concatenate(cells).astype(np.int64), np.concatenate(factors))

    def times(self, theta: Vector) -> Vector:
        """Return A theta."""
        product: Vector = (self.factors * theta[self.cells]).sum(axis=1)
        return product

    def transpose_times(self, values: Vector, size: int) -> Vector:
        """Return A' values."""
        weights = (self.factors * values[:, None]).ravel()
        return np.bincount(self.cells.ravel(), weights, minlength=size).astype(np.float64)


def move_inside(space: TableSpace, theta: Vector) -> Vector:
    """Return parameters near ``theta`` with A theta > 0: the nearest shape, plus a ramp."""
    from scipy.optimize import isotonic_regression

    out = theta.copy()
    layout = space.layout

    def rising(values: Vector, sign: float) -> Vector:
        fitted: Vector = isotonic_regression(sign * values).x
        return sign * (fitted + RAMP * np.linspace(0.0, 1.0, len(values)))

    for j in np.flatnonzero(space.shapes):
        shape, start = int(space.shapes[j]), int(layout.starts[j])
        sign, n_ordered = float(np.sign(shape)), int(space.sizes[j]) - 1
        curve = slice(start, start + n_ordered)
        if abs(shape) == 1:
            out[curve] = rising(out[curve], sign)
            slope = layout.size + j
            out[slope] = sign * max(sign * out[slope], 0.1 * RAMP)
        elif n_ordered > 2:
            widths = np.diff(space.centres[curve])
            slopes = rising(np.diff(out[curve]) / widths, sign)
            out[curve] = out[start] + np.append(0.0, np.cumsum(slopes * widths))
    for g, (n_rows, n_columns) in enumerate(space.grid_sides.tolist()):
        start = int(layout.grid_starts[g])
        grid = out[start : start + n_rows * n_columns].reshape(n_rows, n_columns)
        for lanes, j in ((grid, layout.firsts[g]), (grid.T, layout.seconds[g])):
            if space.shapes[j]:
                sign = float(space.shapes[j])
                # The running maximum keeps a shape along the other side.
                inner = np.maximum.accumulate(sign * lanes[:-1], axis=0)
                inner += RAMP * np.linspace(0.0, 1.0, len(inner))[:, None]
                lanes[:-1] = sign * inner
    return out


def keep_shapes(space: TableSpace, tables: Vector) -> Vector:
    """Return tables of the same function that rise or fall each on their own, to the last bit.

    Sums of such tables in floating-point numbers, and of tables rounded to fewer digits, rise or
    fall as well. Of each step of a grid, what all of its lanes have in common moves to the curve.
    """
    out = tables.copy()
    layout = space.layout
    for g, (n_rows, n_columns) in enumerate(space.grid_sides.tolist()):
        start = int(layout.grid_starts[g])
        grid = out[start : start + n_rows * n_columns].reshape(n_rows, n_columns)
        for side, (lanes, j) in enumerate(((grid, layout.firsts[g]), (grid.T, layout.seconds[g]))):
            if space.shapes[j]:
                sign = float(space.shapes[j])
                inner = sign * lanes[:-1]
                common = np.append(0.0, np.cumsum(np.diff(inner, axis=0).min(axis=1)))
                lanes[:-1] = sign * np.maximum.accumulate(inner - common[:, None], axis=0)
                cells = np.arange(space.sizes[j] - 1)
                positions = space.grid_positions(g, side)[cells]
                out[layout.starts[j] + cells] += sign * common[positions]
    for j in np.flatnonzero(np.abs(space.shapes) == 1):
        curve = slice(layout.starts[j], layout.starts[j] + space.sizes[j] - 1)
        sign = float(space.shapes[j])
        out[curve] = sign * np.maximum.accumulate(sign * out[curve])
    return out


class ShapedPenalty(QuadraticPenalty, Protocol):
    """The penalty of tables with shapes."""

    def factor(self, diagonal: Vector, barrier: tuple[ShapeRows, Vector] | None = None, /) -> Any:
        """Return an object whose ``solve(b)`` returns (K + diag + A'DA)^-1 b."""

    def shape_start(self, theta: Vector, /) -> tuple[ShapeRows, Vector]:
        """Return the constraints of shapes, and parameters near ``theta`` inside them."""


class _BarrierPenalty:
    """K + A' D A with D = lambda / A theta, for the Newton equations of one step."""

    forcing = 0.1
    predicted_gap_share = 0.3

    def __init__(
        self, penalty: ShapedPenalty, rows: ShapeRows, theta: Vector, ratios: Vector
    ) -> None:
        self.penalty = penalty
        self.rows = rows
        self.ratios = ratios
        self.theta = theta

    def times(self, v: Vector) -> Vector:
        product = self.rows.transpose_times(self.ratios * self.rows.times(v), len(v))
        return self.penalty.times(v) + product

    def gap(self, w: Vector, gradient: Vector) -> float:  # noqa: ARG002 - the whole space is free
        return self.penalty.gap(self.theta, gradient)


def solve_shaped(
    problem: Problem,
    penalty: ShapedPenalty,
    *,
    start: Vector | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
    certify: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Minimise theta' K theta / 2 + R(theta) under the shapes of the penalty's space.

    Ends at a certified gap of ``tol`` J(0), as ``newton.solve_newton`` does; without ``certify``
    the preconditioner of the last step replaces K in the bound.
    """
    rows, w = penalty.shape_start(initial_weights(start, problem.n_features))
    n_rows = max(len(rows.cells), 1)
    slack = rows.times(w)
    smallest = COMPLEMENTARY_SHARE * tol * problem.at_zero / n_rows
    mu = max(FIRST_SHARE * problem.at_zero / n_rows, smallest)
    multipliers = mu / slack
    free = np.ones(len(w), dtype=np.bool_)
    point = evaluate_point(problem, penalty, w)
    lower_bound, reason, largest_gradient, products = 0.0, "max_iter", 0.0, 0
    trace: list[dict[str, float]] = []
    factor: Any = None
    for iteration in range(max_iter + 1):
        gradient = penalty.times(point.w) + problem.gradient(point.slopes)
        require_finite(gradient, iteration, "the interior-point method")
        residual = gradient - rows.transpose_times(multipliers, len(w))
        complementary = dot(multipliers, slack)
        bound = point.objective - complementary - penalty.gap(point.w, residual)
        lower_bound = max(lower_bound, bound)
        gap = point.objective - lower_bound
        record = {"objective": point.objective, "lower_bound": lower_bound, "gap": gap}
        trace.append({"iteration": iteration, **record, "products": products})
        if report_progress(callbacks, "shapes", iteration, max_iter, record, point.w):
            reason = "callback"
            break
        if gap <= tol * problem.at_zero:
            reason = "converged"
            break
        if gap <= PRECISION * point.objective:
            reason = "precision"
            break
        if factor is not None and not certify:
            estimated = complementary + dot(residual, factor.solve(residual)) / 2.0
            if estimated <= tol * problem.at_zero:
                reason = "estimated"
                break
        if iteration == max_iter:
            break
        mu = max(CENTRING * complementary / n_rows, smallest)
        multipliers = np.clip(multipliers, mu / (SPREAD * slack), SPREAD * mu / slack)
        descent = rows.transpose_times(mu / slack, len(w)) - gradient
        residual_norm = norm(descent)
        largest_gradient = max(largest_gradient, residual_norm)
        forcing = min(
            _BarrierPenalty.forcing, float(np.sqrt(residual_norm / (largest_gradient or 1.0)))
        )
        allowed_gap = _BarrierPenalty.predicted_gap_share * tol * problem.at_zero
        ratios = multipliers / slack
        curvature_scale = problem.curvature_scale(point.curvature)
        factor = penalty.factor(curvature_scale, (rows, ratios))
        barrier = _BarrierPenalty(penalty, rows, point.w, ratios)
        direction = newton_direction(
            problem, barrier, point, descent, free, factor, forcing, allowed_gap
        )
        products += direction.products
        point.slopes = point.curvature = None
        slack_change = rows.times(direction.d)
        change = mu / slack - multipliers - ratios * slack_change
        decrease = dot(descent, direction.d)
        accepted = _search_step(
            problem, penalty, rows, point, direction, slack, slack_change, mu, decrease
        )
        if accepted is None:
            reason = "precision"
            break
        multipliers = multipliers + _largest_step(multipliers, change) * change
        point, slack = accepted
    certificate = gap_certificate(
        point.objective, lower_bound, problem.at_zero, products=float(products)
    )
    return Solution(point.w, point.objective, certificate, iteration, trace, reason)


def _search_step(
    problem: Problem,
    penalty: ShapedPenalty,
    rows: ShapeRows,
    point: Point,
    direction: Direction,
    slack: Vector,
    slack_change: Vector,
    mu: float,
    decrease: float,
) -> tuple[Point, Vector] | None:
    """Return the next point and its slack, or None where rounding hides any decrease.

    The step is halved until every slack stays positive and the barrier function falls by a share of
    the ``decrease`` that its slope promises.
    """
    value = point.objective - mu * float(np.log(slack).sum())
    step = _largest_step(slack, slack_change)
    while step >= MIN_STEP:
        trial_w = point.w + step * direction.d
        scores = problem.combine(1.0, point.scores, step, direction.scores)
        trial = evaluate_point(problem, penalty, trial_w, scores)
        trial_slack = rows.times(trial_w)
        if (trial_slack > 0.0).all():
            trial_value = trial.objective - mu * float(np.log(trial_slack).sum())
            if trial_value <= value - SUFFICIENT * step * decrease + 1e-13 * abs(value):
                return trial, trial_slack
        step *= 0.5
    return None


def _largest_step(values: Vector, changes: Vector) -> float:
    """Return the step at which positive values stay positive, at most 1."""
    falling = changes < 0.0
    if not falling.any():
        return 1.0
    return float(min(1.0, INSIDE * (values[falling] / -changes[falling]).min()))
