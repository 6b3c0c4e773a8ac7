"""Why a row has its score, and why one row stands above another: exactly.

A linear score is a sum, so its explanation is the sum's terms::

    f(x)         = sum_j w_j x_j
    f(a) - f(b)  = sum_j w_j (a_j - b_j)

Each term is the float64 product of the stored weight with the value (or with the difference of the
two values), and the total is ``math.fsum`` of the terms: the correctly rounded sum, the same for
any order of the terms. A scorer adds the same products in another order, so that its score may
differ in the last digits. Rows may be dense, sparse or named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ModelError, SchemaError
from rankine.core.safe_text import printable
from rankine.model.linear import LinearModel

__all__ = [
    "Contribution",
    "Explanation",
    "contributions_at",
    "explain",
    "explain_pair",
    "name_positions",
    "row_values",
    "unknown_feature",
]


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


@dataclass(frozen=True, slots=True)
class Contribution:
    """One term: ``contribution = weight * value``, or ``weight * (value - other)`` in a pair."""

    name: str
    index: int
    weight: float
    value: float
    other: float | None
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """Terms of a score or of a difference of scores.

    Attributes
    ----------
    total
        ``math.fsum`` of the contributions: the score, or score of a minus score of b.
    contributions
        Non-zero terms, largest magnitude first; equal magnitudes in feature order.
    pair
        Whether this compares two rows.
    """

    total: float
    contributions: tuple[Contribution, ...]
    pair: bool = False

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Plain data for JSON; ``rest`` is the sum of the contributions beyond ``limit``."""
        shown = self.contributions[:limit]
        rest = self.contributions[len(shown) :]
        terms = [asdict(term) for term in shown]
        if not self.pair:
            for term in terms:
                del term["other"]
        return {
            "total": self.total,
            "pair": self.pair,
            "contributions": terms,
            "rest": math.fsum(term.contribution for term in rest),
            "rest_count": len(rest),
        }

    def text(self, limit: int | None = 10) -> str:
        """Plain table, safe to print whatever the features are called."""
        from rankine.model.show import explanation_text

        return explanation_text(self, limit)

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> Any:
        from rankine.model.show import explanation_table

        return explanation_table(self)


def explain(model: LinearModel, x: Any, *, transformed: bool = False) -> Explanation:
    """Contributions w_j x_j to the score of one row.

    Parameters
    ----------
    x
        Dense row, sparse row, or dictionary of named features.
    transformed
        The row has already gone through the model's transforms. A model that scales each list
        cannot explain a row without its list: ``Scorer.explain`` does that.
    """
    _check_plain(model, transformed)
    values = row_values(model, x)
    return contributions_at(model, values, None)


def explain_pair(model: LinearModel, a: Any, b: Any, *, transformed: bool = False) -> Explanation:
    """Contributions w_j (a_j - b_j) to the difference of two scores: why a stands above b."""
    _check_plain(model, transformed)
    return contributions_at(model, row_values(model, a), row_values(model, b))


def contributions_at(model: LinearModel, values: Any, others: Any) -> Explanation:
    """Explain values that already stand at the positions of the weights."""
    with np.errstate(over="ignore"):
        gap = values if others is None else values - others
        terms = model.values * gap
    if not np.isfinite(terms).all():
        raise SchemaError(
            "a contribution is beyond the floating-point numbers", fix="Scale the features"
        )
    kept = np.flatnonzero(terms)
    kept = kept[np.argsort(-np.abs(terms[kept]), kind="stable")]
    contributions = tuple(
        Contribution(
            model.weight_names[k],
            int(model.indices[k]),
            float(model.values[k]),
            float(values[k]),
            None if others is None else float(others[k]),
            float(terms[k]),
        )
        for k in kept.tolist()
    )
    total = math.fsum(term.contribution for term in contributions)
    return Explanation(total, contributions, others is not None)


def _check_plain(model: LinearModel, transformed: bool) -> None:
    if model.transforms and not transformed:
        kinds = ", ".join(type(spec).__name__ for spec in model.transforms)
        raise ModelError(
            f"this model transforms rows before its weights ({kinds})",
            fix="Use Scorer(model).explain(rows, i), which runs the transforms on the whole list",
        )
