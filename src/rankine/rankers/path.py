"""Several strengths of regularisation in one fit: solve in order, choose on held-out queries."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankine.data.dataset import Dataset
    from rankine.rankers.base import Job
    from rankine.rankers.parts_job import PartsJob
    from rankine.solvers.base import Callback, Solution
    from rankine.transforms.scaling import Scaling

__all__ = ["Path", "choose", "run_path"]


@dataclass(frozen=True)
class Path:
    """Solutions in order of solution, and the position of the one that was chosen."""

    values: list[float]
    solutions: list[Solution]
    position: int

    @property
    def chosen(self) -> Solution:
        """The solution the ranker keeps."""
        return self.solutions[self.position]

    def chosen_with(self, **effective: float) -> Solution:
        """The same with effective parameters in its certificate, where they are printed."""
        chosen = self.chosen
        return replace(chosen, certificate={**chosen.certificate, **effective})

    @property
    def value(self) -> float:
        """Its strength of regularisation."""
        return self.values[self.position]

    def publish(self, ranker: Any, values_name: str, scaling: Scaling) -> None:
        """Set ``coef_path_``, ``path_`` and the values as attributes of a fitted ranker."""
        warn_unfinished(ranker, self.solutions)
        setattr(ranker, values_name, np.array(self.values))
        ranker.path_ = self.solutions
        ranker.coef_path_ = np.array([scaling.fold(one.coef) for one in self.solutions])


def run_path(
    solve: Callable[[float, NDArray[np.float64] | None, Sequence[Callback]], Solution],
    values: list[float],
    job: Job | PartsJob,
    metric: str,
) -> Path:
    """Solve for every value from the last solution; choose on the evaluation set, else the last.

    A callback that stops the run stops the path; values not reached are left out.
    """
    solutions: list[Solution] = []
    start = job.coef_init
    for value in values:
        solutions.append(solve(value, start, job.callbacks))
        start = solutions[-1].coef
        if solutions[-1].stop_reason == "callback":
            break
    return Path(values[: len(solutions)], solutions, choose(solutions, job.valid, metric))


def warn_unfinished(ranker: Any, solutions: list[Solution]) -> None:
    """Warn, as scikit-learn does, when iterations ran out before the tolerance was met."""
    unfinished = [one for one in solutions if one.stop_reason == "max_iter"]
    if unfinished:
        numbers = ", ".join(f"{k}={v:.3g}" for k, v in unfinished[0].certificate.items())
        warnings.warn(
            f"{type(ranker).__name__} stopped after {unfinished[0].n_iter} iterations, short of "
            f"tol={ranker.tol:g} ({numbers}). Raise max_iter or tol, or scale the features",
            ConvergenceWarning,
            stacklevel=5,
        )


def choose(solutions: list[Solution], valid: Dataset | None, metric: str) -> int:
    """Position of the solution that ranks held-out data best (the first among equals)."""
    if valid is None or len(solutions) == 1:
        return len(solutions) - 1
    from rankine.metrics import evaluate, parse_metric

    measure = parse_metric(metric)
    found = [
        float(evaluate(measure, valid.y, valid.X @ one.coef, valid.qid, columns=valid.columns))
        for one in solutions
    ]
    return int(np.argmax(found) if measure.larger_is_better else np.argmin(found))
