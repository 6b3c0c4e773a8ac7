"""Gradient descent with momentum on 1/2 w^T H w - b^T w, H = A + gamma I (Tas, eq. 7).

    w_{t+1} = w_t - a (H w_t - b) + mu (w_t - w_{t-1}),        a = (1 - mu) eta

converges iff 0 < a kappa < 2 (1 + mu) for every eigenvalue kappa of H. With the extreme
eigenvalues known, a = 4 / (sqrt k1 + sqrt kn)^2 and mu = ((sqrt k1 - sqrt kn) / (sqrt k1 +
sqrt kn))^2 are optimal (eq. 11; Polyak 1964), and stable while the true kappa_1 < k1 + kn.

They are estimated for A = X^T L X; the spectrum of H is the same, shifted, so one run serves every
gamma. kappa_1 must not be underestimated by more than kappa_n, or the iteration diverges; kappa_n
may be overestimated at the price of speed.

``solve_query_sgd`` (the future work of Tas) is stochastic: H = sum_q H_q + gamma I, so that a few
queries estimate the gradient without bias,

    g = (Q/B) sum over B queries of X_q^T L_q (X_q w - y_q) + gamma w,

and w moves as in eq. 7 with momentum 0.9 and a = (1 - mu) / L, where L bounds the curvature of
every single estimate (the deterministic optimum would amplify the noise by 1 / (1 - mu)). The
result is the mean of the iterates of the second half. Useful for a few passes over much data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError, ParameterError
from rankine.kernels.compile import jit
from rankine.kernels.random import QUERY_ORDER, STEP_START, permutation, random_unit, stream_seed
from rankine.kernels.shards import add_rows, dot, norm, rows_dot
from rankine.losses.base import add_normal_product
from rankine.solvers.base import (
    Callback,
    Solution,
    initial_weights,
    report_progress,
    require_finite,
)
from rankine.solvers.problem import NormalEquations, RowsProblem

Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]

#: Safety factor on the largest eigenvalue estimated from blocks of queries.
ONLINE_SAFETY = 2.0
#: Number of blocks of queries for an online estimate.
N_BLOCKS = 32


@dataclass(frozen=True)
class Spectrum:
    """Bounds of the eigenvalues of A, and the trace of their estimates."""

    largest: float
    smallest: float
    products: int
    trace: list[dict[str, float]] = field(default_factory=list)

    def shifted(self, gamma: float) -> tuple[float, float]:
        """Return kappa_1 and kappa_n of A + gamma I."""
        return self.largest + gamma, max(0.0, self.smallest) + gamma


@jit
def _normal_draws(seed: Any, out: Any) -> None:
    """Fill ``out`` with normal draws (Box and Muller: two uniform draws give one)."""
    for k in range(out.shape[0]):
        radius = np.sqrt(-2.0 * np.log1p(-random_unit(seed, 2 * k)))
        out[k] = radius * np.cos(2.0 * np.pi * random_unit(seed, 2 * k + 1))


def random_direction(n: int, seed: int, stream: int = 0) -> NDArray[np.float64]:
    """Return a uniformly random unit vector, a function of the seed alone."""
    v = np.empty(n)
    _normal_draws(stream_seed(seed, stream), v)
    return v / norm(v)


def lanczos(times: Product, n: int, seed: int, steps: int = 30) -> Spectrum:
    """Estimate the spectrum by the Lanczos method with full reorthogonalisation.

    kappa_1 is the largest Ritz value plus its residual beta_k |s_k|. The residual bounds the
    distance of a Ritz value to the spectrum, so adding it turns an estimate from below into a safe
    one. kappa_n is the smallest Ritz value.
    """
    steps = min(steps, n)
    basis = np.zeros((steps + 1, n))
    basis[0] = random_direction(n, seed)
    diagonal, off = np.zeros(steps), np.zeros(steps)
    trace: list[dict[str, float]] = []
    for k in range(steps):
        z = times(basis[k])
        diagonal[k] = dot(z, basis[k])
        # Twice: after one pass of Gram-Schmidt, rounding errors can leave z far from orthogonal.
        for _ in range(2):
            z = z - add_rows(basis[: k + 1], rows_dot(basis[: k + 1], z))
        off[k] = norm(z)
        ritz, vectors = _tridiagonal(diagonal[: k + 1], off[:k])
        bound = off[k] * abs(vectors[-1, -1])
        trace.append(
            {
                "step": k + 1,
                "kappa_1": float(ritz[-1]),
                "kappa_n": float(ritz[0]),
                "bound": float(bound),
            }
        )
        if off[k] <= 1e-12 * max(abs(ritz[-1]), abs(ritz[0]), 1e-300):
            break
        basis[k + 1] = z / off[k]
    last = trace[-1]
    largest = (last["kappa_1"] + last["bound"]) * (1.0 + 1e-12)
    return Spectrum(largest, last["kappa_n"], len(trace), trace)


def power_iteration(times: Product, n: int, seed: int, steps: int = 20) -> Spectrum:
    """Estimate the spectrum by power iterations on A and on A - kappa_1 I.

    Tas, Algorithm 1, with centring and a corrected loop. kappa_1 is approached from below and
    kappa_n from above: cheap, but unsafe on flat spectra.
    """
    v_largest, v_smallest = random_direction(n, seed), random_direction(n, seed, 1)
    trace: list[dict[str, float]] = []
    largest = 0.0
    for k in range(steps):
        v_largest, largest = _normalised(times(v_largest))
        v_smallest, _ = _normalised(times(v_smallest) - largest * v_smallest)
        trace.append({"step": k + 1, "kappa_1": largest})
    smallest = float(dot(v_smallest, times(v_smallest)))
    trace[-1]["kappa_n"] = smallest
    return Spectrum(largest, smallest, 2 * steps + 1, trace)


def online_power_iteration(blocks: list[Product], n: int, seed: int, passes: int = 2) -> Spectrum:
    """Estimate the spectrum by a power iteration on one block of queries at a time.

    This is the paper's on-line idea. The product of a block, times the number of blocks, estimates
    the whole. kappa_1 is the mean growth factor of the last pass times a safety factor; kappa_n is
    0, that is gamma once shifted.
    """
    v = random_direction(n, seed)
    trace: list[dict[str, float]] = []
    growth = np.zeros(len(blocks))
    for step in range(passes * len(blocks)):
        block = step % len(blocks)
        product = len(blocks) * blocks[block](v)
        growth[block] = norm(product)
        # A block's product may be 0 or nearly so; half of the old direction preserves the estimate
        # of the other blocks.
        next_direction = product / growth[block] + v if growth[block] > 0.0 else v
        v, _ = _normalised(next_direction)
        trace.append({"step": step + 1, "kappa_1": float(growth[: step + 1].mean())})
    return Spectrum(ONLINE_SAFETY * float(growth.mean()), 0.0, passes, trace)


def _normalised(v: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    length = norm(v)
    if length > 0.0:
        return v / length, length
    return v, 0.0


def _tridiagonal(
    diagonal: NDArray[np.float64], off: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues, ascending, and eigenvectors of a symmetric tridiagonal matrix."""
    require_finite(diagonal, len(diagonal), "the estimate of the spectrum")
    matrix = np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors


#: At the optimal rate the residual is halved in about sqrt(k1/kn) steps. A run has stalled if this
#: took more than TRANSIENT times as many steps, which allows for the transient, plus PATIENCE.
TRANSIENT = 20
PATIENCE = 50
#: The run diverges if the residual exceeds this multiple of the best one.
EXPLODED = 1e3


def optimal_step_and_momentum(k1: float, kn: float) -> tuple[float, float]:
    """Return the step a = (1 - mu) eta and the momentum mu of eq. 11."""
    root_1, root_n = np.sqrt(k1), np.sqrt(kn)
    return float(4.0 / (root_1 + root_n) ** 2), float(((root_1 - root_n) / (root_1 + root_n)) ** 2)


def stable_eta(k1: float, mu: float) -> float:
    """Return the supremum of stable eta: (1 - mu) eta k1 < 2 (1 + mu)."""
    return 2.0 * (1.0 + mu) / ((1.0 - mu) * k1)


class _Momentum:
    """State of eGDM and GDM: the iterate, the previous iterate and the best one so far."""

    def __init__(
        self, system: NormalEquations, gamma: float, start: NDArray[np.float64] | None, name: str
    ) -> None:
        self.system, self.gamma, self.name = system, gamma, name
        self.size = norm(system.b) or 1.0
        w = initial_weights(start, len(system.b))
        self.w = self.before = self.best = w
        self.best_residual = np.inf
        self.trace: list[dict[str, float]] = []
        self.reason = "max_iter"

    def measure(self, iteration: int, **more: float) -> None:
        """Compute gradient and relative residual at the current point, and record them."""
        self.gradient = self.system.times(self.w, self.gamma) - self.system.b
        self.residual = norm(self.gradient) / self.size
        self.trace.append({"iteration": iteration, "residual": self.residual, **more})
        if self.residual < self.best_residual:
            self.best, self.best_residual = self.w, self.residual

    def ends(
        self, iteration: int, tol: float, max_iter: int, callbacks: Sequence[Callback]
    ) -> bool:
        """Return whether the residual is small enough or a callback requested a stop."""
        if self.residual <= tol:
            self.reason = "converged"
            return True
        if report_progress(
            callbacks, self.name, iteration, max_iter, {"residual": self.residual}, self.best
        ):
            self.reason = "callback"
            return True
        return False

    def move(self, step: float, momentum: float) -> None:
        """Take one step of eq. 7."""
        next_w = self.w - step * self.gradient + momentum * (self.w - self.before)
        self.before, self.w = self.w, next_w

    def restart(self) -> None:
        """Return to the best point, without momentum."""
        self.w = self.before = self.best

    def state(self) -> Sequence[Any]:
        """Return everything that the next step depends on, for ``restore``."""
        iterates = (self.w, self.before, self.best, self.best_residual)
        return *iterates, self.trace, self.system.products

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from a state."""
        self.w, self.before, self.best, self.best_residual, *saved = state
        self.trace, self.system.products = saved

    def solution(self, iteration: int, **more: float) -> Solution:
        """Create the solution from the best point."""
        certificate = {
            "residual": self.best_residual,
            "products": float(self.system.products),
            **more,
        }
        objective = self.system.objective(self.best, self.gamma)
        return Solution(self.best, objective, certificate, iteration, self.trace, self.reason)


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
    """Solve by eGDM; restart from the best point, without momentum, if the eigenvalues were wrong.

    Divergence means that kappa_1 was too small: it is doubled. A stall means that kappa_n was too
    large: it is divided by ten, down to gamma; below that, kappa_1 is doubled instead. Safe values
    are reached after finitely many restarts for any first estimate, so the run cannot diverge.
    """
    k1, kn = eigenvalues
    run = _Momentum(system, gamma, start, "egdm")
    step, momentum = optimal_step_and_momentum(k1, kn)
    restarts = n_since_halving = first_iteration = 0
    reference_residual = np.inf
    resume = system.problem.resume_point("egdm")
    if resume.state is not None:
        k1, kn, restarts, reference_residual, n_since_halving, first_iteration, run_state = (
            resume.state
        )
        run.restore(run_state)
        step, momentum = optimal_step_and_momentum(k1, kn)

    def loop_state() -> Sequence[Any]:
        return k1, kn, restarts, reference_residual, n_since_halving, iteration, run.state()

    for iteration in range(first_iteration, max_iter + 1):
        resume.save(loop_state)
        run.measure(iteration, kappa_1=k1, kappa_n=kn)
        if run.ends(iteration, tol, max_iter, callbacks):
            break
        if run.best_residual < 0.5 * reference_residual:
            reference_residual, n_since_halving = run.best_residual, 0
        n_since_halving += 1
        exploded = not run.residual <= EXPLODED * run.best_residual
        if exploded or n_since_halving > PATIENCE + TRANSIENT * np.sqrt(k1 / kn):
            # gamma is a lower bound of kappa_n, so at gamma only kappa_1 can be at fault.
            if exploded or kn <= gamma:
                k1 *= 2.0
            else:
                kn = max(gamma, 0.1 * kn)
            step, momentum = optimal_step_and_momentum(k1, kn)
            run.restart()
            run.measure(iteration, kappa_1=k1, kappa_n=kn)
            restarts, reference_residual, n_since_halving = restarts + 1, run.best_residual, 0
        run.move(step, momentum)
    return run.solution(iteration, kappa_1=k1, kappa_n=kn, restarts=float(restarts))


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
    """Solve with fixed step size and momentum; raise ParameterError if they are not stable."""
    if eta is None:
        eta = 1.0 / k1
    stable_limit = stable_eta(k1, momentum)
    if not 0.0 < eta < stable_limit:
        raise ParameterError(
            f"{eta:g} with the momentum {momentum:g} diverges: the largest eigenvalue is {k1:.6g}",
            parameter="eta",
            fix=f"Pass a number between 0 and {stable_limit:.6g}, or None for 1/kappa_1",
        )
    run, first_iteration = _Momentum(system, gamma, start, "gdm"), 0
    resume = system.problem.resume_point("gdm")
    if resume.state is not None:
        first_iteration, run_state = resume.state
        run.restore(run_state)

    def loop_state() -> Sequence[Any]:
        return iteration, run.state()

    for iteration in range(first_iteration, max_iter + 1):
        resume.save(loop_state)
        run.measure(iteration)
        if run.ends(iteration, tol, max_iter, callbacks):
            break
        if not np.isfinite(run.residual):
            raise DivergenceError(
                f"descent with eta={eta:g} and momentum={momentum:g} diverged at step {iteration}",
                fix="Estimate the spectrum by curvature='lanczos', or use solver='cg'",
            )
        run.move((1.0 - momentum) * eta, momentum)
    return run.solution(iteration, kappa_1=k1, eta=eta)


MOMENTUM = 0.9
POWER_STEPS = 8
#: Safety factor, as power iteration approaches the largest eigenvalue from below.
SAFETY = 1.25


@jit
def _largest_per_query(rows: Any, lap: Any, n_features: int, seed: Any) -> Any:
    """Estimate the largest eigenvalue of every H_q by ``POWER_STEPS`` power iterations."""
    out = np.zeros(lap.starts.shape[0] - 1)
    v, product = np.empty(n_features), np.empty(n_features)
    for q in range(out.shape[0]):
        for j in range(n_features):
            v[j] = random_unit(seed, j) - 0.5
        for _ in range(POWER_STEPS):
            product[:] = 0.0
            norm_v = 0.0
            for j in range(n_features):
                norm_v += v[j] * v[j]
            norm_v = np.sqrt(norm_v)
            if norm_v == 0.0:
                break
            for j in range(n_features):
                v[j] /= norm_v
            add_normal_product(lap, rows, q, v, v, False, 1.0, product)
            out[q] = 0.0
            for j in range(n_features):
                out[q] += product[j] * product[j]
                v[j] = product[j]
            out[q] = np.sqrt(out[q])
    return out


@jit
def _pass(
    rows: Any,
    lap: Any,
    y: Any,
    gamma: float,
    step: float,
    momentum: float,
    order: Any,
    batch: int,
    w: Any,
    previous: Any,
    iterate_sum: Any,
) -> int:
    """Take one pass over the queries in ``order``; return the number of steps.

    Adds the iterates to ``iterate_sum``.
    """
    n_queries, n = order.shape[0], w.shape[0]
    gradient = np.empty(n)
    n_steps = 0
    for start in range(0, n_queries, batch):
        stop = min(start + batch, n_queries)
        gradient[:] = 0.0
        factor = n_queries / (stop - start)
        for k in range(start, stop):
            add_normal_product(lap, rows, order[k], w, y, True, factor, gradient)
        for j in range(n):
            next_value = (
                w[j] - step * (gradient[j] + gamma * w[j]) + momentum * (w[j] - previous[j])
            )
            previous[j] = w[j]
            w[j] = next_value
            iterate_sum[j] += next_value
        n_steps += 1
    return n_steps


def query_curvature(problem: RowsProblem, seed: int) -> float:
    """Return max over queries of Q lambda_max(H_q), a bound of the curvature of every estimate."""
    largest = _largest_per_query(
        problem.products.rows,
        problem.risk.laplacian,
        problem.n_features,
        stream_seed(seed, STEP_START),
    )
    return float(SAFETY * len(largest) * largest.max())


def solve_query_sgd(
    system: NormalEquations,
    gamma: float,
    *,
    seed: int,
    start: NDArray[np.float64] | None = None,
    tol: float = 1e-6,
    n_passes: int = 20,
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Run ``n_passes`` stochastic passes over rows in memory; return the mean of the last half."""
    problem: Any = system.problem
    n_queries = problem.risk.queries.n_queries
    curvature_bound = query_curvature(problem, seed) + gamma
    # A step costs O(n_features), so a batch has enough queries for its gradient to cost as much.
    batch = min(n_queries, _queries_per_step(problem))
    w = initial_weights(start, len(system.b))
    previous, mean, b_norm = w.copy(), w.copy(), norm(system.b) or 1.0
    iterate_sum, n_steps, reason = np.zeros(len(w)), 0, "max_iter"
    trace: list[dict[str, float]] = []
    for n_done in range(1, n_passes + 1):
        if n_done == n_passes // 2 + 1:
            iterate_sum[:], n_steps = 0.0, 0
        n_steps += _pass(
            problem.products.rows,
            problem.risk.laplacian,
            problem.risk.y,
            gamma,
            (1.0 - MOMENTUM) / curvature_bound,
            MOMENTUM,
            permutation(stream_seed(seed, QUERY_ORDER, n_done), n_queries),
            batch,
            w,
            previous,
            iterate_sum,
        )
        require_finite(w, n_done, "stochastic descent over queries")
        mean = iterate_sum / n_steps
        residual = norm(system.times(mean, gamma) - system.b) / b_norm
        trace.append({"iteration": n_done, "residual": residual})
        if residual <= tol:
            reason = "converged"
            break
        if report_progress(callbacks, "sgd", n_done, n_passes, {"residual": residual}, mean):
            reason = "callback"
            break
    certificate = {"residual": trace[-1]["residual"], "products": float(system.products)}
    return Solution(mean, system.objective(mean, gamma), certificate, n_done, trace, reason)


def _queries_per_step(problem: RowsProblem) -> int:
    values_per_query = problem.products.rows.values.size / problem.risk.queries.n_queries
    return int(np.ceil(problem.n_features / max(1.0, values_per_query)))
