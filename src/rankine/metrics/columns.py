"""Columns that a metric may name: cutoffs per query, gains, marks, document ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.data.query_index import QueryIndex

__all__ = ["cutoffs", "docid_key", "marks", "number_column"]

#: Columns of marks that are honoured when the data has them.
_USUAL = ("displayed", "retrieved")


def _column(name: str, columns: Mapping[str, Any], n_rows: int, use: str) -> NDArray[Any]:
    if name not in columns or columns[name] is None:
        have = ", ".join(sorted(columns)) or "none"
        raise SchemaError(
            f"the metric takes its {use} from column {name!r}, which the data lacks",
            fix=f"Pass columns={{{name!r}: ...}} or load that column; the data has: {have}",
        )
    values = np.asarray(columns[name])
    if values.shape != (n_rows,):
        raise SchemaError(
            f"column {name!r} has shape {values.shape} for {n_rows} rows",
            fix="Pass one value per row",
        )
    return values


def number_column(
    name: str, columns: Mapping[str, Any], n_rows: int, use: str
) -> NDArray[np.float64]:
    """A column of finite numbers."""
    values = _column(name, columns, n_rows, use)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise SchemaError(f"column {name!r} is not numeric", fix="Pass numbers") from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise SchemaError(
            f"column {name!r} holds {numbers[bad[0]]} at row {bad[0]}", fix="Pass finite numbers"
        )
    return numbers


def cutoffs(
    cutoff: int | str | None, queries: QueryIndex, columns: Mapping[str, Any]
) -> NDArray[np.int64]:
    """Ranks that count, per query; a column must be constant within each query."""
    if cutoff is None:
        return queries.sizes.astype(np.int64)
    if isinstance(cutoff, int):
        return np.full(queries.n_queries, cutoff, dtype=np.int64)
    values = queries.gather(number_column(cutoff, columns, queries.n_rows, "cutoff"))
    first = values[queries.starts[:-1]]
    changed = np.flatnonzero(values != np.repeat(first, queries.sizes))
    if len(changed):
        query = queries.ids[np.searchsorted(queries.starts, changed[0], side="right") - 1]
        raise SchemaError(
            f"column {cutoff!r} changes within query {query}", fix="Give each query one cutoff"
        )
    if (first < 1).any() or (first != np.floor(first)).any():
        worst = first[(first < 1) | (first != np.floor(first))][0]
        raise SchemaError(
            f"column {cutoff!r} holds {worst:g}, which is no cutoff", fix="Use integers from 1"
        )
    return first.astype(np.int64)


def marks(name: str | None, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.bool_] | None:
    """True where a column of marks is not 0; None when nothing is marked."""
    if name is None or name == "none" or (name in _USUAL and columns.get(name) is None):
        return None
    found: NDArray[np.bool_] = number_column(name, columns, n_rows, "marks") != 0
    return found


def docid_key(columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
    """Rank of each document id in descending order (as trec_eval breaks ties)."""
    ids = _column("docid", columns, n_rows, "order of ties")
    _, ascending = np.unique(ids.astype(str), return_inverse=True)
    return -ascending.astype(np.float64)
