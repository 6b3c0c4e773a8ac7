"""What many topics over one matrix share: columns, queries, labels, held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import ParameterError, SchemaError
from rankine.data.dataset import Dataset, check_weight, column_storage
from rankine.data.frames import split_frame
from rankine.data.query_index import QueryIndex
from rankine.kernels.columns import Columns
from rankine.rankers.topic_labels import TopicLabels
from rankine.transforms.scaling import Scaling, fit_scaling

__all__ = ["Collection", "HeldOut", "collect", "hold_out", "topic_names", "topic_strengths"]


@dataclass(frozen=True, eq=False)
class Collection:
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
class HeldOut:
    """Rows on which l1 is chosen (already scaled), with their own queries."""

    data: Dataset
    labels: TopicLabels


def collect(
    X: Any, Y: Any, qid: Any, sample_weight: Any, absent: str, feature_names: Any, scale: str
) -> Collection:
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
    if scale != "none":
        rows = Dataset.from_arrays(matrix, np.zeros(matrix.shape[0]), qid)
        scaling = fit_scaling(scale, rows)
        matrix = scaling.apply(rows).X
    columns, shape = column_storage(matrix)
    if parts.names is not None and len(parts.names) != shape[1]:
        raise SchemaError(
            f"{len(parts.names)} feature names for {shape[1]} columns", fix="Name every column once"
        )
    return Collection(
        columns,
        shape[1],
        QueryIndex.from_qid(qid, shape[0]),
        None if sample_weight is None else check_weight(sample_weight, shape[0]),
        extra,
        TopicLabels.of(Y, shape[0], absent),
        parts.names,
        scaling,
    )


def hold_out(eval_set: Any, eval_qid: Any, shared: Collection, absent: str) -> HeldOut:
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
    return HeldOut(shared.scaling.apply(data), labels)


def topic_names(topics: Sequence[str] | None, n_topics: int) -> list[str]:
    """The topics' names, checked; their numbers by default."""
    if topics is None:
        return [str(t) for t in range(n_topics)]
    names = [str(topic) for topic in topics]
    if len(names) != n_topics or len(set(names)) != n_topics:
        raise SchemaError(
            f"{len(set(names))} different topic names for {n_topics} columns of Y",
            fix="Name every topic once",
        )
    return names


def topic_strengths(l1: Any, n_topics: int) -> NDArray[np.float64]:
    """One l1 per topic; NaN means that the data decides."""
    if l1 is None:
        return np.full(n_topics, np.nan)
    values = np.asarray(l1, dtype=np.float64)
    if values.shape not in ((), (n_topics,)) or not np.isfinite(values).all() or (values < 0).any():
        raise ParameterError("l1 must be finite and >= 0", fix="Pass one number, or one per topic")
    return np.broadcast_to(values, (n_topics,))
