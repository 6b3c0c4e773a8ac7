"""Scores of raw rows by tables: one search in sorted cuts a column, then look-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, SchemaError
from rankine.core.safe_text import printable
from rankine.kernels.compile import jit
from rankine.model import LinearModel
from rankine.model.tables import Tables
from rankine.scoring.rows import Notes, Parts, RawColumns, refuse_scores
from rankine.transforms.bins import cut_search, guided_cell, layout_of, named_cell, sought_cell
from rankine.transforms.log_columns import LogEncoder


@jit
def _table_scores(
    values: Any,
    cuts: Any,
    guide: Any,
    spans: Any,
    facts: Any,
    guided: Any,
    sought: Any,
    named: Any,
    table: Any,
    pairs: Any,
    places: Any,
    out: Any,
) -> None:
    """out_i = sum of all table entries of row i.

    ``spans[j]`` is where buckets begin and how many there are per unit, ``facts[j]`` the cell of
    missing values and the start of the table, ``pairs[g]`` both columns and the start of a grid.
    """
    cells = np.empty(values.shape[1], dtype=np.uint8)
    for i in range(values.shape[0]):
        total = 0.0
        for j in guided:
            x = np.float64(values[i, j])
            cell = guided_cell(x, cuts, guide, spans[j, 0], spans[j, 1], j, facts[j, 0])
            cells[j] = cell
            total += table[facts[j, 1] + cell]
        for j in sought:
            cell = sought_cell(np.float64(values[i, j]), cuts, j, facts[j, 0])
            cells[j] = cell
            total += table[facts[j, 1] + cell]
        for j in named:
            cell = named_cell(np.float64(values[i, j]), cuts, j, facts[j, 0])
            cells[j] = cell
            total += table[facts[j, 1] + cell]
        for g in range(pairs.shape[0]):
            first, second = places[2 * g, cells[pairs[g, 0]]], places[2 * g + 1, cells[pairs[g, 1]]]
            total += table[pairs[g, 2] + np.uint64(first) + np.uint64(second)]
        out[i] = total


class TableScores:
    """f(x) = sum of the entries of all tables at x, for rows over the model's columns."""

    def __init__(self, model: LinearModel, tables: Tables) -> None:
        bins, grids, weights = tables.bins, tables.grids, tables.weights
        search, layout = cut_search(bins), layout_of(bins, grids)
        self.model = model
        self.n_columns = len(bins.cuts)
        self._linear = np.array(bins.linear, dtype=np.int64)
        self._linear_weights = weights[layout.size :]
        used = np.zeros(self.n_columns, dtype=np.bool_)
        used[layout.firsts] = used[layout.seconds] = True
        for j, size in enumerate(bins.n_cells):
            start = layout.starts[j]
            used[j] |= size > 0 and bool(weights[start : start + size].any())
        facts = np.column_stack([search.sizes + 1, layout.starts])
        pairs = np.column_stack([layout.firsts, layout.seconds, layout.grid_starts])
        self._arguments = (
            search.cuts,
            search.guide,
            np.column_stack([search.low, search.scale]),
            facts.astype(np.uint64),
            search.guided[used[search.guided]],
            search.sought[used[search.sought]],
            search.named[used[search.named]],
            np.ascontiguousarray(weights[: layout.size]),
            pairs.astype(np.uint64),
            layout.places,
        )

    def dense(self, rows: NDArray[Any], _starts: Any = None) -> NDArray[np.float64]:
        """Scores of a C-ordered matrix; NaN is a missing value."""
        out = np.empty(rows.shape[0])
        _table_scores(rows, *self._arguments, out)
        if len(self._linear):
            for j, weight in zip(self._linear, self._linear_weights, strict=True):
                out += weight * rows[:, j]
            if not np.isfinite(out).all():
                refuse_scores(self.model, rows, out)
        return out

    def csr(self, parts: Parts, _starts: Any = None) -> NDArray[np.float64]:
        """Scores of compressed rows; an absent value is 0."""
        return self.dense(self.rows(parts))

    def rows(self, parts: Parts) -> NDArray[np.float64]:
        """Compressed rows as a matrix."""
        n_rows = len(parts.indptr) - 1
        counts = np.diff(parts.indptr)
        stored = slice(int(parts.indptr[0]), int(parts.indptr[-1]))
        indices = parts.indices[stored]
        fits = len(parts.data) >= stored.stop and (counts >= 0).all() and stored.start >= 0
        if not fits or (len(indices) and not 0 <= indices.min() <= indices.max() < self.n_columns):
            raise FeatureMismatchError(
                f"compressed rows do not fit a model of {self.n_columns} columns",
                fix="Read the data with the model's columns and index base",
            )
        matrix = np.zeros((n_rows, self.n_columns))
        matrix[np.repeat(np.arange(n_rows), counts), indices] = parts.data[stored]
        return matrix


class TableRows:
    """Reads named rows for a model of tables; a column that a row lacks is missing there."""

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
        self._places = {tables.column_name(j): j for j in range(len(bins.cuts))}
        self._blank = np.full(len(bins.cuts), np.nan)
        self._blank[list(bins.linear)] = 0.0
        #: Names of all columns.
        self.required = tuple(self._places)
        known = self.required if encoder is None else encoder.known
        self._columns = RawColumns(known, self.required, unknown, strict)

    def score(self, rows: Sequence[Mapping[str, Any]], notes: Notes) -> NDArray[np.float64]:
        """Scores of dictionaries."""
        return self._scores.dense(self.to_rows(rows, notes))

    def to_rows(self, rows: Any, notes: Notes) -> NDArray[np.float64]:
        """A matrix from dictionaries, columns or a data frame."""
        columns, n_rows = self._columns.read(rows, notes)
        if self._encoder is not None:
            return self._encoder.matrix(columns, n_rows)
        matrix = np.tile(self._blank, (n_rows, 1))
        for name, values in columns.items():
            j = self._places[name]
            matrix[:, j] = [self._number(name, x, i, j) for i, x in enumerate(values)]
        return matrix

    def _number(self, name: str, value: Any, i: int, j: int) -> float:
        if value is None:
            return float(self._blank[j])
        if isinstance(value, (int, float, np.number, np.bool_)) and not isinstance(value, complex):
            return float(value)
        raise SchemaError(
            f"column {printable(name)!r} of row {i} is {printable(repr(value), 40)}",
            fix="Send numbers, and null where a value is missing",
        )
