"""The covariance of many weights, by solving systems instead of forming matrices.

With the contributions c_q and the curvature A of ``solvers.sandwich``, and H_q the curvature of
query q's part of the risk, the columns of

    F = sqrt((n - 1) / n) [ (A - H_q)^-1 c_q ]_q

are the changes of the parameters, by one Newton step, when query q is left out. F F' is the
covariance by the jackknife, which does not shrink where a few queries decide a parameter (CR3 of
Bell and McCaffrey 2002).

With more queries (see ``MAX_EXACT``) F has r columns A^-1 (sum_q e_qk c_q) / sqrt(r) with random
signs e_qk instead (the multiplier bootstrap). A standard error then has a relative error of
1 / sqrt(2 r). F is multiplied by the ratio of the two kinds of columns in ``N_LEFT_OUT`` queries,
in the units of scores. All systems are solved together by preconditioned conjugate gradients, a
block of columns at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.blocks import BlockCurvature
from rankine.solvers.newton import QuadraticPenalty
from rankine.solvers.sandwich import Covariance, Sandwich, too_few_queries

if TYPE_CHECKING:
    from rankine.solvers.tables import TableProblem

Matrix = NDArray[np.float64]

#: Each query is left out in turn if there are at most so many, and at most so many rows for all of
#: these systems together; otherwise the number of draws.
MAX_EXACT, MAX_WORK, N_DRAWS = 512, 10_000_000, 128
#: Queries that are left out to compare with draws.
N_LEFT_OUT = 8
#: Columns that are solved together.
BLOCK = 16
#: Residual to which a system is solved, relative to its right-hand side, and iterations at most.
#: It changes 98 % of the standard errors by less than 2 %.
TOL, MAX_ITER = 0.02, 500
_SEED = 0x49564C53


def sketch(
    problem: TableProblem,
    penalty: QuadraticPenalty,
    w: NDArray[np.float64],
    shares: NDArray[np.float64],
) -> Sandwich:
    """Return the covariance of the parameters ``w`` of a risk and a quadratic penalty.

    ``shares`` are those of the queries of the risk, which is smooth.
    """
    queries, scores = problem.risk.queries, problem.scores(w)
    _, slopes, curvature = problem.evaluate_with_curvature(scores)
    blocks = BlockCurvature(curvature, queries, len(scores), problem.products.threads)
    scale = problem.curvature_scale(curvature)
    n = queries.n_queries
    if n < 2:
        raise too_few_queries(n, 1.0)
    leave_out = n <= MAX_EXACT and n * len(scores) <= MAX_WORK
    n_systems = n if leave_out else N_DRAWS
    preconditioner = problem.preconditioner(penalty, curvature, scale, n_systems=n_systems)

    def times(V: Matrix, left_out: Sequence[int] = ()) -> Matrix:
        """Return A V; column k without the query ``left_out[k]``."""
        slopes_of_columns = blocks.times(problem.score_columns(V))
        for k, q in enumerate(left_out):
            slopes_of_columns[queries.rows[queries.starts[q] : queries.starts[q + 1]], k] = 0.0
        return problem.gradients(slopes_of_columns) + _by_column(penalty.times, V)

    pull = penalty.times(w)
    gradient = problem.gradient(slopes) + pull
    query_of_row = np.repeat(np.arange(n), np.diff(queries.starts))

    def score_size(V: Matrix) -> float:
        """Return the sum of v'R''v: how much changes of parameters change score differences."""
        scores_of_columns = problem.score_columns(V)
        return float(_dots(scores_of_columns, blocks.times(scores_of_columns)).sum())

    def draw(block: Matrix) -> Matrix:
        """Return the sums of signed contributions, a column for each column of signs."""
        values = np.zeros((len(scores), block.shape[1]))
        values[queries.rows] = slopes[queries.rows, None] * block[query_of_row]
        out = problem.gradients(values) + np.outer(pull, shares @ block)
        return out - np.outer(gradient, block.sum(axis=0) / n)

    def solve_blocks(signs: Matrix, left_out: Sequence[int] = ()) -> Matrix:
        """Return A^-1 c for the contributions of the queries with these signs, by column."""
        solved = []
        for k in range(0, signs.shape[1], BLOCK):
            columns = slice(k, k + BLOCK)
            times_block = partial(times, left_out=left_out[columns])
            solved.append(_solve(times_block, preconditioner, draw(signs[:, columns])))
        return np.concatenate(solved, axis=1)

    if leave_out:
        factor = solve_blocks(np.eye(n), range(n)) * np.sqrt((n - 1) / n)
    else:
        rng = np.random.default_rng(_SEED)
        factor = solve_blocks(rng.choice([-1.0, 1.0], (n, N_DRAWS)) / np.sqrt(N_DRAWS))
        chosen = rng.choice(n, min(n, N_LEFT_OUT), replace=False)
        unit = np.eye(n)[:, chosen]
        kept, left = solve_blocks(unit), solve_blocks(unit, chosen.tolist())
        wider = score_size(left) / max(score_size(kept), np.finfo(np.float64).tiny)
        factor *= np.sqrt((n - 1) / n * max(1.0, wider))

    def solve(g: NDArray[np.float64]) -> NDArray[np.float64]:
        return _solve(times, preconditioner, g[:, None])[:, 0]

    return Sandwich(Covariance(factor, n, n - 1.0), solve(gradient), solve)


def _by_column(function: Any, V: Matrix) -> Matrix:
    return np.column_stack([function(np.ascontiguousarray(v)) for v in V.T])


def _dots(a: Matrix, b: Matrix) -> NDArray[np.float64]:
    # Not BLAS: its sums depend on the number of its threads.
    return np.asarray(np.einsum("ik,ik->k", a, b))


def _solve(times: Any, preconditioner: Any, b: Matrix) -> Matrix:
    """Solve A x = b for every column, until each residual is ``TOL`` times the first one."""
    x = np.zeros_like(b)
    residual = b.copy()
    direction = z = _by_column(preconditioner.solve, residual)
    size = first_size = _dots(residual, z)
    for _ in range(MAX_ITER):
        active = size > TOL * TOL * first_size
        if not active.any():
            break
        product = times(direction)
        curvature = _dots(direction, product)
        step = np.where(active, size / np.where(curvature > 0.0, curvature, 1.0), 0.0)
        x += step * direction
        residual -= step * product
        z = _by_column(preconditioner.solve, residual)
        previous, size = size, np.where(active, _dots(residual, z), size)
        direction = (
            z + np.where(active, size / np.where(previous > 0, previous, 1.0), 0.0) * direction
        )
    return x
