"""Many ranking tasks over one matrix: a model per topic, column storage shared, in threads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankine.core.errors import NoPairsError, ParameterError
from rankine.kernels.random import resolve_seed
from rankine.kernels.shards import n_threads
from rankine.model import ModelBundle
from rankine.rankers.plain import plain_parameters
from rankine.rankers.topic_data import collect, hold_out, topic_names, topic_strengths
from rankine.rankers.topic_tasks import (
    Found,
    TopicTask,
    Watcher,
    progress_bar,
    solve_topics,
)
from rankine.solvers.base import Callback

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
    eval_qid: Any = None,
    n_steps: int = 20,
    min_ratio: float = 0.01,
    skip_empty: bool = False,
    feature_names: Sequence[str] | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
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
        matrix), missing when every topic does.
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
    **parameters
        Parameters of ``DominationRanker``, such as ``l2``, ``tol``, ``metric``, ``scale``,
        ``max_nonzero``, ``n_threads``. ``early_stopping`` and ``warm_start`` are refused: topics
        are solved to a duality gap, each from w = 0.

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
        eval_qid=eval_qid,
        n_steps=n_steps,
        min_ratio=min_ratio,
        skip_empty=skip_empty,
        feature_names=feature_names,
        progress=progress,
        callbacks=callbacks,
    )


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
    eval_qid: Any = None,
    n_steps: int = 20,
    min_ratio: float = 0.01,
    skip_empty: bool = False,
    feature_names: Sequence[str] | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
) -> ModelBundle:
    """Run ``fit_topics`` with the parameters of a ranker."""
    from rankine._version import __version__

    _refuse_what_has_no_meaning(ranker)
    shared = collect(X, Y, qid, sample_weight, absent, feature_names, ranker.scale)
    names = topic_names(topics, shared.labels.n_topics)
    strengths = topic_strengths(ranker.l1 if l1 is None else l1, len(names))
    held = None if eval_set is None else hold_out(eval_set, eval_qid, shared, absent)
    seed = resolve_seed(ranker.random_state)
    task = TopicTask(ranker, shared, strengths, held, n_steps, min_ratio, skip_empty, names, seed)
    with progress_bar(len(names), wanted=progress) as shown:
        watcher = Watcher(len(names), (*callbacks, *shown))
        results = solve_topics(watcher, task, n_threads(ranker.n_threads))
    done = {name: found for name, found in zip(names, results, strict=True) if found is not None}
    if not done:
        raise NoPairsError("no topic was learnt", fix="Check the label matrix")
    _warn_unless_done(done)
    return ModelBundle.from_weights(
        {name: found.weights for name, found in done.items()},
        shared.names,
        transforms=shared.scaling.transforms,
        metric=ranker.metric,
        parameters={"ranker": ranker._system, **plain_parameters(ranker)},
        provenance={
            "rankine": __version__,
            "rows": shared.queries.n_rows,
            "skipped": [name for name, found in done.items() if found.record is None],
            "topics": {n: found.record for n, found in done.items() if found.record is not None},
        },
    )


def _refuse_what_has_no_meaning(ranker: DominationRanker) -> None:
    for name, unset in (("early_stopping", None), ("warm_start", False)):
        value = getattr(ranker, name)
        if value != unset:
            raise ParameterError(
                f"fit_topics does not take {name}={value!r}: topics are solved to a duality gap, "
                "each from w = 0",
                fix=f"Leave {name}={unset}; eval_set chooses each topic's l1",
            )


def _warn_unless_done(done: dict[str, Found]) -> None:
    """Say once which topics ended before their gap was small."""
    short = {
        name: found.record["relative_gap"]
        for name, found in done.items()
        if found.record is not None and found.record["stop_reason"] == "max_iter"
    }
    if not short:
        return
    from sklearn.exceptions import ConvergenceWarning

    worst = max(short, key=lambda name: short[name])
    warnings.warn(
        f"{len(short)} of {len(done)} topics stopped at max_iter, {worst!r} at a relative duality "
        f"gap of {short[worst]:.1e}; raise max_iter, or l1",
        ConvergenceWarning,
        stacklevel=4,
    )
