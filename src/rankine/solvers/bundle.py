"""Bundle method for l2/2 |w|^2 + R(w) with a certified gap.

Each iteration adds a linear lower bound (cut) of R, minimises the regularised maximum of all cuts
(the model), searches the line from the best point to that minimiser, and takes the next cut near
the new best point (Teo et al. 2010; line search after Franc and Sonnenburg 2009, who call it OCAS).
The model's minimum is a lower bound of the optimum: the run stops when the best objective is within
``tol`` J(0) of it. Scores are affine along the line, so a trial costs one evaluation of R at scores
and no product with X.

Cuts a_k, b_k bound the risk from below: R(w) >= <a_k, w> + b_k. The model's minimum
min_w l2/2 |w|^2 + max_k (<a_k, w> + b_k) has the dual, over alpha in the simplex::

    D(alpha) = <b, alpha> - |A^T alpha|^2 / (2 l2),            w = -A^T alpha / l2
    D(alpha) = <b, alpha> - |max(0, -A^T alpha)|^2 / (2 l2),   w = max(0, -A^T alpha) / l2

the second with the constraint w >= 0. Every feasible alpha, optimal or not, gives a lower bound of
the objective, so an inaccurate inner solution can never cause a false stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.shards import add_rows, dot, norm, rows_dot
from rankine.solvers.base import (
    Callback,
    Solution,
    gap_certificate,
    initial_weights,
    report_progress,
    require_finite,
)
from rankine.solvers.problem import Problem

Vector = NDArray[np.float64]

#: Largest number of exchanges between two cuts. Nearly parallel cuts would need thousands of times
#: more; the interior-point method, whose cost does not depend on that, takes over.
MAX_STEPS = 20_000
#: Newton steps of the interior-point method, which gains about a digit per step.
INTERIOR_STEPS = 60
#: Each step aims at this share of the mean of alpha z ...
CENTRING = 0.2
#: ... and goes at most this share of the way to the boundary alpha >= 0, z >= 0.
INSIDE = 0.95
#: Weights below this are set to zero afterwards.
NEGLIGIBLE = 1e-12


@jit
def maximise_dual(gram: Vector, b: Vector, l2: float, alpha: Vector, tol: float) -> float:
    """Improve a feasible ``alpha`` in place until its optimality gap is at most ``tol``.

    Moves weight from one cut to another (sequential minimal optimisation): the receiver has the
    largest gradient, and the giver is the cut with the largest gain. Returns the gap
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
                gradient_difference = gradient[i] - gradient[k]
                # Equal cuts have the curvature 0: all weight is moved.
                curvature = max(1e-300, (gram[i, i] + gram[k, k] - 2.0 * gram[i, k]) / l2)
                step = min(alpha[k], gradient_difference / curvature)
                gain = step * gradient_difference - 0.5 * step * step * curvature
                if gain > best:
                    best, giver = gain, k
        gap = gradient[i] - lowest
        if gap <= tol or giver < 0:
            return gap
        curvature = max(1e-300, (gram[i, i] + gram[giver, giver] - 2.0 * gram[i, giver]) / l2)
        step = min(alpha[giver], (gradient[i] - gradient[giver]) / curvature)
        alpha[i] += step
        alpha[giver] -= step
        # What rounding leaves would count as support and keep the gap open.
        if alpha[giver] < 1e-16:
            alpha[i] += alpha[giver]
            alpha[giver] = 0.0
        for k in range(n):
            gradient[k] -= step * (gram[k, i] - gram[k, giver]) / l2
    return gap


@jit
def _solve_two(matrix: Any, first: Any, second: Any) -> bool:
    """Solve M u = first and M v = second in place by a Cholesky factorisation.

    Returns False if M is not positive definite. ``matrix`` is overwritten.
    """
    # Not LAPACK: its bits depend on the number of threads.
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
    solve_factored(matrix, first)
    solve_factored(matrix, second)
    return True


@jit
def solve_factored(factor: Any, x: Any) -> None:
    """Solve F F^T y = x in place; only the lower triangle of ``factor`` is read."""
    n = x.shape[0]
    for i in range(n):
        for k in range(i):
            x[i] -= factor[i, k] * x[k]
        x[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= factor[k, i] * x[k]
        x[i] /= factor[i, i]


@jit
def interior_dual(gram: Vector, b: Vector, l2: float, alpha: Vector, tol: float) -> None:
    """Improve a feasible ``alpha`` in place by a primal-dual interior-point method.

    With H = A A^T / l2 the optimum satisfies H alpha - b = lambda 1 + z, alpha z = 0, z >= 0. Each
    step solves these equations, linearised, for alpha z = ``CENTRING`` times its mean (Wright 1997,
    chapter 5). ``shift`` is lambda.
    """
    n = b.shape[0]
    x, z = np.empty(n), np.empty(n)
    x_step, z_step = np.empty(n), np.empty(n)
    unit_solution, matrix = np.empty(n), np.empty((n, n))
    for k in range(n):
        x[k] = 1.0 / n
    slope = rows_dot(gram, x)
    smallest, largest = np.inf, -np.inf
    for k in range(n):
        smallest, largest = min(smallest, slope[k] / l2 - b[k]), max(largest, slope[k] / l2 - b[k])
    shift = smallest - (largest - smallest) - tol
    for k in range(n):
        z[k] = slope[k] / l2 - b[k] - shift
    for _ in range(INTERIOR_STEPS):
        slope = rows_dot(gram, x)
        target_product = CENTRING * dot(x, z) / n
        worst_residual, excess = 0.0, 1.0
        for k in range(n):
            residual = slope[k] / l2 - b[k] - shift - z[k]
            worst_residual = max(worst_residual, abs(residual))
            excess -= x[k]
            x_step[k] = target_product / x[k] - z[k] - residual
            unit_solution[k] = 1.0
            for j in range(n):
                matrix[k, j] = gram[k, j] / l2
            matrix[k, k] += z[k] / x[k]
        if n * target_product <= CENTRING * 0.1 * tol and worst_residual <= 0.1 * tol:
            break
        if not _solve_two(matrix, x_step, unit_solution):
            break
        shift_step, column_sum, step = excess, 0.0, 1.0
        for k in range(n):
            shift_step -= x_step[k]
            column_sum += unit_solution[k]
        shift_step /= column_sum
        for k in range(n):
            x_step[k] += shift_step * unit_solution[k]
            z_step[k] = target_product / x[k] - z[k] - z[k] / x[k] * x_step[k]
            if x_step[k] < 0.0:
                step = min(step, -INSIDE * x[k] / x_step[k])
            if z_step[k] < 0.0:
                step = min(step, -INSIDE * z[k] / z_step[k])
        for k in range(n):
            x[k] += step * x_step[k]
            z[k] += step * z_step[k]
        shift += step * shift_step
    total = 0.0
    for k in range(n):
        x[k] = x[k] if x[k] > NEGLIGIBLE else 0.0
        total += x[k]
    for k in range(n):
        x[k] /= total
    # Keep the better of the two: far from the optimum, rounding may have spoilt the equations.
    old_dual = dot(b, alpha) - dot(alpha, rows_dot(gram, alpha)) / (2.0 * l2)
    if dot(b, x) - dot(x, rows_dot(gram, x)) / (2.0 * l2) > old_dual:
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
    """Return A diag(mask) A^T."""
    t = cuts.shape[0]
    out = np.empty((t, t))
    for i in range(t):
        for j in range(i + 1):
            out[i, j] = out[j, i] = _masked_dot(cuts[i], cuts[j], mask)
    return out


def solve_dual(gram: Vector, b: Vector, l2: float, alpha: Vector, tol: float) -> float:
    """Improve ``alpha`` by exchanges, and by the interior-point method if these are too slow.

    Returns the remaining gap; if it exceeds ``tol``, the cuts need more precision than float64 has.
    """
    gap = float(maximise_dual(gram, b, l2, alpha, tol))
    if gap > tol:
        interior_dual(gram, b, l2, alpha, tol)
        gap = float(maximise_dual(gram, b, l2, alpha, tol))
    return gap


def maximise_dual_positive(
    cuts: Vector, b: Vector, l2: float, alpha: Vector, tol: float, max_rounds: int = 50
) -> Vector:
    """Maximise the dual with w >= 0; return the improved ``alpha``.

    Semismooth Newton method: for a fixed set of positive weights the dual is the quadratic one; its
    maximiser gives a direction, and a line search on the true (concave) dual gives the step.
    """
    cut_sum = add_rows(cuts, alpha)
    for _ in range(max_rounds):
        w = np.maximum(0.0, -cut_sum) / l2
        gradient = b + rows_dot(cuts, w)
        if gradient.max() - gradient[alpha > 0].min() <= tol:
            return alpha
        target = alpha.copy()
        mask = (cut_sum < 0).astype(np.float64)
        solve_dual(_masked_gram(cuts, mask), b, l2, target, 0.1 * tol)
        direction = target - alpha
        cut_sum_change = add_rows(cuts, target) - cut_sum
        step = _dual_step(b, l2, cut_sum, direction, cut_sum_change)
        if step == 0.0:
            return alpha
        alpha = np.maximum(0.0, alpha + step * direction)
        cut_sum = add_rows(cuts, alpha)
    return alpha


def _dual_step(
    b: Vector, l2: float, cut_sum: Vector, direction: Vector, cut_sum_change: Vector
) -> float:
    """Return the largest step in [0, 1] at which the concave dual still rises along a direction."""
    linear = dot(b, direction)

    def slope(step: float) -> float:
        return float(
            linear + dot(np.maximum(0.0, -(cut_sum + step * cut_sum_change)), cut_sum_change) / l2
        )

    if slope(1.0) >= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if slope(middle) >= 0.0:
            low = middle
        else:
            high = middle
    return low


#: A trial closer to an end of the bracket than this share of its width would repeat the end. It is
#: moved inwards to MIN_SHRINK, so that each trial shrinks the bracket by a tenth at least.
TOO_NEAR = 0.02
MIN_SHRINK = 0.1


@dataclass(frozen=True)
class Trial:
    """One step along a line: J, R, the slope of R along the line, and the subgradient of R."""

    step: float
    objective: float
    risk: float
    risk_slope: float
    slopes: Any


def minimise_along(
    evaluate_at: Callable[[float], tuple[float, float, Any]],
    start: Trial,
    line_coefficients: tuple[float, float],
    *,
    rtol: float = 0.1,
    max_trials: int = 6,
    max_step: float = float("inf"),
) -> Trial:
    """Search a line for a smaller objective; return the best trial, which may be the start.

    ``evaluate_at(step)`` returns the risk, its slope along the line and its subgradient.
    ``line_coefficients`` are A0 = l2 <w, d> and A1 = l2 |d|^2, so that
    J(k) = J(0) - R(0) + A0 k + A1 k^2 / 2 + R(k). The search ends when the slope of J has shrunk to
    ``rtol`` times the slope at 0.
    """
    linear, curvature = line_coefficients
    penalty_value = start.objective - start.risk
    initial_slope = -(linear + start.risk_slope)
    best, low_trial = start, start
    high_trial: Trial | None = None
    # The objective does not fall along this line, or the line has no length.
    if initial_slope <= 0.0 or curvature <= 0.0:
        return best
    step = min(1.0, max_step)
    for _ in range(max_trials):
        risk, risk_slope, slopes = evaluate_at(step)
        objective = penalty_value + linear * step + 0.5 * curvature * step * step + risk
        trial = Trial(step, objective, risk, risk_slope, slopes)
        if objective < best.objective:
            best = trial
        slope = linear + curvature * step + risk_slope
        if abs(slope) <= rtol * initial_slope:
            return best
        if slope > 0.0:
            high_trial = trial
        else:
            low_trial = trial
        # Without a trial behind the minimum the step doubles; then the two trials enclose it.
        if high_trial is None:
            if step >= max_step:
                return best
            step = min(2.0 * step, max_step)
        else:
            step = _between(low_trial, high_trial, linear, curvature)
            if not low_trial.step < step < high_trial.step:
                return best
    return best


def _between(low: Trial, high: Trial, linear: float, curvature: float) -> float:
    """Return the minimiser of the quadratic plus the larger of the two tangents of R."""
    slope_difference = high.risk_slope - low.risk_slope
    width = high.step - low.step
    if slope_difference > 0.0:
        left = low.risk - low.risk_slope * low.step
        right = high.risk - high.risk_slope * high.step
        kink = (left - right) / slope_difference
    else:
        kink = 0.5 * (low.step + high.step)
    minimum_left = -(linear + low.risk_slope) / curvature
    minimum_right = -(linear + high.risk_slope) / curvature
    if low.step < minimum_left <= kink:
        step = minimum_left
    elif kink <= minimum_right < high.step:
        step = minimum_right
    else:
        step = kink
    if not low.step + TOO_NEAR * width <= step <= high.step - TOO_NEAR * width:
        step = min(max(step, low.step + MIN_SHRINK * width), high.step - MIN_SHRINK * width)
    return step


#: A cut whose weight was 0 for this many rounds is dropped.
IDLE_ROUNDS = 60
#: Relative rounding error of a sum of products.
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
#: Memory limit of the cuts; above it, those with the smallest weights are merged into one.
MAX_BYTES = 256 * 2**20


class Bundle:
    """Cuts R(w) >= <a_k, w> + b_k, which are valid for every strength of regularisation.

    Starts with the cut R >= 0. Cuts without weight are dropped after ``IDLE_ROUNDS``; at the memory
    limit, those with the smallest weights are replaced by their weighted mean, which is a cut as
    well and preserves the current lower bound.
    """

    def __init__(self, n_features: int, *, positive: bool = False) -> None:
        self.positive = positive
        self.max_cuts = max(8, MAX_BYTES // (8 * max(n_features, 1)))
        self._cuts = np.zeros((4, n_features))
        self._gram = np.zeros((4, 4))
        self.n_cuts = 1
        self.b = np.zeros(1)
        self._magnitude = np.zeros(1)
        self.alpha = np.ones(1)
        self._idle = np.zeros(1, dtype=np.int64)
        #: Whether the last dual problem could not be solved to the requested tolerance.
        self.coarse = False

    @property
    def cuts(self) -> Vector:
        """The slopes a_k, one a row."""
        return self._cuts[: self.n_cuts]

    @property
    def gram(self) -> Vector:
        """A A^T."""
        return self._gram[: self.n_cuts, : self.n_cuts]

    def state(self) -> Sequence[Any]:
        """Return all cuts with their weights and ages, for ``restore``."""
        per_cut = (self.b, self._magnitude, self.alpha, self._idle)
        return self.cuts, self.gram, *per_cut, self.coarse

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from a state."""
        self._cuts, self._gram, self.b, self._magnitude, self.alpha, self._idle, self.coarse = state
        self.n_cuts = len(self.b)

    def add(self, slope: Vector, offset: float, magnitude: float = 0.0) -> None:
        """Add the cut <slope, w> + offset.

        ``magnitude`` is the size of the numbers that the offset was computed from; it bounds the
        offset's rounding error.
        """
        if self.n_cuts >= self.max_cuts:
            self._merge(self.n_cuts // 2)
        t = self.n_cuts
        if t == len(self._cuts):
            self._grow(t + t)
        self._cuts[t] = slope
        self.n_cuts = t + 1
        row = rows_dot(self.cuts, slope)
        require_finite(row, t, "the bundle method")
        self._gram[t, : t + 1] = row
        self._gram[: t + 1, t] = row
        self.b = np.append(self.b, offset)
        self._magnitude = np.append(self._magnitude, magnitude)
        self.alpha = np.append(self.alpha, 0.0)
        self._idle = np.append(self._idle, 0)

    def add_cut(self, problem: Problem, w: Vector, risk: float, slopes: Any) -> None:
        """Add the cut of a problem at w, where its risk is ``risk`` and has these slopes."""
        slope = problem.gradient(slopes)
        # R(v) >= R(w) + <slope, v - w> holds for every subgradient of a convex risk.
        self.add(slope, risk - dot(slope, w), risk + norm(slope) * norm(w))

    def solve(self, l2: float, tol: float) -> tuple[Vector, float]:
        """Return the minimiser of l2/2 |w|^2 + max over cuts, and a lower bound of the minimum."""
        if self.positive:
            self.alpha = maximise_dual_positive(self.cuts, self.b, l2, self.alpha, tol)
        else:
            # Contiguous, because the bits of sums depend on the spacing of the rows in memory.
            gram = np.ascontiguousarray(self.gram)
            self.coarse = solve_dual(gram, self.b, l2, self.alpha, tol) > tol
        self.alpha /= self.alpha.sum()
        cut_sum = add_rows(self.cuts, self.alpha)
        w = -cut_sum / l2
        if self.positive:
            w = np.maximum(0.0, w)
        bound = float(dot(self.b, self.alpha) - 0.5 * l2 * dot(w, w)) - self._rounding(w)
        self._idle = np.where(self.alpha > 0, 0, self._idle + 1)
        self._keep(self._idle < IDLE_ROUNDS)
        return w, bound

    def _rounding(self, w: Vector) -> float:
        """Return a bound of the rounding error in the offsets of the cuts and in their mean."""
        lengths = np.sqrt(np.diag(self.gram))
        magnitude = dot(self._magnitude, self.alpha) + norm(w) * dot(lengths, self.alpha)
        return ROUNDING * float(magnitude)

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        if keep.all():
            return
        kept_indices = np.flatnonzero(keep)
        for target, source in enumerate(kept_indices):
            self._cuts[target] = self._cuts[source]
        self._gram[: len(kept_indices), : len(kept_indices)] = self._gram[
            np.ix_(kept_indices, kept_indices)
        ]
        self.n_cuts = len(kept_indices)
        self.b, self.alpha, self._idle = self.b[keep], self.alpha[keep], self._idle[keep]
        self._magnitude = self._magnitude[keep]

    def _merge(self, count: int) -> None:
        """Replace the ``count`` cuts of smallest weight by their weighted mean.

        If all their weights are 0, they are dropped.
        """
        lightest = np.sort(np.argsort(self.alpha, kind="stable")[:count])
        share = np.zeros(self.n_cuts)
        share[lightest] = self.alpha[lightest]
        total = float(share.sum())
        keep = np.ones(self.n_cuts, dtype=np.bool_)
        keep[lightest] = False
        if total > 0.0:
            slope, offset = add_rows(self.cuts, share / total), float(dot(self.b, share)) / total
            magnitude = float(dot(self._magnitude, share)) / total
        self._keep(keep)
        if total > 0.0:
            self.add(slope, offset, magnitude)
            self.alpha[-1] = total

    def _grow(self, capacity: int) -> None:
        cuts, gram = np.zeros((capacity, self._cuts.shape[1])), np.zeros((capacity, capacity))
        cuts[: self.n_cuts] = self.cuts
        gram[: self.n_cuts, : self.n_cuts] = self.gram
        self._cuts, self._gram = cuts, gram


#: The next cut is taken at (1 - MIX) best + MIX minimiser of the model; 0 stalls, and 1/2 loses the
#: advantage over plain cutting planes.
MIX = 0.1
#: A gap below this fraction of the objective is rounding error.
PRECISION = 1e-13
#: Stop after this many rounds without a better point or bound.
MAX_STALLED = 30
#: Stop after this many dual problems that could not be solved to their tolerance.
MAX_COARSE = 30


class _Best:
    """The best point so far, with its scores and subgradient."""

    def __init__(self, problem: Problem, w: Vector, l2: float) -> None:
        self.problem = problem
        self.l2 = l2
        self.evaluations = 1
        self.w = w
        self.scores = problem.scores(w)
        self.risk, self.slopes = problem.evaluate(self.scores)
        self.objective = 0.5 * l2 * dot(w, w) + self.risk

    def state(self) -> Sequence[Any]:
        """Return the point, for ``restore``."""
        return self.w, self.scores, self.risk, self.slopes, self.objective, self.evaluations

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from a state."""
        self.w, self.scores, self.risk, self.slopes, self.objective, self.evaluations = state

    def search(self, w: Vector, scores: Any, *, positive: bool) -> None:
        """Move to the best point on the line through ``w``, whose scores are ``scores``."""
        problem = self.problem
        d, d_scores = w - self.w, problem.combine(1.0, scores, -1.0, self.scores)

        def evaluate_at(step: float) -> tuple[float, float, Any]:
            self.evaluations += 1
            risk, slopes = problem.evaluate(problem.combine(1.0, self.scores, step, d_scores))
            return risk, problem.slope_along(slopes, d_scores), slopes

        start = Trial(
            0.0, self.objective, self.risk, problem.slope_along(self.slopes, d_scores), self.slopes
        )
        line = (self.l2 * dot(self.w, d), self.l2 * dot(d, d))
        max_step = _longest_step(self.w, d) if positive else float("inf")
        best_trial = minimise_along(evaluate_at, start, line, max_step=max_step)
        if best_trial.step > 0.0:
            new_w = self.w + best_trial.step * d
            self.w = np.maximum(0.0, new_w) if positive else new_w
            self.scores = problem.combine(1.0, self.scores, best_trial.step, d_scores)
            self.risk, self.slopes, self.objective = (
                best_trial.risk,
                best_trial.slopes,
                best_trial.objective,
            )

    def consider(self, w: Vector, scores: Any, risk: float, slopes: Any) -> None:
        """Move to a point if its objective is smaller."""
        objective = 0.5 * self.l2 * dot(w, w) + risk
        if objective < self.objective:
            self.w, self.scores, self.risk, self.slopes = w, scores, risk, slopes
            self.objective = objective


def solve_bundle(
    problem: Problem,
    l2: float,
    *,
    start: Vector | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    positive: bool = False,
    bundle: Bundle | None = None,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Minimise l2/2 |w|^2 + R(w), with w >= 0 if ``positive``.

    ``bundle`` holds cuts of the same risk from an earlier run, for instance with another l2, and is
    extended in place. Certificate: ``objective``, ``lower_bound``, ``gap``, ``relative_gap``
    (gap / J(0)).
    """
    gap_tolerance = tol * problem.at_zero
    n = problem.n_features
    if bundle is None:
        bundle = Bundle(n, positive=positive)
    w = initial_weights(start, n)
    if positive:
        w = np.maximum(0.0, w)
    best = _Best(problem, w, l2)
    cut_w, cut_risk, cut_slopes = best.w, best.risk, best.slopes
    lower_bound, reason, first_iteration = 0.0, "max_iter", 1
    n_stalled = n_coarse = iteration = 0
    trace: list[dict[str, float]] = []
    resume = problem.resume_point("bundle")
    if resume.state is not None:
        cut, counters, best_state, bundle_state = resume.state
        cut_w, cut_risk, cut_slopes = cut
        lower_bound, n_stalled, n_coarse, first_iteration, trace = counters
        best.restore(best_state)
        bundle.restore(bundle_state)

    def loop_state() -> Sequence[Any]:
        cut = (cut_w, cut_risk, cut_slopes)
        counters = (lower_bound, n_stalled, n_coarse, iteration, trace)
        return cut, counters, best.state(), bundle.state()

    for iteration in range(first_iteration, max_iter + 1):
        resume.save(loop_state)
        bundle.add_cut(problem, cut_w, cut_risk, cut_slopes)
        previous_objective, previous_bound = best.objective, lower_bound
        w, bound = bundle.solve(l2, max(1e-13, 0.01 * gap_tolerance))
        require_finite(w, iteration, "the bundle method")
        lower_bound = max(lower_bound, bound)
        if best.objective - lower_bound > gap_tolerance:
            # Move to the best point towards the model's minimiser; the next cut is taken near it.
            scores = problem.scores(w)
            best.search(w, scores, positive=positive)
            cut_w = (1.0 - MIX) * best.w + MIX * w
            cut_scores = problem.combine(1.0 - MIX, best.scores, MIX, scores)
            cut_risk, cut_slopes = problem.evaluate(cut_scores)
            best.evaluations += 1
            best.consider(cut_w, cut_scores, cut_risk, cut_slopes)
        gap = best.objective - lower_bound
        record = {"objective": best.objective, "lower_bound": lower_bound, "gap": gap}
        trace.append({"iteration": iteration, **record, "evaluations": best.evaluations})
        if report_progress(callbacks, "cuts", iteration, max_iter, record, best.w):
            reason = "callback"
            break
        if best.objective < previous_objective or lower_bound > previous_bound:
            n_stalled = 0
        else:
            n_stalled += 1
        n_coarse += bundle.coarse
        if gap <= gap_tolerance:
            reason = "converged"
            break
        if gap <= PRECISION * best.objective or n_coarse >= MAX_COARSE:
            reason = "precision"
            break
        if n_stalled >= MAX_STALLED:
            reason = "stalled"
            break
    counts = {"evaluations": best.evaluations, "cuts": bundle.n_cuts}
    certificate = gap_certificate(best.objective, lower_bound, problem.at_zero, **counts)
    return Solution(best.w, best.objective, certificate, iteration, trace, reason)


def _longest_step(w: Vector, d: Vector) -> float:
    """Return the largest k with w + k d >= 0."""
    falling = d < 0.0
    return float((w[falling] / -d[falling]).min(initial=np.inf))
