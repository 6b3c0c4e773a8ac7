"""Warm-started solutions for a falling l1."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankine.solvers.base import Solution
from rankine.solvers.coordinate_descent import CoordinateDescent, Penalty, Settings

__all__ = ["PathPoint", "l1_grid", "points_within", "walk"]

#: Ratio of neighbouring l1 while looking for a model of a given size.
SEARCH_RATIO = 0.7
#: The search gives up below this share of the largest l1.
SEARCH_END = 1e-4
#: Halvings between the last l1 that is small enough and the first that is not.
HALVINGS = 4


@dataclass(frozen=True)
class PathPoint:
    """One solution of a path; ``loss`` is the objective without its penalties."""

    l1: float
    loss: float
    solution: Solution
    seconds: float

    @property
    def nonzeros(self) -> int:
        """Weights that are not zero."""
        return int(np.count_nonzero(self.solution.coef))


def l1_grid(largest: float, n_steps: int, min_ratio: float) -> NDArray[np.float64]:
    """Geometric grid from ``largest``, the smallest l1 that gives w = 0, down to a share of it."""
    return largest * np.geomspace(1.0, min_ratio, n_steps)


def walk(
    descent: CoordinateDescent, l1s: Sequence[float], l2: float, settings: Settings
) -> Iterator[PathPoint]:
    """Solve for every l1 in turn, each from the solution before it."""
    for l1 in l1s:
        yield _solve(descent, float(l1), l2, settings)


def points_within(
    descent: CoordinateDescent, largest: float, l2: float, settings: Settings, limit: int
) -> Iterator[PathPoint]:
    """Solutions with at most ``limit`` non-zero weights, from the largest l1 down.

    Walks down until the limit is passed, then halves the interval (on the log axis) between the
    last l1 that kept it and the first that did not.
    """
    good = bad = largest
    while bad > SEARCH_END * largest:
        bad = good * SEARCH_RATIO
        point = _solve(descent, bad, l2, settings)
        if point.nonzeros > limit:
            break
        good = bad
        yield point
    else:
        return
    for _ in range(HALVINGS):
        middle = float(np.sqrt(good * bad))
        point = _solve(descent, middle, l2, settings)
        if point.nonzeros > limit:
            bad = middle
        else:
            good = middle
            yield point


def _solve(descent: CoordinateDescent, l1: float, l2: float, settings: Settings) -> PathPoint:
    started = time.perf_counter()
    penalty = Penalty(l1, l2)
    solution = descent.solve(penalty, settings)
    loss = solution.objective - penalty.value(solution.coef)
    return PathPoint(l1, loss, solution, time.perf_counter() - started)
