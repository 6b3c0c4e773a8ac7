"""Models of tables: which cell a row falls into, and what each table adds to its score.

A model whose transforms hold ``Bins`` has a weight for every cell of every column, then for every
cell of the grids, then for the columns that stay linear. Its score is a sum of entries, so the
explanation of a score is the list of these entries, in the columns that users know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError
from rankine.core.specs import Bins, GridAxis, Grids, LogColumns

if TYPE_CHECKING:
    from rankine.model.linear import LinearModel


@dataclass(frozen=True, eq=False)
class TableTerm:
    """One table: the curve of a column (one axis), or the grid of a pair (two).

    Attributes
    ----------
    columns
        Columns it reads.
    labels
        For each column, what each place of the table holds, such as ``3 <= price < 4``.
    values
        Entries, one dimension a column; missing values stand last.
    start
        Index of the first entry among the model's weights.
    """

    columns: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]
    values: NDArray[np.float64]
    start: int


class Test(NamedTuple):
    """A value that ``asks`` (``missing``, ``=`` or ``<`` a cut, ``other``) stands at a place."""

    asks: str
    cut: float
    place: int


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a model."""

    bins: Bins
    grids: Grids | None
    weights: NDArray[np.float64]
    base: int
    #: Texts that the numbers of a column stand for, by column.
    texts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def terms(self) -> list[TableTerm]:
        """All tables, curves first, in the order of the weights."""
        terms, start = [], 0
        for j, size in enumerate(self.bins.n_cells):
            if size:
                labels = tuple(self.cell_label(j, c) for c in range(size))
                terms.append(TableTerm((j,), (labels,), self.weights[start : start + size], start))
            start += size
        grids = self.grids or Grids((), ())
        for first, second in ((grids.axes[a], grids.axes[b]) for a, b in grids.pairs):
            shape = first.size, second.size
            values = self.weights[start : start + shape[0] * shape[1]].reshape(shape)
            sides = self.axis_labels(first), self.axis_labels(second)
            terms.append(TableTerm((first.column, second.column), sides, values, start))
            start += values.size
        return terms

    @property
    def linear_start(self) -> int:
        """Index of the first weight of a linear column."""
        grids = 0 if self.grids is None else sum(self.grids.n_cells)
        return sum(self.bins.n_cells) + grids

    def ranges(self) -> list[tuple[str, float]]:
        """Name and range of every table, weights of linear columns too, largest first."""
        found = [(self.name(term), float(np.ptp(term.values))) for term in self.terms]
        for k, j in enumerate(self.bins.linear):
            found.append((self.column_name(j), abs(float(self.weights[self.linear_start + k]))))
        return sorted(found, key=lambda one: -one[1])

    def column_name(self, j: int) -> str:
        """Name of a column; its number in text files where columns have no names."""
        return str(j + self.base) if self.bins.names is None else self.bins.names[j]

    def name(self, term: TableTerm) -> str:
        """A column's name, or two names joined by ``x``."""
        return " x ".join(self.column_name(j) for j in term.columns)

    def cells(self, j: int, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Cells of values of column j."""
        cuts = np.array(self.bins.cuts[j])
        found = np.searchsorted(cuts, x, side="right")
        if j in self.bins.unordered and len(cuts):
            known = cuts[np.maximum(found - 1, 0)] == x
            found = np.where(known, found - 1, len(cuts))
        return np.where(np.isnan(x), len(cuts) + 1, found)

    def _number(self, j: int, value: Any) -> float:
        """A value of column j as the number that cells are found by."""
        if j not in self.texts:
            return math.nan if value is None else float(value)
        known = {"": math.nan, **{text: float(k) for k, text in enumerate(self.texts[j])}}
        return known.get("" if value is None else str(value), math.inf)

    def tests(self, j: int, places: Sequence[int] | None = None) -> list[Test]:
        """How a value of column j is asked for its place, in order; the last is for all others.

        ``places`` are those of the column's cells on a side of a grid; None takes the cells.
        """
        cuts = self.bins.cuts[j]
        to = range(len(cuts) + 2) if places is None else places
        found = [Test("missing", 0.0, to[len(cuts) + 1])]
        if j in self.bins.unordered:
            found += [Test("=", cut, to[k]) for k, cut in enumerate(cuts) if to[k] != to[len(cuts)]]
        else:
            found += [Test("<", cut, to[k]) for k, cut in enumerate(cuts) if to[k] != to[k + 1]]
        return [*found, Test("other", 0.0, to[len(cuts)])]

    def parts(self, X: Any) -> tuple[list[str], NDArray[np.float64]]:
        """What every table, and every linear column, adds to the score of every row."""
        axes = {axis.column: np.array(axis.cells) for axis in self.grids.axes} if self.grids else {}

        def column(j: int) -> NDArray[np.float64]:
            values = X[:, [j]]
            dense = values.toarray() if hasattr(values, "toarray") else values
            return np.asarray(dense, dtype=np.float64).ravel()

        names, found = [], []
        for term in self.terms:
            cells = [self.cells(j, column(j)) for j in term.columns]
            if len(cells) == 2:
                cells = [axes[j][c] for j, c in zip(term.columns, cells, strict=True)]
            names.append(self.name(term))
            found.append(term.values[tuple(cells)])
        for k, j in enumerate(self.bins.linear):
            names.append(self.column_name(j))
            found.append(self.weights[self.linear_start + k] * column(j))
        return names, np.column_stack(found)

    def places(self, term: TableTerm, row: NDArray[np.float64]) -> tuple[int, ...]:
        """Where a row falls in a table."""
        cells = [int(self.cells(j, row[[j]])[0]) for j in term.columns]
        if len(cells) == 1:
            return (cells[0],)
        axes = {axis.column: axis for axis in self.grids.axes} if self.grids else {}
        return tuple(axes[j].cells[c] for j, c in zip(term.columns, cells, strict=True))

    def cell_label(self, j: int, cell: int) -> str:
        """What a cell of a column holds."""
        return self._span_label(j, cell, cell)

    def value(self, j: int, cell: int) -> str:
        """The value that a cell of an unordered column holds."""
        cut = self.bins.cuts[j][cell]
        return self.texts[j][int(cut)] if j in self.texts else f"{cut:g}"

    def axis_labels(self, axis: GridAxis) -> tuple[str, ...]:
        """What each place on a side of a grid holds."""
        cells = np.array(axis.cells)
        spans = [np.flatnonzero(cells == place) for place in range(axis.size)]
        if axis.column not in self.bins.unordered:
            return tuple(self._span_label(axis.column, int(s[0]), int(s[-1])) for s in spans)
        known = len(self.bins.cuts[axis.column])
        return tuple(
            f"{self.column_name(axis.column)} other" if known in s
            else self.cell_label(axis.column, int(s[0]))
            for s in spans
        )  # fmt: skip

    def _span_label(self, j: int, first: int, last: int) -> str:
        cuts, name = self.bins.cuts[j], self.column_name(j)
        if last == len(cuts) + 1:
            return f"{name} missing"
        if j in self.bins.unordered:
            return f"{name} other" if first == len(cuts) else f"{name} = {self.value(j, first)}"
        if not cuts:
            return f"{name} present"
        if first == 0:
            return f"{name} < {cuts[last]:g}" if last < len(cuts) else f"{name} present"
        if last == len(cuts):
            return f"{name} >= {cuts[first - 1]:g}"
        return f"{cuts[first - 1]:g} <= {name} < {cuts[last]:g}"

    def row(self, x: Any) -> NDArray[np.float64]:
        """One row of floats from a dense, sparse or named one; a name left out is missing."""
        width = len(self.bins.cuts)
        if isinstance(x, Mapping):
            values = np.full(width, np.nan)
            values[list(self.bins.linear)] = 0.0
            at = {self.column_name(j): j for j in range(width)}
            for name, value in x.items():
                if name not in at:
                    raise FeatureMismatchError(
                        f"the model knows no feature {name!r}", fix="Check the spelling"
                    )
                values[at[name]] = self._number(at[name], value)
            return values
        values = np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)
        values = values[0] if values.ndim == 2 and len(values) == 1 else values
        if values.shape != (width,):
            raise FeatureMismatchError(
                f"a row of shape {np.shape(x)} for a model of {width} columns",
                fix="Pass one value per column of the model",
            )
        return values


def find_tables(model: LinearModel) -> Tables | None:
    """The tables of a model; None where its weights are those of features."""
    if model.bins is None:
        return None
    grids = next((spec for spec in model.transforms if isinstance(spec, Grids)), None)
    log = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    texts = {}
    if log is not None:
        texts = {j: one.values for j, one in enumerate(log.one_hot, len(log.numeric))}
    return Tables(model.bins, grids, model.to_dense(), model.base, texts)
