"""Models of tables: the cell of a row in each table, and what each table adds to the score.

The transforms of such a model contain ``Bins``. It has a weight for every cell of every column,
then for every cell of the grids, then for the columns that stay linear. Its score is a sum of table
entries, and its explanation lists these entries in terms of the original columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.column_values import category_text, number_of
from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.core.specs import Bins, GridAxis, Grids, LogColumns
from rankine.model.checks import find_spec

if TYPE_CHECKING:
    from rankine.model.covariance import WeightCovariance
    from rankine.model.linear import LinearModel


@dataclass(frozen=True, eq=False)
class TableTerm:
    """One table: the curve of a column (one dimension) or the grid of a pair (two).

    Attributes
    ----------
    columns
        Columns of the table.
    labels
        For each column, what each position of the table holds, such as ``3 <= price < 4``.
    values
        Entries, one dimension per column; the last position holds missing values.
    start
        Index of the first entry among the model's weights.
    """

    columns: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]
    values: NDArray[np.float64]
    start: int

    def index(self, position: tuple[int, ...]) -> int:
        """Return the index of an entry among the model's weights."""
        return self.start + int(np.ravel_multi_index(position, self.values.shape))


class CellTest(NamedTuple):
    """A condition on a column's value (``x operator cut``) and the position it leads to.

    ``missing`` holds for missing values, ``other`` for all values.
    """

    operator: Literal["missing", "=", "<", "other"]
    cut: float
    position: int


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a model.

    Attributes
    ----------
    bins, grids
        Cells of columns, and pairs of columns with their cells.
    weights
        All weights of the model, zeros included.
    base
        Index of the first column in text files.
    texts
        Column -> texts that its numbers represent.
    covariance
        The covariance of the weights, or None.
    """

    bins: Bins
    grids: Grids | None
    weights: NDArray[np.float64]
    base: int
    texts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    covariance: WeightCovariance | None = None

    @property
    def terms(self) -> list[TableTerm]:
        """All tables, curves first, in the order of the weights."""
        terms, start = [], 0
        for j, size in enumerate(self.bins.n_cells):
            if size:
                labels = tuple(self.cell_label(j, cell) for cell in range(size))
                terms.append(TableTerm((j,), (labels,), self.weights[start : start + size], start))
            start += size
        grids = self.grids or Grids((), ())
        for a, b in grids.pairs:
            first, second = grids.axes[a], grids.axes[b]
            size = first.size * second.size
            values = self.weights[start : start + size].reshape(first.size, second.size)
            labels_of_axes = self.axis_labels(first), self.axis_labels(second)
            columns = first.column, second.column
            terms.append(TableTerm(columns, labels_of_axes, values, start))
            start += size
        return terms

    @property
    def linear_start(self) -> int:
        """Index of the first weight of a linear column."""
        start = sum(self.bins.n_cells)
        if self.grids is not None:
            start += sum(self.grids.n_cells)
        return start

    @property
    def axis_cells(self) -> dict[int, tuple[int, ...]]:
        """Column -> position in a grid of each of its cells."""
        if self.grids is None:
            return {}
        return {axis.column: axis.cells for axis in self.grids.axes}

    def ranges(self) -> list[tuple[str, float]]:
        """List names and ranges of tables, and weights of linear columns, largest first."""
        ranges = [(self.name(term), float(np.ptp(term.values))) for term in self.terms]
        for k, j in enumerate(self.bins.linear):
            ranges.append((self.column_name(j), abs(float(self.weights[self.linear_start + k]))))
        return sorted(ranges, key=lambda entry: -entry[1])

    def column_name(self, j: int) -> str:
        """Return the name of a column; its number in text files if columns have no names."""
        if self.bins.names is None:
            return str(j + self.base)
        return self.bins.names[j]

    def name(self, term: TableTerm) -> str:
        """Return the name of a table: a column's name, or two names joined by ``x``."""
        return " x ".join(self.column_name(j) for j in term.columns)

    def column_number(self, column: Any, parameter: str) -> int:
        """Return the number of a column that is given by its name, or by its number from 0."""
        names = self.bins.names or ()
        if column in names:
            return names.index(column)
        # Numbers are texts on the command line and in a model's parameters.
        if str(column).isdecimal() and int(column) < len(self.bins.cuts):
            return int(column)
        raise ParameterError(
            f"the model has no column {column!r}",
            parameter=parameter,
            fix="Check the spelling, or pass its number, counted from 0",
        )

    def cells(self, j: int, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the cells of values of column j."""
        cuts = np.array(self.bins.cuts[j])
        # A value equal to a cut belongs to the cell above it.
        cells = np.searchsorted(cuts, x, side="right")
        if j in self.bins.unordered and len(cuts):
            # The cuts of an unordered column are its categories; all other values share the next
            # cell.
            is_category = cuts[np.maximum(cells - 1, 0)] == x
            cells = np.where(is_category, cells - 1, len(cuts))
        return np.where(np.isnan(x), len(cuts) + 1, cells)

    def _number(self, j: int, value: Any) -> float:
        """Return a value of column j as a number: NaN if missing, infinite if unknown."""
        if j not in self.texts:
            return number_of(value)
        text = category_text(value)
        if text == "":
            return math.nan
        if text not in self.texts[j]:
            return math.inf
        return float(self.texts[j].index(text))

    def tests(self, j: int, positions: Sequence[int] | None = None) -> list[CellTest]:
        """List the conditions that find the position of a value of column j, to be tried in order.

        The last one holds for all values. ``positions`` maps the column's cells to positions in a
        grid; None: the cells themselves.
        """
        cuts = self.bins.cuts[j]
        if positions is None:
            positions = range(len(cuts) + 2)
        other_position = positions[len(cuts)]
        tests = [CellTest("missing", 0.0, positions[len(cuts) + 1])]
        # A test between two cells with the same position would not change the result.
        for k, cut in enumerate(cuts):
            if j in self.bins.unordered:
                if positions[k] != other_position:
                    tests.append(CellTest("=", cut, positions[k]))
            elif positions[k] != positions[k + 1]:
                tests.append(CellTest("<", cut, positions[k]))
        return [*tests, CellTest("other", 0.0, other_position)]

    def parts(self, X: Any) -> tuple[list[str], NDArray[np.float64]]:
        """Compute what every table and every linear column adds to the score of every row."""
        axis_cells = {j: np.array(cells) for j, cells in self.axis_cells.items()}

        def column(j: int) -> NDArray[np.float64]:
            values = X[:, [j]]
            if hasattr(values, "toarray"):
                values = values.toarray()
            return np.asarray(values, dtype=np.float64).ravel()

        names, parts = [], []
        for term in self.terms:
            cells = [self.cells(j, column(j)) for j in term.columns]
            # The cells of a grid are coarser than those of its columns' curves.
            if len(cells) == 2:
                cells = [axis_cells[j][c] for j, c in zip(term.columns, cells, strict=True)]
            names.append(self.name(term))
            parts.append(term.values[tuple(cells)])
        for k, j in enumerate(self.bins.linear):
            names.append(self.column_name(j))
            parts.append(self.weights[self.linear_start + k] * column(j))
        return names, np.column_stack(parts)

    def positions(self, term: TableTerm, row: NDArray[np.float64]) -> tuple[int, ...]:
        """Return the position of a row in a table."""
        cells = [int(self.cells(j, row[[j]])[0]) for j in term.columns]
        if len(cells) == 1:
            return (cells[0],)
        return tuple(self.axis_cells[j][c] for j, c in zip(term.columns, cells, strict=True))

    def cell_label(self, j: int, cell: int) -> str:
        """Describe the values of a cell of a column."""
        return self.span_label(j, cell, cell)

    def value(self, j: int, cell: int) -> str:
        """Return the value of a cell of an unordered column, as text."""
        cut = self.bins.cuts[j][cell]
        if j in self.texts:
            return self.texts[j][int(cut)]
        return f"{cut:g}"

    def axis_labels(self, axis: GridAxis) -> tuple[str, ...]:
        """Describe the values at each position of a grid's axis."""
        cells = np.array(axis.cells)
        labels = []
        for position in range(axis.size):
            members = np.flatnonzero(cells == position)
            if axis.column not in self.bins.unordered:
                label = self.span_label(axis.column, int(members[0]), int(members[-1]))
            # Rare categories share the position of unseen ones.
            elif len(self.bins.cuts[axis.column]) in members:
                label = f"{self.column_name(axis.column)} other"
            else:
                label = self.cell_label(axis.column, int(members[0]))
            labels.append(label)
        return tuple(labels)

    def span_label(self, j: int, first: int, last: int) -> str:
        """Describe the values of the neighbouring cells ``first`` to ``last``."""
        cuts, name = self.bins.cuts[j], self.column_name(j)
        if last == len(cuts) + 1:
            return f"{name} missing"
        if j in self.bins.unordered:
            if first == len(cuts):
                return f"{name} other"
            return f"{name} = {self.value(j, first)}"
        if first == 0 and last == len(cuts):
            return f"{name} present"
        if first == 0:
            return f"{name} < {cuts[last]:g}"
        if last == len(cuts):
            return f"{name} >= {cuts[first - 1]:g}"
        return f"{cuts[first - 1]:g} <= {name} < {cuts[last]:g}"

    def row(self, x: Any) -> NDArray[np.float64]:
        """Return a dense, sparse or named row as numbers; a column that is not named is missing."""
        n_columns = len(self.bins.cuts)
        if isinstance(x, Mapping):
            values = np.full(n_columns, np.nan)
            values[list(self.bins.linear)] = 0.0  # linear columns have no cell for missing values
            columns = {self.column_name(j): j for j in range(n_columns)}
            for name, value in x.items():
                if name not in columns:
                    raise FeatureMismatchError(
                        f"the model has no feature {name!r}", fix="Check the spelling"
                    )
                values[columns[name]] = self._number(columns[name], value)
            return values
        if hasattr(x, "toarray"):
            x = x.toarray()
        values = np.asarray(x, dtype=np.float64)
        if values.ndim == 2 and len(values) == 1:
            values = values[0]
        if values.shape != (n_columns,):
            raise FeatureMismatchError(
                f"a row has shape {np.shape(x)}, and the model has {n_columns} columns",
                fix="Pass one value per column of the model",
            )
        return values


def bin_centres(bins: Bins) -> NDArray[np.float64]:
    """Return the centre of every bin in units of the column's largest; 0 for cells without order.

    The centre of a bin is the middle of its cuts. An outer bin has one cut and gets the width of
    its neighbour.
    """
    out = np.zeros(sum(bins.n_cells))
    start = 0
    for j, size in enumerate(bins.n_cells):
        inner = slice(start, start + size - 1)
        start += size
        cuts = np.array(bins.cuts[j])
        if j in bins.unordered or len(cuts) == 0:
            continue
        centres = np.array([-1.0, 1.0])  # both bins of a single cut
        if len(cuts) > 1:
            widths = np.diff(cuts)
            first, last = cuts[0] - widths[0] / 2, cuts[-1] + widths[-1] / 2
            centres = np.concatenate([[first], (cuts[1:] + cuts[:-1]) / 2, [last]])
            centres = centres / np.abs(centres).max()
        out[inner] = centres
    return out


def find_tables(model: LinearModel) -> Tables | None:
    """Return the tables of a model, or None if its weights belong to features."""
    if model.bins is None:
        return None
    grids = find_spec(model.transforms, Grids)
    texts = {}
    log_columns = find_spec(model.transforms, LogColumns)
    if log_columns is not None:
        texts = texts_of(log_columns)
    return Tables(model.bins, grids, model.to_dense(), model.base, texts, model.covariance)


def texts_of(log_columns: LogColumns) -> dict[int, tuple[str, ...]]:
    """Return the texts that the numbers of each categorical column represent."""
    return {j: f.values for j, f in enumerate(log_columns.one_hot, len(log_columns.numeric))}
