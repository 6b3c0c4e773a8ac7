"""Coordinate descent with a working set, for any loss that implements ``kernels.columns``.

    minimise  L(w) + l1 |w|_1 + l2/2 |w|^2

A round computes the exact gradient of all columns (in parallel), from which the loss's dual gives a
duality gap. It then sweeps over the working set, the columns with a non-zero weight and the worst
violators among the others, until their violation is well below the violation of the round. The next
round computes the gradient of every column again, so the gap that ends the run covers all columns.
``regularisation_path`` and ``path_until_nonzeros`` solve for a decreasing l1, each from the
previous solution.

A step along one weight minimises the penalty plus one of two upper bounds of the loss phi:

* the parabola g d + beta/2 d^2, whose minimiser is a soft threshold (the paper's lemmas 1 and 2):
  u = beta w - g; w_new = sign(u) max(|u| - l1, 0) / (beta + l2);
* for a loss with |phi'''| <= R phi'', the exponential g d + (h/R^2)(e^{R|d|} - 1 - R|d|) with the
  true second derivative h, whose minimiser has a closed form for l2 = 0.

``newton_step`` takes the longer step, whose guaranteed decrease is larger. Far from the optimum the
parabola of a loss with a vanishing second derivative is much too narrow; near the optimum the
exponential gives Newton's step. Both are upper bounds, so the objective cannot rise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError
from rankine.kernels.columns import (
    Columns,
    CscColumns,
    curvature_bounds,
    n_columns,
    shift,
    slope_and_curvature,
)
from rankine.kernels.compile import jit
from rankine.kernels.random import permutation, stream_seed
from rankine.kernels.shards import N_SHARDS, cut_by_weight, map_shards
from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.problem import Penalty

#: Sweeps over the working set end when its violation is below this share of the round's ...
INNER_SHARE = 0.1
#: ... or after this many.
INNER_SWEEPS = 50
#: Number of sweeps between two extrapolations.
EXTRAPOLATE_EVERY = 5
#: The working set gets at least this many violators, if there are as many.
FIRST_VIOLATORS = 100


@dataclass(frozen=True)
class DescentSettings:
    """Settings of coordinate descent; the result does not depend on ``threads``."""

    #: Stop when gap <= tol * J(0), or after ``max_iter`` sweeps over the working set.
    tol: float = 1e-4
    max_iter: int = 1000
    #: Use the paper's curvature bound of the loss (its eq. 1.3) instead of Newton's steps.
    paper: bool = False
    #: Sweep over every column, without a working set and without extrapolation.
    plain: bool = False
    #: Visit columns in a random order, new in every sweep, drawn from the seed.
    shuffle: bool = False
    seed: int = 0
    threads: int | None = None


class CoordinateDescent:
    """A loss, its columns and the current weights; ``solve`` continues from these weights.

    ``risk`` is the loss at w = 0. Its ``state`` implements ``kernels.columns``; further it has
    ``value()``, ``current_dual(kappa)``, ``move_to(columns, w)``, ``scratch()`` and ``at_zero``.
    """

    def __init__(self, risk: Any, columns: Columns) -> None:
        n = n_columns(columns)
        self.risk = risk
        self.columns = columns
        self.w = np.zeros(n)
        self.at_zero = float(risk.at_zero)
        #: (R, beta, crude) of each column, see ``curvature_bounds``; NaN before its first visit.
        self.limits = np.full((n, 3), np.nan)
        ends = columns.indptr if isinstance(columns, CscColumns) else np.arange(n + 1)
        self._cuts = cut_by_weight(ends)
        self._scratch = risk.scratch()

    def restart(self, w: NDArray[np.float64]) -> None:
        """Continue from the weights w."""
        self.w[:] = w
        self.risk.move_to(self.columns, self.w)

    def gradient(self, threads: int | None = None) -> NDArray[np.float64]:
        """Return the gradient of the loss at the current weights."""
        out = np.empty(len(self.w))

        def compute_shard(start: int, stop: int) -> None:
            _gradient_into(self.risk.state, self.columns, start, stop, self.risk.scratch(), out)

        map_shards(compute_shard, self._cuts, threads)
        return self._zero_flat_slopes(out, threads)

    def _zero_flat_slopes(
        self, slopes: NDArray[np.float64], threads: int | None
    ) -> NDArray[np.float64]:
        """Set slopes to 0 that are rounding errors, as far as they are among the largest.

        Along a column that is constant in every list the slope is 0, but its computed sum may not
        be. As the largest slope it would be taken for the smallest l1 that gives w = 0, or for a
        gap.
        """
        while True:
            magnitudes = np.abs(slopes)
            large = np.flatnonzero(
                (magnitudes > 0.0) & (magnitudes >= 0.5 * magnitudes.max(initial=0.0))
            )
            self._update_bounds(large.astype(np.uint64), threads)
            flat = large[self.limits[large, 0] == 0.0]
            if len(flat) == 0:
                return slopes
            slopes[flat] = 0.0

    def _update_bounds(self, columns: NDArray[np.uint64], threads: int | None) -> None:
        """Compute the curvature bounds of columns that are visited for the first time."""
        new_columns = columns[np.isnan(self.limits[columns]).any(axis=1)]
        limits = self.limits

        def compute_shard(start: int, stop: int) -> None:
            _bounds_into(
                self.risk.state, self.columns, new_columns[start:stop], self.risk.scratch(), limits
            )

        map_shards(
            compute_shard,
            np.unique(np.linspace(0, len(new_columns), N_SHARDS + 1).astype(int)),
            threads,
        )

    def solve(
        self,
        penalty: Penalty,
        settings: DescentSettings,
        callbacks: Sequence[Callback] = (),
        gradient: NDArray[np.float64] | None = None,
    ) -> Solution:
        """Minimise from the current weights.

        ``gradient`` is the gradient at the current weights, if the caller has it.
        """
        trace: list[dict[str, float]] = []
        best_bound = -np.inf
        sweeps = 0
        reason = "max_iter"
        while True:
            if gradient is None:
                gradient = self.gradient(settings.threads)
            slopes = gradient
            gradient = None  # valid for the first round only
            objective = self.risk.value() + penalty.value(self.w)
            best_bound = max(best_bound, penalty.lower_bound(self.risk.current_dual, slopes))
            gap = max(objective - best_bound, 0.0)
            record = {
                "sweep": float(sweeps),
                "objective": objective,
                "gap": gap,
                "nonzeros": float(np.count_nonzero(self.w)),
            }
            trace.append(record)
            self._require_finite(objective, sweeps)
            progress = Progress(
                "coordinate descent", sweeps, settings.max_iter, record, self.w.copy
            )
            stop = notify(callbacks, progress)
            if gap <= settings.tol * self.at_zero:
                reason = "converged"
                break
            if stop:
                reason = "callback"
                break
            if sweeps >= settings.max_iter:
                self._require_curvature(sweeps)
                break
            moved, n_sweeps = self._descend(slopes, penalty, settings, sweeps)
            sweeps += n_sweeps
            if not moved:
                self._require_curvature(sweeps)
                # No step improves the objective: the gap is as small as precision allows.
                reason = "precision"
                break
        return Solution(
            self.w.copy(),
            objective,
            {"gap": gap, "lower_bound": best_bound, "relative_gap": gap / self.at_zero},
            sweeps,
            tuple(trace),
            reason,
        )

    def _descend(
        self, slopes: NDArray[np.float64], penalty: Penalty, settings: DescentSettings, sweeps: int
    ) -> tuple[bool, int]:
        """Sweep over a working set; return whether a weight changed, and the number of sweeps."""
        columns, largest_violation = working_set(slopes, self.w, penalty)
        if settings.plain:
            columns = np.arange(len(self.w), dtype=np.uint64)
        self._update_bounds(columns, settings.threads)
        any_moved = False
        n_sweeps = 0
        recent_weights = [self.w[columns]]
        while n_sweeps < INNER_SWEEPS and sweeps + n_sweeps < settings.max_iter:
            order = columns
            if settings.shuffle:
                seed = stream_seed(settings.seed, sweeps + n_sweeps)
                order = columns[permutation(seed, len(columns))]
            violation, n_moves = sweep(
                self.risk.state,
                self.columns,
                order,
                self.w,
                self.limits,
                penalty.l1,
                penalty.l2,
                settings.paper,
                self._scratch,
            )
            n_sweeps += 1
            any_moved = any_moved or n_moves > 0
            if n_moves == 0 or violation <= INNER_SHARE * largest_violation:
                break
            if settings.plain:
                continue
            recent_weights.append(self.w[columns])
            if len(recent_weights) > EXTRAPOLATE_EVERY:
                self._extrapolate(columns, recent_weights, penalty)
                recent_weights = [self.w[columns]]
        return any_moved, n_sweeps

    def _extrapolate(
        self,
        columns: NDArray[np.uint64],
        recent_weights: list[NDArray[np.float64]],
        penalty: Penalty,
    ) -> None:
        """Try the extrapolated limit of the last sweeps; keep it only if the objective falls.

        Anderson's extrapolation (Bertrand and Massias 2021): the combination sum c_k w_k, with
        sum c_k = 1, whose combined differences are smallest. Sweeps converge slowly if features are
        correlated; extrapolation removes most of that.
        """
        target = extrapolated(recent_weights)
        if target is None:
            return
        previous_w = self.w.copy()
        previous_objective = self.risk.value() + penalty.value(previous_w)
        self.w[columns] = target
        self.risk.move_to(self.columns, self.w)
        if not self.risk.value() + penalty.value(self.w) < previous_objective:
            self.restart(previous_w)

    def _require_finite(self, objective: float, sweeps: int) -> None:
        if not (np.isfinite(objective) and np.isfinite(self.w).all()):
            raise DivergenceError(
                f"coordinate descent diverged: numbers are no longer finite after {sweeps} sweeps",
                fix="Scale the features (scale='maxabs')",
            )

    def _require_curvature(self, sweeps: int) -> None:
        """Raise DivergenceError if a curvature overflowed, as its weight cannot change."""
        if np.isinf(self.limits).any():
            column = int(np.flatnonzero(np.isinf(self.limits).any(axis=1))[0])
            raise DivergenceError(
                f"the squares of column {column} overflow, so its weight cannot change; "
                f"stopped after {sweeps} sweeps",
                fix="Scale the features (scale='maxabs')",
            )


def extrapolated(recent_weights: list[NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """Extrapolate the limit of a sequence of weights; None if it cannot be computed.

    Weights that are 0 in the last vector stay 0, and none changes its sign.
    """
    points = np.array(recent_weights)
    steps = np.diff(points, axis=0)
    largest = np.abs(steps).max()
    if not 0.0 < largest < np.inf:
        return None
    # Scaled by a power of two, which is exact: the squares of 1e-170 would underflow.
    steps = np.ldexp(steps, -np.frexp(largest)[1])
    gram = np.einsum("ij,kj->ik", steps, steps)  # not BLAS, see Penalty.value
    trace = float(np.trace(gram))
    shares = np.linalg.solve(gram + 1e-12 * trace * np.eye(len(gram)), np.ones(len(gram)))
    total = float(shares.sum())
    if not np.isfinite(total) or total == 0.0:
        return None
    target = np.einsum("i,ij->j", shares / total, points[1:])
    keep = np.sign(target) == np.sign(points[-1])
    if not np.isfinite(target).all():
        return None
    return np.where(keep, target, 0.0)


def working_set(
    slopes: NDArray[np.float64], w: NDArray[np.float64], penalty: Penalty
) -> tuple[NDArray[np.uint64], float]:
    """Return the columns to sweep over, and the largest violation of all columns.

    These are all columns with a non-zero weight and up to as many violators (or
    ``FIRST_VIOLATORS``), the worst first, so that the set at most doubles in a round.
    """
    active = w != 0.0
    violations = np.where(
        active,
        np.abs(slopes + penalty.l2 * w + penalty.l1 * np.sign(w)),
        np.maximum(np.abs(slopes) - penalty.l1, 0.0),
    )
    violators = np.flatnonzero(~active & (violations > 0.0))
    max_violators = max(FIRST_VIOLATORS, int(active.sum()))
    if penalty.l1 > 0 and len(violators) > max_violators:
        violators = violators[np.argsort(-violations[violators], kind="stable")[:max_violators]]
    columns = np.union1d(np.flatnonzero(active), violators)
    return columns.astype(np.uint64), float(violations.max(initial=0.0))


@jit
def quadratic_step(g: float, H: float, w: float, l1: float, l2: float) -> float:
    """Return argmin over d of g d + H/2 d^2 + l1 |w + d| + l2/2 (w + d)^2."""
    u = H * w - g
    if u > l1:
        return (u - l1) / (H + l2) - w
    if u < -l1:
        return (u + l1) / (H + l2) - w
    return -w


@jit
def _stretch(force: float, h: float, R: float, l2: float) -> float:
    """Return the root t >= 0 of (h/R)(e^{Rt} - 1) + l2 t = force, for force > 0.

    Newton's iteration from above; the function is convex and increasing, so it stays above.
    """
    t = np.log1p(R * force / h) / R
    if l2 > 0.0:
        t = min(t, force / l2)
        for _ in range(50):
            growth = np.expm1(R * t)
            excess = h / R * growth + l2 * t - force
            change = excess / (h * (growth + 1.0) + l2)
            t -= change
            if change <= 1e-14 * t:
                break
    return max(t, 0.0)


@jit
def exponential_step(g: float, h: float, R: float, w: float, l1: float, l2: float) -> float:
    """Return argmin over d of g d + (h/R^2)(e^{R|d|} - 1 - R|d|) + l1 |w + d| + l2/2 (w + d)^2.

    Needs h > 0.
    """
    if w == 0.0:
        force = abs(g) - l1
        if force <= 0.0:
            return 0.0
        return -np.sign(g) * _stretch(force, h, R, l2)
    side = np.sign(w)
    slope = g + l2 * w + l1 * side
    if slope == 0.0:
        return 0.0
    force = abs(slope)
    away = -np.sign(slope)
    t = _stretch(force, h, R, l2)
    if away == side or t <= abs(w):
        return away * t
    # The step would cross zero, where the slope of the l1 penalty changes its sign.
    if force - 2.0 * l1 <= 0.0:
        return -w
    t = _stretch(force - 2.0 * l1, h, R, l2)
    return away * t if t > abs(w) else -w


@jit
def newton_step(g: float, h: float, R: float, beta: float, w: float, l1: float, l2: float) -> float:
    """Return the longer of both steps, whose guaranteed decrease is larger."""
    parabola_step = quadratic_step(g, beta, w, l1, l2)
    # A curvature that is all rounding error would give a meaningless exponential.
    if h <= 1e-14 * beta:
        return parabola_step
    exponential = exponential_step(g, h, R, w, l1, l2)
    # Up to the end of the longer step, the bound that it minimises is the smaller one.
    return exponential if abs(exponential) > abs(parabola_step) else parabola_step


@jit
def violation(g: float, w: float, l1: float, l2: float) -> float:
    """Return the magnitude of the smallest subgradient, 0 if and only if w is optimal."""
    if w > 0.0:
        return abs(g + l2 * w + l1)
    if w < 0.0:
        return abs(g + l2 * w - l1)
    return max(0.0, abs(g) - l1)


@jit
def _gradient_into(
    loss: Any, columns: Columns, start: int, stop: int, scratch: Any, out: NDArray[np.float64]
) -> None:
    for r in range(np.uint64(start), np.uint64(stop)):
        out[r] = slope_and_curvature(loss, columns, r, scratch)[0]


@jit
def _bounds_into(
    loss: Any, columns: Columns, columns_to_visit: Any, scratch: Any, limits: Any
) -> None:
    for r in columns_to_visit:
        R, beta, crude = curvature_bounds(loss, columns, r, scratch)
        limits[r, 0] = R
        limits[r, 1] = beta
        limits[r, 2] = crude


@jit
def sweep(
    loss: Any,
    columns: Columns,
    columns_to_visit: NDArray[np.uint64],
    w: NDArray[np.float64],
    limits: NDArray[np.float64],
    l1: float,
    l2: float,
    use_paper_bound: bool,
    scratch: Any,
) -> Any:
    """Visit columns once; return the largest violation and the number of changed weights.

    ``limits`` holds the curvature bounds of all columns.
    """
    largest_violation = 0.0
    n_moves = 0
    for r in columns_to_visit:
        g, h = slope_and_curvature(loss, columns, r, scratch)
        if limits[r, 0] == 0.0:
            # The loss does not depend on this weight, and the penalty is smallest at zero.
            step = -w[r]
        else:
            column_violation = violation(g, w[r], l1, l2)
            largest_violation = max(largest_violation, column_violation)
            if column_violation == 0.0:
                continue
            if use_paper_bound:
                step = quadratic_step(g, limits[r, 2], w[r], l1, l2)
            else:
                step = newton_step(g, h, limits[r, 0], limits[r, 1], w[r], l1, l2)
        if step != 0.0:
            w[r] += step
            n_moves += 1
            shift(loss, columns, r, step, scratch)
    return largest_violation, n_moves


#: Ratio of successive l1 in the search for a model of a given size.
SEARCH_RATIO = 0.7
#: The search ends below this share of the largest l1.
SEARCH_END = 1e-4
#: Bisections between the last l1 whose model is small enough and the first whose is not.
HALVINGS = 4


@dataclass(frozen=True)
class PathPoint:
    """One solution of a path; ``loss`` is the objective without the penalty."""

    l1: float
    loss: float
    solution: Solution
    seconds: float

    @property
    def nonzeros(self) -> int:
        """Number of non-zero weights."""
        return int(np.count_nonzero(self.solution.coef))


def l1_grid(largest: float, n_steps: int, min_ratio: float) -> NDArray[np.float64]:
    """Return a geometric grid from ``largest`` down to ``min_ratio`` times it.

    ``largest`` is the smallest l1 that gives w = 0.
    """
    return largest * np.geomspace(1.0, min_ratio, n_steps)


def regularisation_path(
    descent: CoordinateDescent, l1s: Sequence[float], l2: float, settings: DescentSettings
) -> Iterator[PathPoint]:
    """Yield the solution for every l1 in turn, each solved from the previous one."""
    for l1 in l1s:
        yield _solve(descent, float(l1), l2, settings)


def path_until_nonzeros(
    descent: CoordinateDescent, largest: float, l2: float, settings: DescentSettings, limit: int
) -> Iterator[PathPoint]:
    """Yield solutions with at most ``limit`` non-zero weights, from the largest l1 down.

    Decreases l1 until the limit is exceeded, then bisects the interval (on a log scale) between the
    last l1 within the limit and the first that exceeds it.
    """
    l1_within = l1_beyond = largest
    while l1_beyond > SEARCH_END * largest:
        l1_beyond = l1_within * SEARCH_RATIO
        point = _solve(descent, l1_beyond, l2, settings)
        if point.nonzeros > limit:
            break
        l1_within = l1_beyond
        yield point
    else:
        return
    for _ in range(HALVINGS):
        middle = float(np.sqrt(l1_within * l1_beyond))
        point = _solve(descent, middle, l2, settings)
        if point.nonzeros > limit:
            l1_beyond = middle
        else:
            l1_within = middle
            yield point


def _solve(
    descent: CoordinateDescent, l1: float, l2: float, settings: DescentSettings
) -> PathPoint:
    started = time.perf_counter()
    penalty = Penalty(l1, l2)
    solution = descent.solve(penalty, settings)
    loss = solution.objective - penalty.value(solution.coef)
    return PathPoint(l1, loss, solution, time.perf_counter() - started)
