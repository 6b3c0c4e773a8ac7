"""Explanations of rows within their list, after the model's transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import CsrRows, DenseRows
from rankine.model.explain import Explanation, contributions_at, explain_tables, values_at
from rankine.model.tables import tables_of
from rankine.scoring.rows import Notes, Parts
from rankine.scoring.scorer import Scorer


class ListExplainer:
    """Explains rows of one list, in any form; what they share is worked out once."""

    def __init__(self, scorer: Scorer, rows: Any) -> None:
        self._model = scorer.model
        self._rows = scorer.features(rows, Notes())  # noted where the rows were scored
        scorer.score(self._rows)  # refuses what cannot be scored, with its place
        found = self._rows
        self._size = len(found) if isinstance(found, np.ndarray) else len(found.indptr) - 1
        self._tables = tables_of(self._model)
        if scorer.run_scores is not None:
            self._rows = scorer.fused_features(found, np.array([0, self._size]))
        elif scorer.scales_lists:
            self._rows = _scaled(found, self._size, self._model.n_features)

    def row(self, i: int) -> Explanation:
        """Why row ``i`` has its score."""
        return self._explain(self._values(i), None)

    def pair(self, a: int, b: int) -> Explanation:
        """Why row ``a`` stands above row ``b``."""
        return self._explain(self._values(a), self._values(b))

    def _explain(self, a: Any, b: Any) -> Explanation:
        if self._tables is not None:
            return explain_tables(self._tables, a, b)
        return contributions_at(self._model, a, b)

    def _values(self, i: int) -> NDArray[np.float64]:
        if not 0 <= i < self._size:
            raise ParameterError(f"row {i} of a list of {self._size}", fix="Count rows from 0")
        if self._tables is not None:
            return _at_weights(self._rows, i, np.arange(len(self._tables.bins.cuts)))
        return _at_weights(self._rows, i, self._model.indices)


def _scaled(
    rows: Parts | NDArray[Any], n_rows: int, n_features: int
) -> Parts | NDArray[np.float64]:
    """The list with each feature divided by its range."""
    starts = np.array([0, n_rows], dtype=np.int64)
    if isinstance(rows, np.ndarray):
        return list_range_values(DenseRows(rows), n_features, starts)
    return rows._replace(data=list_range_values(CsrRows(*rows), n_features, starts))


def _at_weights(
    rows: Parts | NDArray[Any], i: int, indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Values of row i at the positions of the weights."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows[i, indices], dtype=np.float64)
    span = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
    return values_at(indices, rows.indices[span], rows.data[span])
