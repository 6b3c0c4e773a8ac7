"""Exact explanations of a score, and of the difference of two scores.

A linear score is a sum; its explanation is the list of the terms::

    f(x)         = sum_j w_j x_j
    f(a) - f(b)  = sum_j w_j (a_j - b_j)

Each term is the float64 product of the stored weight with the value (or with the difference of two
values). The total is ``math.fsum`` of the terms, the correctly rounded sum, which does not depend
on their order. A scorer adds the same products in another order, so its score may differ in the
last digits. Rows may be dense, sparse or named.
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
from rankine.model.covariance import Uncertainty
from rankine.model.linear import LinearModel
from rankine.model.tables import Tables, TableTerm, find_tables


def name_positions(model: LinearModel) -> dict[str, int]:
    """Map feature names to positions among the model's weights, -1 if the weight is zero.

    Features without names are identified by their index in text files, ``str(index + base)``, and
    included only if their weight is not zero.
    """
    names = model.feature_names
    positions: dict[str, int] = {}
    if names is not None:
        positions = dict.fromkeys(names, -1)
    positions.update({name: k for k, name in enumerate(model.weight_names)})
    return positions


def unknown_feature(model: LinearModel, name: object) -> FeatureMismatchError:
    """Build the error for a feature that the model does not have."""
    safe_name = printable(str(name))
    fix = "Check the spelling, or set unknown='zero' to count unknown features as zero"
    if isinstance(name, str) and model.feature_names is not None and len(name) <= 200:
        # Only for names of sensible length and the first names: the comparison is slow.
        import difflib

        close = difflib.get_close_matches(name, model.feature_names[:10_000])
        if close:
            fix = (
                f"Did you mean {printable(close[0])!r}? Otherwise set unknown='zero' to count "
                "unknown features as zero"
            )
    return FeatureMismatchError(f"the model has no feature {safe_name!r}", fix=fix)


def row_values(model: LinearModel, row: Any) -> NDArray[np.float64]:
    """Return the values of one dense, sparse or named row at the model's weights."""
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
            f"a row has shape {np.shape(row)}, and the model has {model.n_features} features",
            fix="Pass one value per feature of the model",
        )
    return values[model.indices]


def _sparse(model: LinearModel, row: Any) -> NDArray[np.float64]:
    matrix = row.tocsr()
    width = matrix.shape[-1]
    if width != model.n_features or int(np.prod(matrix.shape[:-1])) != 1:
        raise FeatureMismatchError(
            f"a row has shape {tuple(row.shape)}, and the model has {model.n_features} features",
            fix="Pass one row with the model's features",
        )
    return values_at(model.indices, matrix.indices, matrix.data)


def values_at(
    indices: NDArray[np.int64], columns: NDArray[Any], data: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the values of a sparse row at increasing positions; repeated columns are added."""
    # One binary search per stored value: rows have far fewer values than the model has weights.
    values = np.zeros(len(indices))
    positions = np.searchsorted(indices, columns)
    present = positions < len(indices)
    present[present] = indices[positions[present]] == columns[present]
    np.add.at(values, positions[present], data[present].astype(np.float64))
    return values


def _named(model: LinearModel, row: Mapping[Any, Any]) -> NDArray[np.float64]:
    positions = name_positions(model)
    all_names_known = model.feature_names is not None
    values = np.zeros(model.nnz)
    for name, value in row.items():
        k = positions.get(name)
        if k is None:
            if all_names_known:
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

    The term of a table is its entry (in a pair, the difference of two entries). Then ``where``
    describes the cell, ``other_where`` the other row's cell, ``weight`` is the entry of the
    explained row, ``index`` its position among the model's weights, and ``value`` the value of the
    column: a number or the name of a category (None if missing, or in a grid).
    """

    name: str
    index: int
    weight: float
    value: float | str | None
    other: float | str | None
    contribution: float
    where: str | None = None
    other_where: str | None = None


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
    uncertainty
        Of the difference of two scores, if the model was trained with intervals; else None.
    """

    total: float
    contributions: tuple[Contribution, ...]
    pair: bool = False
    uncertainty: Uncertainty | None = None

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the interval of the difference of the scores, ``total``."""
        return self._require_uncertainty().interval(self.total, level)

    @property
    def probability(self) -> float:
        """How likely row a scores above row b, P(a above b), over repetitions of the data."""
        return self._require_uncertainty().probability_positive(self.total)

    def _require_uncertainty(self) -> Uncertainty:
        if self.uncertainty is None:
            raise ModelError(
                "only differences of two rows have an interval, and only of models that were "
                "trained with intervals",
                fix="Train with fit(..., intervals=True) and use explain_pair",
            )
        return self.uncertainty

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Return data for JSON; ``rest`` is the sum of the contributions after ``limit``."""
        listed = self.contributions[:limit]
        hidden = self.contributions[len(listed) :]
        terms = [asdict(term) for term in listed]
        for term in terms:
            for name in ("where", "other_where"):
                if term[name] is None:
                    del term[name]
            if not self.pair:
                del term["other"]
        certainty: dict[str, Any] = {}
        if self.uncertainty is not None:
            low, high = self.interval()
            certainty = {"low": low, "high": high, "probability": self.probability}
        return {
            "total": self.total,
            "pair": self.pair,
            **certainty,
            "contributions": terms,
            "rest": math.fsum(term.contribution for term in hidden),
            "rest_count": len(hidden),
        }

    def text(self, limit: int | None = 10, width: int | None = None) -> str:
        """Format a table of at most ``width`` characters per line; names are made safe to print."""
        from rankine.model.show import explanation_text

        return explanation_text(self, limit, width)

    def __str__(self) -> str:
        return self.text()


def explain(model: LinearModel, a: Any, b: Any = None) -> Explanation:
    """Compute the contributions to the score of row a or, given b, to the difference of scores.

    A model that scales within lists needs the whole list: use ``Scorer.explain``.
    """
    tables = find_tables(model)
    if tables is not None:
        if b is not None:
            b = tables.row(b)
        return explain_tables(tables, tables.row(a), b)
    if model.transforms:
        kinds = ", ".join(type(spec).__name__ for spec in model.transforms)
        raise ModelError(
            f"this model transforms rows before its weights ({kinds})",
            fix="Use Scorer(model).explain(rows, i), which transforms the whole list",
        )
    if b is not None:
        b = row_values(model, b)
    return contributions_at(model, row_values(model, a), b)


def explain_tables(tables: Tables, a: Any, b: Any) -> Explanation:
    """Explain a score by the entries of all tables, or a difference by differences of entries."""
    terms = []
    # The difference as a combination of weights: 1 for the cells of a, -1 for those of b.
    positions: list[int] = []
    factors: list[float] = []
    for term in tables.terms:
        position = tables.positions(term, a)
        entry = float(term.values[position])
        contribution = entry
        where = _cell_text(term, position)
        other_where = None
        if b is not None:
            other_position = tables.positions(term, b)
            contribution = entry - float(term.values[other_position])
            other_where = _cell_text(term, other_position)
            if other_position != position:
                positions += [term.index(position), term.index(other_position)]
                factors += [1.0, -1.0]
        if contribution == 0.0:
            continue
        value: float | str | None = None
        other_value: float | str | None = None
        if len(term.columns) == 1:
            value = _column_value(tables, a, term.columns[0])
            other_value = _column_value(tables, b, term.columns[0])
        index = term.index(position)
        name = tables.name(term)
        terms.append(
            Contribution(name, index, entry, value, other_value, contribution, where, other_where)
        )
    for k, j in enumerate(tables.bins.linear):
        index = tables.linear_start + k
        weight = float(tables.weights[index])
        value, other_value = float(a[j]), None
        difference = value
        if b is not None:
            other_value = float(b[j])
            difference = value - other_value
            positions.append(index)
            factors.append(difference)
        contribution = weight * difference
        if contribution != 0.0:
            name = tables.column_name(j)
            terms.append(Contribution(name, index, weight, value, other_value, contribution))
    terms.sort(key=lambda term: -abs(term.contribution))
    total = math.fsum(term.contribution for term in terms)
    uncertainty = None
    if b is not None and tables.covariance is not None:
        uncertainty = tables.covariance.uncertainty(
            np.array(positions, dtype=np.int64), np.array(factors)
        )
    return Explanation(total, tuple(terms), b is not None, uncertainty)


def _cell_text(term: TableTerm, position: tuple[int, ...]) -> str:
    return ", ".join(labels[k] for labels, k in zip(term.labels, position, strict=True))


def _column_value(tables: Tables, row: Any, column: int) -> float | str | None:
    if row is None or np.isnan(row[column]):
        return None
    number = float(row[column])
    names = tables.texts.get(column)
    if names is None:
        return number
    # A value that training did not see has no name.
    return names[int(number)] if 0 <= number < len(names) else None


def contributions_at(model: LinearModel, values: Any, others: Any) -> Explanation:
    """Explain rows given by their values at the positions of the weights."""
    with np.errstate(over="ignore"):
        differences = values
        if others is not None:
            differences = values - others
        terms = model.values * differences
    if not np.isfinite(terms).all():
        raise SchemaError("a contribution overflows float64", fix="Scale the features")
    nonzero = np.flatnonzero(terms)
    largest_first = nonzero[np.argsort(-np.abs(terms[nonzero]), kind="stable")]
    contributions = tuple(
        Contribution(
            model.weight_names[k],
            int(model.indices[k]),
            float(model.values[k]),
            float(values[k]),
            None if others is None else float(others[k]),
            float(terms[k]),
        )
        for k in largest_first.tolist()
    )
    total = math.fsum(term.contribution for term in contributions)
    uncertainty = None
    if others is not None and model.covariance is not None:
        uncertainty = model.covariance.uncertainty(model.indices, differences)
    return Explanation(total, contributions, others is not None, uncertainty)
