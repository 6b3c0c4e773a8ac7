"""Proofs that a model rises, falls or bends with a column as wanted, over all of its cells.

The effect of a column is its curve plus all grids that it takes part in. A grid is shared with one
other column, so that the worst case over all values of the others is the sum of the worst lanes of
the grids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.model.tables import Tables, TableTerm, bin_centres, find_tables

if TYPE_CHECKING:
    from rankine.model.linear import LinearModel

#: Shapes of an effect.
SHAPES = ("increasing", "decreasing", "convex", "concave")
#: A bend counts from this multiple of the entries' rounding errors on.
ROUNDING = 8.0


@dataclass(frozen=True)
class ShapeProof:
    """Whether the whole effect of a column has a shape.

    Attributes
    ----------
    column, shape
        What was to be proved.
    holds
        Whether it holds for every cell.
    n_cells
        Cells of the column's curve and of its grids that were compared.
    cell
        Where it does not hold the most, with the values of other columns; None if it holds.
    change
        By how much the score moves in the wrong direction there.
    """

    column: str
    shape: str
    holds: bool
    n_cells: int
    cell: str | None = None
    change: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return asdict(self)


def certify(model: LinearModel, shapes: Mapping[Any, str] | None = None) -> list[ShapeProof]:
    """Prove shapes of the effects of columns, or find the cells that violate them.

    ``increasing`` and ``decreasing`` compare all neighbouring cells for all values of the other
    columns, in exact sums, with the entries of the model and with entries rounded to float32.
    ``convex`` and ``concave`` compare the slopes between the centres of neighbouring bins, up to
    the rounding of the entries. Missing values have no place in an order and are not compared.

    Parameters
    ----------
    model
        Model of an additive ranker.
    shapes
        Column, by name or number, -> shape; by default those that the model was trained with.

    Examples
    --------
    >>> from rankine import AdditiveRanker
    >>> X = np.arange(40.0)[:, None]
    >>> ranker = AdditiveRanker(smooth=1.0, pairs=0, shapes={0: "increasing"})
    >>> model = ranker.fit(X, np.arange(40) % 4, qid=np.repeat(np.arange(10), 4)).to_model()
    >>> [proof.holds for proof in certify(model)]
    [True]
    """
    tables = find_tables(model)
    if tables is None:
        raise ParameterError(
            "the model has no curves, and a linear effect has the shape of its weight's sign",
            parameter="model",
            fix="Pass a model of an additive ranker",
        )
    if shapes is None:
        shapes = model.parameters.get("shapes") or {}
    if not shapes:
        raise ParameterError(
            "the model was trained without shapes, so there is nothing to prove",
            parameter="shape",
            fix="Name some: price=decreasing",
        )
    return [_prove(tables, column, shape) for column, shape in shapes.items()]


class _Violation(NamedTuple):
    change: float
    cell: str


def _prove(tables: Tables, column: Any, shape: str) -> ShapeProof:
    if shape not in SHAPES:
        raise ParameterError(
            f"{shape!r} is not one of {', '.join(SHAPES)}",
            parameter="shape",
            fix="Choose one of them",
        )
    j = tables.column_number(column, "shape")
    name = tables.column_name(j)
    if j in tables.bins.linear:
        return _prove_linear(tables, j, shape)
    if j in tables.bins.unordered:
        raise ParameterError(
            f"column {name!r} has categories, which have no order",
            parameter="shape",
            fix="Leave it out",
        )
    terms = [term for term in tables.terms if j in term.columns]
    comparisons = _bends
    if shape in ("increasing", "decreasing"):
        comparisons = _steps
    violations = list(comparisons(tables, j, shape, terms))
    n_cells = sum(term.values.size for term in terms)
    if not violations:
        return ShapeProof(name, shape, holds=True, n_cells=n_cells)
    worst = max(violations, key=lambda violation: violation.change)
    return ShapeProof(name, shape, False, n_cells, worst.cell, worst.change)


def _prove_linear(tables: Tables, j: int, shape: str) -> ShapeProof:
    weight = float(tables.weights[tables.linear_start + tables.bins.linear.index(j)])
    name = tables.column_name(j)
    wrong = {"increasing": -weight, "decreasing": weight}.get(shape, 0.0)
    if wrong <= 0.0:
        return ShapeProof(name, shape, holds=True, n_cells=1)
    return ShapeProof(name, shape, False, 1, f"the weight of {name}", wrong)


def _lanes(term: TableTerm, j: int) -> NDArray[np.float64]:
    """Return the entries of a grid with column j first."""
    return term.values if term.columns[0] == j else term.values.T


def _steps(tables: Tables, j: int, shape: str, terms: list[TableTerm]) -> Iterator[_Violation]:
    """Find steps from a cell to the next that go in the wrong direction."""
    sign = 1.0 if shape == "increasing" else -1.0
    curve, grids = terms[0], terms[1:]
    for dtype in (np.float64, np.float32):
        values = sign * curve.values.astype(dtype).astype(np.float64)
        lanes = [sign * _lanes(term, j).astype(dtype).astype(np.float64) for term in grids]
        positions = [np.array(tables.axis_cells[j]) for _ in grids]
        for cell in range(len(tables.bins.cuts[j])):
            parts, others = [values[cell + 1], -values[cell]], []
            for term, lane, position in zip(grids, lanes, positions, strict=True):
                before, after = lane[position[cell]], lane[position[cell + 1]]
                worst = int(np.argmin(after - before))
                parts += [after[worst], -before[worst]]
                if position[cell] != position[cell + 1]:
                    others.append(_other_label(term, j, worst))
            # The exact sum, rounded once, has the right sign.
            change = math.fsum(parts)
            if change < 0.0:
                where = f"from {tables.cell_label(j, cell)!r} to {tables.cell_label(j, cell + 1)!r}"
                yield _Violation(-change, _at(where, others))


def _bends(tables: Tables, j: int, shape: str, terms: list[TableTerm]) -> Iterator[_Violation]:
    """Find bins at which the slope changes in the wrong direction."""
    sign = 1.0 if shape == "convex" else -1.0
    curve, grids = terms[0], terms[1:]
    ends = np.cumsum(tables.bins.n_cells)
    centres = bin_centres(tables.bins)[ends[j] - tables.bins.n_cells[j] : ends[j] - 1]
    widths = np.diff(centres)
    largest = sum(float(np.abs(term.values).max()) for term in terms)
    error = ROUNDING * len(terms) * np.finfo(np.float64).eps * largest
    position = np.array(tables.axis_cells.get(j, ()))
    for cell in range(1, len(centres) - 1):
        left, right = widths[cell - 1], widths[cell]
        factors = np.array([1.0 / left, -1.0 / left - 1.0 / right, 1.0 / right])
        bend = sign * float(factors @ curve.values[cell - 1 : cell + 2])
        others = []
        for term in grids:
            lanes = _lanes(term, j)[position[cell - 1 : cell + 2]]
            bends = sign * (factors @ lanes)
            worst = int(np.argmin(bends))
            bend += float(bends[worst])
            if np.ptp(position[cell - 1 : cell + 2]):
                others.append(_other_label(term, j, worst))
        if bend < -error * float(np.abs(factors).sum()):
            yield _Violation(-bend, _at(f"at {tables.cell_label(j, cell)!r}", others))


def _other_label(term: TableTerm, j: int, position: int) -> str:
    """Describe a position along the other column of a grid."""
    other = 1 if term.columns[0] == j else 0
    return term.labels[other][position]


def _at(where: str, others: list[str]) -> str:
    if not others:
        return where
    return f"{where}, where {' and '.join(others)}"
