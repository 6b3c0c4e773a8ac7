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
from rankine.model.tables import Tables, find_tables


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

        close = difflib.get_close_matches(name, model.feature_names[:10_000])
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
    return values_at(model.indices, matrix.indices, matrix.data)


def values_at(
    indices: NDArray[np.int64], columns: NDArray[Any], data: NDArray[Any]
) -> NDArray[np.float64]:
    """Values of a sparse row at increasing positions."""
    values = np.zeros(len(indices))
    at = np.searchsorted(indices, columns)
    inside = at < len(indices)
    inside[inside] = indices[at[inside]] == columns[inside]
    np.add.at(values, at[inside], data[inside].astype(np.float64))
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
    """One term: ``contribution = weight * value``, or ``weight * (value - other)`` in a pair.

    The term of a table is its entry (in a pair, the difference of two entries); ``where`` then says
    which cell it is, ``weight`` is the entry of the row explained, ``index`` its place among the
    model's weights, and ``value`` is the column's value (None if missing, or in a grid).
    """

    name: str
    index: int
    weight: float
    value: float | None
    other: float | None
    contribution: float
    where: str | None = None


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
        for term in terms:
            if term["where"] is None:
                del term["where"]
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


def explain(model: LinearModel, a: Any, b: Any = None) -> Explanation:
    """Contributions to the score of row a, or, given b, to the difference of two scores.

    A model that scales each list cannot explain a row without it: ``Scorer.explain`` does that.
    """
    tables = find_tables(model)
    if tables is not None:
        return explain_tables(tables, tables.row(a), None if b is None else tables.row(b))
    if model.transforms:
        kinds = ", ".join(type(spec).__name__ for spec in model.transforms)
        raise ModelError(
            f"this model transforms rows before its weights ({kinds})",
            fix="Use Scorer(model).explain(rows, i), which runs the transforms on the whole list",
        )
    return contributions_at(
        model, row_values(model, a), None if b is None else row_values(model, b)
    )


def explain_tables(tables: Tables, a: Any, b: Any) -> Explanation:
    """Entries of every table at row a, or differences of entries at rows a and b."""
    terms = []
    for term in tables.terms:
        here = tables.places(term, a)
        there = None if b is None else tables.places(term, b)
        entry = float(term.values[here])
        gain = entry - (0.0 if there is None else float(term.values[there]))
        if gain != 0.0:
            where = [names[k] for names, k in zip(term.labels, here, strict=True)]
            versus = [] if there is None else [
                names[k] for names, k in zip(term.labels, there, strict=True)
            ]  # fmt: skip
            text = ", ".join(where) + (f"; not {', '.join(versus)}" if versus else "")
            index = term.start + int(np.ravel_multi_index(here, term.values.shape))
            single = term.columns[0] if len(term.columns) == 1 else None
            value, other = _plain(a, single), None if b is None else _plain(b, single)
            terms.append(Contribution(tables.name(term), index, entry, value, other, gain, text))
    for k, j in enumerate(tables.bins.linear):
        weight = float(tables.weights[tables.linear_start + k])
        gap = float(a[j]) if b is None else float(a[j]) - float(b[j])
        if weight * gap != 0.0:
            other = None if b is None else float(b[j])
            index = tables.linear_start + k
            terms.append(
                Contribution(tables.column_name(j), index, weight, float(a[j]), other, weight * gap)
            )
    terms.sort(key=lambda term: -abs(term.contribution))
    total = math.fsum(term.contribution for term in terms)
    return Explanation(total, tuple(terms), b is not None)


def _plain(row: Any, column: int | None) -> float | None:
    return None if column is None or np.isnan(row[column]) else float(row[column])


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
