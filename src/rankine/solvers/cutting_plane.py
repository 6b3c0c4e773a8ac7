"""Bundle method for l2/2 |w|^2 + R(w) with a certified gap.

Every iteration adds a linear lower bound (cut) of R, minimises the regularised maximum of all
cuts, searches the line from the best point to that minimiser, and takes the next cut near the new
best point (Teo et al. 2010; line search after Franc and Sonnenburg 2009, who call it OCAS). The
model's minimum is a lower bound of the optimum: the run stops when the best objective found is
within ``tol`` J(0) of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import dot
from rankine.solvers.base import Callback, Solution, require_finite
from rankine.solvers.bundle import Bundle
from rankine.solvers.line_search import Trial, minimise_along
from rankine.solvers.report import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.solvers.summed_oracle import Parts, SummedOracle

__all__ = ["solve_bundle"]

#: The next cut is taken at (1 - MIX) best + MIX model minimiser; 0 stalls, 1/2 loses the gain.
MIX = 0.1
#: Below this fraction of the objective a gap is rounding.
PRECISION = 1e-13
#: Rounds without a better point or bound after which rounding has the last word.
MAX_STALLED = 30


class _Best:
    """The best point so far, with its scores and subgradient."""

    def __init__(self, oracle: SummedOracle, w: NDArray[np.float64], l2: float) -> None:
        self.oracle = oracle
        self.l2 = l2
        self.evaluations = 1
        self.w = w
        self.scores = oracle.scores(w)
        self.risk, self.slopes = oracle.evaluate(self.scores)
        self.objective = 0.5 * l2 * dot(w, w) + self.risk

    def search(self, w: NDArray[np.float64], scores: Parts, *, positive: bool) -> None:
        """Move to the best point found on the line through ``w``."""
        oracle = self.oracle
        d, dp = w - self.w, oracle.blend(1.0, scores, -1.0, self.scores)

        def ask(step: float) -> tuple[float, float, Parts]:
            self.evaluations += 1
            risk, slopes = oracle.evaluate(oracle.blend(1.0, self.scores, step, dp))
            return risk, oracle.dot(slopes, dp), slopes

        start = Trial(0.0, self.objective, self.risk, oracle.dot(self.slopes, dp), self.slopes)
        line = (self.l2 * dot(self.w, d), self.l2 * dot(d, d))
        longest = _longest_step(self.w, d) if positive else float("inf")
        best = minimise_along(ask, start, line, max_step=longest)
        if best.step > 0.0:
            moved = self.w + best.step * d
            self.w = np.maximum(0.0, moved) if positive else moved
            self.scores = oracle.blend(1.0, self.scores, best.step, dp)
            self.risk, self.slopes, self.objective = best.risk, best.slopes, best.objective

    def consider(self, w: NDArray[np.float64], scores: Parts, risk: float, slopes: Parts) -> None:
        """Take a point if it is better."""
        objective = 0.5 * self.l2 * dot(w, w) + risk
        if objective < self.objective:
            self.w, self.scores, self.risk, self.slopes = w, scores, risk, slopes
            self.objective = objective


def solve_bundle(
    oracle: SummedOracle,
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
    gap_wanted = tol * oracle.at_zero
    n = oracle.n_features
    bundle = Bundle(n, positive=positive) if bundle is None else bundle
    w = np.zeros(n) if start is None else np.array(start, dtype=np.float64)
    best = _Best(oracle, np.maximum(0.0, w) if positive else w, l2)
    cut_w, cut_risk, cut_slopes = best.w, best.risk, best.slopes
    low, stalled, reason, iteration = 0.0, 0, "max_iter", 0
    trace: list[dict[str, float]] = []
    for iteration in range(1, max_iter + 1):
        slope = oracle.gradient(cut_slopes)
        bundle.add(slope, cut_risk - dot(slope, cut_w))
        before = (best.objective, low)
        w, bound = bundle.solve(l2, max(1e-13, 0.01 * min(gap_wanted, best.objective - low)))
        require_finite(w, iteration, "the bundle method")
        low = max(low, bound)
        if best.objective - low > gap_wanted:
            scores = oracle.scores(w)
            best.search(w, scores, positive=positive)
            cut_w = (1.0 - MIX) * best.w + MIX * w
            cut_scores = oracle.blend(1.0 - MIX, best.scores, MIX, scores)
            cut_risk, cut_slopes = oracle.evaluate(cut_scores)
            best.evaluations += 1
            best.consider(cut_w, cut_scores, cut_risk, cut_slopes)
        gap = best.objective - low
        record = {"objective": best.objective, "lower_bound": low, "gap": gap}
        trace.append({"iteration": iteration, **record, "evaluations": best.evaluations})
        if report(callbacks, "cuts", iteration, max_iter, record, best.w):
            reason = "callback"
            break
        stalled = 0 if best.objective < before[0] or low > before[1] else stalled + 1
        if gap <= gap_wanted:
            reason = "converged"
            break
        if gap <= PRECISION * best.objective or stalled >= MAX_STALLED:
            reason = "precision"
            break
    certificate = {
        "objective": best.objective,
        "lower_bound": low,
        "gap": best.objective - low,
        "relative_gap": (best.objective - low) / oracle.at_zero,
        "evaluations": best.evaluations,
        "cuts": bundle.n_cuts,
    }
    return Solution(best.w, best.objective, certificate, iteration, trace, reason)


def _longest_step(w: NDArray[np.float64], d: NDArray[np.float64]) -> float:
    """Largest k with w + k d >= 0."""
    falling = d < 0.0
    return float((w[falling] / -d[falling]).min()) if falling.any() else float("inf")
