"""Stochastic heavy ball over queries, for pairwise least squares (the future work of Tas).

H = sum_q H_q + gamma I: a few queries estimate the gradient without bias,

    g = (Q/B) sum over B queries of X_q^T L_q (X_q w - y_q) + gamma w,

and w moves as in eq. 7 with momentum 0.9 and a = (1 - mu) / L, where L bounds the curvature of
every single estimate (the deterministic optimum would amplify the noise by 1 / (1 - mu)). The
result is the mean of the iterates of the second half. Useful for a few passes over much data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.random import QUERY_ORDER, STEP_START, permutation, random_unit, stream_seed
from rankine.kernels.shards import norm
from rankine.losses.base import normal_times
from rankine.solvers.base import Callback, Solution, report, require_finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.solvers.problem import NormalEquations, RowsProblem

MOMENTUM = 0.9
POWER_STEPS = 8
#: Power iteration approaches the largest eigenvalue from below.
SAFETY = 1.25


@jit
def _largest_per_query(rows: Any, lap: Any, n_features: int, seed: Any) -> Any:
    """Largest eigenvalue of every H_q by a few power iterations."""
    out = np.zeros(lap.starts.shape[0] - 1)
    none = np.zeros(0)
    v, moved = np.empty(n_features), np.empty(n_features)
    for q in range(out.shape[0]):
        for j in range(n_features):
            v[j] = random_unit(seed, j) - 0.5
        for _ in range(POWER_STEPS):
            moved[:] = 0.0
            length = 0.0
            for j in range(n_features):
                length += v[j] * v[j]
            length = np.sqrt(length)
            if length == 0.0:
                break
            for j in range(n_features):
                v[j] /= length
            normal_times(lap, rows, q, v, none, 1.0, moved)
            out[q] = 0.0
            for j in range(n_features):
                out[q] += moved[j] * moved[j]
                v[j] = moved[j]
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
    before: Any,
    total: Any,
) -> int:
    """One pass over the queries in the given order; ``total`` gathers the iterates."""
    n_queries, n = order.shape[0], w.shape[0]
    gradient = np.empty(n)
    count = 0
    for start in range(0, n_queries, batch):
        stop = min(start + batch, n_queries)
        gradient[:] = 0.0
        for k in range(start, stop):
            normal_times(lap, rows, order[k], w, y, n_queries / (stop - start), gradient)
        for j in range(n):
            ahead = w[j] - step * (gradient[j] + gamma * w[j]) + momentum * (w[j] - before[j])
            before[j] = w[j]
            w[j] = ahead
            total[j] += ahead
        count += 1
    return count


def query_curvature(problem: RowsProblem, seed: int) -> float:
    """max over queries of Q lambda_max(H_q): the curvature of the roughest single estimate."""
    largest = _largest_per_query(
        problem.products.rows, problem.risk.lap, problem.n_features, stream_seed(seed, STEP_START)
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
    """Run ``n_passes`` passes over rows in memory, since steps are sequential."""
    problem: Any = system.problem
    n_queries = problem.risk.queries.n_queries
    bound = query_curvature(problem, seed) + gamma
    # A step costs O(n_features): take enough queries for its gradient to cost as much.
    batch = max(1, min(n_queries, _queries_per_step(problem)))
    w = np.zeros(len(system.b)) if start is None else np.array(start, dtype=np.float64)
    before, mean, size = w.copy(), w.copy(), norm(system.b) or 1.0
    total, count, reason = np.zeros(len(w)), 0, "max_iter"
    trace: list[dict[str, float]] = []
    done = 0
    for done in range(1, n_passes + 1):
        if done == n_passes // 2 + 1:
            total[:], count = 0.0, 0
        count += _pass(
            problem.products.rows,
            problem.risk.lap,
            problem.risk.y,
            gamma,
            (1.0 - MOMENTUM) / bound,
            MOMENTUM,
            permutation(stream_seed(seed, QUERY_ORDER, done), n_queries),
            batch,
            w,
            before,
            total,
        )
        require_finite(w, done, "stochastic descent over queries")
        mean = total / count
        residual = norm(system.times(mean, gamma) - system.b) / size
        trace.append({"iteration": done, "residual": residual})
        if residual <= tol:
            reason = "converged"
            break
        if report(callbacks, "sgd", done, n_passes, {"residual": residual}, mean):
            reason = "callback"
            break
    certificate = {"residual": trace[-1]["residual"], "products": float(system.products)}
    return Solution(mean, system.objective(mean, gamma), certificate, done, trace, reason)


def _queries_per_step(problem: RowsProblem) -> int:
    stored = problem.products.rows.values.size / max(1, problem.risk.queries.n_queries)
    return int(np.ceil(problem.n_features / max(1.0, stored)))
