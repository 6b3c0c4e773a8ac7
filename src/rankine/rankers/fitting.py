"""One call of ``fit``, the same for every ranker and every source of labelled lists.

The way of a fit::

    check -> measure -> scaling -> start -> monitor -> problem -> solver -> solution -> keep

A *source* is rows in memory, a stream or partitions. Each can be measured and scaled, and gives
what problems are built from. A ``Task`` is a fit that is ready for a solver: the ranker builds its
problem from ``task.source`` and hands a function that solves it to ``task.run`` or, for several
strengths, to ``task.along``, which watch it: evaluation, early stopping, callbacks, checkpoints.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from rankine.core.errors import CheckpointError, ParameterError, SchemaError
from rankine.data.dataset import Dataset, check_weight
from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.checkpoint import CheckpointFolder, Keeper
from rankine.transforms.scaling import Scaling, fit_scaling, measure_scaling

if TYPE_CHECKING:
    from rankine.distributed.journal import Journal
    from rankine.distributed.partitions import PartitionedDataset
    from rankine.distributed.team import Team
    from rankine.metrics import Metric

__all__ = [
    "Capabilities",
    "Judge",
    "MemorySource",
    "Outcome",
    "PartitionSource",
    "Source",
    "StreamSource",
    "Task",
    "Watch",
    "resolve_query_weight",
    "source_kind",
    "warn_unfinished",
]

#: The kinds of sources: in words, and how a user gets one.
SOURCES = {
    "memory": ("rows in memory", "rankine.load(...)"),
    "stream": ("a stream", "rankine.scan(...)"),
    "partitions": ("partitions", "rankine.distributed.scan(...)"),
}
#: What may be asked of a ranker, as the end of "it cannot ...".
_ACTS = {
    "fit": "be fitted to {}",
    "path": "walk a path of models over {}",
    "checkpoint": "keep checkpoints of a fit to {}",
    "query_weight": "take query_weight with {}",
    "record_at": "record_at steps of a fit to {}",
}


@dataclass(frozen=True)
class Capabilities:
    """What a ranker can do, and with which sources ("memory", "stream", "partitions").

    Attributes
    ----------
    fit, path, checkpoint, query_weight, record_at
        Sources that ``fit`` and ``path`` take, of which checkpoints can be kept, and with which
        these options mean something.
    partial
        Whether ``partial_fit`` learns from one block after another.
    path_options
        Options of ``path`` beyond those of every path.
    """

    fit: tuple[str, ...] = ("memory",)
    path: tuple[str, ...] = ()
    checkpoint: tuple[str, ...] = ()
    query_weight: tuple[str, ...] = ("memory",)
    record_at: tuple[str, ...] = ()
    partial: bool = False
    path_options: tuple[str, ...] = ()

    def require(self, act: str, kind: str, ranker: str) -> None:
        """Refuse in one sentence what the ranker cannot do with a source of this kind."""
        able: tuple[str, ...] = getattr(self, act)
        if kind in able:
            return
        others = [f"{words} ({how})" for name, (words, how) in SOURCES.items() if name in able]
        raise ParameterError(
            f"{ranker} cannot {_ACTS[act].format(SOURCES[kind][0])}",
            fix=f"Use {' or '.join(others)}" if others else "Leave it out, or use another ranker",
        )


def source_kind(X: Any) -> str:
    """Which kind of source this is, asked without importing what it needs."""
    if hasattr(X, "pieces") and hasattr(X, "runner"):
        return "partitions"
    if isinstance(X, Iterator):
        return "stream"
    blocks = hasattr(X, "n_features") and hasattr(X, "__iter__")
    return "stream" if blocks and not isinstance(X, Dataset) else "memory"


class Source(Protocol):
    """Labelled lists: measured and scaled first, then asked by the problem of a ranker."""

    kind: str
    n_features: int
    feature_names: Sequence[str] | None

    def measure(self, scale: str) -> Scaling:
        """What a scaling needs to know of all rows; the source gives scaled rows from then on."""

    def record(
        self,
        folder: str | Path | None,
        every: int,
        facts: Mapping[str, Any],
        seed: int,
        resume: bool,
    ) -> int:
        """Open the checkpoints of a fit; the seed to use (that of the run that is resumed)."""

    def facts(self) -> dict[str, Any]:
        """What a model remembers about its training data."""

    def close(self) -> None:
        """End of the fit, however it ended."""


class _KeepsFolder:
    """Checkpoints of rows that are learned from in this process."""

    folder: CheckpointFolder | None = None
    resume = False

    def record(
        self,
        folder: str | Path | None,
        every: int,
        facts: Mapping[str, Any],  # noqa: ARG002 - they are part of every checkpoint
        seed: int,
        resume: bool,
    ) -> int:
        """Open the folder; the seed of the run that is resumed, or the given one."""
        if folder is None:
            return seed
        self.folder = CheckpointFolder(folder, every)
        self.resume = resume
        return int(self.folder.latest().facts["seed"]) if resume else seed

    def close(self) -> None:
        """Nothing is held."""


class MemorySource(_KeepsFolder):
    """Rows in memory, with one weight per query."""

    kind = "memory"
    encoding = None

    def __init__(self, data: Dataset, query_weight: Any = None) -> None:
        self.data = data
        self.query_weight = resolve_query_weight(query_weight, data)
        self.n_features = data.n_features
        self.feature_names = data.feature_names
        self._unscaled = data
        self._seen: dict[str, Any] | None = None

    def measure(self, scale: str) -> Scaling:
        """Measure; ``data`` is scaled from then on."""
        return self.scale(fit_scaling(scale, self._unscaled))

    def scale(self, scaling: Scaling) -> Scaling:
        """Scale the rows as given."""
        self.data = scaling.apply(self._unscaled)
        return scaling

    def blocks(self) -> Iterator[Dataset]:
        """All rows at once."""
        yield self.data

    def weights(self, block: Dataset, first: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Query weights of a block."""
        return self.query_weight

    def identity(self) -> Any:
        """What a resumed run must find again."""
        return self._unscaled.fingerprint

    def note(self, **seen: Any) -> None:
        """Say what a run has seen of the rows, in place of what they hold."""
        self._seen = seen

    def facts(self) -> dict[str, Any]:
        """Counts and files."""
        data = self.data
        seen = self._seen or {
            "rows": data.n_rows,
            "queries": data.n_queries,
            "queries_used": len(data.labels.usable),
            "pairs": data.labels.n_pairs,
        }
        return {**seen, "sources": list(data.sources)}


class StreamSource(_KeepsFolder):
    """Query-aligned blocks, read as often as needed and never held all at once."""

    kind = "stream"

    def __init__(self, scan: Any, query_weight: Any = None) -> None:
        if not hasattr(scan, "n_features"):
            raise ParameterError(
                "blocks that do not know their n_features are no stream",
                fix="Pass rankine.scan(path), or call partial_fit on each block",
            )
        self.scan = scan
        self.n_features = int(scan.n_features)
        self.feature_names = getattr(scan, "feature_names", None)
        self.encoding = getattr(scan, "encoding", None)
        self._weight = query_weight
        if query_weight is not None and not isinstance(query_weight, Mapping):
            self._weight = check_weight(query_weight, len(query_weight))
        self._scaling = Scaling("none")
        self._seen: dict[str, Any] = {}

    def measure(self, scale: str) -> Scaling:
        """Measure, by reading the stream as often as the scaling needs."""
        if scale not in ("none", "query"):
            self.require_again(f"scale={scale!r} must see all rows first")
        self._scaling = measure_scaling(scale, self._read, self.n_features)
        return self._scaling

    def require_again(self, why: str) -> None:
        """Refuse a stream that can be read only once."""
        if isinstance(self.scan, Iterator):
            raise ParameterError(
                f"this stream can be read only once, and {why}", fix="Pass rankine.scan(path)"
            )

    def blocks(self) -> Iterator[Dataset]:
        """One reading, scaled."""
        for block in self._read():
            yield self._scaling.apply(block)

    def weights(self, block: Dataset, first: int) -> NDArray[np.float64]:
        """Query weights of a block whose first query is number ``first`` of the reading."""
        if not isinstance(self._weight, np.ndarray):
            return resolve_query_weight(self._weight, block, all_of_them=False)
        found = self._weight[first : first + block.n_queries]
        if len(found) < block.n_queries:
            raise SchemaError(
                f"query_weight holds {len(self._weight)} weights, and the stream more queries",
                fix="Give every query a weight",
            )
        return found

    def identity(self) -> Any:
        """Names and sizes of the files."""
        return [
            [name, Path(name).stat().st_size if Path(name).is_file() else None]
            for name in getattr(self.scan, "sources", ())
        ]

    def note(self, **seen: Any) -> None:
        """Say what a run has seen of the stream."""
        self._seen = seen

    def facts(self) -> dict[str, Any]:
        """What was noted, and the files."""
        return {**self._seen, "sources": list(getattr(self.scan, "sources", ()))}

    def _read(self) -> Iterator[Dataset]:
        return iter(self.scan)


class PartitionSource:
    """Partitions, asked where they are."""

    kind = "partitions"
    encoding = None

    def __init__(self, parts: PartitionedDataset) -> None:
        self.parts = parts
        self.n_features = parts.n_features
        self.feature_names = parts.feature_names
        self.journal: Journal | None = None
        self.measured = parts.measure()
        self.scaling = Scaling("none")

    def measure(self, scale: str) -> Scaling:
        """Measure on all partitions; recipes take ``scaling`` with them."""
        from rankine.distributed.recipes import RawRecipe
        from rankine.distributed.recipes import measure_scaling as measure_parts

        team = self.team(RawRecipe())
        self.scaling = measure_parts(scale, team, self.n_features, self.measured.rows)
        return self.scaling

    def team(self, recipe: Any) -> Team:
        """All partitions, prepared by a recipe."""
        return self.parts.team(recipe, self.journal)

    def identity(self) -> Any:
        """Digest of the files and of where they are cut."""
        return self.parts.fingerprint

    def record(
        self,
        folder: str | Path | None,
        every: int,
        facts: Mapping[str, Any],
        seed: int,
        resume: bool,
    ) -> int:
        """Keep every answer in a journal; the seed of the run that is resumed, or the given one."""
        from rankine.distributed.journal import Journal

        del every  # answers are kept as they come
        if folder is None:
            return seed
        self.journal = Journal(folder, facts, resume=resume)
        return self.journal.remember("seed", seed)

    def facts(self) -> dict[str, Any]:
        """Counts and files."""
        return {
            "rows": self.measured.rows,
            "queries": self.measured.queries,
            "queries_used": self.measured.queries_used,
            "pairs": self.measured.pairs,
            "sources": list(self.parts.sources),
            "partitions": self.parts.n_partitions,
        }

    def close(self) -> None:
        """What was answered is on disk at the end, however it ends."""
        if self.journal is not None:
            self.journal.flush()


def resolve_query_weight(
    query_weight: Any, data: Dataset, *, all_of_them: bool = True
) -> NDArray[np.float64]:
    """One weight per query, in the order of ``data.queries.ids``.

    A part of the queries, unlike ``all_of_them``, may weigh nothing.
    """
    index = data.queries
    if query_weight is None:
        return np.ones(index.n_queries)
    if isinstance(query_weight, Mapping):
        missing = [q for q in index.ids.tolist() if q not in query_weight]
        if missing:
            raise SchemaError(
                f"query_weight lacks query {missing[0]!r} (and {len(missing) - 1} more)",
                fix="Give every query a weight",
            )
        query_weight = [query_weight[q] for q in index.ids.tolist()]
    if all_of_them or np.any(query_weight):
        return check_weight(query_weight, index.n_queries)
    return np.zeros(index.n_queries)


class Judge(NamedTuple):
    """Held-out data as a function of the weights.

    Attributes
    ----------
    metric
        What is measured.
    value
        Its value for weights in the units of the solver.
    data
        The held-out rows, scaled as the training rows.
    """

    metric: Metric
    value: Callable[[NDArray[np.float64]], float]
    data: Dataset

    @classmethod
    def of(cls, metric: Metric, data: Dataset) -> Judge:
        """Judge weights by the scores they give to scaled rows."""
        from rankine.metrics import evaluate_on

        def value(coef: NDArray[np.float64]) -> float:
            return float(evaluate_on(data, metric=metric, coef=coef))

        return cls(metric, value, data)

    def best(self, coefs: Sequence[NDArray[np.float64]]) -> int:
        """Position of the best weights, the first among equals."""
        values = [self.value(coef) for coef in coefs]
        return int(np.argmax(values) if self.metric.larger_is_better else np.argmin(values))


class Monitor:
    """A callback that judges the weights at every report of a solver, and keeps the best.

    Parameters
    ----------
    judge
        Held-out data.
    patience
        Stop after this many reports without improvement; None never stops.
    """

    def __init__(self, judge: Judge, patience: int | None) -> None:
        self.judge = judge
        self.patience = patience
        self.trace: list[dict[str, float]] = []
        self.best_value = -np.inf
        self.best_coef: NDArray[np.float64] | None = None
        self.since_best = 0

    def __call__(self, progress: Progress) -> bool:
        """Judge; True when patience has run out."""
        coef = progress.coef()
        value = self.judge.value(coef)
        self.trace.append({"step": progress.step, "value": value, **progress.values})
        signed = value if self.judge.metric.larger_is_better else -value
        if signed > self.best_value:
            self.best_value, self.best_coef, self.since_best = signed, np.array(coef), 0
        else:
            self.since_best += 1
        return self.patience is not None and self.since_best >= self.patience

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and facts of a checkpoint."""
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


class Watch:
    """What accompanies one run of a solver: monitor, callbacks of the user, checkpoints.

    Attributes
    ----------
    callbacks
        For the solver.
    keeper
        Checkpoints, or None.
    """

    def __init__(
        self, monitor: Monitor | None, callbacks: Sequence[Callback], keeper: Keeper | None
    ) -> None:
        self.monitor = monitor
        self.keeper = keeper
        self.stopped = False
        self._asked = tuple(callbacks)
        self.callbacks: tuple[Callback, ...] = (self,) if monitor or callbacks else ()

    def __call__(self, progress: Progress) -> bool:
        """Judge and tell; True when the run should end."""
        early = self.monitor is not None and self.monitor(progress)
        self.stopped = notify(self._asked, progress) or self.stopped
        return early or self.stopped

    @property
    def trace(self) -> list[dict[str, float]]:
        """What was measured on held-out data."""
        return [] if self.monitor is None else self.monitor.trace

    def finish(self, solution: Solution) -> Solution:
        """The solution to keep: with early stopping, that of the best weights seen."""
        monitor = self.monitor
        if monitor is None or monitor.patience is None or monitor.best_coef is None:
            return solution
        early = solution.stop_reason == "callback" and not self.stopped
        reason = "early_stopping" if early else solution.stop_reason
        return replace(solution, coef=monitor.best_coef, stop_reason=reason)


@dataclass(frozen=True)
class Outcome:
    """What a task came to: solutions, the one that is kept, and what was measured meanwhile.

    Attributes
    ----------
    solutions, evals
        In order of solution; the records of each one's monitor.
    position
        The solution that the ranker keeps.
    values
        Strengths of the solutions, where there are several to choose from.
    notes
        Effective parameters of the kept solution: they stand in its certificate and in the model.
    """

    solutions: list[Solution]
    evals: list[list[dict[str, float]]]
    position: int = 0
    values: list[float] = field(default_factory=list)
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

    def noting(self, **notes: float) -> Outcome:
        """The same with effective parameters of the kept solution."""
        return replace(self, notes={**self.notes, **notes})


@dataclass(frozen=True, eq=False)
class Task:
    """A fit that is ready for a solver.

    Attributes
    ----------
    source
        Scaled rows, blocks or partitions.
    scaling
        How they were scaled.
    start, steps_seen
        Weights to start from in scaled units, or None; steps that a run of the same ranker has
        already made to reach them.
    judge, patience
        Held-out data, and ``early_stopping``.
    callbacks
        Of the user.
    seed
        Root of every random stream of this fit.
    facts
        What a resumed run must share with the interrupted one.
    """

    source: Any
    scaling: Scaling
    start: NDArray[np.float64] | None = None
    steps_seen: int = 0
    judge: Judge | None = None
    patience: int | None = None
    callbacks: Sequence[Callback] = ()
    seed: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of its source."""
        return str(self.source.kind)

    def watch(self) -> Watch:
        """A monitor of its own for one run of a solver, with callbacks and checkpoints."""
        monitor = None if self.judge is None else Monitor(self.judge, self.patience)
        folder = getattr(self.source, "folder", None)
        keeper = None
        if folder is not None:
            start = None if self.start is None else np.float64(self.start.sum()).hex()
            facts = {**self.facts, "seed": self.seed, "start": start}
            keeper = Keeper(folder, facts, resume=self.source.resume, beside=monitor)
        return Watch(monitor, self.callbacks, keeper)

    def run(self, solve: Callable[[NDArray[np.float64] | None, Watch], Solution]) -> Outcome:
        """Solve once."""
        watch = self.watch()
        return Outcome([watch.finish(solve(self.start, watch))], [watch.trace])

    def along(
        self,
        values: Sequence[float],
        solve: Callable[[float, NDArray[np.float64] | None, Watch], Solution],
    ) -> Outcome:
        """Solve for every strength from the last one's weights; keep the best on held-out data.

        Each strength has a monitor of its own. A callback that stops a run stops the path; values
        not reached are left out. Without held-out data the last solution is kept.
        """
        solutions, evals, start = [], [], self.start
        for value in values:
            watch = self.watch()
            solutions.append(watch.finish(solve(value, start, watch)))
            evals.append(watch.trace)
            start = solutions[-1].coef
            if watch.stopped:
                break
        return self.choose(values, solutions, evals)

    def choose(
        self,
        values: Sequence[float],
        solutions: list[Solution],
        evals: list[list[dict[str, float]]] | None = None,
    ) -> Outcome:
        """Keep the solution that ranks held-out data best, the last without any."""
        position = len(solutions) - 1
        if self.judge is not None and position > 0:
            position = self.judge.best([one.coef for one in solutions])
        if evals is None:
            evals = [self._final(one) for one in solutions]
        return Outcome(solutions, evals, position, list(values[: len(solutions)]))

    def _final(self, solution: Solution) -> list[dict[str, float]]:
        if self.judge is None:
            return []
        return [{"step": solution.n_iter, "value": self.judge.value(solution.coef)}]


def check_resume(checkpoint: Any, resume: bool) -> None:
    """Refuse to resume from nothing."""
    if resume and checkpoint is None:
        raise CheckpointError("nothing to resume from", fix="Pass the folder as checkpoint=")


#: What a certificate calls the distance that ``tol`` bounds, the nearest name first.
_DISTANCES = ("relative_gap", "residual", "gap")


def warn_unfinished(name: str, tol: float | None, solutions: Mapping[Any, Solution]) -> None:
    """Warn, as scikit-learn does, where a run ended further from the optimum than ``tol``.

    Parameters
    ----------
    name
        Whose runs they are.
    tol
        What they should have reached; None for runs that are not solved to a tolerance.
    solutions
        By strength, topic or position: the worst is named where there are several.
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
