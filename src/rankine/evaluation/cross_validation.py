"""Cross-validation by query: every query is held out once, and its value is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError, SchemaError
from rankine.data.dataset import Dataset
from rankine.data.splits import query_folds
from rankine.metrics import Metric, evaluate_on, parse_metric
from rankine.metrics.engine import query_weights


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Held-out results.

    Attributes
    ----------
    ids, values, fold
        Per query: id, value of the metric on the fold that held it out (NaN where the metric
        skips it, or no fold holds it out), number of that fold (-1 for none).
    scores
        Held-out score of each row (NaN where no fold holds it out): comparable with ``compare``.
    fold_means
        Metric of each fold.
    fit_seconds
        Training time of each fold.
    rankers
        The fitted rankers, one per fold.
    """

    metric: Metric
    ids: NDArray[Any]
    values: NDArray[np.float64]
    fold: NDArray[np.int64]
    scores: NDArray[np.float64]
    fold_means: NDArray[np.float64]
    fit_seconds: NDArray[np.float64]
    rankers: Sequence[Any]

    @property
    def mean(self) -> float:
        """Mean of the folds' values."""
        return float(self.fold_means.mean())

    @property
    def std(self) -> float:
        """Standard deviation of the folds' values (n - 1)."""
        return float(self.fold_means.std(ddof=1)) if len(self.fold_means) > 1 else 0.0


def cross_validate(
    ranker: Any,
    data: Any,
    cv: Any = 5,
    *,
    metric: str | Metric | None = None,
    query_weight: Any = None,
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **fit_options: Any,
) -> CrossValidation:
    """Train on all folds but one, evaluate on that one, in turn.

    Parameters
    ----------
    ranker
        Any ranker; it is cloned for every fold.
    data
        A ``Dataset``, or a raw log (``rankine.logs.scan``).
    cv
        Number of folds (queries are dealt out in seeded random order), a scikit-learn splitter
        (given the query ids as groups), or an iterable of (train rows, test rows).
    metric
        Default: the ranker's own.
    query_weight
        What a query counts in its fold's mean: a mapping from query id to weight, or one number
        per query in order of first appearance. Training does not see it; weights of the data's
        rows weigh in training and not here.
    progress
        Called with (folds done, folds) before the first fold and after each.
    **fit_options
        Further arguments of ``fit``.

    Examples
    --------
    >>> from rankine import SPDRanker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> data = Dataset.from_arrays(X, (X[:, 0] > 0).astype(int), np.repeat(np.arange(30), 10))
    >>> result = cross_validate(SPDRanker(n_steps=5000, random_state=0), data, cv=3)
    >>> result.values.shape, bool(result.mean > 0.9)
    ((30,), True)
    """
    from sklearn.base import clone

    if not isinstance(data, Dataset):
        if not hasattr(data, "load"):
            raise SchemaError(
                f"cross_validate holds out whole queries, and {type(data).__name__} names none",
                fix="Pass Dataset.from_arrays(X, y, qid), rankine.load(...) or a raw log",
            )
        data = data.load()
    chosen = parse_metric(metric if metric is not None else ranker.metric)
    splits = _splits(cv, data, random_state)
    index = data.queries
    weight = query_weights(index, None, query_weight)
    values = np.full(index.n_queries, np.nan)
    fold = np.full(index.n_queries, -1, dtype=np.int64)
    scores = np.full(data.n_rows, np.nan)
    means, seconds, rankers = [], [], []
    for k, split in enumerate(splits):
        if progress is not None:
            progress(k, len(splits))
        held_out = split.test
        places = index.codes[split.rows[_first_rows(held_out)]]
        _check_split(split, fold[places], k)
        started = time.perf_counter()
        fitted = clone(ranker).fit(split.train, **fit_options)
        seconds.append(time.perf_counter() - started)
        predicted = fitted.predict(held_out)
        scores[split.rows] = predicted
        values[places] = evaluate_on(held_out, scores=predicted, metric=chosen, per_query=True)
        fold[places] = k
        judged = None if weight is None else weight[places]
        means.append(evaluate_on(held_out, scores=predicted, metric=chosen, query_weight=judged))
        rankers.append(fitted)
    if progress is not None:
        progress(len(splits), len(splits))
    return CrossValidation(
        chosen, index.ids, values, fold, scores, np.array(means), np.array(seconds), rankers
    )


class _Split(NamedTuple):
    """Training data, held-out data, and the row numbers of the latter."""

    train: Dataset
    test: Dataset
    rows: NDArray[np.int64]


def _splits(cv: Any, data: Dataset, random_state: int) -> list[_Split]:
    if isinstance(cv, (int, np.integer)):
        return [
            _Split(train, test, np.flatnonzero(np.isin(data.qid, test.queries.ids)))
            for train, test in query_folds(data, int(cv), random_state)
        ]
    pairs = cv.split(data.X, data.y, groups=data.queries.codes) if hasattr(cv, "split") else cv
    splits = []
    for train, test in pairs:
        rows = np.asarray(test, np.int64)
        splits.append(_Split(data.take(np.asarray(train, np.int64)), data.take(rows), rows))
    if not splits:
        raise ParameterError("cv holds no split", fix="Pass a number of folds, say cv=5")
    return splits


def _first_rows(data: Dataset) -> NDArray[np.int64]:
    """First row of each query, in the order of its queries."""
    starts = data.queries.starts[:-1]
    return starts if data.queries.rows is None else data.queries.rows[starts]


def _check_split(split: _Split, taken: NDArray[np.int64], k: int) -> None:
    if np.isin(split.test.queries.ids, split.train.queries.ids).any():
        raise SchemaError(
            f"fold {k + 1} has documents of one query on both sides",
            fix="Split by query: pass a number of folds, or a Group splitter",
        )
    if (taken >= 0).any():
        raise SchemaError(
            f"fold {k + 1} holds out a query that another fold holds out too",
            fix="Hold out each query once",
        )
