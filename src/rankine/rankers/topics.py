"""Many ranking tasks over one matrix: a model per topic, column storage shared, in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.checks import check_choice, reject_sets
from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.data.dataset import Dataset, check_weight, column_storage, row_scores
from rankine.data.frames import split_frame
from rankine.data.progress import live_console
from rankine.data.query_index import QueryIndex
from rankine.kernels.columns import Columns
from rankine.kernels.random import resolve_seed
from rankine.kernels.shards import n_threads
from rankine.losses.domination import DominationRisk, build_domination_task
from rankine.model import ModelBundle
from rankine.rankers.domination import DominationRanker
from rankine.rankers.fitting import warn_not_converged
from rankine.rankers.provenance import json_parameters
from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.coordinate_descent import (
    CoordinateDescent,
    DescentSettings,
    PathPoint,
    l1_grid,
    path_until_nonzeros,
    regularisation_path,
)
from rankine.solvers.problem import Penalty
from rankine.transforms.scaling import Scaling, check_scale, fit_scaling

ABSENT = ("auto", "missing", "zero")


def fit_topics(
    X: Any,
    Y: Any,
    *,
    topics: Sequence[str] | None = None,
    qid: Any = None,
    sample_weight: Any = None,
    absent: str = "auto",
    l1: Any = None,
    eval_set: Any = None,
    eval_qid: Any = None,
    n_steps: int = 20,
    min_ratio: float = 0.01,
    skip_empty: bool = False,
    feature_names: Sequence[str] | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    ranker: DominationRanker | None = None,
    **parameters: Any,
) -> ModelBundle:
    """Learn one domination ranker per column of Y, over the same rows.

    The matrix is stored by columns once and shared by all topics; a topic adds a few numbers per
    row while it is being solved. A canonical CSC matrix of floats is used as it stands, so nothing
    is added to it; anything else is copied once by columns, and the caller may let go of it.
    Topics run in parallel threads, and the result does not depend on their number.

    Parameters
    ----------
    X
        Rows x features: array, sparse matrix (CSC is not copied), data frame or ``Dataset``.
    Y
        Rows x topics. In a dense Y, NaN marks rows that are not a topic's candidates.
    topics
        Names of the topics; their numbers by default.
    qid
        Query ids shared by all topics; by default those of a ``Dataset`` or of a frame's ``qid``
        column, else the whole collection is one query.
    sample_weight
        Row weights shared by all topics.
    absent
        What entries mean that a sparse Y does not store: "missing" (not a candidate), "zero"
        (label 0), or "auto": label 0 when no topic stores two different labels (an indicator
        matrix, from which nothing could be learnt otherwise), missing when every topic does.
    l1
        None (1 % of each topic's smallest l1 that gives w = 0), a number, or one per topic.
    eval_set
        ``(X, Y)`` of held-out rows: each topic's l1 is then chosen among ``n_steps`` values, down
        to ``min_ratio`` of its largest, by ``metric`` there (topics with an ``l1`` keep it).
    eval_qid
        Query ids of the held-out rows; needed when the training rows have several queries.
    skip_empty
        Give topics without a pair an empty model instead of raising; they are named under
        ``provenance["skipped"]``.
    feature_names
        Names of the features.
    progress
        Show a progress bar on stderr.
    callbacks
        Called after every topic, from its thread; one that returns True stops the run.
    ranker, **parameters
        A ``DominationRanker``, or the parameters of one, such as ``l2``, ``tol``, ``metric``,
        ``scale``, ``max_nonzero``, ``n_threads``. ``early_stopping`` and ``warm_start`` are
        refused: topics are solved to a duality gap, each from w = 0.

    Returns
    -------
    ModelBundle
        One sparse row of weights per topic.

    Examples
    --------
    >>> from rankine import fit_topics
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.2]]
    >>> bundle = fit_topics(X, [[1, 0], [0, 1], [0, 0]], topics=["earn", "grain"])
    >>> sorted(bundle)
    ['earn', 'grain']
    """
    from rankine._version import __version__

    ranker = DominationRanker(**parameters) if ranker is None else ranker
    _refuse_what_has_no_meaning(ranker)
    shared = _collect(X, Y, qid, sample_weight, absent, feature_names, ranker.scale)
    names = _topic_names(topics, shared.labels.n_topics)
    strengths = _topic_strengths(ranker.l1 if l1 is None else l1, len(names))
    held = None if eval_set is None else _hold_out(eval_set, eval_qid, shared, absent)
    seed = resolve_seed(ranker.random_state)
    task = _TopicTask(ranker, shared, strengths, held, n_steps, min_ratio, skip_empty, names, seed)
    with _progress_bar(len(names), wanted=progress) as shown:
        watcher = _Watcher(len(names), (*callbacks, *shown))
        results = _solve_topics(watcher, task, n_threads(ranker.n_threads))
    done = {name: found for name, found in zip(names, results, strict=True) if found is not None}
    if not done:
        raise NoPairsError("no topic was learnt", fix="Check the label matrix")
    solved = {f"topic {n}": found.solution for n, found in done.items() if found.solution}
    warn_not_converged("fit_topics", ranker.tol, solved)
    return ModelBundle.from_weights(
        {name: found.weights for name, found in done.items()},
        shared.names,
        transforms=shared.scaling.transforms,
        metric=ranker.metric,
        parameters={"ranker": ranker.system, **json_parameters(ranker)},
        provenance={
            "rankine": __version__,
            "rows": shared.queries.n_rows,
            "skipped": [name for name, found in done.items() if found.solution is None],
            "topics": {n: found.record for n, found in done.items() if found.solution is not None},
        },
    )


def _refuse_what_has_no_meaning(ranker: DominationRanker) -> None:
    for name in ("propensity", "position_offset"):
        if getattr(ranker, name) is not None:
            raise ParameterError(
                f"fit_topics does not take {name}: its labels are no clicks of shown lists",
                fix=f"Leave {name}=None",
            )
    for name, unset in (("early_stopping", None), ("warm_start", False)):
        value = getattr(ranker, name)
        if value != unset:
            raise ParameterError(
                f"fit_topics does not take {name}={value!r}: topics are solved to a duality gap, "
                "each from w = 0",
                fix=f"Leave {name}={unset}; eval_set chooses each topic's l1",
            )


class TopicLabels(NamedTuple):
    """Labels of many topics: a dense array with NaN for missing, or a CSC array."""

    matrix: Any
    #: Whether what a CSC array does not store is missing (else it is label 0).
    absent_is_missing: bool

    @classmethod
    def of(cls, Y: Any, n_rows: int, absent: str = "auto") -> TopicLabels:
        """Check a label matrix; ``absent`` as in ``fit_topics``."""
        check_choice("absent", absent, ABSENT)
        if sparse.issparse(Y):
            matrix = sparse.csc_array(Y)
            matrix.sum_duplicates()
            stored = matrix.data
        else:
            matrix = np.asarray(Y, dtype=np.float64)
            matrix = matrix[:, None] if matrix.ndim == 1 else matrix
            stored = matrix[~np.isnan(matrix)]
        if matrix.ndim != 2 or matrix.shape[0] != n_rows:
            raise SchemaError(
                f"Y has shape {matrix.shape} for {n_rows} rows", fix="Pass rows x topics"
            )
        if not np.isfinite(stored).all():
            raise SchemaError("Y holds infinite labels", fix="NaN in a dense Y marks missing rows")
        missing = sparse.issparse(matrix) and _absent_is_missing(matrix, absent)
        return cls(matrix, missing)

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return int(self.matrix.shape[1])

    def column(self, topic: int) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """Labels of a topic, and which rows are its candidates (None: all of them)."""
        if not sparse.issparse(self.matrix):
            values = self.matrix[:, topic]
            known = ~np.isnan(values)
            if known.all():
                return np.ascontiguousarray(values), None
            return np.where(known, values, 0.0), known
        start, stop = self.matrix.indptr[topic], self.matrix.indptr[topic + 1]
        rows = self.matrix.indices[start:stop]
        values = np.zeros(self.matrix.shape[0])
        values[rows] = self.matrix.data[start:stop]
        if not self.absent_is_missing:
            return values, None
        known = np.zeros(self.matrix.shape[0], dtype=bool)
        known[rows] = True
        return values, known


def _absent_is_missing(matrix: Any, absent: str) -> bool:
    if absent != "auto":
        return absent == "missing"
    pointers = matrix.indptr
    several = [
        len(np.unique(matrix.data[a:b])) > 1
        for a, b in zip(pointers[:-1].tolist(), pointers[1:].tolist(), strict=True)
    ]
    if all(several):
        return True
    if not any(several):
        return False
    raise ParameterError(
        f"{sum(several)} of {len(several)} topics of the sparse Y store several labels, "
        "so it is unclear what entries mean that are not stored",
        fix="Pass absent='zero' (label 0) or absent='missing' (not a candidate)",
    )


@dataclass(frozen=True, eq=False)
class _Collection:
    """Training rows of all topics, stored by columns (already scaled)."""

    columns: Columns
    n_features: int
    queries: QueryIndex
    weight: NDArray[np.float64] | None
    extra: Mapping[str, NDArray[Any]]
    labels: TopicLabels
    names: tuple[str, ...] | None
    scaling: Scaling


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Rows on which l1 is chosen (already scaled), with their own queries."""

    data: Dataset
    labels: TopicLabels


def _collect(
    X: Any, Y: Any, qid: Any, sample_weight: Any, absent: str, feature_names: Any, scale: str | None
) -> _Collection:
    """Check the training data of all topics and lay it out by columns."""
    extra: Mapping[str, NDArray[Any]] = {}
    if isinstance(X, Dataset):
        feature_names = X.feature_names if feature_names is None else feature_names
        sample_weight = X.weight if sample_weight is None else sample_weight
        qid = X.qid if qid is None else qid
        X, extra = X.X, X.columns
    parts = split_frame(X, feature_names)
    qid = parts.qid if qid is None else qid
    scaling, matrix = Scaling("none"), parts.values
    if check_scale(scale) != "none":
        rows = Dataset.from_arrays(matrix, np.zeros(np.shape(matrix)[0]), qid)
        scaling = fit_scaling(scale, rows)
        matrix = scaling.apply(rows).X
    columns, shape = column_storage(matrix)
    if parts.names is not None and len(parts.names) != shape[1]:
        raise SchemaError(
            f"{len(parts.names)} feature names for {shape[1]} columns", fix="Name every column once"
        )
    return _Collection(
        columns,
        shape[1],
        QueryIndex.from_qid(qid, shape[0]),
        None if sample_weight is None else check_weight(sample_weight, shape[0]),
        extra,
        TopicLabels.of(Y, shape[0], absent),
        parts.names,
        scaling,
    )


def _hold_out(eval_set: Any, eval_qid: Any, shared: _Collection, absent: str) -> _HeldOut:
    """Check held-out rows; where training has queries, they must have them too."""
    X, Y = eval_set
    if isinstance(X, Dataset):
        eval_qid = X.qid if eval_qid is None else eval_qid
        X = X.X
    parts = split_frame(X)
    eval_qid = parts.qid if eval_qid is None else eval_qid
    if eval_qid is None and shared.queries.n_queries > 1:
        raise SchemaError(
            f"the training rows belong to {shared.queries.n_queries} queries, but eval_set has "
            "no query ids",
            fix="Pass eval_qid",
        )
    n_rows = np.shape(parts.values)[0]
    data = Dataset.from_arrays(parts.values, np.zeros(n_rows), eval_qid)
    if data.n_features != shared.n_features:
        raise SchemaError(
            f"eval_set has {data.n_features} features, the training data {shared.n_features}",
            fix="Pass the same features",
        )
    if absent == "auto" and sparse.issparse(Y):
        absent = "missing" if shared.labels.absent_is_missing else "zero"
    labels = TopicLabels.of(Y, n_rows, absent)
    if labels.n_topics != shared.labels.n_topics:
        raise SchemaError("eval_set has other topics", fix="Pass the same columns of Y")
    return _HeldOut(shared.scaling.apply(data), labels)


def _topic_names(topics: Sequence[str] | None, n_topics: int) -> list[str]:
    """The topics' names, checked; their numbers by default."""
    if topics is None:
        return [str(t) for t in range(n_topics)]
    reject_sets(topics=topics)
    names = [str(topic) for topic in topics]
    if len(names) != n_topics or len(set(names)) != n_topics:
        raise SchemaError(
            f"{len(set(names))} different topic names for {n_topics} columns of Y",
            fix="Name every topic once",
        )
    return names


def _topic_strengths(l1: Any, n_topics: int) -> NDArray[np.float64]:
    """One l1 per topic; NaN means that the data decides."""
    if l1 is None:
        return np.full(n_topics, np.nan)
    values = np.asarray(l1, dtype=np.float64)
    if values.shape not in ((), (n_topics,)) or not np.isfinite(values).all() or (values < 0).any():
        raise ParameterError("l1 must be finite and >= 0", fix="Pass one number, or one per topic")
    return np.broadcast_to(values, (n_topics,))


@dataclass(frozen=True)
class _Found:
    """A topic's weights (one sparse row), its l1, and how the run ended (None: skipped)."""

    weights: sparse.csr_array
    l1: float = np.nan
    solution: Solution | None = None

    @property
    def record(self) -> dict[str, Any]:
        """What the bundle remembers of a topic that was solved."""
        assert self.solution is not None  # noqa: S101 - narrows the type
        return {
            "l1": self.l1,
            "objective": self.solution.objective,
            "relative_gap": self.solution.certificate["relative_gap"],
            "n_iter": self.solution.n_iter,
            "stop_reason": self.solution.stop_reason,
        }


@dataclass(frozen=True, eq=False)
class _TopicTask:
    """Everything that solving one topic needs, besides its number."""

    ranker: DominationRanker
    shared: _Collection
    strengths: NDArray[np.float64]
    held: _HeldOut | None
    n_steps: int
    min_ratio: float
    skip_empty: bool
    names: Sequence[str]
    seed: int

    def solve(self, topic: int) -> _Found:
        """Solve one topic on one thread."""
        ranker, shared = self.ranker, self.shared
        y, candidates = shared.labels.column(topic)
        try:
            levels = build_domination_task(
                y,
                shared.queries,
                np.ones(shared.queries.n_queries),
                ranker.task_options(),
                weight=shared.weight,
                candidates=candidates,
                columns=shared.extra,
            )
        except NoPairsError as error:
            if self.skip_empty:
                return _Found(sparse.csr_array((1, shared.n_features)))
            raise NoPairsError(
                f"topic {self.names[topic]}: {error.reason}",
                fix="Pass skip_empty=True to leave such topics out",
            ) from error
        descent = CoordinateDescent(DominationRisk(levels), shared.columns)
        solution, l1 = self._chosen(descent, topic)
        weights = shared.scaling.fold(solution.coef)
        # Dense weights of thousands of topics would not fit.
        ended = replace(solution, coef=np.zeros(0), trace=())
        return _Found(sparse.csr_array(weights[None, :]), l1, ended)

    def _chosen(self, descent: CoordinateDescent, topic: int) -> tuple[Solution, float]:
        """The solution to keep, and its l1."""
        settings = self.ranker.solver_settings(self.seed, threads=1)
        slopes = descent.gradient(1)
        largest = float(np.abs(slopes).max(initial=0.0))
        points = self._path(descent, settings, largest, topic) if largest > 0 else []
        if points:
            best = points[self._best(points, topic)]
            return best.solution, best.l1
        if self.ranker.max_nonzero is None:
            penalty = self.ranker.penalty(largest, self.strengths[topic])
        else:
            # No model is small enough but the empty one.
            penalty = Penalty(largest, self.ranker.path_l2)
            descent.restart(np.zeros(len(descent.w)))
        return descent.solve(penalty, settings, (), slopes), penalty.l1

    def _path(
        self, descent: CoordinateDescent, settings: DescentSettings, largest: float, topic: int
    ) -> list[PathPoint]:
        """Models to choose from; none when l1 is known."""
        l2, limit = self.ranker.path_l2, self.ranker.max_nonzero
        if limit is not None:
            return list(path_until_nonzeros(descent, largest, l2, settings, int(limit)))
        if self.held is None or not np.isnan(self.strengths[topic]):
            return []
        grid = l1_grid(largest, self.n_steps, self.min_ratio)
        return list(regularisation_path(descent, grid.tolist(), l2, settings))

    def _best(self, points: list[PathPoint], topic: int) -> int:
        """Position of the model with the best metric on held-out rows (else the smallest loss).

        The sparsest of equals, since the path starts with the empty model.
        """
        from rankine.metrics import evaluate, parse_metric

        if self.held is None:
            return int(np.argmin([point.loss for point in points]))
        data = self.held.data
        y, candidates = self.held.labels.column(topic)
        rows = slice(None) if candidates is None else np.flatnonzero(candidates)
        metric = parse_metric(self.ranker.metric)
        values = np.array(
            [
                evaluate(
                    metric, y[rows], row_scores(data.X, point.solution.coef)[rows], data.qid[rows]
                )
                for point in points
            ]
        )
        return int(np.argmax(values if metric.larger_is_better else -values))


class _Watcher:
    """Counts topics that are done, tells the callbacks, and stops when one asks for it."""

    def __init__(self, total: int, callbacks: Sequence[Callback]) -> None:
        self.total = total
        self.callbacks = callbacks
        self.done = 0
        self.stopped = False
        self.lock = threading.Lock()

    def run(self, task: _TopicTask, topic: int) -> _Found | None:
        """Solve one topic; None once a callback has asked to stop."""
        if self.stopped:
            return None
        found = task.solve(topic)
        with self.lock:
            self.done += 1
            weights = found.weights
            values = {"topic": float(topic), "nonzeros": float(weights.nnz)}
            told = Progress(
                "topics", self.done, self.total, values, lambda: weights.toarray().ravel()
            )
            self.stopped = notify(self.callbacks, told) or self.stopped
        return found


def _solve_topics(watcher: _Watcher, task: _TopicTask, threads: int) -> list[_Found | None]:
    """Results in order of topics.

    A pool of its own: solving a topic scores held-out rows, which uses the shared pool, and a pool
    whose workers wait for each other would never end.
    """
    topics = range(len(task.names))
    if min(threads, len(topics)) <= 1:
        return [watcher.run(task, t) for t in topics]
    with ThreadPoolExecutor(min(threads, len(topics)), thread_name_prefix="topic") as pool:
        futures = [pool.submit(watcher.run, task, t) for t in topics]
        try:
            return [future.result() for future in futures]
        except BaseException:
            watcher.stopped = True
            raise


@contextmanager
def _progress_bar(total: int, *, wanted: bool) -> Iterator[list[Callback]]:
    """Callbacks that draw a bar on stderr, when wanted."""
    console = live_console() if wanted else None
    if console is None:
        yield []
        return
    from rich.progress import Progress as RichProgress

    with RichProgress(console=console, transient=True) as bar:
        task = bar.add_task("topics", total=total)

        def update(progress: Progress) -> None:
            bar.update(task, completed=progress.step)

        yield [update]
