"""Rows as users hold them, read at the positions of a model's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, SchemaError
from rankine.core.printable import printable
from rankine.model.linear import LinearModel

__all__ = ["name_positions", "row_values", "unknown_feature"]


def name_positions(model: LinearModel) -> dict[str, int]:
    """Name of a feature -> its position among the model's weights, -1 where the weight is zero.

    Features without names are known by their index in text files, ``str(index + base)``; those are
    listed only for the non-zero weights.
    """
    names = model.feature_names
    positions = {} if names is None else dict.fromkeys(names, -1)
    positions.update({name: k for k, name in enumerate(model.weight_names)})
    return positions


def unknown_feature(model: LinearModel, name: object) -> FeatureMismatchError:
    """The error for a feature the model has never seen."""
    shown = printable(str(name))
    hint = "Check the spelling, or ask for unknown features to count as zero"
    if isinstance(name, str) and model.feature_names is not None and len(name) <= 200:
        import difflib

        close = difflib.get_close_matches(name, model.feature_names[:10_000], n=1)
        if close:
            hint = f"Did you mean {printable(close[0])!r}? Or ask for unknown features to be zero"
    return FeatureMismatchError(f"the model knows no feature {shown!r}", fix=hint)


def row_values(model: LinearModel, row: Any) -> NDArray[np.float64]:
    """Values of one row at the model's weights; the row may be dense, sparse or named."""
    if isinstance(row, Mapping):
        values = _named(model, row)
    elif hasattr(row, "tocsr"):
        values = _sparse(model, row)
    else:
        values = _dense(model, row)
    if not np.isfinite(values).all():
        k = int(np.flatnonzero(~np.isfinite(values))[0])
        raise SchemaError(
            f"feature {printable(model.weight_names[k])!r} is {values[k]}",
            fix="Impute missing values as in training",
        )
    return values


def _dense(model: LinearModel, row: Any) -> NDArray[np.float64]:
    values = np.asarray(row, dtype=np.float64)
    if values.ndim == 2 and values.shape[0] == 1:
        values = values[0]
    if values.shape != (model.n_features,):
        raise FeatureMismatchError(
            f"a row of shape {np.shape(row)} for a model of {model.n_features} features",
            fix="Pass one value per feature of the model",
        )
    return values[model.indices]


def _sparse(model: LinearModel, row: Any) -> NDArray[np.float64]:
    matrix = row.tocsr()
    width = matrix.shape[-1]
    if width != model.n_features or int(np.prod(matrix.shape[:-1])) != 1:
        raise FeatureMismatchError(
            f"a row of shape {tuple(row.shape)} for a model of {model.n_features} features",
            fix="Pass one row over the model's features",
        )
    values = np.zeros(model.nnz)
    at = np.searchsorted(model.indices, matrix.indices)
    inside = at < model.nnz
    inside[inside] = model.indices[at[inside]] == matrix.indices[inside]
    np.add.at(values, at[inside], np.asarray(matrix.data, dtype=np.float64)[inside])
    return values


def _named(model: LinearModel, row: Mapping[Any, Any]) -> NDArray[np.float64]:
    positions = name_positions(model)
    closed = model.feature_names is not None
    values = np.zeros(model.nnz)
    for name, value in row.items():
        k = positions.get(name)
        if k is None:
            if closed:
                raise unknown_feature(model, name)
            continue
        if not isinstance(value, (int, float, np.number, np.bool_)):
            raise SchemaError(
                f"feature {printable(str(name))!r} is not a number", fix="Pass real numbers"
            )
        if k >= 0:
            values[k] = float(value)
    return values
