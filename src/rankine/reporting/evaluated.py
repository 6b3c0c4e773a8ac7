"""Score labelled data with a model and with the opponents that it is compared with.

Opponents that need no second model: the displayed order, the best single feature, random order.
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
from rankine.transforms.log_columns import columns_of, feature_name
from rankine.transforms.scaling import Scaling, scale_lists

#: Metrics shown after the model's own, and the metric for labels that these refuse.
FURTHER, FALLBACK = ("ndcg@10", "map", "mrr"), "pairwise-error"


@dataclass(frozen=True, eq=False)
class Opponent:
    """An order of the same rows, given by scores; a random order has None instead of scores."""

    kind: str
    name: str
    scores: NDArray[np.float64] | None
    note: str = ""


@dataclass(frozen=True, eq=False)
class EvaluatedModel:
    """A model, labelled data (with the model's columns, in its order) and scores of all opponents.

    ``view`` and ``features`` are weights and the matrix that they multiply: after scaling per list,
    if the model does that. For a model of tables, what each table adds to a row is a feature of
    weight 1. ``metrics`` can be measured on these labels, the most important first; ``refused``
    maps each of the others to the reason. The first of the ``opponents`` is the model itself.
    """

    model: LinearModel
    view: LinearModel
    data: Dataset
    features: Any
    metrics: Sequence[Metric]
    refused: Mapping[str, str]
    opponents: Sequence[Opponent]
    _values: dict[tuple[str, str], Any] = field(default_factory=dict)

    @property
    def scores(self) -> NDArray[np.float64]:
        """Scores of the model, in row order."""
        scores = self.opponents[0].scores
        assert scores is not None  # noqa: S101 - the model has scores
        return scores

    @property
    def metric(self) -> Metric:
        """Metric of the headline. There always is one, since MAP takes any labels."""
        return self.metrics[0]

    @property
    def rival(self) -> Opponent:
        """The most informative opponent; random order always takes part."""
        best = self.opponent("against", "shown", "feature", "random")
        assert best is not None  # noqa: S101
        return best

    def opponent(self, *kinds: str) -> Opponent | None:
        """Return the opponent of the first of these kinds that takes part."""
        by_kind = {opponent.kind: opponent for opponent in self.opponents}
        return next((by_kind[kind] for kind in kinds if kind in by_kind), None)

    def values(self, opponent: Opponent, metric: Metric) -> NDArray[np.float64]:
        """Return the metric of each query, NaN for queries that the metric skips."""
        key, data = (opponent.kind, str(metric)), self.data
        if key not in self._values:
            if opponent.scores is None:
                columns = data_columns(data)
                values = random_expectation(
                    metric, data.y, data.queries, per_query=True, columns=columns
                )
            else:
                values = evaluate_on(data, scores=opponent.scores, metric=metric, per_query=True)
            self._values[key] = values
        return self._values[key]

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
        """Weight times spread of each weighted feature: its part in the differences of scores."""
        return self.view.values * self.spread[self.view.indices]

    def feature_name(self, j: int) -> str:
        """Return the name of a feature, whether it has a weight or not."""
        model = self.view
        name = feature_name(model, j)
        if name is None and self.data.feature_names is not None:
            name = self.data.feature_names[j]
        if name is not None:
            return name
        return f"feature {j + model.base}"


def evaluate_model(
    model: LinearModel,
    data: Dataset,
    *,
    name: str = "model",
    against: LinearModel | None = None,
    against_name: str = "other model",
    metrics: Sequence[str] | None = None,
) -> EvaluatedModel:
    """Score the data with the model, another model, the shown order, one feature and at random."""
    reject_sets(metric=metrics)
    data = align_columns(model, data)
    view, features = _weights_and_features(model, data)
    scores = row_scores(features, view.to_dense())
    candidates = [*(metrics or [model.metric or "ndcg@10"]), *FURTHER]
    measured, refused = _measurable(candidates, data, scores)
    # Labels such as real numbers suit no graded metric, but every label has pairs.
    if candidates[0] in refused:
        measured = [*_measurable([FALLBACK], data, scores)[0], *measured]
    opponents = [Opponent("model", name, scores)]
    if against is not None:
        opponents.append(Opponent("against", against_name, score_dataset(against, data)))
    evaluated = EvaluatedModel(model, view, data, features, measured, refused, opponents)
    optional = (shown_order(data), best_feature(evaluated))
    opponents += [opponent for opponent in optional if opponent is not None]
    opponents.append(Opponent("random", "random order", None, "exact expectation"))
    return evaluated


def _weights_and_features(model: LinearModel, data: Dataset) -> tuple[LinearModel, Any]:
    """Return weights and a matrix whose product is the score, for every kind of model."""
    tables = find_tables(model)
    # A sum of table entries is a linear model over what each table adds to a row.
    if tables is not None:
        names, features = tables.parts(data.X)
        return LinearModel.from_weights(np.ones(len(names)), feature_names=names), features
    per_list = [spec for spec in model.transforms if isinstance(spec, (ListRange, RunScores))]
    if per_list and isinstance(per_list[0], RunScores):
        return model, scale_lists(data, per_list[0])
    missing = model.missing
    # A model of raw columns without a rule for missing values reads them as zero.
    if missing is None and any(isinstance(spec, LogColumns) for spec in model.transforms):
        missing = MissingValues("zero")
    features = Scaling("query" if per_list else "none", missing=missing).apply(data).X
    # An indicator per column with missing values has a weight of its own: it becomes a feature.
    if missing is None or missing.rule != "indicator":
        return model, features
    names = _all_names(model)
    names += [f"{names[j]} missing" for j in missing.columns]
    weights = np.r_[model.to_dense(), missing.values]
    return LinearModel.from_weights(weights, feature_names=names), features


def _all_names(model: LinearModel) -> list[str]:
    """Return a name for every feature; hashed ones without a weight are called by their number."""
    if model.feature_names is not None:
        return list(model.feature_names)
    names = [f"feature {j + model.base}" for j in range(model.n_features)]
    if model.names is None:
        return names
    columns = columns_of(model)
    if columns is not None:
        names[: columns.hash_start] = columns.names
    for j, name in zip(model.indices.tolist(), model.weight_names, strict=True):
        names[j] = name
    return names


def _measurable(
    names: Sequence[str], data: Dataset, scores: NDArray[np.float64]
) -> tuple[list[Metric], dict[str, str]]:
    """Return the metrics that have a value on these labels, and why the others have none."""
    measured: list[Metric] = []
    refused: dict[str, str] = {}
    for text in dict.fromkeys(names):
        metric = parse_metric(text)
        if metric in measured:
            continue
        try:
            evaluate_on(data, scores=scores, metric=metric)
        except DataError as error:
            refused[text] = error.reason
        else:
            measured.append(metric)
    return measured, refused


#: Number of features that are tried one by one: those that agree with the labels best.
MAX_TRIED = 64
#: Number of queries that choose the feature, evenly spaced over the data.
MAX_QUERIES = 2000


def shown_order(data: Dataset) -> Opponent | None:
    """Return the order in which items were displayed, None if a position is unknown."""
    if data.position is None:
        return None
    try:
        position = np.asarray(data.position, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(position).all():
        return None
    return Opponent("shown", "order as shown", -position, "displayed positions")


def best_feature(evaluated: EvaluatedModel) -> Opponent | None:
    """Return the single feature, ascending or descending, that orders this data best."""
    data, metric = evaluated.data, evaluated.metric
    # A sample of queries chooses the feature: each candidate costs two evaluations.
    stride = -(-data.n_queries // MAX_QUERIES)
    sample = data.take_queries(np.arange(0, data.n_queries, stride))
    rows = np.concatenate([data.queries.rows_of(q) for q in range(0, data.n_queries, stride)])
    matrix = evaluated.features[rows]
    sign = 1.0 if metric.larger_is_better else -1.0
    best: tuple[float, int, float] | None = None
    for j in _candidates(evaluated).tolist():
        values = column_of(matrix, j)
        # A constant feature orders nothing; ties would be broken by the order of the rows.
        if np.ptp(values) == 0:
            continue
        for direction in (1.0, -1.0):
            scores = direction * values
            per_query = evaluate_on(sample, scores=scores, metric=metric, per_query=True)
            quality = float(sign * np.nanmean(per_query))
            if np.isfinite(quality) and (best is None or quality > best[0]):
                best = quality, j, direction
    if best is None:
        return None
    _, j, direction = best
    scores = direction * column_of(evaluated.features, j)
    reading, term = "more is better", "feature"
    if direction < 0:
        reading = "less is better"
    if find_tables(evaluated.model) is not None:
        term = "table"
    name = f"best single {term}: {evaluated.feature_name(j)}"
    return Opponent("feature", name, scores, f"{reading}; chosen on this data")


def _candidates(evaluated: EvaluatedModel) -> NDArray[np.int64]:
    """Return the features most correlated with the labels within lists, strongest first."""
    data, features = evaluated.data, evaluated.features
    if features.shape[1] <= MAX_TRIED:
        return np.arange(features.shape[1])
    queries = data.queries
    y = queries.gather(data.y)
    means = np.add.reduceat(y, queries.starts[:-1]) / queries.sizes
    centred = queries.scatter(y - np.repeat(means, queries.sizes))
    covariance = np.abs(features.T @ centred)
    spread = evaluated.spread
    # Divided by the spread this is the correlation up to a factor that all features share.
    strength = np.divide(covariance, spread, out=np.zeros(len(spread)), where=spread > 0)
    return np.argsort(-strength, kind="stable")[:MAX_TRIED]


def column_of(matrix: Any, j: int) -> NDArray[np.float64]:
    """Return a column of a dense or sparse matrix as a dense array."""
    column = matrix[:, [j]]
    if hasattr(column, "toarray"):
        column = column.toarray()
    return np.asarray(column, dtype=np.float64).ravel()
