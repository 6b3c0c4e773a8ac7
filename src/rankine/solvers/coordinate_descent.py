"""Coordinate descent with a working set, for any loss that answers ``kernels.columns``.

    minimise  L(w) + l1 |w|_1 + l2/2 |w|^2

A round computes the exact gradient of all columns (in parallel), from which the
loss's dual gives a duality gap; it then sweeps over the columns that matter: those with a
non-zero weight and the worst violators among the others, until their violation has fallen well
below the round's. The next round looks at every column again, so nothing is lost by leaving
columns out, and the gap that ends the run covers them all. ``walk`` and ``path_until_nonzeros`` solve for
a falling l1, each from the solution before it.

A step along one weight under l1 |w|_1 + l2/2 |w|^2 is taken on one of two functions that lie above
the loss phi there:

* the parabola g d + beta/2 d^2, whose best regularised step is a soft threshold (the paper's
  lemmas 1 and 2): u = beta w - g; w_new = sign(u) max(|u| - l1, 0) / (beta + l2);
* for a loss with |phi'''| <= R phi'', the exponential g d + (h/R^2)(e^{R|d|} - 1 - R|d|) with the
  true second derivative h, whose best regularised step has a closed form when l2 = 0.

``newton_step`` takes the longer one, which promises more. Far from the optimum the parabola of a
loss with a vanishing second derivative is hopelessly narrow, near it the exponential gives Newton's
step. Both lie above the loss, so the objective cannot rise.
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

#: Sweeps over the working set end when its violation is below this share of the round's.
INNER_SHARE = 0.1
#: ... or after this many.
INNER_SWEEPS = 50
#: Sweeps between two attempts to extrapolate.
EXTRAPOLATE_EVERY = 5
#: Smallest number of violators taken into the working set.
FIRST_VIOLATORS = 100


@dataclass(frozen=True)
class DescentSettings:
    """How to descend; the result does not depend on ``threads``."""

    #: Stop when gap <= tol * J(0), or after so many sweeps over the working set.
    tol: float = 1e-4
    max_iter: int = 1000
    #: Use the loss's crude curvature bound (the paper's) instead of Newton's.
    paper: bool = False
    #: Sweep over every column, without a working set and without extrapolation.
    plain: bool = False
    #: Visit columns in a random order, new in every sweep, drawn from the seed.
    shuffle: bool = False
    seed: int = 0
    threads: int | None = None


class CoordinateDescent:
    """A loss, its columns and the current weights; ``solve`` may be called again and again.

    ``risk`` is the loss at w = 0: its ``state`` answers ``kernels.columns``; it has ``value()``,
    ``current_dual(kappa)``, ``move_to(columns, w)``, ``scratch()`` and ``at_zero`` besides.
    """

    def __init__(self, risk: Any, columns: Columns) -> None:
        n = n_columns(columns)
        self.risk = risk
        self.columns = columns
        self.w = np.zeros(n)
        self.at_zero = float(risk.at_zero)
        self.limits = np.full((n, 3), np.nan)
        ends = columns.indptr if isinstance(columns, CscColumns) else np.arange(n + 1)
        self._cuts = cut_by_weight(ends)
        self._own = risk.scratch()

    def restart(self, w: NDArray[np.float64]) -> None:
        """Continue from the weights w."""
        self.w[:] = w
        self.risk.move_to(self.columns, self.w)

    def gradient(self, threads: int | None = None) -> NDArray[np.float64]:
        """Gradient of the loss at the current weights."""
        out = np.empty(len(self.w))

        def part(start: int, stop: int) -> None:
            _gradient_into(self.risk.state, self.columns, start, stop, self.risk.scratch(), out)

        map_shards(part, self._cuts, threads)
        return self._without_dust(out, threads)

    def _without_dust(
        self, slopes: NDArray[np.float64], threads: int | None
    ) -> NDArray[np.float64]:
        """Slopes whose largest are no rounding.

        Along a column that is constant in every list the slope is 0, whatever its sum comes to;
        among the largest that would be taken for the smallest l1 that gives w = 0, or for a gap.
        """
        while True:
            sizes = np.abs(slopes)
            large = np.flatnonzero((sizes > 0.0) & (sizes >= 0.5 * sizes.max(initial=0.0)))
            self._bound(large.astype(np.uint64), threads)
            flat = large[self.limits[large, 0] == 0.0]
            if len(flat) == 0:
                return slopes
            slopes[flat] = 0.0

    def _bound(self, chosen: NDArray[np.uint64], threads: int | None) -> None:
        """Find the curvature bounds of columns that are visited for the first time."""
        new = chosen[np.isnan(self.limits[chosen]).any(axis=1)]
        limits = self.limits

        def part(start: int, stop: int) -> None:
            _bounds_into(
                self.risk.state, self.columns, new[start:stop], self.risk.scratch(), limits
            )

        map_shards(part, np.unique(np.linspace(0, len(new), N_SHARDS + 1).astype(int)), threads)

    def solve(
        self,
        penalty: Penalty,
        settings: DescentSettings,
        callbacks: Sequence[Callback] = (),
        gradient: NDArray[np.float64] | None = None,
    ) -> Solution:
        """Minimise from the current weights.

        ``gradient`` may pass in the gradient at the current weights when the caller has it.
        """
        trace: list[dict[str, float]] = []
        best_bound = -np.inf
        sweeps = 0
        reason = "max_iter"
        while True:
            slopes = self.gradient(settings.threads) if gradient is None else gradient
            gradient = None
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
            moved, used = self._descend(slopes, penalty, settings, sweeps)
            sweeps += used
            if not moved:
                self._require_curvature(sweeps)
                # Rounding leaves nothing to improve: the gap is as small as it can be.
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
        """Sweep over a working set; whether anything moved, and the number of sweeps."""
        chosen, worst = working_set(slopes, self.w, penalty)
        if settings.plain:
            chosen = np.arange(len(self.w), dtype=np.uint64)
        self._bound(chosen, settings.threads)
        moved = False
        used = 0
        recent = [self.w[chosen]]
        while used < INNER_SWEEPS and sweeps + used < settings.max_iter:
            order = chosen
            if settings.shuffle:
                seed = stream_seed(settings.seed, sweeps + used)
                order = chosen[permutation(seed, len(chosen))]
            left, moves = sweep(
                self.risk.state,
                self.columns,
                order,
                self.w,
                self.limits,
                penalty.l1,
                penalty.l2,
                settings.paper,
                self._own,
            )
            used += 1
            moved = moved or moves > 0
            if moves == 0 or left <= INNER_SHARE * worst:
                break
            if settings.plain:
                continue
            recent.append(self.w[chosen])
            if len(recent) > EXTRAPOLATE_EVERY:
                self._extrapolate(chosen, recent, penalty)
                recent = [self.w[chosen]]
        return moved, used

    def _extrapolate(
        self, chosen: NDArray[np.uint64], recent: list[NDArray[np.float64]], penalty: Penalty
    ) -> None:
        """Try the limit that the last sweeps point to; keep it only when the objective falls.

        Anderson's extrapolation (Bertrand and Massias 2021): the combination sum c_k w_k, with
        sum c_k = 1, whose combined differences are smallest. Correlated features make plain sweeps
        creep; this removes most of it.
        """
        target = extrapolated(recent)
        if target is None:
            return
        before = self.w.copy()
        value = self.risk.value() + penalty.value(before)
        self.w[chosen] = target
        self.risk.move_to(self.columns, self.w)
        if not self.risk.value() + penalty.value(self.w) < value:
            self.restart(before)

    def _require_finite(self, objective: float, sweeps: int) -> None:
        if not (np.isfinite(objective) and np.isfinite(self.w).all()):
            raise DivergenceError(
                f"coordinate descent left the finite numbers after {sweeps} sweeps",
                fix="Scale the features (scale='maxabs')",
            )

    def _require_curvature(self, sweeps: int) -> None:
        """Nothing can move along a column whose curvature is beyond the numbers."""
        if np.isinf(self.limits).any():
            column = int(np.flatnonzero(np.isinf(self.limits).any(axis=1))[0])
            raise DivergenceError(
                f"the squares of column {column} overflow, and it rests after {sweeps} sweeps",
                fix="Scale the features (scale='maxabs')",
            )


def extrapolated(recent: list[NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """Weights that the sequence tends to, zeros kept at zero; None when it cannot be told."""
    points = np.array(recent)
    steps = np.diff(points, axis=0)
    largest = np.abs(steps).max()
    if not 0.0 < largest < np.inf:
        return None
    steps = np.ldexp(steps, -np.frexp(largest)[1])  # squares of 1e-170 would be none
    gram = np.einsum("ij,kj->ik", steps, steps)  # not BLAS, see Penalty.value
    size = float(np.trace(gram))
    shares = np.linalg.solve(gram + 1e-12 * size * np.eye(len(gram)), np.ones(len(gram)))
    total = float(shares.sum())
    if not np.isfinite(total) or total == 0.0:
        return None
    target = np.einsum("i,ij->j", shares / total, points[1:])
    # A weight that the last sweep set to zero stays there, and none changes its sign.
    keep = np.sign(target) == np.sign(points[-1])
    return np.where(keep, target, 0.0) if np.isfinite(target).all() else None


def working_set(
    slopes: NDArray[np.float64], w: NDArray[np.float64], penalty: Penalty
) -> tuple[NDArray[np.uint64], float]:
    """Columns to sweep over, and the largest violation of all columns.

    All columns with a non-zero weight, and as many violators again (at least
    ``FIRST_VIOLATORS``), the worst first, so that the set at most doubles in a round.
    """
    active = w != 0.0
    wrong = np.where(
        active,
        np.abs(slopes + penalty.l2 * w + penalty.l1 * np.sign(w)),
        np.maximum(np.abs(slopes) - penalty.l1, 0.0),
    )
    violators = np.flatnonzero(~active & (wrong > 0.0))
    room = max(FIRST_VIOLATORS, int(active.sum()))
    if penalty.l1 > 0 and len(violators) > room:
        violators = violators[np.argsort(-wrong[violators], kind="stable")[:room]]
    chosen = np.union1d(np.flatnonzero(active), violators)
    return chosen.astype(np.uint64), float(wrong.max(initial=0.0))


@jit
def quadratic_step(g: float, H: float, w: float, l1: float, l2: float) -> float:
    """argmin over d of g d + H/2 d^2 + l1 |w + d| + l2/2 (w + d)^2."""
    u = H * w - g
    if u > l1:
        return (u - l1) / (H + l2) - w
    if u < -l1:
        return (u + l1) / (H + l2) - w
    return -w


@jit
def _stretch(force: float, h: float, R: float, l2: float) -> float:
    """Root t >= 0 of (h/R)(e^{Rt} - 1) + l2 t = force, for force > 0.

    Newton's iteration from above; the function is convex and increasing, so it never crosses.
    """
    t = np.log1p(R * force / h) / R
    if l2 > 0.0:
        t = min(t, force / l2)
        for _ in range(50):
            rise = np.expm1(R * t)
            excess = h / R * rise + l2 * t - force
            change = excess / (h * (rise + 1.0) + l2)
            t -= change
            if change <= 1e-14 * t:
                break
    return max(t, 0.0)


@jit
def exponential_step(g: float, h: float, R: float, w: float, l1: float, l2: float) -> float:
    """argmin over d of g d + (h/R^2)(e^{R|d|} - 1 - R|d|) + l1 |w + d| + l2/2 (w + d)^2, h > 0."""
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
    # The step would cross zero, where the pull of l1 turns round.
    if force - 2.0 * l1 <= 0.0:
        return -w
    t = _stretch(force - 2.0 * l1, h, R, l2)
    return away * t if t > abs(w) else -w


@jit
def newton_step(g: float, h: float, R: float, beta: float, w: float, l1: float, l2: float) -> float:
    """The step that is sure to gain more: the longer one."""
    plain = quadratic_step(g, beta, w, l1, l2)
    # A curvature lost in rounding cannot carry an exponential.
    if h <= 1e-14 * beta:
        return plain
    bold = exponential_step(g, h, R, w, l1, l2)
    # The exponential bends less up to the end of the longer step, so that it is sure to gain more.
    return bold if abs(bold) > abs(plain) else plain


@jit
def violation(g: float, w: float, l1: float, l2: float) -> float:
    """Magnitude of the smallest subgradient: 0 exactly where the weight is optimal."""
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
def _bounds_into(loss: Any, columns: Columns, chosen: Any, scratch: Any, limits: Any) -> None:
    for r in chosen:
        R, beta, crude = curvature_bounds(loss, columns, r, scratch)
        limits[r, 0] = R
        limits[r, 1] = beta
        limits[r, 2] = crude


@jit
def sweep(
    loss: Any,
    columns: Columns,
    chosen: NDArray[np.uint64],
    w: NDArray[np.float64],
    limits: NDArray[np.float64],
    l1: float,
    l2: float,
    paper: bool,
    scratch: Any,
) -> Any:
    """Visit columns once; the largest violation met, and how many weights moved.

    ``limits`` holds the curvature bounds of these columns.
    """
    worst = 0.0
    moves = 0
    for r in chosen:
        g, h = slope_and_curvature(loss, columns, r, scratch)
        if limits[r, 0] == 0.0:
            # The loss does not depend on this weight; the penalty wants it to be zero.
            step = -w[r]
        else:
            wrong = violation(g, w[r], l1, l2)
            worst = max(worst, wrong)
            if wrong == 0.0:
                continue
            if paper:
                step = quadratic_step(g, limits[r, 2], w[r], l1, l2)
            else:
                step = newton_step(g, h, limits[r, 0], limits[r, 1], w[r], l1, l2)
        if step != 0.0:
            w[r] += step
            moves += 1
            shift(loss, columns, r, step, scratch)
    return worst, moves


#: Ratio of neighbouring l1 while looking for a model of a given size.
SEARCH_RATIO = 0.7
#: The search gives up below this share of the largest l1.
SEARCH_END = 1e-4
#: Halvings between the last l1 that is small enough and the first that is not.
HALVINGS = 4


@dataclass(frozen=True)
class PathPoint:
    """One solution of a path; ``loss`` is the objective without its penalties."""

    l1: float
    loss: float
    solution: Solution
    seconds: float

    @property
    def nonzeros(self) -> int:
        """Weights that are not zero."""
        return int(np.count_nonzero(self.solution.coef))


def l1_grid(largest: float, n_steps: int, min_ratio: float) -> NDArray[np.float64]:
    """Geometric grid from ``largest``, the smallest l1 that gives w = 0, down to a share of it."""
    return largest * np.geomspace(1.0, min_ratio, n_steps)


def regularisation_path(
    descent: CoordinateDescent, l1s: Sequence[float], l2: float, settings: DescentSettings
) -> Iterator[PathPoint]:
    """Solve for every l1 in turn, each from the solution before it."""
    for l1 in l1s:
        yield _solve(descent, float(l1), l2, settings)


def path_until_nonzeros(
    descent: CoordinateDescent, largest: float, l2: float, settings: DescentSettings, limit: int
) -> Iterator[PathPoint]:
    """Solutions with at most ``limit`` non-zero weights, from the largest l1 down.

    Walks down until the limit is passed, then halves the interval (on the log axis) between the
    last l1 that kept it and the first that did not.
    """
    good = bad = largest
    while bad > SEARCH_END * largest:
        bad = good * SEARCH_RATIO
        point = _solve(descent, bad, l2, settings)
        if point.nonzeros > limit:
            break
        good = bad
        yield point
    else:
        return
    for _ in range(HALVINGS):
        middle = float(np.sqrt(good * bad))
        point = _solve(descent, middle, l2, settings)
        if point.nonzeros > limit:
            bad = middle
        else:
            good = middle
            yield point


def _solve(
    descent: CoordinateDescent, l1: float, l2: float, settings: DescentSettings
) -> PathPoint:
    started = time.perf_counter()
    penalty = Penalty(l1, l2)
    solution = descent.solve(penalty, settings)
    loss = solution.objective - penalty.value(solution.coef)
    return PathPoint(l1, loss, solution, time.perf_counter() - started)
