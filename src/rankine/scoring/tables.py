"""Scores of raw rows by tables: one search in sorted cuts a column, then look-ups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.specs import Bins, Grids
from rankine.kernels.compile import jit
from rankine.transforms.bins import BinCoder, layout_of

__all__ = ["TableScores"]


@jit
def _table_scores(
    values: Any,
    columns: Any,
    cuts: Any,
    sizes: Any,
    exact: Any,
    starts: Any,
    table: Any,
    firsts: Any,
    seconds: Any,
    grid_starts: Any,
    places: Any,
    out: Any,
) -> None:
    """out_i += all table entries of row i."""
    cells = np.empty(values.shape[1], dtype=np.uint8)
    width = cuts.shape[1]
    for i in range(values.shape[0]):
        total = 0.0
        for k in range(columns.shape[0]):
            j = columns[k]
            x = np.float64(values[i, j])
            own = cuts[k]
            place = 0
            half = (width + 1) >> 1
            while half > 0:
                place += half * (x >= own[place + half - 1])
                half >>= 1
            place = min(place, sizes[k])
            if exact[k]:
                place = place - 1 if place > 0 and own[place - 1] == x else sizes[k]
            place = place if x == x else sizes[k] + 1  # noqa: PLR0124 - NaN is not itself
            cells[j] = place
            total += table[starts[k] + place]
        for g in range(firsts.shape[0]):
            cell = np.int64(places[2 * g, cells[firsts[g]]])
            total += table[grid_starts[g] + cell + np.int64(places[2 * g + 1, cells[seconds[g]]])]
        out[i] += total


class TableScores:
    """The tables of a model, laid out for scoring rows of floats.

    Parameters
    ----------
    bins, grids
        Transforms of the model.
    weights
        Entries of all tables, then the weights of linear columns.
    """

    def __init__(self, bins: Bins, grids: Grids | None, weights: NDArray[np.float64]) -> None:
        coder, layout = BinCoder(bins), layout_of(bins, grids)
        self.n_columns = len(bins.cuts)
        self.linear = np.array(bins.linear, dtype=np.int64)
        self.linear_weights = weights[layout.size :]
        used = np.zeros(self.n_columns, dtype=np.bool_)
        used[layout.firsts] = used[layout.seconds] = True
        for j, size in enumerate(bins.n_cells):
            start = layout.starts[j]
            used[j] |= size > 0 and bool(weights[start : start + size].any())
        columns = np.flatnonzero(used)
        self._arguments = (
            columns,
            np.ascontiguousarray(coder.cuts[columns]),
            coder.sizes[columns],
            coder.exact[columns],
            layout.starts[columns],
            np.ascontiguousarray(weights[: layout.size]),
            layout.firsts,
            layout.seconds,
            layout.grid_starts,
            layout.places,
        )

    def score(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Scores of dense rows; NaN is a missing value."""
        out = np.zeros(values.shape[0])
        _table_scores(values, *self._arguments, out)
        if len(self.linear):
            out += values[:, self.linear].astype(np.float64) @ self.linear_weights
        return out
