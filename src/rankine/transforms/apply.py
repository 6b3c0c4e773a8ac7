"""Score datasets with a model: align its columns, run its transforms, compute the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ModelError
from rankine.core.specs import History, ListRange, LogColumns, MissingValues, RunScores
from rankine.data.dataset import Dataset, make_csr, row_scores
from rankine.model import LinearModel
from rankine.model.tables import find_tables
from rankine.transforms.bins import TableScorer
from rankine.transforms.log_columns import LogEncoder, columns_of
from rankine.transforms.missing import fill_missing, refuse_missing
from rankine.transforms.scaling import scale_lists

__all__ = ["align_columns", "encode_csr", "score_dataset", "transformed_scores"]


def score_dataset(model: LinearModel, data: Dataset) -> NDArray[np.float64]:
    """Run the transforms of a model and return the scores in row order."""
    data = align_columns(model, data)
    tables = find_tables(model)
    if tables is not None:
        return TableScorer(tables.bins, tables.grids).score(tables.weights, data.X)
    return transformed_scores(model.transforms, data, model.to_dense())


def transformed_scores(
    transforms: Sequence[Any], data: Dataset, coef: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Score rows after transforms that cannot be folded into the weights, in row order."""
    index = data.queries
    added_scores = None
    types = {type(spec) for spec in transforms}
    if LogColumns in types and MissingValues not in types:
        # Scorer gives a missing number of a raw row no entry, which is the same as 0.
        transforms = (MissingValues("zero"), *transforms)
    elif not types & {MissingValues, RunScores}:
        refuse_missing(data.X, data.feature_names, scoring=True)
    for spec in transforms:
        if isinstance(spec, (LogColumns, History)):
            continue  # reading the log has computed and encoded the columns
        if isinstance(spec, MissingValues):
            X, added_scores = fill_missing(spec, data.X, index.starts, index.rows)
        elif isinstance(spec, (ListRange, RunScores)):
            X = scale_lists(data, spec)
        else:
            raise ModelError(
                f"this model reads raw columns ({type(spec).__name__}), not numeric features",
                fix="Give it the log it was trained on, or the same columns",
            )
        data = replace(data, X=X, query_index=index)
    scores = row_scores(data.X, coef)
    if added_scores is not None:
        scores = scores + added_scores
    return scores


def align_columns(model: LinearModel, data: Dataset) -> Dataset:
    """Return the data with the model's columns in the model's order, by name if both have names.

    Lists of a raw log that were encoded for another model are encoded again.
    """
    spec = columns_of(model)
    if spec is not None and data.encoding is not None:
        _require_same_history(model, data)
        return _encode_again(spec, data)
    names = model.column_names
    if names is not None and data.feature_names is not None and names != data.feature_names:
        return _select_columns(names, data)
    if spec is not None and data.n_features != spec.n_features:
        raise ModelError(
            "this model reads the raw columns of a log, not numeric features",
            fix="Give it the log it was trained on, or the same columns",
        )
    if data.n_features != model.n_columns:
        raise FeatureMismatchError(
            f"the model has {model.n_columns} features and the data {data.n_features}",
            fix=f"Read the data with n_features={model.n_columns}, or use the matching model",
        )
    return data


def _select_columns(names: Sequence[str], data: Dataset) -> Dataset:
    column_of = {name: j for j, name in enumerate(data.feature_names or ())}
    missing = [name for name in names if name not in column_of]
    if missing:
        raise FeatureMismatchError(
            f"the data lacks feature {missing[0]!r} of the model (and {len(missing) - 1} more)",
            fix="Score data with the features the model was trained on",
        )
    X = data.X[:, [column_of[name] for name in names]]
    if isinstance(X, np.ndarray):
        X = np.ascontiguousarray(X)
    return replace(data, X=X, feature_names=tuple(names), query_index=data.queries)


def _require_same_history(model: LinearModel, data: Dataset) -> None:
    """Raise unless the history features of a log were computed as the model does."""
    history = model.history
    read_as = data.encoding.history
    if history is None or read_as is None:
        return
    name = history.first_difference(read_as.spec)
    if name is not None:
        raise FeatureMismatchError(
            f"the log was read without the history feature {name!r} as the model computes it",
            fix="Read the log for this model",
            column=name,
        )


def _encode_again(spec: LogColumns, data: Dataset) -> Dataset:
    """Encode lists of a raw log again, as the features of another model."""
    if data.encoding.spec.read_columns == spec.read_columns:
        return data
    absent = [name for name in spec.columns if name not in data.columns]
    if absent:
        raise FeatureMismatchError(
            f"the log was read without column {absent[0]!r} of the model",
            fix="Read the log for this model, or add the column to columns",
            column=absent[0],
        )
    columns: Any = data.columns
    X: Any
    if spec.tables:
        X = LogEncoder(spec).matrix(columns, data.n_rows)
    else:
        X = encode_csr(LogEncoder(spec, keeps_missing=True), columns, data.n_rows)
    return replace(data, X=X, feature_names=None, query_index=data.queries, encoding=None)


def encode_csr(encoder: LogEncoder, columns: Mapping[str, Any], n_rows: int) -> Any:
    """Encode raw columns as a CSR matrix."""
    rows = encoder.encode(columns, n_rows)
    return make_csr(rows.values, rows.indices, rows.indptr, (n_rows, encoder.spec.n_features))
