"""The covariance of the weights of a fit, when intervals are asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from rankine.core.errors import ParameterError
from rankine.core.user_warnings import warn_user
from rankine.model.covariance import CovarianceRecord, WeightCovariance
from rankine.solvers.sandwich import Covariance

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankine.rankers.fitting import FitResult
    from rankine.rankers.sources import MemorySource
    from rankine.solvers.base import Solution
    from rankine.solvers.sandwich import Sandwich
    from rankine.transforms.scaling import Scaling

    #: Returns a solution with other weights, and the gradient of the objective there.
    Evaluate = Callable[[Solution, NDArray[np.float64]], tuple[Solution, NDArray[np.float64]]]

#: Largest number of weights whose covariance is computed exactly: its matrices have the squared
#: number of entries.
MAX_WEIGHTS = 2000
#: A fit with intervals is solved until every weight is this close to the optimum, in standard
#: errors; ``tol`` alone may end further from it.
CLOSE = 0.1
#: Newton steps with the curvature at hand at most. After steps from further away than so many
#: standard errors, the covariance is computed again.
MAX_STEPS, NEAR = 5, 1.0
#: Further runs of the solver at most, and the tolerance of the last one.
MAX_RUNS, SMALLEST_TOL = 4, 1e-10


def check_weight_count(n_weights: int) -> None:
    """Raise if the covariance of so many weights would be too large."""
    if n_weights > MAX_WEIGHTS:
        raise ParameterError(
            f"the covariance of {n_weights:,} weights is too large; the limit is {MAX_WEIGHTS:,}",
            parameter="intervals",
            fix="Pass bootstrap=200, or train on fewer features",
        )


def solve_to_intervals(
    result: FitResult,
    tol: float,
    measure: Callable[[NDArray[np.float64]], Sandwich],
    solve: Callable[[NDArray[np.float64], float], Solution],
    evaluate: Evaluate | None = None,
    first_tol: float | None = None,
) -> tuple[FitResult, Covariance]:
    """Return a result close enough to the optimum for intervals, and its covariance.

    ``measure`` computes the covariance at given weights. ``evaluate`` returns a solution with other
    weights and the gradient there; it allows Newton steps with the curvature that was measured.
    ``solve`` continues from weights to a smaller tolerance, where these steps do not lead on; with
    ``first_tol`` it does so before anything is measured.
    """
    solution = result.solutions[result.position]
    if solution.stop_reason in ("callback", "early_stopping"):
        raise ParameterError(
            f"the training stopped ({solution.stop_reason}) before the optimum, whose intervals "
            "were asked for",
            parameter="intervals",
            fix="Leave intervals out, or let the training end",
        )

    def continue_to(tol: float) -> Solution:
        continued = solve(solution.coef, tol)
        return replace(continued, n_iter=solution.n_iter + continued.n_iter)

    if first_tol is not None:
        tol = first_tol
        solution = continue_to(tol)
    for _ in range(MAX_RUNS + 1):
        measured = measure(solution.coef)
        distance = first_distance = measured.covariance.largest_distance(measured.step)
        if evaluate is not None:
            solution, distance = _newton_steps(solution, tol, measured, evaluate)
        if distance <= CLOSE and first_distance > NEAR:
            measured = measure(solution.coef)
            distance = measured.covariance.largest_distance(measured.step)
        if distance <= CLOSE or tol <= SMALLEST_TOL:
            break
        # The objective's gap is quadratic in the distance.
        tol = max(SMALLEST_TOL, tol * min(0.1, (0.5 * CLOSE / distance) ** 2))
        solution = continue_to(tol)
    if distance > CLOSE:
        warn_user(
            f"a weight is {distance:.2g} of its standard errors from the optimum, "
            "around which intervals are computed. Scale the features, or allow more iterations",
            ConvergenceWarning,
        )
    solutions = list(result.solutions)
    solutions[result.position] = solution
    return replace(result, solutions=solutions), measured.covariance


def _newton_steps(
    solution: Solution, tol: float, measured: Sandwich, evaluate: Evaluate
) -> tuple[Solution, float]:
    """Move a solution by Newton steps while they lead closer to the optimum.

    Returns it with the distance from the optimum in standard errors.
    """
    step = measured.step
    distance = measured.covariance.largest_distance(step)
    for _ in range(MAX_STEPS):
        if distance <= CLOSE:
            break
        following, gradient = evaluate(solution, solution.coef - step)
        step = measured.solve(gradient)
        next_distance = measured.covariance.largest_distance(step)
        largest_gap = max(tol, solution.certificate["relative_gap"])
        if next_distance >= distance or following.certificate["relative_gap"] > largest_gap:
            break
        solution, distance = following, next_distance
    return solution, distance


def weight_covariance(
    covariance: Covariance, scaling: Scaling, method: str = "sandwich"
) -> WeightCovariance:
    """Return the covariance of the weights of unscaled features, without offsets of positions."""
    factor = covariance.factor
    n_scored = len(factor) - max(scaling.positions - 1, 0)
    factor = factor[:n_scored].copy()
    if scaling.factors is not None:
        factor[: len(scaling.factors)] *= scaling.factors[:, None]
    return covariance_of_rows(covariance, factor, method)


def covariance_of_rows(
    covariance: Covariance, factor: NDArray[np.float64], method: str = "sandwich"
) -> WeightCovariance:
    """Return the covariance with another factor, without rows of zeros."""
    rows = np.flatnonzero(factor.any(axis=1))
    record = CovarianceRecord(method, covariance.n_queries, covariance.degrees)
    return WeightCovariance(rows, factor[rows].ravel(), record)


def bootstrap_covariance(
    coefs: NDArray[np.float64], coef: NDArray[np.float64], source: MemorySource
) -> Covariance:
    """Return the covariance of weights over resampled trainings, one row of ``coefs`` each.

    Weights that are 0 in ``coef``, the training itself, have none: explanations leave them out.
    """
    deviations = (coefs - coefs.mean(axis=0)) / np.sqrt(len(coefs) - 1.0)
    deviations[:, coef == 0.0] = 0.0
    n_queries = int(np.count_nonzero(source.query_weight))
    return Covariance(deviations.T, n_queries, len(coefs) - 1.0)
