"""A model on a dataset: checks that they belong together, runs its transforms, scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ModelError
from rankine.core.specs import ListRange, LogColumns, RunScores
from rankine.data.dataset import Dataset, row_scores
from rankine.model import LinearModel
from rankine.model.tables import tables_of
from rankine.transforms.bins import score_tables
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
        if isinstance(transform, LogColumns) and data.n_features == transform.n_features:
            continue  # the columns were encoded as the log was read
        if not isinstance(transform, (ListRange, RunScores)):
            raise ModelError(
                f"this model reads raw columns ({type(transform).__name__}), not numeric features",
                fix="Give it the log it was trained on, or the same columns",
            )
        X = scale_lists(data, transform)
    return row_scores(X, model.to_dense())


def fit_columns(model: LinearModel, data: Dataset) -> Dataset:
    """The data with the model's columns in the model's order; names decide where both have them."""
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
    if data.n_features != model.n_columns:
        raise FeatureMismatchError(
            f"the model has {model.n_columns} features and the data {data.n_features}",
            fix=f"Read the data with n_features={model.n_columns}, or use the matching model",
        )
    return data
