"""Explanations of rows within their list, after the model's transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.core.specs import MissingValues
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import CsrRows, DenseRows
from rankine.model.explain import (
    Contribution,
    Explanation,
    contributions_at,
    explain_tables,
    values_at,
)
from rankine.model.tables import find_tables
from rankine.scoring.rows import CsrArrays, InputIssues
from rankine.scoring.scorer import Scorer
from rankine.transforms.missing import fill_missing, find_missing


class ListExplainer:
    """Explains rows of one list, in any form; what they share is worked out once."""

    def __init__(self, scorer: Scorer, rows: Any) -> None:
        self._model = scorer.model
        #: Row -> feature -> what its missing value adds.
        self._absent: dict[int, dict[int, float]] = {}
        self._rows = scorer.features(rows, InputIssues())  # noted where the rows were scored
        scorer.score(self._rows)  # refuses what cannot be scored, with its place
        found = self._rows
        self._size = len(found) if isinstance(found, np.ndarray) else len(found.indptr) - 1
        self._tables = find_tables(self._model)
        if scorer.run_scores is not None:
            self._rows = scorer.normalize_run_scores(found, np.array([0, self._size]))
        missing = self._model.missing
        if missing is not None:
            starts = np.array([0, self._size], dtype=np.int64)
            self._absent = _told(missing, found)
            self._rows, _ = fill_missing(missing, found, starts)
        if scorer.scales_lists:
            self._rows = _scaled(self._rows, self._size, self._model.n_features)

    def row(self, i: int) -> Explanation:
        """Why row ``i`` has its score."""
        return self._explain(self._values(i), None, self._absent.get(i, {}))

    def pair(self, a: int, b: int) -> Explanation:
        """Why row ``a`` stands above row ``b``."""
        absent = dict(self._absent.get(a, {}))
        for j, value in self._absent.get(b, {}).items():
            absent[j] = absent.get(j, 0.0) - value
        return self._explain(self._values(a), self._values(b), absent)

    def _explain(self, a: Any, b: Any, absent: dict[int, float]) -> Explanation:
        if self._tables is not None:
            return explain_tables(self._tables, a, b)
        found = contributions_at(self._model, a, b)
        if not any(absent.values()):
            return found
        more = [
            Contribution(f"{self._name(j)} missing", j, value, None, None, value)
            for j, value in absent.items()
            if value != 0
        ]
        terms = sorted([*found.contributions, *more], key=lambda term: -abs(term.contribution))
        total = math.fsum(term.contribution for term in terms)
        return Explanation(total, tuple(terms), found.pair)

    def _name(self, j: int) -> str:
        names = self._model.feature_names
        return str(j + self._model.base) if names is None else names[j]

    def _values(self, i: int) -> NDArray[np.float64]:
        if not 0 <= i < self._size:
            raise ParameterError(f"row {i} of a list of {self._size}", fix="Count rows from 0")
        if self._tables is not None:
            return _at_weights(self._rows, i, np.arange(len(self._tables.bins.cuts)))
        return _at_weights(self._rows, i, self._model.indices)


def _told(spec: MissingValues, rows: CsrArrays | NDArray[Any]) -> dict[int, dict[int, float]]:
    """What missing values add to scores, by row and feature."""
    places = find_missing(rows) if spec.rule == "indicator" else None
    if places is None:
        return {}
    known = dict(zip(spec.columns, spec.values, strict=True))
    found: dict[int, dict[int, float]] = {}
    for i, j in zip(places.rows.tolist(), places.columns.tolist(), strict=True):
        found.setdefault(i, {})[j] = known.get(j, 0.0)
    return found


def _scaled(
    rows: CsrArrays | NDArray[Any], n_rows: int, n_features: int
) -> CsrArrays | NDArray[np.float64]:
    """The list with each feature divided by its range."""
    starts = np.array([0, n_rows], dtype=np.int64)
    if isinstance(rows, np.ndarray):
        return list_range_values(DenseRows(rows), n_features, starts)
    return rows._replace(data=list_range_values(CsrRows(*rows), n_features, starts))


def _at_weights(
    rows: CsrArrays | NDArray[Any], i: int, indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Values of row i at the positions of the weights."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows[i, indices], dtype=np.float64)
    span = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
    return values_at(indices, rows.indices[span], rows.data[span])
