"""What a fit passes to a ranker (``FitTask``) and gets back (``FitResult``).

A ranker builds a problem from ``task.source`` and passes a function that solves it to ``task.run``
or, for several strengths, ``task.run_strengths``. Both add evaluation, early stopping, callbacks
and checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from rankine.core.user_warnings import warn_user
from rankine.data.dataset import row_scores
from rankine.rankers.inputs import FittedColumns
from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.checkpoint import Checkpointer

if TYPE_CHECKING:
    from rankine.core.edits import Edit
    from rankine.data.dataset import Dataset
    from rankine.metrics import Metric
    from rankine.model import LinearModel
    from rankine.rankers.sources import TrainingSource
    from rankine.rankers.warm_start import EarlierRun
    from rankine.samplers.reservoir import Reservoir
    from rankine.transforms.scaling import Scaling


class Evaluator(NamedTuple):
    """A metric on held-out rows as a function of the weights, in the units of the solver."""

    metric: Metric
    value: Callable[[NDArray[np.float64]], float]
    #: Held-out rows, scaled as the training rows, and the weights of their queries in the mean.
    data: Dataset
    query_weight: Any = None
    #: All evaluation sets by name, where there are several. Each is reported; ``value`` is that of
    #: the last one and decides early stopping.
    named: Mapping[str, Evaluator] = {}

    @classmethod
    def from_sets(cls, metric: Metric, sets: Mapping[str, tuple[Dataset, Any]]) -> Evaluator | None:
        """Create the evaluator of several sets, None for none; each is rows and query weights."""
        evaluators = {
            name: cls.from_rows(metric, data, query_weight)
            for name, (data, query_weight) in sets.items()
        }
        if not evaluators:
            return None
        *_, last = evaluators.values()
        if len(evaluators) == 1:
            return last
        return last._replace(named=evaluators)

    @classmethod
    def from_rows(cls, metric: Metric, data: Dataset, query_weight: Any = None) -> Evaluator:
        """Create the evaluator of one set of scaled rows."""
        from rankine.metrics import evaluate_on

        def value(coef: NDArray[np.float64]) -> float:
            weights = coef[: data.n_features]  # offsets of positions follow, and score nothing
            return float(evaluate_on(data, metric=metric, coef=weights, query_weight=query_weight))

        return cls(metric, value, data, query_weight)

    def largest_gain(self, coef: NDArray[np.float64]) -> float:
        """Return the upper end of the 95 % interval of the gain over a model without weights."""
        from rankine.metrics.engine import HALF_WIDTH, gain_over_constant

        scores = row_scores(self.data.X, coef[: self.data.n_features])
        gain, error = gain_over_constant(self.metric, self.data, scores, self.query_weight)
        return gain + HALF_WIDTH * error

    def record(self, step: int, coef: NDArray[np.float64]) -> dict[str, float]:
        """Return the metric on every evaluation set as one trace record."""
        named = {name: evaluator.value(coef) for name, evaluator in self.named.items()}
        if not named:
            return {"step": step, "value": self.value(coef)}
        return {"step": step, "value": [*named.values()][-1], **named}

    def best_position(self, coefs: Sequence[NDArray[np.float64]]) -> int:
        """Return the position of the best weights, the first among equals."""
        return int(np.argmax([self.metric.sign * self.value(coef) for coef in coefs]))


class FitMonitor:
    """Evaluation, early stopping, callbacks and checkpoints of one run of a solver.

    At every report the weights are evaluated and the best are kept; ``patience`` reports without a
    better value end the run (None: never). ``callbacks`` is for the solver.
    """

    def __init__(
        self, evaluator: Evaluator | None, patience: int | None, callbacks: Sequence[Callback]
    ) -> None:
        self.evaluator = evaluator
        self.patience = patience
        self.checkpointer: Checkpointer | None = None
        self.stopped = False
        self.trace: list[dict[str, float]] = []
        self.best_value = -np.inf
        self.best_coef: NDArray[np.float64] | None = None
        self.since_best = 0
        self._user_callbacks = tuple(callbacks)
        # Without anything to do the solver need not compute weights for reports.
        self.callbacks: tuple[Callback, ...] = (self,) if evaluator or callbacks else ()

    def __call__(self, progress: Progress) -> bool:
        """Evaluate and notify; return True when the run should end."""
        out_of_patience = self.evaluator is not None and self._evaluate(self.evaluator, progress)
        self.stopped = notify(self._user_callbacks, progress) or self.stopped
        return out_of_patience or self.stopped

    def _evaluate(self, evaluator: Evaluator, progress: Progress) -> bool:
        """Record the metric; return True when patience has run out."""
        coef = progress.coef()
        record = evaluator.record(progress.step, coef)
        self.trace.append({**record, **progress.values})
        value = record["value"]
        # NaN compares as not better, so such reports count against the patience.
        signed = evaluator.metric.sign * value
        if signed > self.best_value or self._replaces_no_weights(evaluator, coef):
            self.best_value, self.best_coef, self.since_best = signed, np.array(coef), 0
        else:
            self.since_best += 1
        return self.patience is not None and self.since_best >= self.patience

    def _replaces_no_weights(self, evaluator: Evaluator, coef: NDArray[np.float64]) -> bool:
        """Return whether the best weights so far are all 0 and these are as good in their interval.

        Weights of 0 order every list at random.
        """
        if self.best_coef is None or np.any(self.best_coef) or not np.any(coef):
            return False
        return evaluator.largest_gain(coef) >= 0

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and metadata for a checkpoint."""
        if self.evaluator is None:
            return {}, {}
        metadata = {"evals": self.trace, "best_value": None, "since_best": self.since_best}
        if self.best_coef is None:
            return {}, metadata
        return {"best_coef": self.best_coef}, {
            **metadata,
            "best_value": float(self.best_value).hex(),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.trace = [dict(row) for row in metadata.get("evals", ())]
        self.since_best = int(metadata.get("since_best", 0))
        if "best_coef" in arrays:
            self.best_coef = np.array(arrays["best_coef"])
            self.best_value = float.fromhex(metadata["best_value"])

    def finish(self, solution: Solution) -> Solution:
        """Return the solution to keep: with early stopping, the one with the best weights."""
        if self.patience is None or self.best_coef is None:
            return solution
        reason = solution.stop_reason
        if reason == "callback" and not self.stopped:
            reason = "early_stopping"
        return replace(solution, coef=self.best_coef, stop_reason=reason)


@dataclass(frozen=True)
class FitResult:
    """What solving a task gave."""

    #: In order of solution, each with the trace of its monitor.
    solutions: list[Solution]
    evals: list[list[dict[str, float]]]
    #: Position of the solution to keep.
    position: int = 0
    #: Strengths of the solutions, where there are several to choose from.
    values: list[float] = field(default_factory=list)
    #: Effective parameters of the kept solution, for its certificate and the model.
    parameters: Mapping[str, float] = field(default_factory=dict)
    #: Fitted attributes that only this ranker has, or that replace attributes of every ranker.
    attributes: Mapping[str, Any] = field(default_factory=dict)
    #: Entries of ``training_`` in addition to the counts of the source.
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def solution(self) -> Solution:
        """The solution to keep."""
        solution = self.solutions[self.position]
        return replace(solution, certificate={**solution.certificate, **self.parameters})

    @property
    def value(self) -> float:
        """Strength of the solution to keep."""
        return self.values[self.position]

    def with_parameters(self, **parameters: float) -> FitResult:
        """Add effective parameters of the kept solution."""
        return replace(self, parameters={**self.parameters, **parameters})

    def with_attributes(self, **attributes: Any) -> FitResult:
        """Add fitted attributes of the ranker."""
        return replace(self, attributes={**self.attributes, **attributes})


@dataclass(frozen=True, eq=False)
class FitTask:
    """A fit that is ready for a solver."""

    source: TrainingSource
    scaling: Scaling
    columns: FittedColumns = field(default_factory=FittedColumns)
    #: Weights to start from in scaled units, and the steps that a run of the same ranker has
    #: already made to reach them.
    start: NDArray[np.float64] | None = None
    steps_seen: int = 0
    #: The model passed as ``coef_init``, for rankers that continue from more than weights.
    start_model: LinearModel | None = None
    #: The run that this one continues, its rows numbered as in this one.
    earlier: EarlierRun | None = None
    evaluator: Evaluator | None = None
    #: ``early_stopping``.
    patience: int | None = None
    callbacks: Sequence[Callback] = ()
    #: Root of every random stream of this fit.
    seed: int = 0
    #: What a resumed run must share with the interrupted one.
    checkpoint_metadata: Mapping[str, Any] = field(default_factory=dict)
    #: Whether the covariance of the weights is computed as well.
    intervals: bool = False
    #: Entries to fix in the model to start from.
    edit: Edit | None = None
    #: The sample of a stream that the source holds in memory, for ``sampling="reservoir"``.
    reservoir: Reservoir | None = None

    def start_monitor(self) -> FitMonitor:
        """Create the monitor of one run of a solver."""
        monitor = FitMonitor(self.evaluator, self.patience, self.callbacks)
        # A resumed run must start from the same weights; their sum is enough to notice others.
        start = None if self.start is None else np.float64(self.start.sum()).hex()
        metadata = {**self.checkpoint_metadata, "seed": self.seed, "start": start}
        monitor.checkpointer = self.source.checkpointer(monitor, metadata)
        return monitor

    def run(self, solve: Callable[[NDArray[np.float64] | None, FitMonitor], Solution]) -> FitResult:
        """Solve once."""
        monitor = self.start_monitor()
        solution = monitor.finish(solve(self.start, monitor))
        return FitResult([solution], [monitor.trace])

    def run_strengths(
        self,
        values: Sequence[float],
        solve: Callable[[float, NDArray[np.float64] | None, FitMonitor], Solution],
    ) -> FitResult:
        """Solve for every strength from the last one's weights; keep the best on held-out data.

        Each strength has a separate monitor. A callback that stops a run stops the path; values
        not reached are left out. Without held-out data the last solution is kept.
        """
        solutions, evals, start = [], [], self.start
        for value in values:
            monitor = self.start_monitor()
            solutions.append(monitor.finish(solve(value, start, monitor)))
            evals.append(monitor.trace)
            start = solutions[-1].coef  # close to the solution for the next strength
            if monitor.stopped:
                break
        return self.select_best(values, solutions, evals)

    def select_best(
        self,
        values: Sequence[float],
        solutions: list[Solution],
        evals: list[list[dict[str, float]]] | None = None,
    ) -> FitResult:
        """Keep the solution that ranks held-out data best, the last without any."""
        position = len(solutions) - 1
        if self.evaluator is not None and position > 0:
            position = self.evaluator.best_position([solution.coef for solution in solutions])
        if evals is None:
            evals = [self._final_evals(solution) for solution in solutions]
        return FitResult(solutions, evals, position, list(values[: len(solutions)]))

    def _final_evals(self, solution: Solution) -> list[dict[str, float]]:
        if self.evaluator is None:
            return []
        return [self.evaluator.record(solution.n_iter, solution.coef)]


#: Certificate entries that ``tol`` bounds, most specific first.
_DISTANCES = ("relative_gap", "residual", "gap")


def warn_not_converged(name: str, tol: float | None, solutions: Mapping[Any, Solution]) -> None:
    """Warn, as scikit-learn does, where a run ended further from the optimum than ``tol``.

    Runs without a tolerance (None) are not checked. Of several solutions, labelled by strength,
    topic or position, the worst is named.
    """
    if tol is None:
        return
    unfinished = {}
    for label, solution in solutions.items():
        measure = next((key for key in _DISTANCES if key in solution.certificate), None)
        if measure is None or solution.stop_reason in ("callback", "early_stopping"):
            continue
        distance = solution.certificate[measure]
        if not distance <= tol:  # NaN is not converged either
            unfinished[label] = (measure, distance, solution)
    if not unfinished:
        return
    label, (measure, distance, solution) = max(unfinished.items(), key=lambda item: item[1][1])
    which = ""
    if len(solutions) > 1:
        which = f"in {len(unfinished)} of {len(solutions)} runs, {label} the worst, "
    warn_user(
        f"{name} {which}stopped ({solution.stop_reason}) after {solution.n_iter} iterations at "
        f"{measure}={distance:.3g}, short of tol={tol:g}. Scale the features (scale='standard'), "
        "allow more iterations or passes, raise tol, or regularise more",
        ConvergenceWarning,
    )
