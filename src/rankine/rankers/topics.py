"""Many ranking tasks over one matrix: a model per topic, column storage shared, in threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.data.dataset import (
    Dataset,
    as_rows,
    check_finite,
    check_matrix,
    check_weight,
    row_scores,
)
from rankine.data.frames import split_frame
from rankine.data.query_index import QueryIndex
from rankine.kernels.columns import Columns, CscColumns, columns_of
from rankine.kernels.shards import n_threads
from rankine.model import ModelBundle
from rankine.rankers.base import plain_parameters
from rankine.rankers.domination_task import task_levels
from rankine.rankers.topic_labels import TopicLabels
from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.coordinate_descent import Penalty
from rankine.solvers.domination import domination_descent
from rankine.solvers.l1_path import l1_grid, walk

if TYPE_CHECKING:
    from rankine.rankers.domination import DominationRanker

__all__ = ["fit_topics", "topics_of"]


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
    n_steps: int = 20,
    min_ratio: float = 0.01,
    skip_empty: bool = False,
    feature_names: Sequence[str] | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    **parameters: Any,
) -> ModelBundle:
    """Learn one domination ranker per column of Y, over the same rows.

    The matrix is stored by columns once and shared by all topics (a CSC matrix is used as it
    stands); a topic adds a few numbers per row while it is being solved. Topics run in parallel
    threads, and the result does not depend on their number.

    Parameters
    ----------
    X
        Rows x features: array, sparse matrix (CSC is not copied), data frame or ``Dataset``.
    Y
        Rows x topics. In a dense Y, NaN marks rows that are not a topic's candidates.
    topics
        Names of the topics; their numbers by default.
    qid
        Query ids shared by all topics; by default the whole collection is one query.
    sample_weight
        Row weights shared by all topics.
    absent
        What entries mean that a sparse Y does not store: "missing" (not a candidate), "zero"
        (label 0), or "auto": label 0 when no topic stores two different labels (an indicator
        matrix), missing when every topic does.
    l1
        None (1 % of each topic's smallest l1 that gives w = 0), a number, or one per topic.
    eval_set
        ``(X, Y)`` of held-out rows: each topic's l1 is then chosen among ``n_steps`` values, down
        to ``min_ratio`` of its largest, by ``metric`` there.
    skip_empty
        Give topics without a pair an empty model instead of raising; they are named under
        ``provenance["skipped"]``.
    feature_names
        Names of the features.
    progress
        Show a progress bar on stderr.
    callbacks
        Called after every topic, from its thread; one that returns True stops the run.
    **parameters
        Parameters of ``DominationRanker``, such as ``l2``, ``tol``, ``metric``, ``n_threads``.

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
    from rankine.rankers.domination import DominationRanker

    return DominationRanker(**parameters).fit_topics(
        X,
        Y,
        topics=topics,
        qid=qid,
        sample_weight=sample_weight,
        absent=absent,
        l1=l1,
        eval_set=eval_set,
        n_steps=n_steps,
        min_ratio=min_ratio,
        skip_empty=skip_empty,
        feature_names=feature_names,
        progress=progress,
        callbacks=callbacks,
    )


@dataclass(frozen=True, eq=False)
class _Collection:
    """What all topics share."""

    columns: Columns
    n_features: int
    queries: QueryIndex
    weight: NDArray[np.float64] | None
    labels: TopicLabels
    names: tuple[str, ...] | None


def topics_of(
    ranker: DominationRanker,
    X: Any,
    Y: Any,
    *,
    topics: Sequence[str] | None = None,
    qid: Any = None,
    sample_weight: Any = None,
    absent: str = "auto",
    l1: Any = None,
    eval_set: Any = None,
    n_steps: int = 20,
    min_ratio: float = 0.01,
    skip_empty: bool = False,
    feature_names: Sequence[str] | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
) -> ModelBundle:
    """Run ``fit_topics`` with the parameters of a ranker."""
    from rankine._version import __version__

    shared = _collect(X, Y, qid, sample_weight, absent, feature_names)
    names = _topic_names(topics, shared.labels.n_topics)
    strengths = _strengths(ranker.l1 if l1 is None else l1, len(names))
    held = None if eval_set is None else _held_out(eval_set, shared, absent)
    task = _Task(ranker, shared, strengths, held, n_steps, min_ratio, skip_empty, names)
    with _bar(len(names), wanted=progress) as shown:
        watcher = _Watcher(len(names), (*callbacks, *shown))
        results = _in_threads(watcher, task, len(names), n_threads(ranker.n_threads))
    done = {name: found for name, found in zip(names, results, strict=True) if found is not None}
    if not done:
        raise NoPairsError("no topic was learnt", fix="Check the label matrix")
    return ModelBundle.from_weights(
        {name: found.weights for name, found in done.items()},
        shared.names,
        metric=ranker.metric,
        parameters=_parameters(ranker),
        provenance={
            "rankine": __version__,
            "rows": shared.queries.n_rows,
            "skipped": [name for name, found in done.items() if found.record is None],
            "topics": {n: found.record for n, found in done.items() if found.record is not None},
        },
    )


def _in_threads(watcher: _Watcher, task: _Task, n_topics: int, threads: int) -> list[Any]:
    """Results in order of topics.

    A pool of its own: solving a topic scores held-out rows, which uses the shared pool, and a pool
    whose workers wait for each other would never end.
    """
    if min(threads, n_topics) <= 1:
        return [watcher.run(task, t) for t in range(n_topics)]
    with ThreadPoolExecutor(min(threads, n_topics), thread_name_prefix="topic") as pool:
        futures = [pool.submit(watcher.run, task, t) for t in range(n_topics)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            watcher.stopped = True
            raise


@dataclass(frozen=True)
class _Found:
    """A topic's weights (one sparse row) and how they came about (None: skipped)."""

    weights: sparse.csr_array
    record: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class _Task:
    """Everything that solving one topic needs, besides its number."""

    ranker: DominationRanker
    shared: _Collection
    strengths: NDArray[np.float64]
    held: tuple[Any, TopicLabels] | None
    n_steps: int
    min_ratio: float
    skip_empty: bool
    names: Sequence[str]

    def solve(self, topic: int) -> _Found:
        """Solve one topic on one thread."""
        ranker, shared = self.ranker, self.shared
        y, candidates = shared.labels.column(topic)
        try:
            levels = task_levels(
                y,
                shared.queries,
                np.ones(shared.queries.n_queries),
                ranker.task_options(),
                weight=shared.weight,
                candidates=candidates,
            )
        except NoPairsError as error:
            if self.skip_empty:
                return _Found(sparse.csr_array((1, shared.n_features)), None)
            raise NoPairsError(
                f"topic {self.names[topic]}: {error.reason}",
                fix="Pass skip_empty=True to leave such topics out",
            ) from error
        descent = domination_descent(shared.columns, levels)
        settings = ranker.solver_settings(seed=0, threads=1)
        slopes = descent.gradient(1)
        largest = float(np.abs(slopes).max(initial=0.0))
        l2 = float(ranker.l2)
        if self.held is not None and np.isnan(self.strengths[topic]) and largest > 0:
            grid = l1_grid(largest, self.n_steps, self.min_ratio)
            points = [(p.solution, p.l1) for p in walk(descent, grid.tolist(), l2, settings)]
            solution, l1 = points[self._best([found.coef for found, _ in points], topic)]
        else:
            l1 = ranker.resolve_l1(largest, self.strengths[topic])
            solution = descent.solve(Penalty(l1, l2), settings, (), slopes)
        return _Found(sparse.csr_array(solution.coef[None, :]), _record(solution, l1))

    def _best(self, coefs: list[NDArray[np.float64]], topic: int) -> int:
        """Position of the weights with the best metric on held-out rows; the sparsest of equals."""
        from rankine.metrics import evaluate, parse_metric

        assert self.held is not None  # noqa: S101 - narrows the type
        matrix, labels = self.held
        y, candidates = labels.column(topic)
        rows = slice(None) if candidates is None else np.flatnonzero(candidates)
        metric = parse_metric(self.ranker.metric)
        values = [float(evaluate(metric, y[rows], row_scores(matrix, w)[rows])) for w in coefs]
        signed = np.array(values) if metric.larger_is_better else -np.array(values)
        return int(np.argmax(signed))


def _record(solution: Solution, l1: float) -> dict[str, Any]:
    return {
        "l1": l1,
        "objective": solution.objective,
        "relative_gap": solution.certificate["relative_gap"],
        "n_iter": solution.n_iter,
        "stop_reason": solution.stop_reason,
    }


class _Watcher:
    """Counts topics that are done, tells the callbacks, and stops when one asks for it."""

    def __init__(self, total: int, callbacks: Sequence[Callback]) -> None:
        self.total = total
        self.callbacks = callbacks
        self.done = 0
        self.stopped = False
        self.lock = threading.Lock()

    def run(self, task: _Task, topic: int) -> _Found | None:
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


class _bar:  # noqa: N801 - used as a with-statement
    """Callbacks that draw a bar on stderr, when wanted."""

    def __init__(self, total: int, *, wanted: bool) -> None:
        self.total = total
        self.wanted = wanted
        self.bar: Any = None

    def __enter__(self) -> list[Callback]:
        if not self.wanted:
            return []
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(console=Console(stderr=True), transient=True)
        self.bar.start()
        task = self.bar.add_task("topics", total=self.total)

        def update(progress: Progress) -> None:
            self.bar.update(task, completed=progress.step)

        return [update]

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def _collect(
    X: Any, Y: Any, qid: Any, sample_weight: Any, absent: str, feature_names: Any
) -> _Collection:
    if isinstance(X, Dataset):
        feature_names = X.feature_names if feature_names is None else feature_names
        sample_weight = X.weight if sample_weight is None else sample_weight
        X = X.X
    parts = split_frame(X, feature_names)
    columns, shape = _columns(parts.values)
    queries = QueryIndex.from_qid(parts.qid if qid is None else qid, shape[0])
    if parts.names is not None and len(parts.names) != shape[1]:
        raise SchemaError(
            f"{len(parts.names)} feature names for {shape[1]} columns", fix="Name every column once"
        )
    return _Collection(
        columns,
        shape[1],
        queries,
        None if sample_weight is None else check_weight(sample_weight, shape[0]),
        TopicLabels.of(Y, shape[0], absent),
        parts.names,
    )


def _columns(X: Any) -> tuple[Columns, tuple[int, int]]:
    """Column storage of a matrix; CSC in canonical form is used as it stands."""
    by_columns = sparse.issparse(X) and X.format == "csc" and X.has_canonical_format
    if by_columns and X.dtype in (np.float32, np.float64):
        check_finite(X.data, "X")
        unsigned = np.uint32 if X.indices.dtype.itemsize == 4 else np.uint64
        indptr = X.indptr.astype(np.int64, copy=False)
        return CscColumns(indptr, X.indices.view(unsigned), X.data), X.shape
    matrix = check_matrix(X)
    return columns_of(as_rows(matrix), matrix.shape[1]), matrix.shape


def _topic_names(topics: Sequence[str] | None, n_topics: int) -> list[str]:
    if topics is None:
        return [str(t) for t in range(n_topics)]
    names = [str(topic) for topic in topics]
    if len(names) != n_topics or len(set(names)) != n_topics:
        raise SchemaError(
            f"{len(set(names))} different topic names for {n_topics} columns of Y",
            fix="Name every topic once",
        )
    return names


def _strengths(l1: Any, n_topics: int) -> NDArray[np.float64]:
    """One l1 per topic; NaN means that the data decides."""
    if l1 is None:
        return np.full(n_topics, np.nan)
    values = np.broadcast_to(np.asarray(l1, dtype=np.float64), (n_topics,))
    if not np.isfinite(values).all() or (values < 0).any():
        raise ParameterError("l1 must be finite and >= 0", fix="Pass one number, or one per topic")
    return values


def _held_out(eval_set: Any, shared: _Collection, absent: str) -> tuple[Any, TopicLabels]:
    X, Y = eval_set
    matrix = check_matrix(X)
    if matrix.shape[1] != shared.n_features:
        raise SchemaError(
            f"eval_set has {matrix.shape[1]} features, the training data {shared.n_features}",
            fix="Pass the same features",
        )
    if absent == "auto" and sparse.issparse(Y):
        absent = "missing" if shared.labels.absent_is_missing else "zero"
    labels = TopicLabels.of(Y, matrix.shape[0], absent)
    if labels.n_topics != shared.labels.n_topics:
        raise SchemaError("eval_set has other topics", fix="Pass the same columns of Y")
    return matrix, labels


def _parameters(ranker: DominationRanker) -> dict[str, Any]:
    """Parameters that decide the result; the number of threads does not."""
    chosen = plain_parameters(ranker)
    chosen.pop("n_threads")
    return {"ranker": "domination", **chosen}
