"""Scores of raw rows by tables: one search in sorted cuts a column, then look-ups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.specs import Bins, Grids
from rankine.kernels.compile import jit
from rankine.transforms.bins import cut_search, guided_cell, halved_cell, layout_of

__all__ = ["TableScores"]


@jit
def _table_scores(
    values: Any,
    cuts: Any,
    sizes: Any,
    exact: Any,
    low: Any,
    scale: Any,
    guide: Any,
    guided: Any,
    halved: Any,
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
    for i in range(values.shape[0]):
        total = 0.0
        for j in guided:
            x = np.float64(values[i, j])
            cell = guided_cell(x, cuts, guide, low[j], scale[j], j, sizes[j] + 1)
            cells[j] = cell
            total += table[starts[j] + cell]
        for j in halved:
            cell = halved_cell(np.float64(values[i, j]), cuts, j, sizes[j], exact[j])
            cells[j] = cell
            total += table[starts[j] + cell]
        for g in range(firsts.shape[0]):
            first, second = places[2 * g, cells[firsts[g]]], places[2 * g + 1, cells[seconds[g]]]
            total += table[grid_starts[g] + np.uint64(first) + np.uint64(second)]
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
        search, layout = cut_search(bins), layout_of(bins, grids)
        self.n_columns = len(bins.cuts)
        self.linear = np.array(bins.linear, dtype=np.int64)
        self.linear_weights = weights[layout.size :]
        used = np.zeros(self.n_columns, dtype=np.bool_)
        used[layout.firsts] = used[layout.seconds] = True
        for j, size in enumerate(bins.n_cells):
            start = layout.starts[j]
            used[j] |= size > 0 and bool(weights[start : start + size].any())
        self._arguments = (
            *search[:-2],
            search.guided[used[search.guided]],
            search.halved[used[search.halved]],
            layout.starts.astype(np.uint64),
            np.ascontiguousarray(weights[: layout.size]),
            layout.firsts.astype(np.uint64),
            layout.seconds.astype(np.uint64),
            layout.grid_starts.astype(np.uint64),
            layout.places,
        )

    def score(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Scores of dense rows; NaN is a missing value."""
        out = np.zeros(values.shape[0])
        _table_scores(values, *self._arguments, out)
        if len(self.linear):
            out += values[:, self.linear].astype(np.float64) @ self.linear_weights
        return out
