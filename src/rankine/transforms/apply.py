"""A model on a dataset: checks that they belong together, runs its transforms, scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ModelError
from rankine.core.specs import ListRange, LogColumns, RunScores
from rankine.data.dataset import Dataset, make_csr, row_scores
from rankine.model import LinearModel
from rankine.model.tables import tables_of
from rankine.transforms.bins import score_tables
from rankine.transforms.log_columns import LogEncoder
from rankine.transforms.scaling import scale_lists

__all__ = ["fit_columns", "score_dataset"]


def score_dataset(model: LinearModel, data: Dataset) -> NDArray[np.float64]:
    """Scores in row order, running the transforms that the model carries."""
    data = fit_columns(model, data)
    X: Any = data.X
    tables = tables_of(model)
    if tables is not None:
        return score_tables(tables.bins, tables.grids, tables.weights, X)
    for transform in model.transforms:
        if isinstance(transform, LogColumns):
            continue  # the columns are encoded
        if not isinstance(transform, (ListRange, RunScores)):
            raise ModelError(
                f"this model reads raw columns ({type(transform).__name__}), not numeric features",
                fix="Give it the log it was trained on, or the same columns",
            )
        X = scale_lists(data, transform)
    return row_scores(X, model.to_dense())


def fit_columns(model: LinearModel, data: Dataset) -> Dataset:
    """The data with the model's columns in the model's order; names decide where both have them.

    Lists of a raw log that were encoded for another model are encoded again.
    """
    spec = next((one for one in model.transforms if isinstance(one, LogColumns)), None)
    if spec is not None and data.encoding is not None:
        return _encoded(spec, data)
    names = model.column_names
    if names is not None and data.feature_names is not None and names != data.feature_names:
        place = {name: j for j, name in enumerate(data.feature_names)}
        missing = [name for name in names if name not in place]
        if missing:
            raise FeatureMismatchError(
                f"the data lacks feature {missing[0]!r} of the model (and {len(missing) - 1} more)",
                fix="Score data with the features the model was trained on",
            )
        chosen = [place[name] for name in names]
        X = data.X[:, chosen]
        X = X if not isinstance(X, np.ndarray) else np.ascontiguousarray(X)
        return replace(data, X=X, feature_names=names, query_index=data.queries)
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


def _encoded(spec: LogColumns, data: Dataset) -> Dataset:
    """Lists of a raw log as the features of a spec."""
    if data.encoding.spec.read_columns == spec.read_columns:
        return data
    absent = [name for name in spec.columns if name not in data.columns]
    if absent:
        raise FeatureMismatchError(
            f"the log was read without column {absent[0]!r} of the model",
            fix="Read it for this model, or keep the column too (columns=[...])",
            column=absent[0],
        )
    columns: Any = data.columns
    if spec.tables:
        X: Any = LogEncoder(spec).matrix(columns, data.n_rows)
        return replace(data, X=X, feature_names=None, query_index=data.queries, encoding=None)
    rows = LogEncoder(spec).encode(columns, data.n_rows)
    X = make_csr(rows.values, rows.indices, rows.indptr, (data.n_rows, spec.n_features))
    return replace(data, X=X, feature_names=None, query_index=data.queries, encoding=None)
