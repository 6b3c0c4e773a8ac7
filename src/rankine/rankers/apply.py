"""A saved model on a dataset: checks that they belong together, then scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ModelError
from rankine.core.specs import ListRange, LogColumns
from rankine.data.dataset import row_scores
from rankine.transforms.scaling import scale_lists

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.model import LinearModel

__all__ = ["fit_columns", "read_for", "score_dataset"]


def score_dataset(model: LinearModel, data: Dataset) -> NDArray[np.float64]:
    """Scores in row order, running the transforms that the model carries."""
    data = fit_columns(model, data)
    X: Any = data.X
    for transform in model.transforms:
        if isinstance(transform, LogColumns) and data.n_features == transform.n_features:
            continue  # the columns were encoded as the log was read
        if not isinstance(transform, ListRange):
            raise ModelError(
                f"this model reads raw columns ({type(transform).__name__}), not numeric features",
                fix="Give it the log it was trained on, or the same columns",
            )
        X = scale_lists(data)
    return row_scores(X, model.to_dense())


def read_for(model: LinearModel, path: Any, *, stream: bool = False, **options: Any) -> Any:
    """Data as a model reads it: a ``Dataset``, or a stream of them.

    A model of a raw log reads its own columns, encoded as in training; its query column and label
    formula stand in for the defaults ``query="qid"`` and ``label="label"``. Other models read
    files as ``rankine.load`` and ``rankine.scan`` do, with the width and index base of the model.
    """
    spec = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if spec is None:
        from rankine.data.open import load, scan

        options = {"base": model.base, **options}
        if model.feature_names is None:
            options = {"n_features": model.n_features, **options}
        return scan(path, **options) if stream else load(path, **options)
    from rankine.rankers.log_data import scan_log_of

    log = scan_log_of(model.parameters.get("log", {}), spec, path, **options)
    return log if stream else log.load()


def fit_columns(model: LinearModel, data: Dataset) -> Dataset:
    """The data with the model's columns in the model's order; names decide where both have them."""
    names = model.feature_names
    if names is not None and data.feature_names is not None and names != data.feature_names:
        place = {name: j for j, name in enumerate(data.feature_names)}
        missing = [name for name in names if name not in place]
        if missing:
            raise FeatureMismatchError(
                f"the data lacks feature {missing[0]!r} of the model (and {len(missing) - 1} more)",
                fix="Score data with the features the model was trained on",
            )
        from dataclasses import replace

        chosen = [place[name] for name in names]
        X = data.X[:, chosen]
        X = X if not isinstance(X, np.ndarray) else np.ascontiguousarray(X)
        return replace(data, X=X, feature_names=names, query_index=data.queries)
    if data.n_features != model.n_features:
        raise FeatureMismatchError(
            f"the model has {model.n_features} features and the data {data.n_features}",
            fix=f"Read the data with n_features={model.n_features}, or use the matching model",
        )
    return data
