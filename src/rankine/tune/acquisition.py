"""Which candidate to try next, given what has been measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from rankine.core.errors import ParameterError
from rankine.tune.gaussian_process import GaussianProcess

__all__ = ["ACQUISITIONS", "choose", "expected_improvement"]

Floats = NDArray[np.float64]

ACQUISITIONS = ("thompson", "ei")


def choose(
    acquisition: str,
    process: GaussianProcess,
    constraints: Sequence[GaussianProcess],
    points: Floats,
    best: float,
    rng: np.random.Generator,
) -> int:
    """Position of the chosen candidate; values are maximised, constraints are met at <= 0.

    Thompson sampling draws one function for the objective and one for each constraint, and takes
    the best candidate that meets the drawn constraints; if none does, the one that violates them
    least (Eriksson and Poloczek 2021). Expected improvement is multiplied by the probability that
    the constraints are met.
    """
    if acquisition == "thompson":
        drawn = process.draw(points, rng)
        if not constraints:
            return int(np.argmax(drawn))
        excess = sum(np.maximum(gp.draw(points, rng), 0.0) for gp in constraints)
        met = np.asarray(excess) <= 0
        return int(np.argmax(np.where(met, drawn, -np.inf)) if met.any() else np.argmin(excess))
    if acquisition != "ei":
        raise ParameterError(
            f"acquisition={acquisition!r} is unknown", fix=f"Choose {' or '.join(ACQUISITIONS)}"
        )
    value = expected_improvement(process, points, best)
    for gp in constraints:
        mean, covariance = gp.posterior(points)
        value = value * ndtr(-mean / _sd(covariance))
    return int(np.argmax(value))


def expected_improvement(process: GaussianProcess, points: Floats, best: float) -> Floats:
    """E max(f - best, 0) = (m - best) Phi(z) + s phi(z), z = (m - best) / s (Mockus 1978)."""
    mean, covariance = process.posterior(points)
    sd = _sd(covariance)
    z = (mean - best) / sd
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return np.asarray((mean - best) * ndtr(z) + sd * density)


def _sd(covariance: Floats) -> Floats:
    return np.sqrt(np.maximum(np.diag(covariance), 1e-18))
