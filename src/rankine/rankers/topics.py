"""Many ranking tasks over one matrix: one model per topic, with shared column storage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.checks import reject_sets
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
from rankine.rankers.topic_labels import TopicLabels
from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.coordinate_descent import (
    CoordinateDescent,
    PathPoint,
    l1_grid,
    path_until_nonzeros,
    regularisation_path,
)
from rankine.solvers.problem import Penalty
from rankine.transforms.scaling import Scaling, check_scale, fit_scaling


class TopicModel(NamedTuple):
    """Weights of a topic (one sparse row), its l1, and the end of its run (None: skipped)."""

    weights: sparse.csr_array
    l1: float = np.nan
    solution: Solution | None = None


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
    row while it is being solved. A canonical CSC matrix of floats is used as it is; anything else
    is copied once by columns.
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
        Query ids shared by all topics; by default from a ``Dataset`` or a frame's ``qid``
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
        Give topics without a pair an empty model instead of raising; ``provenance["skipped"]``
        names them.
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

    if ranker is None:
        ranker = DominationRanker(**parameters)
    _check_ranker(ranker)
    rows = _read_rows(X, qid, sample_weight, feature_names, ranker.scale)
    labels = TopicLabels.from_matrix(Y, rows.queries.n_rows, absent)
    names = _topic_names(topics, labels.n_topics)
    l1s = _topic_l1s(_first_given(l1, ranker.l1), len(names))
    held_out = None
    if eval_set is not None:
        held_out = _read_eval_set(eval_set, eval_qid, rows, labels, absent)
    seed = resolve_seed(ranker.random_state)
    grid = (n_steps, min_ratio)

    def solve(topic: int) -> TopicModel:
        # Without held-out rows models of a path are compared by their loss.
        choose = None
        if held_out is not None:
            choose = partial(_best_on_held_out, held_out, ranker.metric, topic)
        try:
            return _solve_topic(ranker, rows, *labels.column(topic), l1s[topic], choose, grid, seed)
        except NoPairsError as error:
            if skip_empty:
                return TopicModel(sparse.csr_array((1, rows.n_features)))
            raise NoPairsError(
                f"topic {names[topic]}: {error.reason}",
                fix="Pass skip_empty=True to leave such topics out",
            ) from error

    with _progress_bar(len(names), wanted=progress) as bar:
        results = _solve_all(solve, len(names), (*callbacks, *bar), n_threads(ranker.n_threads))
    finished = zip(names, results, strict=True)
    models = {name: model for name, model in finished if model is not None}
    if not models:
        raise NoPairsError("no topic was learnt", fix="Check the label matrix")
    solved = {name: model for name, model in models.items() if model.solution is not None}
    solutions: Any = {f"topic {name}": model.solution for name, model in solved.items()}
    warn_not_converged("fit_topics", ranker.tol, solutions)
    return ModelBundle.from_weights(
        {name: model.weights for name, model in models.items()},
        rows.names,
        transforms=rows.scaling.transforms,
        metric=ranker.metric,
        parameters={"ranker": ranker.system, **json_parameters(ranker)},
        provenance={
            "rankine": __version__,
            "rows": rows.queries.n_rows,
            "skipped": [name for name in models if name not in solved],
            "topics": {name: _describe(model) for name, model in solved.items()},
        },
    )


def _check_ranker(ranker: DominationRanker) -> None:
    """Raise for parameters that have no effect here."""
    for name in ("propensity", "position_offset"):
        if getattr(ranker, name) is not None:
            raise ParameterError(
                "fit_topics does not support it: labels of topics are no clicks of shown lists",
                parameter=name,
                fix="Pass None",
            )
    for name, default in (("early_stopping", None), ("warm_start", False)):
        if getattr(ranker, name) != default:
            raise ParameterError(
                "fit_topics does not support it: topics are solved to a duality gap, each from "
                "w = 0",
                parameter=name,
                fix=f"Pass {default}; eval_set chooses each topic's l1",
            )


# ----------------------------------------------------------------------------------- input
@dataclass(frozen=True, eq=False)
class TopicRows:
    """Training rows of all topics, stored by columns and scaled."""

    storage: Columns
    n_features: int
    queries: QueryIndex
    weight: NDArray[np.float64] | None
    #: Further columns of the ``Dataset``, such as margins.
    extra: Any
    names: tuple[str, ...] | None
    scaling: Scaling


def _read_rows(
    X: Any, qid: Any, sample_weight: Any, feature_names: Any, scale: str | None
) -> TopicRows:
    """Check the training rows of all topics and store them by columns."""
    extra: Any = {}
    if isinstance(X, Dataset):
        feature_names = _first_given(feature_names, X.feature_names)
        sample_weight = _first_given(sample_weight, X.weight)
        qid = _first_given(qid, X.qid)
        X, extra = X.X, X.columns
    frame = split_frame(X, feature_names)
    qid = _first_given(qid, frame.qid)
    # Unscaled values are stored by columns as they are, without a copy as rows.
    scaling, matrix = Scaling("none"), frame.values
    if check_scale(scale) != "none":
        rows = Dataset.from_arrays(matrix, np.zeros(np.shape(matrix)[0]), qid)
        scaling = fit_scaling(scale, rows)
        matrix = scaling.apply(rows).X
    storage, (n_rows, n_features) = column_storage(matrix)
    if frame.names is not None and len(frame.names) != n_features:
        raise SchemaError(
            f"there are {len(frame.names)} names for {n_features} columns",
            parameter="feature_names",
            fix="Name every column once",
        )
    weight = None if sample_weight is None else check_weight(sample_weight, n_rows)
    queries = QueryIndex.from_qid(qid, n_rows)
    return TopicRows(storage, n_features, queries, weight, extra, frame.names, scaling)


def _read_eval_set(
    eval_set: Any, eval_qid: Any, rows: TopicRows, labels: TopicLabels, absent: str
) -> tuple[Dataset, TopicLabels]:
    """Check held-out rows; they need query ids where the training rows have several queries."""
    X, Y = eval_set
    if isinstance(X, Dataset):
        eval_qid = _first_given(eval_qid, X.qid)
        X = X.X
    frame = split_frame(X)
    eval_qid = _first_given(eval_qid, frame.qid)
    if eval_qid is None and rows.queries.n_queries > 1:
        raise SchemaError(
            f"the training rows belong to {rows.queries.n_queries} queries, but eval_set has "
            "no query ids",
            parameter="eval_qid",
            fix="Pass the query ids of eval_set",
        )
    n_rows = np.shape(frame.values)[0]
    data = Dataset.from_arrays(frame.values, np.zeros(n_rows), eval_qid)
    if data.n_features != rows.n_features:
        raise SchemaError(
            f"it has {data.n_features} features, the training data {rows.n_features}",
            parameter="eval_set",
            fix="Pass the same features",
        )
    if absent == "auto" and sparse.issparse(Y):
        absent = "missing" if labels.absent_is_missing else "zero"
    eval_labels = TopicLabels.from_matrix(Y, n_rows, absent)
    if eval_labels.n_topics != labels.n_topics:
        raise SchemaError(
            "it has other topics", parameter="eval_set", fix="Pass the same columns of Y"
        )
    return rows.scaling.apply(data), eval_labels


def _first_given(value: Any, default: Any) -> Any:
    return default if value is None else value


def _topic_names(topics: Sequence[str] | None, n_topics: int) -> list[str]:
    if topics is None:
        return [str(t) for t in range(n_topics)]
    reject_sets(topics=topics)
    names = [str(topic) for topic in topics]
    if len(names) != n_topics or len(set(names)) != n_topics:
        raise SchemaError(
            f"there are {len(set(names))} different names for {n_topics} columns of Y",
            parameter="topics",
            fix="Name every topic once",
        )
    return names


def _topic_l1s(l1: Any, n_topics: int) -> NDArray[np.float64]:
    """Return one l1 per topic; NaN means that it is chosen."""
    if l1 is None:
        return np.full(n_topics, np.nan)
    values = np.asarray(l1, dtype=np.float64)
    if values.shape not in ((), (n_topics,)) or not np.isfinite(values).all() or (values < 0).any():
        raise ParameterError(
            "strengths must be finite and >= 0",
            parameter="l1",
            fix="Pass one number, or one per topic",
        )
    return np.broadcast_to(values, (n_topics,))


# ------------------------------------------------------------------------------- one topic
def _solve_topic(
    ranker: DominationRanker,
    rows: TopicRows,
    y: NDArray[np.float64],
    candidates: NDArray[np.bool_] | None,
    l1: float,
    choose: Callable[[list[PathPoint]], int] | None,
    grid: tuple[int, float],
    seed: int,
) -> TopicModel:
    """Solve one topic on one thread; ``choose`` picks a model of a path, by default by loss."""
    task = build_domination_task(
        y,
        rows.queries,
        np.ones(rows.queries.n_queries),
        ranker.task_options(),
        weight=rows.weight,
        candidates=candidates,
        columns=rows.extra,
    )
    descent = CoordinateDescent(DominationRisk(task), rows.storage)
    settings = ranker.solver_settings(seed, threads=1)
    slopes = descent.gradient(1)
    largest_l1, l2 = float(np.abs(slopes).max(initial=0.0)), ranker.path_l2

    points: list[PathPoint] = []
    if largest_l1 > 0 and ranker.max_nonzero is not None:
        limit = int(ranker.max_nonzero)
        points = list(path_until_nonzeros(descent, largest_l1, l2, settings, limit))
    elif largest_l1 > 0 and choose is not None and np.isnan(l1):
        l1s = l1_grid(largest_l1, *grid).tolist()
        points = list(regularisation_path(descent, l1s, l2, settings))

    if points:
        # The path starts with the empty model, so the sparsest of equals is chosen.
        best = int(np.argmin([point.loss for point in points]))
        if choose is not None:
            best = choose(points)
        solution, l1 = points[best].solution, points[best].l1
    else:
        penalty = Penalty(largest_l1, l2)  # of the empty model, if no other is small enough
        if ranker.max_nonzero is None:
            penalty = ranker.penalty(largest_l1, l1)
        else:
            descent.restart(np.zeros(len(descent.w)))
        solution, l1 = descent.solve(penalty, settings, (), slopes), penalty.l1
    weights = sparse.csr_array(rows.scaling.fold(solution.coef)[None, :])
    # Dense weights of thousands of topics would not fit into memory.
    return TopicModel(weights, l1, replace(solution, coef=np.zeros(0), trace=()))


def _best_on_held_out(
    held_out: tuple[Dataset, TopicLabels], metric_name: str, topic: int, points: list[PathPoint]
) -> int:
    """Return the position of the model with the best metric on held-out rows of a topic."""
    from rankine.metrics import evaluate, parse_metric

    data, labels = held_out
    metric = parse_metric(metric_name)
    y, candidates = labels.column(topic)
    rows = slice(None) if candidates is None else np.flatnonzero(candidates)
    values = []
    for point in points:
        scores = row_scores(data.X, point.solution.coef)
        values.append(metric.sign * evaluate(metric, y[rows], scores[rows], data.qid[rows]))
    return int(np.argmax(values))


def _describe(model: TopicModel) -> dict[str, Any]:
    """Return what the bundle stores about a solved topic."""
    solution = model.solution
    assert solution is not None  # noqa: S101 - narrows the type
    return {
        "l1": model.l1,
        "objective": solution.objective,
        "relative_gap": solution.certificate["relative_gap"],
        "n_iter": solution.n_iter,
        "stop_reason": solution.stop_reason,
    }


# ------------------------------------------------------------------------------ all topics
def _solve_all(
    solve: Callable[[int], TopicModel], n_topics: int, callbacks: Sequence[Callback], threads: int
) -> list[TopicModel | None]:
    """Solve topics in parallel; topics that a callback's stop prevents are None."""
    lock, stop = threading.Lock(), threading.Event()
    n_done = 0

    def run(topic: int) -> TopicModel | None:
        nonlocal n_done
        if stop.is_set():
            return None
        model = solve(topic)
        with lock:
            n_done += 1
            weights = model.weights
            values = {"topic": float(topic), "nonzeros": float(weights.nnz)}
            progress = Progress(
                "topics", n_done, n_topics, values, lambda: weights.toarray().ravel()
            )
            if notify(callbacks, progress):
                stop.set()
        return model

    n_workers = min(threads, n_topics)
    if n_workers <= 1:
        return [run(topic) for topic in range(n_topics)]
    # Not the shared pool: a topic scores held-out rows on that, and workers that wait for tasks of
    # their own pool can wait forever.
    with ThreadPoolExecutor(n_workers, thread_name_prefix="topic") as pool:
        futures = [pool.submit(run, topic) for topic in range(n_topics)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise


@contextmanager
def _progress_bar(total: int, *, wanted: bool) -> Iterator[list[Callback]]:
    """Yield callbacks that draw a bar on stderr, when wanted."""
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
