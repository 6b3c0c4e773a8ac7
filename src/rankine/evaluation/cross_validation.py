"""Cross-validation by query: every query is held out once."""

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
        Per query: id, held-out value of the metric (NaN if the metric skips the query or no fold
        holds it out), and number of the fold that holds it out (-1 for none).
    scores
        Held-out score of each row (NaN if no fold holds it out); ``compare`` accepts them.
    fold_means
        Mean of the metric in each fold.
    fit_seconds
        Training time of each fold.
    rankers
        Fitted rankers, one per fold.
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
        if len(self.fold_means) < 2:
            return 0.0
        return float(self.fold_means.std(ddof=1))


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
    """Train on all folds but one and evaluate on that one, for every fold.

    Parameters
    ----------
    ranker
        Ranker, which is cloned for every fold.
    data
        A ``Dataset``, or a raw log (``rankine.logs.scan``).
    cv
        Number of folds (queries are assigned in random order), a scikit-learn splitter (which gets
        the query ids as groups), or an iterable of (train rows, test rows).
    metric
        Metric; default: the ranker's metric.
    query_weight
        Weights of queries in the means of folds: a mapping from query id to weight, or one number
        per query in order of first appearance. Training does not use them; the row weights of the
        data are used for training only.
    random_state
        Seed of the assignment of queries to folds.
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
                f"cross_validate needs data with query ids, not {type(data).__name__}",
                fix="Pass Dataset.from_arrays(X, y, qid), rankine.load(...) or a raw log",
            )
        data = data.load()
    rule = parse_metric(ranker.metric if metric is None else metric)
    splits = _splits(cv, data, random_state)
    queries = data.queries
    weight = query_weights(queries, None, query_weight)
    values = np.full(queries.n_queries, np.nan)
    # -1 until a fold holds the query out, so that a second time is noticed.
    fold = np.full(queries.n_queries, -1, dtype=np.int64)
    scores = np.full(data.n_rows, np.nan)
    means, seconds, rankers = [], [], []
    for k, split in enumerate(splits):
        if progress is not None:
            progress(k, len(splits))
        held_out = split.test
        positions = queries.codes[split.rows[_first_rows(held_out)]]
        # Before the fit: a split that leaks would waste the time of training.
        _check_split(split, fold[positions], k)
        started = time.perf_counter()
        fitted = clone(ranker).fit(split.train, **fit_options)
        seconds.append(time.perf_counter() - started)
        predicted = fitted.predict(held_out)
        scores[split.rows] = predicted
        values[positions] = evaluate_on(held_out, scores=predicted, metric=rule, per_query=True)
        fold[positions] = k
        fold_weight = None if weight is None else weight[positions]
        means.append(evaluate_on(held_out, scores=predicted, metric=rule, query_weight=fold_weight))
        rankers.append(fitted)
    if progress is not None:
        progress(len(splits), len(splits))
    return CrossValidation(
        rule, queries.ids, values, fold, scores, np.array(means), np.array(seconds), rankers
    )


class _Split(NamedTuple):
    """Training data, held-out data, and the row numbers of the held-out data."""

    train: Dataset
    test: Dataset
    rows: NDArray[np.int64]


def _splits(cv: Any, data: Dataset, random_state: int) -> list[_Split]:
    if isinstance(cv, (int, np.integer)):
        return [
            # Rows of a fold are in the order of the data, so these are their numbers.
            _Split(train, test, np.flatnonzero(np.isin(data.qid, test.queries.ids)))
            for train, test in query_folds(data, int(cv), random_state)
        ]
    pairs = cv
    if hasattr(cv, "split"):
        pairs = cv.split(data.X, data.y, groups=data.queries.codes)
    splits = []
    for train, test in pairs:
        rows = np.asarray(test, np.int64)
        splits.append(_Split(data.take(np.asarray(train, np.int64)), data.take(rows), rows))
    if not splits:
        raise ParameterError(
            "there is no split", fix="Pass a number of folds, such as 5", parameter="cv"
        )
    return splits


def _first_rows(data: Dataset) -> NDArray[np.int64]:
    """Return the first row of each query."""
    starts = data.queries.starts[:-1]
    if data.queries.rows is None:
        return starts
    return data.queries.rows[starts]


def _check_split(split: _Split, previous_folds: NDArray[np.int64], k: int) -> None:
    """Raise if fold k splits a query, or holds out a query of a previous fold."""
    # A query in both parts lets the ranker see labels that it is judged by.
    if np.isin(split.test.queries.ids, split.train.queries.ids).any():
        raise SchemaError(
            f"fold {k + 1} has documents of one query in training and test data",
            fix="Split by query: pass a number of folds, or a Group splitter",
        )
    if (previous_folds >= 0).any():
        raise SchemaError(
            f"fold {k + 1} holds out a query that another fold holds out",
            fix="Hold out each query once",
        )
