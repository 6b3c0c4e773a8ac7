"""Proximal quasi-Newton method for L(w) + l1 |w|_1 + l2/2 |w|^2, asked by values and gradients.

Every iteration minimises a model with the curvature that the last gradients revealed,

    g^T d + d^T B d / 2 + l1 |w + d|_1,
    B = gamma I - N M N^T,   N = [gamma S  Y],   M = [[gamma S^T S, T], [T^T, -D]]^{-1}

(limited-memory BFGS in compact form, Byrd, Nocedal and Schnabel 1994; T and D are the strictly
lower and diagonal parts of S^T Y), by coordinate descent, which costs O(memory) a coordinate
(Scheinberg and Tang 2016). A step that does not gain what the model promises is halved. One
value and gradient is asked a step: that is one round over partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError
from rankine.kernels.compile import jit
from rankine.kernels.shards import dot, norm, rows_dot
from rankine.solvers.base import Callback, Solution, report_progress, require_finite
from rankine.solvers.problem import Penalty, Problem

#: Pairs of steps and changes of the gradient that are remembered.
MEMORY = 20
#: Sweeps over the coordinates of the model, at most, and the share of the first violation to reach.
MODEL_SWEEPS = 100
MODEL_SHARE = 1e-2
#: Accept a step that gains this fraction of what the model promises.
SUFFICIENT = 1e-4
MIN_STEP = 1e-12
#: The bound, one more round, is asked for when the model promises less than this many tolerances,
#: and every so many iterations.
NEAR = 1.0
BOUND_EVERY = 25


@jit
def _minimise_model(
    w: Any, g: Any, l1: float, gamma: float, N: Any, Q: Any, d: Any, v: Any, sweeps: int
) -> None:
    """Coordinate descent on the model; ``d`` and ``v = N^T d`` start at zero."""
    first = 0.0
    for sweep in range(sweeps):
        worst = 0.0
        for j in range(w.shape[0]):
            slope = g[j] + gamma * d[j]
            bend = gamma
            for k in range(v.shape[0]):
                slope -= Q[j, k] * v[k]
                bend -= Q[j, k] * N[j, k]
            bend = max(bend, 1e-10 * gamma)
            here = w[j] + d[j]
            target = here - slope / bend
            cut = l1 / bend
            if target > cut:
                target -= cut
            elif target < -cut:
                target += cut
            else:
                target = 0.0
            move = target - here
            if move != 0.0:
                d[j] += move
                for k in range(v.shape[0]):
                    v[k] += move * N[j, k]
                worst = max(worst, abs(move) * bend)
        if sweep == 0:
            first = worst
        if worst <= MODEL_SHARE * first:
            return


class _Curvature:
    """B of the module, from the last steps and changes of the gradient."""

    def __init__(self, n: int, gamma: float) -> None:
        self.n = n
        self.gamma = gamma
        self.steps: list[NDArray[np.float64]] = []
        self.changes: list[NDArray[np.float64]] = []

    def add(self, s: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        """Remember a step unless rounding has eaten its curvature."""
        along = dot(s, y)
        if not along > 1e-10 * norm(s) * norm(y):
            return
        self.gamma = dot(y, y) / along
        self.steps = [*self.steps, s][-MEMORY:]
        self.changes = [*self.changes, y][-MEMORY:]

    def forget(self) -> bool:
        """Start again from a multiple of the identity; False when that is where it stands."""
        known = bool(self.steps)
        self.steps, self.changes = [], []
        return known

    def factors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """N and N M, one row per coordinate."""
        m = len(self.steps)
        if m == 0:
            nothing = np.zeros((self.n, 0))
            return nothing, nothing
        S, Y = np.array(self.steps), np.array(self.changes)
        inner = np.array([rows_dot(S, y) for y in Y]).T
        lower = np.tril(inner, -1)
        squares = np.array([rows_dot(S, s) for s in S])
        middle = np.block([[self.gamma * squares, lower], [lower.T, -np.diag(np.diag(inner))]])
        try:
            inverse = np.linalg.inv(middle)
        except np.linalg.LinAlgError:
            self.forget()
            return self.factors()
        N = np.ascontiguousarray(np.concatenate([self.gamma * S, Y]).T)
        return N, np.ascontiguousarray(np.einsum("nk,kl->nl", N, inverse))


@dataclass
class _Weighed:
    """Weights, the loss's value and gradient there, and the objective."""

    w: NDArray[np.float64]
    loss: float
    gradient: NDArray[np.float64]
    objective: float


def solve_quasi_newton(
    problem: Problem,
    penalty: Penalty,
    start: NDArray[np.float64],
    *,
    at_zero: float,
    first: tuple[float, NDArray[np.float64]] | None = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Minimise to a duality gap of ``tol`` times ``at_zero``, the loss at w = 0.

    ``first`` may pass in value and gradient at the start. Certificate: ``gap``, ``lower_bound``,
    ``relative_gap``.
    """
    run = _QuasiNewton(problem, penalty, start, first)
    goal = tol * at_zero
    low, reason = -np.inf, "max_iter"
    last_bound = begun = 0
    trace: list[dict[str, float]] = []
    resume = problem.resume_point("quasi-Newton")
    if resume.state is not None:
        low, begun, last_bound, trace, run.rounds, point, curvature = resume.state
        run.point = _Weighed(**point)
        vars(run.curvature).update(curvature)

    def stands() -> Sequence[Any]:
        at = (vars(run.point), vars(run.curvature))
        return low, iteration, last_bound, trace, run.rounds, *at

    for iteration in range(begun, max_iter + 1):
        resume.save(stands)
        direction, promise = run.direction()
        idle = promise <= 0.0
        near = promise <= NEAR * goal or iteration - last_bound >= BOUND_EVERY
        if near or idle or iteration in (0, max_iter):
            here = run.point
            low = max(low, penalty.lower_bound(partial(problem.dual, here.w), here.gradient))
            last_bound = iteration
        gap = max(run.point.objective - low, 0.0)
        record = {"objective": run.point.objective, "gap": gap}
        trace.append({"iteration": iteration, **record, "rounds": float(run.rounds)})
        stop = report_progress(callbacks, "quasi-Newton", iteration, max_iter, record, run.point.w)
        if gap <= goal or stop:
            reason = "converged" if gap <= goal else "callback"
            break
        if iteration == max_iter:
            break
        if idle or not run.step(direction, promise):
            if run.curvature.forget():
                continue
            reason = "precision"
            break
        require_finite(run.point.w, iteration, "the quasi-Newton method")
    certificate = {"gap": gap, "lower_bound": low, "relative_gap": gap / at_zero}
    return Solution(run.point.w, run.point.objective, certificate, iteration, trace, reason)


class _QuasiNewton:
    """A point, the curvature seen on the way to it, and steps from it."""

    def __init__(self, problem: Problem, penalty: Penalty, start: Any, first: Any) -> None:
        self.problem = problem
        self.penalty = penalty
        self.rounds = 0
        self.point = self._look(np.array(start, dtype=np.float64), first)
        self.curvature = _Curvature(len(start), max(norm(self.point.gradient), 1e-300))

    def _look(self, w: NDArray[np.float64], known: Any = None) -> _Weighed:
        if known is None:
            self.rounds += 1
            known = self.problem.value_and_gradient(w)
        value, gradient = known
        objective = float(value) + self.penalty.value(w)
        if not np.isfinite(objective):
            raise DivergenceError(
                "the loss is no longer finite", fix="Scale the features (scale='maxabs')"
            )
        return _Weighed(w, float(value), gradient, objective)

    def _smooth(self, point: _Weighed) -> NDArray[np.float64]:
        """Gradient of all but the l1 penalty."""
        return point.gradient + self.penalty.l2 * point.w

    def direction(self) -> tuple[NDArray[np.float64], float]:
        """Minimiser of the model and the decrease that its linear part promises."""
        w, g, l1 = self.point.w, self._smooth(self.point), self.penalty.l1
        N, Q = self.curvature.factors()
        d, v = np.zeros(len(w)), np.zeros(N.shape[1])
        _minimise_model(w, g, l1, self.curvature.gamma, N, Q, d, v, MODEL_SWEEPS)
        change = dot(g, d) + l1 * float(np.abs(w + d).sum() - np.abs(w).sum())
        return d, -float(change)

    def step(self, d: NDArray[np.float64], promise: float) -> bool:
        """Halve the step until it gains enough; False when rounding leaves none."""
        size = 1.0
        while size >= MIN_STEP:
            trial = self._look(self.point.w + size * d)
            if trial.objective <= self.point.objective - SUFFICIENT * size * promise:
                moved = trial.w - self.point.w
                self.curvature.add(moved, self._smooth(trial) - self._smooth(self.point))
                better = trial.objective < self.point.objective
                self.point = trial
                return better
            size *= 0.5
        return False
