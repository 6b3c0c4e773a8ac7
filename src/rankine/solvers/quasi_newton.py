"""Proximal quasi-Newton method for L(w) + l1 |w|_1 + l2/2 |w|^2, from values and gradients.

Each iteration minimises a model whose curvature B is estimated from the last gradients,

    g^T d + d^T B d / 2 + l1 |w + d|_1,
    B = gamma I - N M N^T,   N = [gamma S  Y],   M = [[gamma S^T S, T], [T^T, -D]]^{-1}

(limited-memory BFGS in compact form, Byrd, Nocedal and Schnabel 1994; T and D are the strictly
lower and diagonal parts of S^T Y), by coordinate descent, which costs O(memory) per coordinate
(Scheinberg and Tang 2016). The step is halved until the decrease is sufficient. Each trial costs
one value and gradient, which is one round over partitions.
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

#: Number of stored pairs of steps and gradient changes.
MEMORY = 20
#: Largest number of sweeps over the coordinates of the model ...
MODEL_SWEEPS = 100
#: ... which end earlier when the violation has fallen below this share of the first.
MODEL_SHARE = 1e-2
#: Accept a step that achieves this fraction of the predicted decrease.
SUFFICIENT = 1e-4
MIN_STEP = 1e-12
#: The lower bound costs one more round. It is computed when the predicted decrease is below this
#: many tolerances, and every BOUND_EVERY iterations.
NEAR = 1.0
BOUND_EVERY = 25


@jit
def _minimise_model(
    w: Any, g: Any, l1: float, gamma: float, N: Any, Q: Any, d: Any, v: Any, sweeps: int
) -> None:
    """Minimise the model by coordinate descent in ``d``; ``d`` and ``v = N^T d`` start at zero."""
    first_violation = 0.0
    for sweep in range(sweeps):
        violation = 0.0
        for j in range(w.shape[0]):
            slope = g[j] + gamma * d[j]
            curvature = gamma
            for k in range(v.shape[0]):
                slope -= Q[j, k] * v[k]
                curvature -= Q[j, k] * N[j, k]
            curvature = max(curvature, 1e-10 * gamma)
            current = w[j] + d[j]
            target = current - slope / curvature
            threshold = l1 / curvature
            if target > threshold:
                target -= threshold
            elif target < -threshold:
                target += threshold
            else:
                target = 0.0
            change = target - current
            if change != 0.0:
                d[j] += change
                for k in range(v.shape[0]):
                    v[k] += change * N[j, k]
                violation = max(violation, abs(change) * curvature)
        if sweep == 0:
            first_violation = violation
        if violation <= MODEL_SHARE * first_violation:
            return


class _Curvature:
    """The matrix B of the module, from the last steps and gradient changes."""

    def __init__(self, n: int, gamma: float) -> None:
        self.n = n
        self.gamma = gamma
        self.steps: list[NDArray[np.float64]] = []
        self.changes: list[NDArray[np.float64]] = []

    def add(self, s: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        """Store a step s and gradient change y, unless rounding errors dominate s^T y."""
        along = dot(s, y)
        if not along > 1e-10 * norm(s) * norm(y):
            return
        self.gamma = dot(y, y) / along
        self.steps = [*self.steps, s][-MEMORY:]
        self.changes = [*self.changes, y][-MEMORY:]

    def forget(self) -> bool:
        """Reset B to a multiple of the identity; return False if it already is one."""
        had_steps = bool(self.steps)
        self.steps, self.changes = [], []
        return had_steps

    def factors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return N and N M, one row per coordinate."""
        m = len(self.steps)
        if m == 0:
            empty = np.zeros((self.n, 0))
            return empty, empty
        S, Y = np.array(self.steps), np.array(self.changes)
        products = np.array([rows_dot(S, y) for y in Y]).T
        lower = np.tril(products, -1)
        squares = np.array([rows_dot(S, s) for s in S])
        middle = np.block([[self.gamma * squares, lower], [lower.T, -np.diag(np.diag(products))]])
        try:
            inverse = np.linalg.inv(middle)
        except np.linalg.LinAlgError:
            self.forget()
            return self.factors()
        N = np.ascontiguousarray(np.concatenate([self.gamma * S, Y]).T)
        return N, np.ascontiguousarray(np.einsum("nk,kl->nl", N, inverse))


@dataclass
class _Iterate:
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
    start_value_and_gradient: tuple[float, NDArray[np.float64]] | None = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Minimise to a duality gap of ``tol`` times ``at_zero``, the loss at w = 0.

    ``start_value_and_gradient`` is the loss with its gradient at the start, if the caller has it.
    Certificate: ``gap``, ``lower_bound``, ``relative_gap``.
    """
    run = _QuasiNewton(problem, penalty, start, start_value_and_gradient)
    gap_tolerance = tol * at_zero
    lower_bound, reason = -np.inf, "max_iter"
    last_bound = first_iteration = 0
    trace: list[dict[str, float]] = []
    resume = problem.resume_point("quasi-Newton")
    if resume.state is not None:
        lower_bound, first_iteration, last_bound, trace, run.rounds, point, curvature = resume.state
        run.point = _Iterate(**point)
        vars(run.curvature).update(curvature)

    def loop_state() -> Sequence[Any]:
        point_state = (vars(run.point), vars(run.curvature))
        return lower_bound, iteration, last_bound, trace, run.rounds, *point_state

    for iteration in range(first_iteration, max_iter + 1):
        resume.save(loop_state)
        direction, predicted_decrease = run.direction()
        no_decrease = predicted_decrease <= 0.0
        near_optimum = (
            predicted_decrease <= NEAR * gap_tolerance or iteration - last_bound >= BOUND_EVERY
        )
        if near_optimum or no_decrease or iteration in (0, max_iter):
            point = run.point
            lower_bound = max(
                lower_bound, penalty.lower_bound(partial(problem.dual, point.w), point.gradient)
            )
            last_bound = iteration
        gap = max(run.point.objective - lower_bound, 0.0)
        record = {"objective": run.point.objective, "gap": gap}
        trace.append({"iteration": iteration, **record, "rounds": float(run.rounds)})
        stop = report_progress(callbacks, "quasi-Newton", iteration, max_iter, record, run.point.w)
        if gap <= gap_tolerance or stop:
            reason = "converged" if gap <= gap_tolerance else "callback"
            break
        if iteration == max_iter:
            break
        if no_decrease or not run.step(direction, predicted_decrease):
            # A poor curvature estimate may be at fault: try once more with a multiple of I.
            if run.curvature.forget():
                continue
            reason = "precision"
            break
        require_finite(run.point.w, iteration, "the quasi-Newton method")
    certificate = {"gap": gap, "lower_bound": lower_bound, "relative_gap": gap / at_zero}
    return Solution(run.point.w, run.point.objective, certificate, iteration, trace, reason)


class _QuasiNewton:
    """The current point, the curvature estimate, and steps from the point.

    ``rounds`` counts evaluations of the loss; each is one round over the partitions.
    """

    def __init__(
        self, problem: Problem, penalty: Penalty, start: Any, start_value_and_gradient: Any
    ) -> None:
        self.problem = problem
        self.penalty = penalty
        self.rounds = 0
        self.point = self._evaluate(np.array(start, dtype=np.float64), start_value_and_gradient)
        self.curvature = _Curvature(len(start), max(norm(self.point.gradient), 1e-300))

    def _evaluate(self, w: NDArray[np.float64], value_and_gradient: Any = None) -> _Iterate:
        if value_and_gradient is None:
            self.rounds += 1
            value_and_gradient = self.problem.value_and_gradient(w)
        value, gradient = value_and_gradient
        objective = float(value) + self.penalty.value(w)
        if not np.isfinite(objective):
            raise DivergenceError(
                "the loss is no longer finite", fix="Scale the features (scale='maxabs')"
            )
        return _Iterate(w, float(value), gradient, objective)

    def _smooth_gradient(self, point: _Iterate) -> NDArray[np.float64]:
        """Return the gradient without the l1 penalty."""
        return point.gradient + self.penalty.l2 * point.w

    def direction(self) -> tuple[NDArray[np.float64], float]:
        """Return the minimiser of the model and the decrease predicted by its linear part."""
        w, g, l1 = self.point.w, self._smooth_gradient(self.point), self.penalty.l1
        N, Q = self.curvature.factors()
        d, v = np.zeros(len(w)), np.zeros(N.shape[1])
        _minimise_model(w, g, l1, self.curvature.gamma, N, Q, d, v, MODEL_SWEEPS)
        change = dot(g, d) + l1 * float(np.abs(w + d).sum() - np.abs(w).sum())
        return d, -float(change)

    def step(self, d: NDArray[np.float64], predicted_decrease: float) -> bool:
        """Halve the step until the decrease suffices; return False if rounding leaves none."""
        size = 1.0
        while size >= MIN_STEP:
            trial = self._evaluate(self.point.w + size * d)
            if trial.objective <= self.point.objective - SUFFICIENT * size * predicted_decrease:
                step = trial.w - self.point.w
                self.curvature.add(
                    step, self._smooth_gradient(trial) - self._smooth_gradient(self.point)
                )
                improved = trial.objective < self.point.objective
                self.point = trial
                return improved
            size *= 0.5
        return False
