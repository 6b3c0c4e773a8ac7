"""Gradient descent with momentum on 1/2 w^T H w - b^T w, H = A + gamma I (Tas, eq. 7).

    w_{t+1} = w_t - a (H w_t - b) + mu (w_t - w_{t-1}),        a = (1 - mu) eta

converges iff 0 < a kappa < 2 (1 + mu) for every eigenvalue kappa of H. With the extreme
eigenvalues known, a = 4 / (sqrt k1 + sqrt kn)^2 and mu = ((sqrt k1 - sqrt kn) / (sqrt k1 +
sqrt kn))^2 are optimal (eq. 11; Polyak 1964), and stable while the true kappa_1 < k1 + kn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError, ParameterError
from rankine.kernels.shards import norm
from rankine.solvers.base import Callback, Solution
from rankine.solvers.report import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.solvers.normal_equations import NormalEquations

__all__ = ["optimal_pair", "solve_egdm", "solve_gdm", "stable_eta"]

#: A residual this many times the best one is a divergence.
EXPLODED = 1e3


def optimal_pair(k1: float, kn: float) -> tuple[float, float]:
    """Step a = (1 - mu) eta and momentum mu from the extreme eigenvalues."""
    root_1, root_n = np.sqrt(k1), np.sqrt(kn)
    return float(4.0 / (root_1 + root_n) ** 2), float(((root_1 - root_n) / (root_1 + root_n)) ** 2)


def stable_eta(k1: float, mu: float) -> float:
    """Supremum of stable eta: (1 - mu) eta k1 < 2 (1 + mu)."""
    return 2.0 * (1.0 + mu) / ((1.0 - mu) * k1)


class _Run:
    """The state both methods share: iterate, previous iterate, best residual."""

    def __init__(
        self, system: NormalEquations, gamma: float, start: NDArray[np.float64] | None, name: str
    ) -> None:
        self.system, self.gamma, self.name = system, gamma, name
        self.size = norm(system.b) or 1.0
        self.w = np.zeros(len(system.b)) if start is None else np.array(start, dtype=np.float64)
        self.before = self.w
        self.best = self.w
        self.best_residual = np.inf
        self.residual = np.inf
        self.gradient = np.zeros(0)
        self.trace: list[dict[str, float]] = []

    def look(self, iteration: int, **more: float) -> None:
        """Gradient and relative residual at the current point."""
        self.gradient = self.system.times(self.w, self.gamma) - self.system.b
        self.residual = norm(self.gradient) / self.size
        self.trace.append({"iteration": iteration, "residual": self.residual, **more})
        if self.residual < self.best_residual:
            self.best, self.best_residual = self.w, self.residual

    def move(self, step: float, momentum: float) -> None:
        """One step of eq. 7."""
        ahead = self.w - step * self.gradient + momentum * (self.w - self.before)
        self.before, self.w = self.w, ahead

    def restart(self) -> None:
        """Back to the best point, without momentum."""
        self.w = self.before = self.best

    def solution(self, iteration: int, reason: str, **more: float) -> Solution:
        """Report the best point."""
        certificate = {
            "residual": self.best_residual,
            "products": float(self.system.products),
            **more,
        }
        objective = self.system.objective(self.best, self.gamma)
        return Solution(self.best, objective, certificate, iteration, self.trace, reason)


def solve_egdm(
    system: NormalEquations,
    gamma: float,
    eigenvalues: tuple[float, float],
    *,
    start: NDArray[np.float64] | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """eGDM with a guard that restarts from the best point, without momentum.

    An explosion means that kappa_1 was too small: it is doubled. A stall means that kappa_n was
    too large: it is divided by ten, down to gamma, and only then kappa_1 doubled. Safe values are
    reached after finitely many restarts, whatever the first estimate, so the run never diverges.
    """
    k1, kn = eigenvalues
    run = _Run(system, gamma, start, "egdm")
    step, momentum = optimal_pair(k1, kn)
    restarts, reference, since = 0, np.inf, 0
    reason, iteration = "max_iter", 0
    for iteration in range(max_iter + 1):
        run.look(iteration, kappa_1=k1, kappa_n=kn)
        if run.residual <= tol:
            reason = "converged"
            break
        values = {"residual": run.residual}
        if report(callbacks, "egdm", iteration, max_iter, values, run.best):
            reason = "callback"
            break
        if iteration == 0 or run.best_residual < 0.5 * reference:
            reference, since = run.best_residual, 0
        since += 1
        exploded = not run.residual <= EXPLODED * run.best_residual
        # The optimal rate halves the residual in about sqrt(k1/kn) steps, its transient in more.
        if exploded or since > 50 + 20 * np.sqrt(k1 / kn):
            # gamma is a true lower bound of kappa_n, so a stall has run out of excuses there.
            if exploded or kn <= gamma:
                k1 *= 2.0
            else:
                kn = max(gamma, 0.1 * kn)
            step, momentum = optimal_pair(k1, kn)
            run.restart()
            run.look(iteration, kappa_1=k1, kappa_n=kn)
            restarts, reference, since = restarts + 1, run.best_residual, 0
        run.move(step, momentum)
    return run.solution(iteration, reason, kappa_1=k1, kappa_n=kn, restarts=float(restarts))


def solve_gdm(
    system: NormalEquations,
    gamma: float,
    k1: float,
    *,
    eta: float | None = None,
    momentum: float = 0.9,
    start: NDArray[np.float64] | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Fixed step size and momentum; a pair outside the stable region is refused."""
    eta = 1.0 / k1 if eta is None else eta
    limit = stable_eta(k1, momentum)
    if not 0.0 < eta < limit:
        raise ParameterError(
            f"eta={eta:g} with momentum={momentum:g} diverges: the largest eigenvalue is {k1:.6g}",
            fix=f"Pass 0 < eta < {limit:.6g}, or leave eta at its default 1/kappa_1",
        )
    run = _Run(system, gamma, start, "gdm")
    reason, iteration = "max_iter", 0
    for iteration in range(max_iter + 1):
        run.look(iteration)
        if run.residual <= tol:
            reason = "converged"
            break
        values = {"residual": run.residual}
        if report(callbacks, "gdm", iteration, max_iter, values, run.best):
            reason = "callback"
            break
        if not np.isfinite(run.residual):
            raise DivergenceError(
                f"descent with eta={eta:g} and momentum={momentum:g} diverged at step {iteration}",
                fix="Estimate the spectrum by curvature='lanczos', or use solver='cg'",
            )
        run.move((1.0 - momentum) * eta, momentum)
    return run.solution(iteration, reason, kappa_1=k1, eta=eta)
