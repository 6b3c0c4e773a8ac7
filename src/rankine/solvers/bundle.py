"""Bundle method for l2/2 |w|^2 + R(w) with a certified gap.

Every iteration adds a linear lower bound (cut) of R, minimises the regularised maximum of all
cuts, searches the line from the best point to that minimiser, and takes the next cut near the new
best point (Teo et al. 2010; line search after Franc and Sonnenburg 2009, who call it OCAS). The
model's minimum is a lower bound of the optimum: the run stops when the best objective found is
within ``tol`` J(0) of it. Scores are affine along the line, so a trial costs one count pass and no
product with X.

Cuts a_k, b_k bound the risk from below: R(w) >= <a_k, w> + b_k. The model's minimum
min_w l2/2 |w|^2 + max_k (<a_k, w> + b_k) has the dual, over alpha in the simplex::

    D(alpha) = <b, alpha> - |A^T alpha|^2 / (2 l2),            w = -A^T alpha / l2
    D(alpha) = <b, alpha> - |max(0, -A^T alpha)|^2 / (2 l2),   w = max(0, -A^T alpha) / l2

the second with the constraint w >= 0. Every feasible alpha, optimal or not, gives a true lower
bound of the objective, so an inaccurate inner solution can never cause a false stop.
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
    report_progress,
    require_finite,
)
from rankine.solvers.problem import Problem

Vector = NDArray[np.float64]

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
def maximise_dual(gram: Vector, b: Vector, l2: float, alpha: Vector, tol: float) -> float:
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
                bend = max(1e-300, (gram[i, i] + gram[k, k] - 2.0 * gram[i, k]) / l2)
                step = min(alpha[k], rise / bend)
                gain = step * rise - 0.5 * step * step * bend
                if gain > best:
                    best, giver = gain, k
        gap = gradient[i] - lowest
        if gap <= tol or giver < 0:
            return gap
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
def interior_dual(gram: Vector, b: Vector, l2: float, alpha: Vector, tol: float) -> None:
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


def solve_dual(gram: Vector, b: Vector, l2: float, alpha: Vector, tol: float) -> float:
    """Improve ``alpha`` by exchanges, and where these creep by the interior-point method.

    Returns the gap that is left; one above ``tol`` means that numbers are too coarse for the cuts.
    """
    gap = float(maximise_dual(gram, b, l2, alpha, tol))
    if gap > tol:
        interior_dual(gram, b, l2, alpha, tol)
        gap = float(maximise_dual(gram, b, l2, alpha, tol))
    return gap


def maximise_dual_positive(
    cuts: Vector, b: Vector, l2: float, alpha: Vector, tol: float, max_rounds: int = 50
) -> Vector:
    """Maximise the dual with w >= 0; returns the improved ``alpha``.

    Semismooth Newton: with the set of positive weights held, the dual is the quadratic one above;
    its maximiser gives a direction, a line search on the true (concave) dual the step.
    """
    pull = add_rows(cuts, alpha)
    for _ in range(max_rounds):
        w = np.maximum(0.0, -pull) / l2
        gradient = b + rows_dot(cuts, w)
        if gradient.max() - gradient[alpha > 0].min() <= tol:
            return alpha
        target = alpha.copy()
        solve_dual(_masked_gram(cuts, (pull < 0).astype(np.float64)), b, l2, target, 0.1 * tol)
        move, shift = target - alpha, add_rows(cuts, target) - pull
        step = _dual_step(b, l2, pull, move, shift)
        if step == 0.0:
            return alpha
        alpha = np.maximum(0.0, alpha + step * move)
        pull = add_rows(cuts, alpha)
    return alpha


def _dual_step(b: Vector, l2: float, pull: Vector, move: Vector, shift: Vector) -> float:
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


#: A trial so near (in parts of the bracket) to an end would repeat what is known there; it is
#: pulled in, so that every trial shrinks the bracket by a tenth at least.
TOO_NEAR = 0.02
PULLED_IN = 0.1


@dataclass(frozen=True)
class Trial:
    """The objective at one step: J, R, its slope along the line, and the subgradient there."""

    step: float
    objective: float
    risk: float
    risk_slope: float
    slopes: Any


def minimise_along(
    ask: Callable[[float], tuple[float, float, Any]],
    start: Trial,
    line: tuple[float, float],
    *,
    rtol: float = 0.1,
    max_trials: int = 6,
    max_step: float = float("inf"),
) -> Trial:
    """Best trial, the start (step 0) included.

    ``ask`` gives risk, its slope along the line and its subgradient at a step. ``line`` holds
    A0 = l2 <w, d> and A1 = l2 |d|^2, so that J(k) = J(0) - R(0) + A0 k + A1 k^2 / 2 + R(k). The
    search ends when the slope of J has shrunk to ``rtol`` of the one at 0.
    """
    linear, bend = line
    rest = start.objective - start.risk
    steepest = -(linear + start.risk_slope)
    best, low = start, start
    high: Trial | None = None
    if steepest <= 0.0 or bend <= 0.0:
        return best
    step = min(1.0, max_step)
    for _ in range(max_trials):
        risk, risk_slope, slopes = ask(step)
        objective = rest + linear * step + 0.5 * bend * step * step + risk
        trial = Trial(step, objective, risk, risk_slope, slopes)
        if objective < best.objective:
            best = trial
        slope = linear + bend * step + risk_slope
        if abs(slope) <= rtol * steepest:
            return best
        low, high = (low, trial) if slope > 0.0 else (trial, high)
        if high is None:
            if step >= max_step:
                return best
            step = min(2.0 * step, max_step)
        else:
            step = _between(low, high, linear, bend)
            if not low.step < step < high.step:
                return best
    return best


def _between(low: Trial, high: Trial, linear: float, bend: float) -> float:
    """Minimiser of the quadratic plus the larger of the two bracketing linear pieces of R."""
    turn = high.risk_slope - low.risk_slope
    width = high.step - low.step
    if turn > 0.0:
        left = low.risk - low.risk_slope * low.step
        right = high.risk - high.risk_slope * high.step
        kink = (left - right) / turn
    else:
        kink = 0.5 * (low.step + high.step)
    on_low, on_high = -(linear + low.risk_slope) / bend, -(linear + high.risk_slope) / bend
    if low.step < on_low <= kink:
        step = on_low
    elif kink <= on_high < high.step:
        step = on_high
    else:
        step = kink
    if not low.step + TOO_NEAR * width <= step <= high.step - TOO_NEAR * width:
        step = min(max(step, low.step + PULLED_IN * width), high.step - PULLED_IN * width)
    return step


#: A cut without weight for this many rounds is dropped.
IDLE_ROUNDS = 60
#: Relative error of a sum of products: a few roundings of the last bit.
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
#: Cuts may take this many bytes; beyond, the lightest are merged into one.
MAX_BYTES = 256 * 2**20


class Bundle:
    """Lower bounds R(w) >= <a_k, w> + b_k; they hold for every strength of regularisation.

    Starts with the free cut R >= 0. Cuts without weight are dropped after a while; when memory is
    short, the lightest are replaced by their weighted mean, which is a cut as well and keeps the
    current lower bound.
    """

    def __init__(self, n_features: int, *, positive: bool = False) -> None:
        self.positive = positive
        self.max_cuts = max(8, MAX_BYTES // (8 * max(n_features, 1)))
        self._cuts = np.zeros((4, n_features))
        self._gram = np.zeros((4, 4))
        self.n_cuts = 1
        self.b = np.zeros(1)
        self._size = np.zeros(1)
        self.alpha = np.ones(1)
        self._idle = np.zeros(1, dtype=np.int64)
        #: Whether the last minimum could not be found to the tolerance asked for.
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
        """All cuts, and what is known of them."""
        known = (self.b, self._size, self.alpha, self._idle)
        return self.cuts, self.gram, *known, self.coarse

    def restore(self, state: Sequence[Any]) -> None:
        """Go on from a state."""
        self._cuts, self._gram, self.b, self._size, self.alpha, self._idle, self.coarse = state
        self.n_cuts = len(self.b)

    def add(self, slope: Vector, offset: float, size: float = 0.0) -> None:
        """Add the cut <slope, w> + offset; ``size`` is that of the numbers it was made from."""
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
        self._size = np.append(self._size, size)
        self.alpha = np.append(self.alpha, 0.0)
        self._idle = np.append(self._idle, 0)

    def solve(self, l2: float, tol: float) -> tuple[Vector, float]:
        """Minimiser of l2/2 |w|^2 + max over cuts, and a lower bound of that minimum."""
        if self.positive:
            self.alpha = maximise_dual_positive(self.cuts, self.b, l2, self.alpha, tol)
        else:
            gram = np.ascontiguousarray(self.gram)  # the room around it must not change a bit
            self.coarse = solve_dual(gram, self.b, l2, self.alpha, tol) > tol
        self.alpha /= self.alpha.sum()
        pull = add_rows(self.cuts, self.alpha)
        w = -pull / l2
        if self.positive:
            w = np.maximum(0.0, w)
        bound = float(dot(self.b, self.alpha) - 0.5 * l2 * dot(w, w)) - self._rounding(w)
        self._idle = np.where(self.alpha > 0, 0, self._idle + 1)
        self._keep(self._idle < IDLE_ROUNDS)
        return w, bound

    def _rounding(self, w: Vector) -> float:
        """What rounding may have added to the bound: in the cuts' offsets, and in their mean."""
        lengths = np.sqrt(np.diag(self.gram))
        sizes = dot(self._size, self.alpha) + norm(w) * dot(lengths, self.alpha)
        return ROUNDING * float(sizes)

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        if kept.all():
            return
        places = np.flatnonzero(kept)
        for target, source in enumerate(places):
            self._cuts[target] = self._cuts[source]
        self._gram[: len(places), : len(places)] = self._gram[np.ix_(places, places)]
        self.n_cuts = len(places)
        self.b, self.alpha, self._idle = self.b[kept], self.alpha[kept], self._idle[kept]
        self._size = self._size[kept]

    def _merge(self, count: int) -> None:
        """Replace the ``count`` lightest cuts by their weighted mean (or drop them, if idle)."""
        lightest = np.sort(np.argsort(self.alpha, kind="stable")[:count])
        share = np.zeros(self.n_cuts)
        share[lightest] = self.alpha[lightest]
        total = float(share.sum())
        keep = np.ones(self.n_cuts, dtype=np.bool_)
        keep[lightest] = False
        if total > 0.0:
            slope, offset = add_rows(self.cuts, share / total), float(dot(self.b, share)) / total
            size = float(dot(self._size, share)) / total
        self._keep(keep)
        if total > 0.0:
            self.add(slope, offset, size)
            self.alpha[-1] = total

    def _grow(self, capacity: int) -> None:
        cuts, gram = np.zeros((capacity, self._cuts.shape[1])), np.zeros((capacity, capacity))
        cuts[: self.n_cuts] = self.cuts
        gram[: self.n_cuts, : self.n_cuts] = self.gram
        self._cuts, self._gram = cuts, gram


#: The next cut is taken at (1 - MIX) best + MIX model minimiser; 0 stalls, 1/2 loses the gain.
MIX = 0.1
#: Below this fraction of the objective a gap is rounding.
PRECISION = 1e-13
#: Rounds without a better point or bound after which nothing more is to be expected.
MAX_STALLED = 30
#: Minima of the cuts that missed their tolerance, after which numbers are too coarse for them.
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
        """The point."""
        return self.w, self.scores, self.risk, self.slopes, self.objective, self.evaluations

    def restore(self, state: Sequence[Any]) -> None:
        """Go on from a state."""
        self.w, self.scores, self.risk, self.slopes, self.objective, self.evaluations = state

    def search(self, w: Vector, scores: Any, *, positive: bool) -> None:
        """Move to the best point found on the line through ``w``."""
        problem = self.problem
        d, dp = w - self.w, problem.blend(1.0, scores, -1.0, self.scores)

        def ask(step: float) -> tuple[float, float, Any]:
            self.evaluations += 1
            risk, slopes = problem.evaluate(problem.blend(1.0, self.scores, step, dp))
            return risk, problem.along(slopes, dp), slopes

        start = Trial(0.0, self.objective, self.risk, problem.along(self.slopes, dp), self.slopes)
        line = (self.l2 * dot(self.w, d), self.l2 * dot(d, d))
        longest = _longest_step(self.w, d) if positive else float("inf")
        best = minimise_along(ask, start, line, max_step=longest)
        if best.step > 0.0:
            moved = self.w + best.step * d
            self.w = np.maximum(0.0, moved) if positive else moved
            self.scores = problem.blend(1.0, self.scores, best.step, dp)
            self.risk, self.slopes, self.objective = best.risk, best.slopes, best.objective

    def consider(self, w: Vector, scores: Any, risk: float, slopes: Any) -> None:
        """Take a point if it is better."""
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
    """Minimise l2/2 |w|^2 + R(w), w >= 0 if ``positive``.

    ``bundle`` may hold cuts of the same risk from an earlier run, for instance with another l2;
    it is extended in place. Certificate: ``objective``, ``lower_bound``, ``gap``, ``relative_gap``
    (gap / J(0)).
    """
    gap_wanted = tol * problem.at_zero
    n = problem.n_features
    bundle = Bundle(n, positive=positive) if bundle is None else bundle
    w = np.zeros(n) if start is None else np.array(start, dtype=np.float64)
    best = _Best(problem, np.maximum(0.0, w) if positive else w, l2)
    cut_w, cut_risk, cut_slopes = best.w, best.risk, best.slopes
    low, reason, begun = 0.0, "max_iter", 1
    stalled = coarse = iteration = 0
    trace: list[dict[str, float]] = []
    resume = problem.resume_point("bundle")
    if resume.state is not None:
        cut_w, cut_risk, cut_slopes, low, stalled, coarse, begun, trace, *known = resume.state
        best.restore(known[0])
        bundle.restore(known[1])

    def stands() -> Sequence[Any]:
        cut = (cut_w, cut_risk, cut_slopes)
        return *cut, low, stalled, coarse, iteration, trace, best.state(), bundle.state()

    for iteration in range(begun, max_iter + 1):
        resume.save(stands)
        slope = problem.gradient(cut_slopes)
        offset = cut_risk - dot(slope, cut_w)
        bundle.add(slope, offset, cut_risk + norm(slope) * norm(cut_w))
        before = (best.objective, low)
        w, bound = bundle.solve(l2, max(1e-13, 0.01 * gap_wanted))
        require_finite(w, iteration, "the bundle method")
        low = max(low, bound)
        if best.objective - low > gap_wanted:
            scores = problem.scores(w)
            best.search(w, scores, positive=positive)
            cut_w = (1.0 - MIX) * best.w + MIX * w
            cut_scores = problem.blend(1.0 - MIX, best.scores, MIX, scores)
            cut_risk, cut_slopes = problem.evaluate(cut_scores)
            best.evaluations += 1
            best.consider(cut_w, cut_scores, cut_risk, cut_slopes)
        gap = best.objective - low
        record = {"objective": best.objective, "lower_bound": low, "gap": gap}
        trace.append({"iteration": iteration, **record, "evaluations": best.evaluations})
        if report_progress(callbacks, "cuts", iteration, max_iter, record, best.w):
            reason = "callback"
            break
        stalled = 0 if best.objective < before[0] or low > before[1] else stalled + 1
        coarse += bundle.coarse
        if gap <= gap_wanted:
            reason = "converged"
            break
        if gap <= PRECISION * best.objective or coarse >= MAX_COARSE:
            reason = "precision"
            break
        if stalled >= MAX_STALLED:
            reason = "stalled"
            break
    counts = {"evaluations": best.evaluations, "cuts": bundle.n_cuts}
    certificate = gap_certificate(best.objective, low, problem.at_zero, **counts)
    return Solution(best.w, best.objective, certificate, iteration, trace, reason)


def _longest_step(w: Vector, d: Vector) -> float:
    """Largest k with w + k d >= 0."""
    falling = d < 0.0
    return float((w[falling] / -d[falling]).min()) if falling.any() else float("inf")
