"""Score rows by tables: one search in the sorted cuts per column, then look-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.core.safe_text import printable
from rankine.kernels.binned import block_scores
from rankine.kernels.compile import jit
from rankine.model import LinearModel
from rankine.model.tables import Tables
from rankine.scoring.rows import (
    NUMBERS,
    CsrArrays,
    InputIssues,
    RawColumns,
    checked_csr,
    is_list_of_dicts,
    raise_not_finite,
    uniform_rows,
)
from rankine.transforms.bins import CHUNK_ROWS, code_rows, cut_search, layout_of
from rankine.transforms.log_columns import LogEncoder


@jit
def _table_scores(values: Any, search: Any, layout: Any, table: Any, out: Any) -> None:
    """Set out[i] to the sum of all table entries of row i."""
    codes = np.empty((values.shape[1], CHUNK_ROWS), dtype=np.uint8)
    for first in range(0, values.shape[0], CHUNK_ROWS):
        n = min(CHUNK_ROWS, values.shape[0] - first)
        code_rows(values[first : first + n], search, codes)
        scores = out[first : first + n]
        scores[:] = 0.0
        block_scores(codes, n, layout, table, scores)


class TableScores:
    """Compute f(x), the sum of the entries of all tables at x, for rows of the model's columns."""

    def __init__(self, model: LinearModel, tables: Tables) -> None:
        bins, grids, weights = tables.bins, tables.grids, tables.weights
        layout = layout_of(bins, grids)
        self.model = model
        self.n_columns = len(bins.cuts)
        self._linear = np.array(bins.linear, dtype=np.int64)
        self._linear_weights = weights[layout.size :]
        # Columns whose entries are all zero are not searched.
        is_used = np.zeros(self.n_columns, dtype=np.bool_)
        is_used[layout.firsts] = is_used[layout.seconds] = True
        for j, size in enumerate(bins.n_cells):
            start = layout.starts[j]
            is_used[j] |= weights[start : start + size].any()
        self._search = cut_search(bins, is_used)
        self._layout = layout._replace(starts=np.where(is_used, layout.starts, -1))
        self._table = np.ascontiguousarray(weights[: layout.size])

    def dense(self, rows: NDArray[Any], _starts: Any = None) -> NDArray[np.float64]:
        """Score a C-ordered matrix; NaN is a missing value."""
        out = np.empty(rows.shape[0])
        _table_scores(rows, self._search, self._layout, self._table, out)
        if len(self._linear):
            for j, weight in zip(self._linear, self._linear_weights, strict=True):
                out += weight * rows[:, j]
            if not np.isfinite(out).all():
                raise_not_finite(self.model, rows, out)
        return out

    def csr(self, rows: CsrArrays, _starts: Any = None) -> NDArray[np.float64]:
        """Score compressed rows; values that are not stored are 0."""
        return self.dense(self.to_matrix(rows))

    def to_matrix(self, rows: CsrArrays) -> NDArray[np.float64]:
        """Return compressed rows as a matrix, after checking offsets and indices."""
        rows = checked_csr(rows, self.n_columns)
        n_rows = len(rows.indptr) - 1
        matrix = np.zeros((n_rows, self.n_columns))
        matrix[np.repeat(np.arange(n_rows), np.diff(rows.indptr)), rows.indices] = rows.data
        return matrix


class TableRows:
    """Read named rows for a model of tables; a column that a row lacks is a missing value."""

    def __init__(
        self,
        tables: Tables,
        scores: TableScores,
        unknown: str,
        strict: bool,
        encoder: LogEncoder | None = None,
    ) -> None:
        bins = tables.bins
        self._encoder = encoder
        self._scores = scores
        self._column_numbers = {tables.column_name(j): j for j in range(len(bins.cuts))}
        self._empty_row = np.full(len(bins.cuts), np.nan)
        self._empty_row[list(bins.linear)] = 0.0
        #: Names of all columns.
        self.required = tuple(self._column_numbers)
        allowed = self.required if encoder is None else encoder.known
        self._columns = RawColumns(allowed, self.required, unknown, strict)

    def score(self, rows: Sequence[Mapping[str, Any]], issues: InputIssues) -> NDArray[np.float64]:
        """Score dictionaries."""
        return self._scores.dense(self.to_rows(rows, issues))

    def to_rows(self, rows: Any, issues: InputIssues) -> NDArray[np.float64]:
        """Return dictionaries, columns or a data frame as a matrix."""
        if self._encoder is None and is_list_of_dicts(rows):
            uniform = uniform_rows(rows, self._column_numbers)
            if uniform is not None and len(uniform[0]) == len(self._column_numbers):
                names, numbers = uniform
                matrix = np.empty(numbers.shape)
                matrix[:, [self._column_numbers[name] for name in names]] = numbers
                return matrix
        columns, n_rows = self._columns.read(rows, issues)
        if self._encoder is not None:
            return self._encoder.matrix(columns, n_rows)
        matrix = np.tile(self._empty_row, (n_rows, 1))
        for name, values in columns.items():
            j = self._column_numbers[name]
            matrix[:, j] = [self._number(name, x, i, j) for i, x in enumerate(values)]
        return matrix

    def _number(self, name: str, value: Any, i: int, j: int) -> float:
        if value is None:
            return float(self._empty_row[j])
        if isinstance(value, NUMBERS):
            return float(value)
        raise SchemaError(
            f"column {printable(name)!r} is {printable(repr(value), 40)}, not a number",
            fix="Send numbers, and null where a value is missing",
            row=i,
        )
