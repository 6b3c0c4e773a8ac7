"""One call of ``fit``, the same for every ranker and every source of labelled lists.

The way of a fit::

    check -> measure -> scaling -> start -> monitor -> problem -> solver -> solution -> keep

A ``FitTask`` is a fit that is ready for a solver: the ranker builds its problem from
``task.source`` (see ``rankine.rankers.sources``) and hands a function that solves it to
``task.run`` or, for several strengths, to ``task.run_strengths``. Both add evaluation, early
stopping, callbacks and checkpoints.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.checkpoint import Checkpointer

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.metrics import Metric
    from rankine.transforms.scaling import Scaling


class Evaluator(NamedTuple):
    """Held-out data as a function of the weights."""

    #: What is measured, and its value for weights in the units of the solver.
    metric: Metric
    value: Callable[[NDArray[np.float64]], float]
    #: The held-out rows, scaled as the training rows, and what their queries weigh in the mean.
    data: Dataset
    query_weight: Any = None
    #: Every eval set where there are several, this one the last: they are told, not obeyed.
    named: Mapping[str, Evaluator] = {}

    @classmethod
    def over(cls, metric: Metric, sets: Mapping[str, tuple[Dataset, Any]]) -> Evaluator | None:
        """The judge of the last of several eval sets, None for none."""
        judges = {name: cls.of(metric, *one) for name, one in sets.items()}
        if not judges:
            return None
        *_, last = judges.values()
        return last._replace(named=judges) if len(judges) > 1 else last

    @classmethod
    def of(cls, metric: Metric, data: Dataset, query_weight: Any = None) -> Evaluator:
        """Evaluate weights by the scores they give to scaled rows."""
        from rankine.metrics import evaluate_on

        def value(coef: NDArray[np.float64]) -> float:
            own = coef[: data.n_features]
            return float(evaluate_on(data, metric=metric, coef=own, query_weight=query_weight))

        return cls(metric, value, data, query_weight)

    def record(self, step: int, coef: NDArray[np.float64]) -> dict[str, float]:
        """A record: the value that counts, and that of every named set."""
        named = {name: one.value(coef) for name, one in self.named.items()}
        value = [*named.values()][-1] if named else self.value(coef)
        return {"step": step, "value": value, **named}

    def best(self, coefs: Sequence[NDArray[np.float64]]) -> int:
        """Position of the best weights, the first among equals."""
        values = [self.value(coef) for coef in coefs]
        return int(np.argmax(values) if self.metric.larger_is_better else np.argmin(values))


class FitMonitor:
    """What accompanies one run of a solver: held-out data, callbacks of the user, checkpoints.

    At every report the weights are judged and the best are kept; ``patience`` reports without a
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
        self._asked = tuple(callbacks)
        self.callbacks: tuple[Callback, ...] = (self,) if evaluator or callbacks else ()

    def __call__(self, progress: Progress) -> bool:
        """Evaluate and report; True when the run should end."""
        early = self.evaluator is not None and self._evaluate(self.evaluator, progress)
        self.stopped = notify(self._asked, progress) or self.stopped
        return early or self.stopped

    def _evaluate(self, evaluator: Evaluator, progress: Progress) -> bool:
        """True when patience has run out."""
        coef = progress.coef()
        told = evaluator.record(progress.step, coef)
        self.trace.append({**told, **progress.values})
        value = told["value"]
        signed = value if evaluator.metric.larger_is_better else -value
        if signed > self.best_value:
            self.best_value, self.best_coef, self.since_best = signed, np.array(coef), 0
        else:
            self.since_best += 1
        return self.patience is not None and self.since_best >= self.patience

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and facts of a checkpoint."""
        if self.evaluator is None:
            return {}, {}
        arrays = {} if self.best_coef is None else {"best_coef": self.best_coef}
        best = None if self.best_coef is None else float(self.best_value).hex()
        return arrays, {"evals": self.trace, "best_value": best, "since_best": self.since_best}

    def restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.trace = [dict(row) for row in facts.get("evals", ())]
        self.since_best = int(facts.get("since_best", 0))
        if "best_coef" in arrays:
            self.best_coef = np.array(arrays["best_coef"])
            self.best_value = float.fromhex(facts["best_value"])

    def finish(self, solution: Solution) -> Solution:
        """The solution to keep: with early stopping, that of the best weights seen."""
        if self.patience is None or self.best_coef is None:
            return solution
        early = solution.stop_reason == "callback" and not self.stopped
        reason = "early_stopping" if early else solution.stop_reason
        return replace(solution, coef=self.best_coef, stop_reason=reason)


@dataclass(frozen=True)
class FitResult:
    """What a task came to: solutions, the one that is kept, and what was measured meanwhile."""

    #: In order of solution, each with what its watch measured.
    solutions: list[Solution]
    evals: list[list[dict[str, float]]]
    #: The solution that the ranker keeps.
    position: int = 0
    #: Strengths of the solutions, where there are several to choose from.
    values: list[float] = field(default_factory=list)
    #: Effective parameters of the kept solution: they stand in its certificate and in the model.
    notes: Mapping[str, float] = field(default_factory=dict)

    @property
    def solution(self) -> Solution:
        """The solution to keep."""
        kept = self.solutions[self.position]
        return replace(kept, certificate={**kept.certificate, **self.notes})

    @property
    def value(self) -> float:
        """Its strength."""
        return self.values[self.position]

    def with_parameters(self, **notes: float) -> FitResult:
        """The same with effective parameters of the kept solution."""
        return replace(self, notes={**self.notes, **notes})


@dataclass(frozen=True, eq=False)
class FitTask:
    """A fit that is ready for a solver."""

    #: Scaled rows, blocks or partitions, and how they were scaled.
    source: Any
    scaling: Scaling
    #: Weights to start from in scaled units, and the steps that a run of the same ranker has
    #: already made to reach them.
    start: NDArray[np.float64] | None = None
    steps_seen: int = 0
    #: Held-out data, and ``early_stopping``.
    evaluator: Evaluator | None = None
    patience: int | None = None
    callbacks: Sequence[Callback] = ()
    #: Root of every random stream of this fit.
    seed: int = 0
    #: What a resumed run must share with the interrupted one.
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of its source."""
        return str(self.source.kind)

    def start_monitor(self) -> FitMonitor:
        """What accompanies one run of a solver; each judges for itself."""
        monitor = FitMonitor(self.evaluator, self.patience, self.callbacks)
        journal = self.source.journal
        if journal is not None:
            journal.monitor = monitor
        folder = getattr(self.source, "folder", None)
        if folder is not None:
            start = None if self.start is None else np.float64(self.start.sum()).hex()
            facts = {**self.facts, "seed": self.seed, "start": start}
            monitor.checkpointer = Checkpointer(folder, facts, self.source.resume, monitor)
        return monitor

    def run(self, solve: Callable[[NDArray[np.float64] | None, FitMonitor], Solution]) -> FitResult:
        """Solve once."""
        monitor = self.start_monitor()
        return FitResult([monitor.finish(solve(self.start, monitor))], [monitor.trace])

    def run_strengths(
        self,
        values: Sequence[float],
        solve: Callable[[float, NDArray[np.float64] | None, FitMonitor], Solution],
    ) -> FitResult:
        """Solve for every strength from the last one's weights; keep the best on held-out data.

        Each strength has a monitor of its own. A callback that stops a run stops the path; values
        not reached are left out. Without held-out data the last solution is kept.
        """
        solutions, evals, start = [], [], self.start
        for value in values:
            monitor = self.start_monitor()
            solutions.append(monitor.finish(solve(value, start, monitor)))
            evals.append(monitor.trace)
            start = solutions[-1].coef
            if monitor.stopped:
                break
        return self.choose(values, solutions, evals)

    def choose(
        self,
        values: Sequence[float],
        solutions: list[Solution],
        evals: list[list[dict[str, float]]] | None = None,
    ) -> FitResult:
        """Keep the solution that ranks held-out data best, the last without any."""
        position = len(solutions) - 1
        if self.evaluator is not None and position > 0:
            position = self.evaluator.best([one.coef for one in solutions])
        if evals is None:
            evals = [self._final(one) for one in solutions]
        return FitResult(solutions, evals, position, list(values[: len(solutions)]))

    def _final(self, solution: Solution) -> list[dict[str, float]]:
        if self.evaluator is None:
            return []
        return [self.evaluator.record(solution.n_iter, solution.coef)]


#: What a certificate calls the distance that ``tol`` bounds, the nearest name first.
_DISTANCES = ("relative_gap", "residual", "gap")


def warn_not_converged(name: str, tol: float | None, solutions: Mapping[Any, Solution]) -> None:
    """Warn, as scikit-learn does, where a run ended further from the optimum than ``tol``.

    Runs that are not solved to a tolerance have none. Of several solutions, by strength, topic or
    position, the worst is named.
    """
    if tol is None:
        return
    short = {}
    for label, one in solutions.items():
        what = next((key for key in _DISTANCES if key in one.certificate), None)
        if what is not None and one.stop_reason not in ("callback", "early_stopping"):
            distance = one.certificate[what]
            if not distance <= tol:
                short[label] = (what, distance, one)
    if not short:
        return
    label, (what, distance, one) = max(short.items(), key=lambda item: item[1][1])
    which = (
        f"in {len(short)} of {len(solutions)} runs, {label} the worst, "
        if len(solutions) > 1
        else ""
    )
    warnings.warn(
        f"{name} {which}stopped ({one.stop_reason}) after {one.n_iter} iterations at "
        f"{what}={distance:.3g}, short of tol={tol:g}. Scale the features (scale='standard'), "
        "allow more iterations or passes, raise tol, or regularise more",
        ConvergenceWarning,
        stacklevel=4,
    )
