"""Bundle method for l2/2 |w|^2 + R(w) with a certified gap.

Every iteration adds a linear lower bound (cut) of R, minimises the regularised maximum of all
cuts, searches the line from the best point to that minimiser, and takes the next cut near the new
best point (Teo et al. 2010; line search after Franc and Sonnenburg 2009, who call it OCAS). The
model's minimum is a lower bound of the optimum: the run stops when the best objective found is
within ``tol`` J(0) of it. Scores are affine along the line, so a trial costs one count pass and no
product with X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import add_rows, dot, norm, rows_dot
from rankine.solvers.base import Callback, Solution, report, require_finite
from rankine.solvers.bundle_qp import maximise_dual_positive, solve_dual

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankine.solvers.problem import Problem

__all__ = ["Bundle", "Trial", "minimise_along", "solve_bundle"]

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
    """Best trial, the start included.

    Parameters
    ----------
    ask
        Risk, its slope along the line and its subgradient at a step.
    start
        The trial at step 0.
    line
        A0 = l2 <w, d> and A1 = l2 |d|^2, so that J(k) = J(0) - R(0) + A0 k + A1 k^2 / 2 + R(k).
    rtol
        Stop when the slope of J has shrunk to this fraction of the one at 0.
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
            break
        low, high = (low, trial) if slope > 0.0 else (trial, high)
        if high is None:
            if step >= max_step:
                break
            step = min(2.0 * step, max_step)
        else:
            step = _between(low, high, linear, bend)
            if not low.step < step < high.step:
                break
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
    def cuts(self) -> NDArray[np.float64]:
        """The slopes a_k, one a row."""
        return self._cuts[: self.n_cuts]

    @property
    def gram(self) -> NDArray[np.float64]:
        """A A^T."""
        return self._gram[: self.n_cuts, : self.n_cuts]

    def add(self, slope: NDArray[np.float64], offset: float, size: float = 0.0) -> None:
        """Add the cut <slope, w> + offset; ``size`` is that of the numbers it was made from."""
        if self.n_cuts >= self.max_cuts:
            self._merge(self.n_cuts // 2)
        t = self.n_cuts
        if t == len(self._cuts):
            self._grow(max(t + 4, t + t // 2))
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

    def solve(self, l2: float, tol: float) -> tuple[NDArray[np.float64], float]:
        """Minimiser of l2/2 |w|^2 + max over cuts, and a lower bound of that minimum."""
        if self.positive:
            self.alpha = maximise_dual_positive(self.cuts, self.b, l2, self.alpha, tol)
        else:
            self.coarse = solve_dual(self.gram, self.b, l2, self.alpha, tol) > tol
        self.alpha /= self.alpha.sum()
        pull = add_rows(self.cuts, self.alpha)
        w = -pull / l2
        if self.positive:
            w = np.maximum(0.0, w)
        bound = float(dot(self.b, self.alpha) - 0.5 * l2 * dot(w, w)) - self._rounding(w)
        self._idle = np.where(self.alpha > 0, 0, self._idle + 1)
        self._keep(self._idle < IDLE_ROUNDS)
        return w, bound

    def _rounding(self, w: NDArray[np.float64]) -> float:
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

    def __init__(self, problem: Problem, w: NDArray[np.float64], l2: float) -> None:
        self.problem = problem
        self.l2 = l2
        self.evaluations = 1
        self.w = w
        self.scores = problem.scores(w)
        self.risk, self.slopes = problem.evaluate(self.scores)
        self.objective = 0.5 * l2 * dot(w, w) + self.risk

    def search(self, w: NDArray[np.float64], scores: Any, *, positive: bool) -> None:
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

    def consider(self, w: NDArray[np.float64], scores: Any, risk: float, slopes: Any) -> None:
        """Take a point if it is better."""
        objective = 0.5 * self.l2 * dot(w, w) + risk
        if objective < self.objective:
            self.w, self.scores, self.risk, self.slopes = w, scores, risk, slopes
            self.objective = objective


def solve_bundle(
    problem: Problem,
    l2: float,
    *,
    start: NDArray[np.float64] | None = None,
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
    low, stalled, coarse, reason, iteration = 0.0, 0, 0, "max_iter", 0
    trace: list[dict[str, float]] = []
    for iteration in range(1, max_iter + 1):
        slope = problem.gradient(cut_slopes)
        offset = cut_risk - dot(slope, cut_w)
        bundle.add(slope, offset, cut_risk + norm(slope) * norm(cut_w))
        before = (best.objective, low)
        w, bound = bundle.solve(l2, max(1e-13, 0.01 * min(gap_wanted, best.objective - low)))
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
        if report(callbacks, "cuts", iteration, max_iter, record, best.w):
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
    certificate = {
        "objective": best.objective,
        "lower_bound": low,
        "gap": best.objective - low,
        "relative_gap": (best.objective - low) / problem.at_zero,
        "evaluations": best.evaluations,
        "cuts": bundle.n_cuts,
    }
    return Solution(best.w, best.objective, certificate, iteration, trace, reason)


def _longest_step(w: NDArray[np.float64], d: NDArray[np.float64]) -> float:
    """Largest k with w + k d >= 0."""
    falling = d < 0.0
    return float((w[falling] / -d[falling]).min()) if falling.any() else float("inf")
