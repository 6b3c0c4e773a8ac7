"""Conjugate gradients for (A + gamma I) w = b, one gamma or many with the same products.

A shift does not change the Krylov space, and the residuals of all shifted systems are parallel:
r_gamma = zeta_gamma r. One product per iteration therefore serves every gamma (Jegerlehner 1996;
Frommer and Maass 1999). The run is driven by the smallest gamma, whose system is the hardest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import dot, norm
from rankine.solvers.base import Callback, Solution, report_progress, require_finite
from rankine.solvers.problem import NormalEquations

#: Times the true residual may contradict the recursive one before rounding has the last word.
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
    """Solve until |b - (A + gamma I) w| <= tol |b|, by the true residual."""
    b = system.b
    size = norm(b)
    w = np.zeros(len(b)) if start is None else np.array(start, dtype=np.float64)
    residual = b - system.times(w, gamma) if w.any() else b.copy()
    trace = [{"iteration": 0.0, "residual": _relative(norm(residual), size)}]
    search, squared = residual.copy(), dot(residual, residual)
    iteration, refreshed, reason = 0, 0, "max_iter"
    resume = system.problem.resume_point("cg")
    if resume.state is not None:
        w, residual, search, squared, iteration, refreshed, trace, system.products = resume.state

    def stands() -> Sequence[Any]:
        return w, residual, search, squared, iteration, refreshed, trace, system.products

    while refreshed < MAX_REFRESH:
        while iteration < max_iter and np.sqrt(squared) > tol * size:
            resume.save(stands)
            iteration += 1
            product = system.times(search, gamma)
            bend = dot(search, product)
            if bend <= 0.0:
                break
            step = squared / bend
            w = w + step * search
            residual = residual - step * product
            before, squared = squared, dot(residual, residual)
            search = residual + (squared / before) * search
            require_finite(w, iteration, "conjugate gradients")
            trace.append(
                {"iteration": iteration, "residual": _relative(float(np.sqrt(squared)), size)}
            )
            if report_progress(
                callbacks, "cg", iteration, max_iter, {"residual": trace[-1]["residual"]}, w
            ):
                reason = "callback"
                break
        if reason == "callback":
            break
        residual = b - system.times(w, gamma)
        if norm(residual) <= tol * size:
            reason = "converged"
            break
        if iteration >= max_iter:
            break
        search, squared, refreshed = residual.copy(), dot(residual, residual), refreshed + 1
    else:
        reason = "precision"
    # The true residual: rounding may have let the recursive one run ahead.
    left = trace[-1]["residual"] if reason == "callback" else _relative(norm(residual), size)
    return _solution(system, w, gamma, iteration, trace, reason, left)


def solve_shifted_cg(
    system: NormalEquations,
    gammas: Sequence[float],
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callbacks: Sequence[Callback] = (),
) -> list[Solution]:
    """Solve for every gamma from w = 0 with one set of products; polish what rounding spoilt."""
    least = min(gammas)
    shifts = [_Shifted(gamma - least, len(system.b)) for gamma in gammas]
    residual, size = system.b.copy(), norm(system.b)
    search, squared = residual.copy(), dot(residual, residual)
    for one in shifts:
        one.search[:] = residual
    step_before, turn_before, iteration = 1.0, 0.0, 0
    stopped = False
    resume = system.problem.resume_point("cg of several")
    if resume.state is not None:
        residual, search, squared, step_before, turn_before, iteration, *rest = resume.state
        system.products, known = rest
        for one, saved in zip(shifts, known, strict=True):
            vars(one).update(saved)

    def stands() -> Sequence[Any]:
        at = (residual, search, squared, step_before, turn_before, iteration)
        return *at, system.products, [vars(one) for one in shifts]

    while iteration < max_iter and not stopped and np.sqrt(squared) > tol * size:
        resume.save(stands)
        iteration += 1
        product = system.times(search, least)
        bend = dot(search, product)
        if bend <= 0.0:
            break
        step = squared / bend
        residual = residual - step * product
        before, squared = squared, dot(residual, residual)
        turn = squared / before
        for one in shifts:
            one.advance(step, step_before, turn, turn_before, residual)
            one.record(iteration, float(np.sqrt(squared)), size, tol)
        search = residual + turn * search
        step_before, turn_before = step, turn
        driver = shifts[int(np.argmin(gammas))]
        values = {"residual": _relative(float(np.sqrt(squared)), size)}
        stopped = report_progress(callbacks, "cg", iteration, max_iter, values, driver.w)
    if stopped:
        return [
            _solution(
                system, one.w, gamma, iteration, one.trace, "callback", one.trace[-1]["residual"]
            )
            for gamma, one in zip(gammas, shifts, strict=True)
        ]
    return [
        _polish(system, gamma, one, tol, max_iter)
        for gamma, one in zip(gammas, shifts, strict=True)
    ]


class _Shifted:
    """One system of the family: A + (gamma_min + shift) I."""

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
        step_before: float,
        turn: float,
        turn_before: float,
        residual: NDArray[np.float64],
    ) -> None:
        """Follow one iteration of the driving system."""
        if self.done:
            return
        divisor = step * turn_before * (self.zeta_before - self.zeta)
        divisor += self.zeta_before * step_before * (1.0 + self.shift * step)
        zeta = self.zeta * self.zeta_before * step_before / divisor
        ratio = zeta / self.zeta
        self.w += step * ratio * self.search
        self.search = zeta * residual + turn * ratio * ratio * self.search
        self.zeta_before, self.zeta = self.zeta, zeta

    def record(self, iteration: int, length: float, size: float, tol: float) -> None:
        """Note the residual |zeta r|; stop moving once it is small enough."""
        if self.done:
            return
        relative = _relative(abs(self.zeta) * length, size)
        self.trace.append({"iteration": iteration, "residual": relative})
        self.done = relative <= tol


def _polish(
    system: NormalEquations, gamma: float, one: _Shifted, tol: float, max_iter: int
) -> Solution:
    """Check the true residual; a few plain iterations mend what the recursion lost."""
    done = solve_cg(system, gamma, start=one.w, tol=tol, max_iter=max_iter)
    trace = [*one.trace, *({**record, "polish": 1.0} for record in done.trace[1:])]
    return Solution(
        done.coef,
        done.objective,
        done.certificate,
        len(one.trace) - 1 + done.n_iter,
        trace,
        done.stop_reason,
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


def _relative(length: float, size: float) -> float:
    return length / size if size > 0.0 else length
