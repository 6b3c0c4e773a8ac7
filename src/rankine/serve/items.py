"""Items of a request as the rows a scorer takes."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from rankine.serve.errors import Refusal
from rankine.serve.reading import ReadList
from rankine.serve.wire import Item

__all__ = ["CsrList", "rows_of"]


class CsrList(NamedTuple):
    """A list of sparse rows, in the shape every CSR reader knows."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    data: NDArray[np.float64]
    shape: tuple[int, int]


def rows_of(one: ReadList, base: int, n_features: int) -> Any:
    """Rows of one list: named features, raw columns, or CSR for indices and values."""
    first = one.items[0]
    raw = first.raw is not UNSET
    if one.context is not UNSET and not raw:
        raise Refusal(422, "schema", "context goes with raw items only")
    if one.features is not None:
        if len(one.features) == len(one.items):
            return one.features
    elif raw:
        rows = [item.raw for item in one.items if item.raw is not UNSET]
        if len(rows) == len(one.items):
            return rows if one.context is UNSET else [{**one.context, **row} for row in rows]
    elif all(item.indices is not UNSET for item in one.items):
        return _csr(one.items, base, n_features)
    raise Refusal(422, "schema", "the items of one list differ in form")


def _csr(items: list[Item], base: int, n_features: int) -> CsrList:
    columns: list[list[int]] = [item.indices for item in items if item.indices is not UNSET]
    numbers: list[list[float]] = [item.values for item in items if item.values is not UNSET]
    sizes = np.fromiter(map(len, columns), np.int64, len(items))
    if not np.array_equal(sizes, np.fromiter(map(len, numbers), np.int64, len(items))):
        raise Refusal(422, "schema", "an item has more indices than values, or fewer")
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    total = int(indptr[-1])
    try:
        indices = np.fromiter(chain.from_iterable(columns), np.int64, total) - base
    except OverflowError as error:
        raise _outside(base, n_features) from error
    if total and not (indices.min() >= 0 and indices.max() < n_features):
        raise _outside(base, n_features)
    rising = np.diff(indices) > 0
    starts = indptr[1:-1]
    rising[starts[(starts > 0) & (starts < total)] - 1] = True  # a new item may start anywhere
    if not rising.all():
        raise Refusal(422, "schema", "the indices of an item are not strictly increasing")
    data = np.fromiter(chain.from_iterable(numbers), np.float64, total)
    return CsrList(indptr, indices, data, (len(items), n_features))


def _outside(base: int, n_features: int) -> Refusal:
    return Refusal(
        422,
        "feature-mismatch",
        f"an index is outside {base} .. {n_features - 1 + base}",
        "Count features as in the model's text files",
    )
