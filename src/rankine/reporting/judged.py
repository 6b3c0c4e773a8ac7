"""A model on labelled data, beside what it is judged against: what all figures share.

Opponents that need no model: the order as shown, the best single feature, chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import DataError
from rankine.core.specs import ListRange, LogColumns, MissingValues, RunScores
from rankine.data.dataset import Dataset, row_scores
from rankine.kernels.columns import column_variances
from rankine.kernels.shards import N_SHARDS
from rankine.metrics import (
    Metric,
    data_columns,
    evaluate_on,
    parse_metric,
    random_expectation,
)
from rankine.model import LinearModel
from rankine.model.tables import find_tables
from rankine.transforms.apply import align_columns, score_dataset
from rankine.transforms.scaling import Scaling, scale_lists

#: Metrics shown besides the model's own, and the one for labels that do not suit it.
FURTHER, FALLBACK = ("ndcg@10", "map", "mrr"), "pairwise-error"


@dataclass(frozen=True, eq=False)
class Opponent:
    """Something that orders the same rows; ``scores`` is None for a random order."""

    kind: str
    name: str
    scores: NDArray[np.float64] | None
    note: str = ""


@dataclass(frozen=True, eq=False)
class Judged:
    """A model, its data (with the model's columns, in its order) and its scores.

    ``view`` and ``features`` are the weights and the matrix that they meet: after per-list scaling,
    where the model scales. Of a model of tables, what each table adds to a row is a feature, and
    its weight 1. ``metrics`` can be measured on these labels, the most important first; ``refused``
    says why others cannot. Of the ``opponents`` the model is the first.
    """

    model: LinearModel
    view: LinearModel
    data: Dataset
    features: Any
    metrics: Sequence[Metric]
    refused: Mapping[str, str]
    opponents: Sequence[Opponent]
    _known: dict[tuple[str, str], Any] = field(default_factory=dict)

    @property
    def scores(self) -> NDArray[np.float64]:
        """Of the model, in row order."""
        scores = self.opponents[0].scores
        assert scores is not None  # noqa: S101 - the model has scores
        return scores

    @property
    def metric(self) -> Metric:
        """The headline's metric: MAP takes any labels, so that there always is one."""
        return self.metrics[0]

    @property
    def rival(self) -> Opponent:
        """The most telling opponent; chance takes part always."""
        kinds = [one.kind for one in self.opponents]
        best = next(kind for kind in ("against", "shown", "feature", "random") if kind in kinds)
        return self.opponents[kinds.index(best)]

    def opponent(self, *kinds: str) -> Opponent | None:
        """The first opponent of the first of these kinds that takes part."""
        found = {one.kind: one for one in self.opponents}
        return next((found[kind] for kind in kinds if kind in found), None)

    def values(self, opponent: Opponent, metric: Metric) -> NDArray[np.float64]:
        """The metric of each query (NaN where it is skipped)."""
        key, data = (opponent.kind, str(metric)), self.data
        if key not in self._known:
            self._known[key] = (
                random_expectation(
                    metric, data.y, data.queries, per_query=True, columns=data_columns(data)
                )
                if opponent.scores is None
                else evaluate_on(data, scores=opponent.scores, metric=metric, per_query=True)
            )
        return self._known[key]

    @cached_property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation of each feature within lists: how far it can move a ranking."""
        data = self.data
        queries = data.queries
        members = np.arange(data.n_rows) if queries.rows is None else queries.rows
        rows = Dataset(self.features, data.y, data.qid, query_index=queries).rows
        total = column_variances(
            rows,
            members.astype(np.uint64),
            queries.starts,
            N_SHARDS,
            np.ones(data.n_rows),
            self.features.shape[1],
        )
        return np.sqrt(total / data.n_rows)

    @cached_property
    def effect(self) -> NDArray[np.float64]:
        """Weight times spread of each weighted feature: its share in the differences of scores."""
        return self.view.values * self.spread[self.view.indices]

    def feature_name(self, j: int) -> str:
        """Name of a feature, weighted or not."""
        model = self.view
        names = model.feature_names or self.data.feature_names
        if names is not None:
            return names[j]
        at = int(np.searchsorted(model.indices, j))
        if model.names is not None and at < model.nnz and model.indices[at] == j:
            return model.weight_names[at]
        return f"feature {j + model.base}"


def judge(
    model: LinearModel,
    data: Dataset,
    *,
    name: str = "model",
    against: LinearModel | None = None,
    against_name: str = "other model",
    metrics: Sequence[str] | None = None,
) -> Judged:
    """Score the data and gather opponents: another model, the shown order, one feature, chance."""
    reject_sets(metric=metrics)
    data = align_columns(model, data)
    view, missing = model, model.missing
    scaled = [spec for spec in model.transforms if isinstance(spec, (ListRange, RunScores))]
    tables = find_tables(model)
    if missing is None and any(isinstance(spec, LogColumns) for spec in model.transforms):
        missing = MissingValues("zero")
    if tables is not None:
        names, features = tables.parts(data.X)
        view = LinearModel.from_weights(np.ones(len(names)), feature_names=names)
    elif scaled and isinstance(scaled[0], RunScores):
        features = scale_lists(data, scaled[0])
    else:
        features = Scaling("query" if scaled else "none", missing=missing).apply(data).X
        if missing is not None and missing.rule == "indicator":
            known = model.feature_names or [str(j + model.base) for j in range(model.n_features)]
            names = [*known, *(f"{known[j]} missing" for j in missing.columns)]
            weights = np.r_[model.to_dense(), missing.values]
            view = LinearModel.from_weights(weights, feature_names=names)
    scores = row_scores(features, view.to_dense())
    wanted = [*(metrics or [model.metric or "ndcg@10"]), *FURTHER]
    chosen, refused = _measurable(wanted, data, scores)
    if wanted[0] in refused:
        chosen = [*_measurable([FALLBACK], data, scores)[0], *chosen]
    opponents = [Opponent("model", name, scores)]
    if against is not None:
        opponents.append(Opponent("against", against_name, score_dataset(against, data)))
    judged = Judged(model, view, data, features, chosen, refused, opponents)
    opponents += [shown for shown in [shown_order(data)] if shown is not None]
    opponents += [one for one in [best_feature(judged)] if one is not None]
    opponents.append(Opponent("random", "random order", None, "exact expectation"))
    return judged


def _measurable(
    wanted: Sequence[str], data: Dataset, scores: NDArray[np.float64]
) -> tuple[list[Metric], dict[str, str]]:
    """Metrics that have a value on these labels, each once; why the others have none."""
    chosen: list[Metric] = []
    refused: dict[str, str] = {}
    for text in dict.fromkeys(wanted):
        metric = parse_metric(text)
        if metric in chosen:
            continue
        try:
            evaluate_on(data, scores=scores, metric=metric)
        except DataError as error:
            refused[text] = error.reason
        else:
            chosen.append(metric)
    return chosen, refused


#: Features that are tried one by one; of more, those that go with the labels best.
MAX_TRIED = 64
#: Queries that choose the feature, evenly spaced over the data.
MAX_QUERIES = 2000


def shown_order(data: Dataset) -> Opponent | None:
    """The order in which items were displayed, where positions are known."""
    if data.position is None:
        return None
    try:
        position = np.asarray(data.position, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(position).all():
        return None
    return Opponent("shown", "order as shown", -position, "displayed positions")


def best_feature(judged: Judged) -> Opponent | None:
    """The single feature, upwards or downwards, that orders this very data best."""
    data, metric = judged.data, judged.metric
    tried = _candidates(judged)
    every = -(-data.n_queries // MAX_QUERIES)
    some = data.take_queries(np.arange(0, data.n_queries, every))
    rows = np.concatenate([data.queries.rows_of(q) for q in range(0, data.n_queries, every)])
    matrix = judged.features[rows]
    sign = 1.0 if metric.larger_is_better else -1.0
    best: tuple[float, int, float] | None = None
    for j in tried.tolist():
        values = column_of(matrix, j)
        if np.ptp(values) == 0:
            continue
        for direction in (1.0, -1.0):
            found = sign * np.nanmean(
                evaluate_on(some, scores=direction * values, metric=metric, per_query=True)
            )
            if np.isfinite(found) and (best is None or found > best[0]):
                best = float(found), j, direction
    if best is None:
        return None
    _, j, direction = best
    words = "more is better" if direction > 0 else "less is better"
    scores = direction * column_of(judged.features, j)
    note = f"{words}; chosen on this data"
    what = "feature" if judged.view is judged.model else "table"
    return Opponent("feature", f"best single {what}: {judged.feature_name(j)}", scores, note)


def _candidates(judged: Judged) -> NDArray[np.int64]:
    """Features whose values go up or down with the labels within lists, strongest first."""
    data = judged.data
    if judged.features.shape[1] <= MAX_TRIED:
        return np.arange(judged.features.shape[1])
    queries = data.queries
    y = queries.gather(data.y)
    means = np.add.reduceat(y, queries.starts[:-1]) / queries.sizes
    centred = queries.scatter(y - np.repeat(means, queries.sizes))
    together = np.abs(judged.features.T @ centred)
    spread = judged.spread
    strength = np.divide(together, spread, out=np.zeros(len(spread)), where=spread > 0)
    return np.argsort(-strength, kind="stable")[:MAX_TRIED]


def column_of(matrix: Any, j: int) -> NDArray[np.float64]:
    """A column of a dense or sparse matrix."""
    column = matrix[:, [j]]
    dense = column.toarray() if hasattr(column, "toarray") else column
    return np.asarray(dense, dtype=np.float64).ravel()
