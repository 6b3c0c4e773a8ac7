"""Explain rows within their list, after the model's transforms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.core.specs import MissingValues
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import CsrRows, DenseRows
from rankine.model.explain import (
    Contribution,
    contributions_at,
    explain_tables,
    values_at,
)
from rankine.model.tables import find_tables
from rankine.scoring.rows import CsrArrays, InputIssues, count_rows
from rankine.scoring.scorer import Scorer
from rankine.transforms.log_columns import feature_name
from rankine.transforms.missing import fill_missing, find_missing

if TYPE_CHECKING:
    from rankine.model.covariance import Uncertainty
    from rankine.model.explain import Explanation


class ListExplainer:
    """Explain rows of one list in any form. The list is read and transformed once."""

    def __init__(self, scorer: Scorer, rows: Any) -> None:
        self._model = scorer.model
        # A new object: the rows were counted when they were scored.
        features = scorer.features(rows, InputIssues())
        scorer.score(features)  # raises for rows that cannot be scored, with their number
        self._n_rows = count_rows(features)
        self._tables = find_tables(self._model)
        #: Row -> feature -> what its missing value adds.
        self._missing_terms: dict[int, dict[int, float]] = {}
        self._rows = features
        starts = np.array([0, self._n_rows], dtype=np.int64)
        if scorer.run_scores is not None:
            self._rows = scorer.normalize_run_scores(features, starts)
        missing = self._model.missing
        if missing is not None:
            self._missing_terms = _missing_value_terms(missing, features)
            self._rows, _ = fill_missing(missing, features, starts)
        if scorer.scales_lists:
            self._rows = _scale_list(self._rows, starts, self._model.n_features)

    def row(self, i: int) -> Explanation:
        """Explain the score of row ``i``."""
        return self._explain(self._values(i), None, self._missing_terms.get(i, {}))

    def pair(self, a: int, b: int) -> Explanation:
        """Explain the difference of the scores of rows ``a`` and ``b``."""
        missing_terms = dict(self._missing_terms.get(a, {}))
        for j, value in self._missing_terms.get(b, {}).items():
            missing_terms[j] = missing_terms.get(j, 0.0) - value
        explanation = self._explain(self._values(a), self._values(b), missing_terms)
        if explanation.uncertainty is None or self._tables is not None:
            return explanation
        return replace(explanation, uncertainty=self._uncertainty(a, b))

    def _uncertainty(self, a: int, b: int) -> Uncertainty:
        """Return that of the difference of two scores, with what their missing values add."""
        model: Any = self._model
        positions, factors = model.indices, self._values(a) - self._values(b)
        if self._missing_terms:
            rows = [self._missing_terms.get(i, {}) for i in (a, b)]
            columns = model.missing.columns
            indicators = [float(j in rows[0]) - float(j in rows[1]) for j in columns]
            positions = np.concatenate([positions, model.n_features + np.arange(len(columns))])
            factors = np.concatenate([factors, indicators])
        return model.covariance.uncertainty(positions, factors)

    def _explain(self, a: Any, b: Any, missing_terms: dict[int, float]) -> Explanation:
        if self._tables is not None:
            return explain_tables(self._tables, a, b)
        explanation = contributions_at(self._model, a, b)
        if not any(missing_terms.values()):
            return explanation
        terms = list(explanation.contributions)
        for j, value in missing_terms.items():
            if value != 0:
                name = f"{self._name(j)} missing"
                terms.append(Contribution(name, j, value, None, None, value))
        terms.sort(key=lambda term: -abs(term.contribution))
        total = math.fsum(term.contribution for term in terms)
        return replace(explanation, total=total, contributions=tuple(terms))

    def _name(self, j: int) -> str:
        return feature_name(self._model, j) or str(j + self._model.base)

    def _values(self, i: int) -> NDArray[np.float64]:
        if not 0 <= i < self._n_rows:
            raise ParameterError(
                f"the list has {self._n_rows} rows, and row {i} is not among them",
                fix="Number rows from 0",
            )
        if self._tables is not None:
            return _at_weights(self._rows, i, np.arange(len(self._tables.bins.cuts)))
        return _at_weights(self._rows, i, self._model.indices)


def _missing_value_terms(
    spec: MissingValues, rows: CsrArrays | NDArray[Any]
) -> dict[int, dict[int, float]]:
    """Return what missing values add to scores, by row and feature."""
    missing = find_missing(rows) if spec.rule == "indicator" else None
    if missing is None:
        return {}
    added = dict(zip(spec.columns, spec.values, strict=True))
    terms: dict[int, dict[int, float]] = {}
    for i, j in zip(missing.rows.tolist(), missing.columns.tolist(), strict=True):
        terms.setdefault(i, {})[j] = added.get(j, 0.0)
    return terms


def _scale_list(
    rows: CsrArrays | NDArray[Any], starts: NDArray[np.int64], n_features: int
) -> CsrArrays | NDArray[np.float64]:
    """Divide each feature by its range within the list."""
    if isinstance(rows, np.ndarray):
        return list_range_values(DenseRows(rows), n_features, starts)
    return rows._replace(data=list_range_values(CsrRows(*rows), n_features, starts))


def _at_weights(
    rows: CsrArrays | NDArray[Any], i: int, indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the values of row i at the positions of the weights."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows[i, indices], dtype=np.float64)
    span = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
    return values_at(indices, rows.indices[span], rows.data[span])
