"""Conjugate gradients for (A + gamma I) w = b, one gamma or many with the same products.

A shift does not change the Krylov space, and the residuals of all shifted systems are parallel:
r_gamma = zeta_gamma r. One product per iteration therefore serves every gamma (Jegerlehner 1996;
Frommer and Maass 1999). The iteration runs for the smallest gamma, whose system is the hardest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import dot, norm
from rankine.solvers.base import (
    Callback,
    Solution,
    initial_weights,
    report_progress,
    require_finite,
)
from rankine.solvers.problem import NormalEquations

#: Restarts from the true residual, when it is larger than the recursive one, before giving up.
MAX_REFRESH = 5


def solve_cg(
    system: NormalEquations,
    gamma: float,
    *,
    start: NDArray[np.float64] | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Solve until the true residual satisfies |b - (A + gamma I) w| <= tol |b|."""
    b = system.b
    b_norm = norm(b)
    w = initial_weights(start, len(b))
    residual = b - system.times(w, gamma) if w.any() else b.copy()
    trace = [{"iteration": 0.0, "residual": _relative(norm(residual), b_norm)}]
    search, squared_residual = residual.copy(), dot(residual, residual)
    iteration, n_refreshes, reason = 0, 0, "max_iter"
    resume = system.problem.resume_point("cg")
    if resume.state is not None:
        w, residual, search, squared_residual, iteration, n_refreshes, trace, system.products = (
            resume.state
        )

    def loop_state() -> Sequence[Any]:
        return w, residual, search, squared_residual, iteration, n_refreshes, trace, system.products

    while n_refreshes < MAX_REFRESH:
        while iteration < max_iter and np.sqrt(squared_residual) > tol * b_norm:
            resume.save(loop_state)
            iteration += 1
            product = system.times(search, gamma)
            curvature = dot(search, product)
            if curvature <= 0.0:  # A is positive semi-definite: only rounding errors are left
                break
            step = squared_residual / curvature
            w = w + step * search
            residual = residual - step * product
            previous_squared, squared_residual = squared_residual, dot(residual, residual)
            search = residual + (squared_residual / previous_squared) * search
            require_finite(w, iteration, "conjugate gradients")
            trace.append(
                {
                    "iteration": iteration,
                    "residual": _relative(float(np.sqrt(squared_residual)), b_norm),
                }
            )
            if report_progress(
                callbacks, "cg", iteration, max_iter, {"residual": trace[-1]["residual"]}, w
            ):
                reason = "callback"
                break
        if reason == "callback":
            break
        residual = b - system.times(w, gamma)
        if norm(residual) <= tol * b_norm:
            reason = "converged"
            break
        if iteration >= max_iter:
            break
        # The recursive residual drifted from the true one: restart from the true one.
        search, squared_residual = residual.copy(), dot(residual, residual)
        n_refreshes += 1
    else:
        reason = "precision"
    # The true residual where there is one: the recursive one may be too small by rounding.
    final_residual = (
        trace[-1]["residual"] if reason == "callback" else _relative(norm(residual), b_norm)
    )
    return _solution(system, w, gamma, iteration, trace, reason, final_residual)


def solve_shifted_cg(
    system: NormalEquations,
    gammas: Sequence[float],
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callbacks: Sequence[Callback] = (),
) -> list[Solution]:
    """Solve for every gamma from w = 0 with one set of products, then check each solution."""
    smallest_gamma = min(gammas)
    shifted = [_Shifted(gamma - smallest_gamma, len(system.b)) for gamma in gammas]
    residual, b_norm = system.b.copy(), norm(system.b)
    search, squared_residual = residual.copy(), dot(residual, residual)
    for shifted_system in shifted:
        shifted_system.search[:] = residual
    previous_step, previous_ratio, iteration = 1.0, 0.0, 0
    stopped = False
    resume = system.problem.resume_point("cg of several")
    if resume.state is not None:
        residual, search, squared_residual, previous_step, previous_ratio, iteration, *saved = (
            resume.state
        )
        system.products, saved_systems = saved
        for shifted_system, saved_system in zip(shifted, saved_systems, strict=True):
            vars(shifted_system).update(saved_system)

    def loop_state() -> Sequence[Any]:
        at = (residual, search, squared_residual, previous_step, previous_ratio, iteration)
        return *at, system.products, [vars(shifted_system) for shifted_system in shifted]

    while iteration < max_iter and not stopped and np.sqrt(squared_residual) > tol * b_norm:
        resume.save(loop_state)
        iteration += 1
        product = system.times(search, smallest_gamma)
        curvature = dot(search, product)
        if curvature <= 0.0:
            break
        step = squared_residual / curvature
        residual = residual - step * product
        previous_squared, squared_residual = squared_residual, dot(residual, residual)
        ratio = squared_residual / previous_squared
        for shifted_system in shifted:
            shifted_system.advance(step, previous_step, ratio, previous_ratio, residual)
            shifted_system.record(iteration, float(np.sqrt(squared_residual)), b_norm, tol)
        search = residual + ratio * search
        previous_step, previous_ratio = step, ratio
        smallest_system = shifted[int(np.argmin(gammas))]
        values = {"residual": _relative(float(np.sqrt(squared_residual)), b_norm)}
        stopped = report_progress(callbacks, "cg", iteration, max_iter, values, smallest_system.w)
    solutions = []
    for gamma, shifted_system in zip(gammas, shifted, strict=True):
        if stopped:
            w, trace = shifted_system.w, shifted_system.trace
            last_residual = trace[-1]["residual"]
            solutions.append(
                _solution(system, w, gamma, iteration, trace, "callback", last_residual)
            )
        else:
            solutions.append(_polish(system, gamma, shifted_system, tol, max_iter))
    return solutions


class _Shifted:
    """The system (A + (gamma_min + shift) I) w = b; its residual is zeta r (Jegerlehner 1996)."""

    def __init__(self, shift: float, n: int) -> None:
        self.shift = shift
        self.w = np.zeros(n)
        self.search = np.zeros(n)
        self.zeta = self.zeta_before = 1.0
        self.done = False
        self.trace: list[dict[str, float]] = [{"iteration": 0.0, "residual": 1.0}]

    def advance(
        self,
        step: float,
        previous_step: float,
        ratio: float,
        previous_ratio: float,
        residual: NDArray[np.float64],
    ) -> None:
        """Apply one iteration, given the coefficients of the system with the smallest gamma."""
        if self.done:
            return
        divisor = step * previous_ratio * (self.zeta_before - self.zeta)
        divisor += self.zeta_before * previous_step * (1.0 + self.shift * step)
        zeta = self.zeta * self.zeta_before * previous_step / divisor
        zeta_ratio = zeta / self.zeta
        self.w += step * zeta_ratio * self.search
        self.search = zeta * residual + ratio * zeta_ratio * zeta_ratio * self.search
        self.zeta_before, self.zeta = self.zeta, zeta

    def record(self, iteration: int, residual_norm: float, b_norm: float, tol: float) -> None:
        """Record the residual |zeta r|; stop iterating once it is small enough."""
        if self.done:
            return
        relative = _relative(abs(self.zeta) * residual_norm, b_norm)
        self.trace.append({"iteration": iteration, "residual": relative})
        self.done = relative <= tol


def _polish(
    system: NormalEquations, gamma: float, shifted: _Shifted, tol: float, max_iter: int
) -> Solution:
    """Check the true residual; improve it by ordinary iterations if the recursion lost accuracy."""
    polished = solve_cg(system, gamma, start=shifted.w, tol=tol, max_iter=max_iter)
    trace = [*shifted.trace, *({**record, "polish": 1.0} for record in polished.trace[1:])]
    return Solution(
        polished.coef,
        polished.objective,
        polished.certificate,
        len(shifted.trace) - 1 + polished.n_iter,
        trace,
        polished.stop_reason,
    )


def _solution(
    system: NormalEquations,
    w: NDArray[np.float64],
    gamma: float,
    iteration: int,
    trace: list[dict[str, float]],
    reason: str,
    residual: float,
) -> Solution:
    require_finite(w, iteration, "conjugate gradients")
    certificate = {"residual": residual, "products": float(system.products)}
    return Solution(w, system.objective(w, gamma), certificate, iteration, trace, reason)


def _relative(residual_norm: float, b_norm: float) -> float:
    return residual_norm / b_norm if b_norm > 0.0 else residual_norm
