"""Fits to mixtures of several goals over the same rows.

For goals k with the risks R_k of a ranker, a mixture with shares a (sum_k a_k = 1) minimises

    sum_k b_k R_k + penalty,    b_k = a_k c_k / sum_j a_j c_j,    c_k = 1 / (R_k(0) - R_k(w_k))

where w_k is the fit to goal k alone: c_k makes what can be gained for every goal equally large, so
that equal shares are balanced for any units of the labels. The b_k sum to 1. Where a ranker
chooses strengths on the data, each goal has its own, and the penalty is mixed as well.

A ranker takes part by ``_mix_goals``, which returns a ``GoalMixture``. ``GoalFits`` solves the
goals alone and then a grid of shares, each point from its neighbours.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from rankine.core.errors import DataError, LabelError, NoPairsError, ParameterError
from rankine.rankers.fitting import FitResult, FitTask, warn_not_converged
from rankine.rankers.inputs import FitArguments
from rankine.rankers.pipeline import FitPipeline
from rankine.rankers.sources import MemorySource, resolve_query_weight
from rankine.solvers.base import Callback, report_progress

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.rankers.base import BaseRanker

Vector = NDArray[np.float64]

#: Largest label that is a grade; other labels, such as money, are amounts.
LARGEST_GRADE = 31


def are_grades(y: Vector) -> bool:
    """Return whether labels are grades, which metrics turn into exponential gains."""
    return bool(y.min() >= 0 and y.max() <= LARGEST_GRADE and (y == np.floor(y)).all())


class GoalMixture(ABC):
    """The risks of a ranker for several goals, and the minima of their mixtures."""

    #: Whether a gap certifies every minimum.
    exact: ClassVar[bool] = True

    @abstractmethod
    def solve(self, weights: Vector, start: Vector | None) -> FitResult:
        """Minimise sum_k b_k R_k + penalty from weights ``start``."""

    @abstractmethod
    def risks(self, coef: Vector) -> Vector:
        """Return R_k at weights in the units of the solver."""

    def describe(self, result: FitResult, weights: Vector) -> FitResult:  # noqa: ARG002
        """Add the fitted attributes of the ranker that take time to compute."""
        return result


@dataclass(frozen=True, eq=False)
class MixedFit:
    """The fit to one mixture: shares a, weights b of the risks, and the result."""

    shares: Vector
    weights: Vector
    result: FitResult

    @property
    def relative_gap(self) -> float:
        """Certified gap of the mixed objective as a share of its value at 0; NaN without one."""
        return float(self.result.solution.certificate.get("relative_gap", np.nan))


class GoalFits:
    """Fits of a ranker to mixtures of goals.

    ``BaseRanker.goal_fits`` makes them.

    Parameters
    ----------
    ranker
        Ranker with the parameters of every fit.
    names
        Names of the goals.
    mixture
        Risks of the ranker for the goals.
    fitted_copy
        Returns a copy of the ranker with the fitted attributes of a result.
    """

    def __init__(
        self,
        ranker: GoalsMixin,
        names: Sequence[str],
        mixture: GoalMixture,
        fitted_copy: Callable[[FitResult], Any],
    ) -> None:
        self.ranker = ranker
        self.names = tuple(names)
        self.mixture = mixture
        self.fits: list[MixedFit] = []
        self._fitted_copy = fitted_copy

    def solve(self, grid: NDArray[np.float64], callbacks: Sequence[Callback] = ()) -> None:
        """Solve the goals alone and then every other row of ``grid``, which has a row per mixture.

        ``fits`` are in the order of the grid. A callback that returns True ends the run; ``fits``
        then has the mixtures that were solved.
        """
        n_goals = len(self.names)
        vertices = [int(np.flatnonzero(grid[:, k] == 1.0)[0]) for k in range(n_goals)]
        solved: dict[int, MixedFit] = {}
        scales = np.zeros(n_goals)
        for number in [*vertices, *_order(grid, vertices)]:
            shares = grid[number]
            weights, start = shares, None
            if number not in vertices:
                weights = shares * scales / (shares * scales).sum()
                start = _interpolate(grid, number, solved)
            result = self.mixture.solve(weights, start)
            solved[number] = fit = MixedFit(shares, weights, result)
            if number in vertices:
                goal = vertices.index(number)
                scales[goal] = self._scale(goal, result.solution.coef)
            values = {"relative_gap": fit.relative_gap}
            coef = result.solution.coef
            if report_progress(callbacks, "pareto", len(solved), len(grid), values, coef):
                break
        self.fits = [solved[number] for number in sorted(solved)]
        solutions = {f"shares {fit.shares.round(3)}": fit.result.solution for fit in self.fits}
        tol = getattr(self.ranker, "tol", None)
        warn_not_converged(type(self.ranker).__name__, tol, solutions)

    def fitted(self, fit: MixedFit) -> BaseRanker:
        """Return a copy of the ranker that is fitted to a mixture."""
        goals = {
            "goals": list(self.names),
            "goal_shares": fit.shares.tolist(),
            "goal_weights": fit.weights.tolist(),
        }
        result = self.mixture.describe(fit.result, fit.weights)
        result = replace(result, training={**result.training, **goals})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # ``solve`` has warned
            ranker: BaseRanker = self._fitted_copy(result)
        return ranker

    def _scale(self, goal: int, coef: Vector) -> float:
        """Return c_k: 1 over what the fit to a goal alone gains of its risk."""
        at_zero = self.mixture.risks(np.zeros_like(coef))[goal]
        gain = float(at_zero - self.mixture.risks(coef)[goal])
        if not gain > 0.0:
            raise DataError(
                f"the features do not help to rank by the goal {self.names[goal]!r}: its risk is "
                "not smaller than without weights",
                fix="Check the goal's column, add features that predict it, or lower l2",
            )
        return 1.0 / gain


class GoalsMixin(FitPipeline):
    """``goal_fits``, for rankers that implement ``_mix_goals``."""

    def goal_fits(
        self, data: Dataset, labels: dict[str, Vector], query_weight: Any = None
    ) -> GoalFits:
        """Prepare fits to mixtures of several goals; ``rankine.evaluation.pareto`` solves them.

        Parameters
        ----------
        data
            Training rows.
        labels
            Labels of every goal, by the name of the goal.
        query_weight
            Weights of queries, as in ``fit``.
        """
        first = next(iter(labels.values()))
        rows = replace(data, y=first, query_index=data.queries)
        task = self._prepare_task(FitArguments(X=rows, query_weight=query_weight), "fit")
        sources = [_source_of_goal(task, rows, name, y, query_weight) for name, y in labels.items()]
        mixture = self._mix_goals(task, sources)
        return GoalFits(self, tuple(labels), mixture, partial(self._fitted_copy, task))

    def _mix_goals(self, task: FitTask, sources: Sequence[MemorySource]) -> GoalMixture:  # noqa: ARG002
        """Return the risks of several goals, each a source with the same rows and other labels."""
        raise ParameterError(
            f"{type(self).__name__} cannot be fitted to several goals",
            parameter="ranker",
            fix="Use ranksvm, least-squares, additive or elastic",
        )

    def _fitted_copy(self, task: FitTask, result: FitResult) -> Self:
        """Return a copy of the ranker with the fitted attributes of a result."""
        ranker = copy(self)
        ranker.__dict__ = self._fitted_attributes(task, result, {})
        return ranker


def simplex_grid(n_goals: int, n_points: int) -> NDArray[np.float64]:
    """Return at most ``n_points`` evenly spaced shares, a row each, with every goal alone.

    Examples
    --------
    >>> simplex_grid(2, 3).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    steps = 1
    while len(_compositions(n_goals, steps + 1)) <= n_points:
        steps += 1
    return np.array(_compositions(n_goals, steps), dtype=np.float64) / steps


def _compositions(n_parts: int, total: int) -> list[tuple[int, ...]]:
    """Return all ways to write ``total`` as an ordered sum of ``n_parts`` numbers from 0."""
    if n_parts == 1:
        return [(total,)]
    return [
        (first, *others)
        for first in range(total, -1, -1)
        for others in _compositions(n_parts - 1, total - first)
    ]


def _order(grid: NDArray[np.float64], solved: Sequence[int]) -> list[int]:
    """Return the other rows of the grid, each the one that is furthest from those before it."""
    distance = _distances(grid, grid[solved]).min(axis=1)
    order: list[int] = []
    while len(order) + len(solved) < len(grid):
        number = int(np.argmax(distance))
        order.append(number)
        distance = np.minimum(distance, _distances(grid, grid[[number]])[:, 0])
    return order


def _distances(rows: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    # Rounded, so that equal distances are equal and the first of them counts.
    return np.sqrt(((rows[:, None] - others[None]) ** 2).sum(axis=2)).round(9)


def _interpolate(grid: NDArray[np.float64], number: int, solved: dict[int, MixedFit]) -> Vector:
    """Return weights to start from: between the nearest two solved points on a line through this.

    Without such points they are the weights of the nearest one.
    """
    point, numbers = grid[number], list(solved)
    coefs = {k: solved[k].result.solution.coef for k in numbers}
    best, best_length = None, np.inf
    for a, b in combinations(numbers, 2):
        line = grid[b] - grid[a]
        length = float((line * line).sum())
        position = float(((point - grid[a]) * line).sum()) / length
        inside = 0.0 < position < 1.0
        if inside and length < best_length and np.allclose(grid[a] + position * line, point):
            best, best_length = (1.0 - position) * coefs[a] + position * coefs[b], length
    if best is not None:
        return best
    nearest = int(np.argmin(_distances(grid[numbers], point[None])[:, 0]))
    return coefs[numbers[nearest]]


def _source_of_goal(
    task: FitTask, rows: Dataset, name: str, y: Vector, query_weight: Any
) -> MemorySource:
    """Return the source of a task with the labels of a goal, over the same matrix."""
    source = copy(task.source)
    assert isinstance(source, MemorySource)  # noqa: S101 - the rows are a dataset
    if not (y > 0).any():
        raise LabelError(
            f"the goal {name!r} has no positive label",
            fix="Check its column, or leave the goal out",
        )
    # Corrections for positions weigh the rows with a positive label, which differ between goals.
    corrected = source.correction.apply(replace(rows, y=y, query_index=rows.queries))
    source.data = replace(
        source.data, y=y, weight=corrected.weight, query_index=source.data.queries
    )
    source.query_weight = resolve_query_weight(query_weight, corrected)
    source.query_weight = source.query_weight * source.correction.query_factors(corrected)
    if len(source.data.labels.queries_with_pairs) == 0:
        raise NoPairsError(
            f"no query holds two different labels of the goal {name!r}",
            fix="Check its column and the query ids, or leave the goal out",
        )
    return source


def require_one_strength(strengths: Sequence[float], name: str) -> float:
    """Return the only strength; raise for several."""
    if len(strengths) != 1:
        raise ParameterError(
            f"a front needs one strength, not {len(strengths)}",
            parameter=name,
            fix=f"Pass one value of {name}",
        )
    return strengths[0]
