"""Rows ordered by (query, label): the index behind pair sampling, counting and levels.

Built once in O(m) when a query has few distinct labels, O(m log m) otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError
from rankine.kernels.compile import jit
from rankine.kernels.sorting import merge_sort

if TYPE_CHECKING:
    from rankine.data.query_index import QueryIndex

__all__ = ["LabelIndex"]

#: Up to this many distinct labels a query is ordered by counting, above it by sorting.
FEW_LEVELS = 32


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """Rows by query, then by increasing label; rows of equal label keep their order.

    Attributes
    ----------
    order
        Row numbers.
    query_starts
        Query ``k`` holds ``order[query_starts[k]:query_starts[k + 1]]``.
    level_ptr
        Query ``k`` has levels ``level_ptr[k]:level_ptr[k + 1]``.
    level_starts
        Level ``l`` holds ``order[level_starts[l]:level_starts[l + 1]]``.
    """

    order: NDArray[np.int64]
    query_starts: NDArray[np.int64]
    level_ptr: NDArray[np.int64]
    level_starts: NDArray[np.int64]

    @classmethod
    def build(cls, queries: QueryIndex, y: NDArray[Any]) -> LabelIndex:
        """Index the labels of grouped rows."""
        labels = np.ascontiguousarray(queries.gather(y), dtype=np.float64)
        order, level_ptr, level_starts = _order_by_label(labels, queries.starts)
        if queries.rows is not None:
            order = queries.rows[order]
        return cls(order, queries.starts, level_ptr, level_starts)

    @cached_property
    def n_levels(self) -> NDArray[np.int64]:
        """Distinct labels per query."""
        return np.diff(self.level_ptr)

    @cached_property
    def level_sizes(self) -> NDArray[np.int64]:
        """Rows per level."""
        return np.diff(self.level_starts)

    @cached_property
    def pair_counts(self) -> NDArray[np.int64]:
        """N_q = (m_q^2 - sum over levels of n_l^2) / 2, in 64 bits."""
        sizes = np.diff(self.query_starts)
        owner = np.repeat(np.arange(len(sizes)), self.n_levels)
        squares = np.zeros(len(sizes), dtype=np.int64)
        np.add.at(squares, owner, self.level_sizes**2)
        return (sizes**2 - squares) // 2

    @cached_property
    def usable(self) -> NDArray[np.int64]:
        """Positions of the queries that hold at least one pair."""
        return np.flatnonzero(self.n_levels >= 2).astype(np.int64)

    @property
    def n_pairs(self) -> int:
        """Pairs in all queries."""
        return int(self.pair_counts.sum())

    def require_pairs(self) -> None:
        """Raise NoPairsError when there is nothing to rank."""
        if len(self.usable) == 0:
            raise NoPairsError(
                "no query holds two different labels, so no pair can be formed",
                fix="Check the label and query columns; each query needs a better and a worse row",
            )


@jit
def _level_of(table: Any, count: int, value: float) -> int:
    """Labels below ``value`` among the first ``count`` of the sorted table."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if table[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _few_levels(labels: Any, table: Any) -> int:
    """Fill ``table`` with the sorted distinct labels; -1 when they are more than it can hold."""
    count = 0
    for value in labels:
        low = _level_of(table, count, value)
        if low < count and table[low] == value:
            continue
        if count == table.shape[0]:
            return -1
        for k in range(count, low, -1):
            table[k] = table[k - 1]
        table[low] = value
        count += 1
    return count


@jit
def _count_into(labels: Any, base: int, table: Any, count: int, order: Any, ends: Any) -> None:
    """Counting sort of one query; ``ends[l]`` becomes the end of level l relative to the query."""
    place = np.zeros(count + 1, dtype=np.int64)
    level_of = np.empty(labels.shape[0], dtype=np.uint8)
    for i in range(labels.shape[0]):
        level = _level_of(table, count, labels[i]) if count > 2 else np.int64(labels[i] > table[0])
        level_of[i] = level
        place[level + 1] += 1
    for level in range(count):
        place[level + 1] += place[level]
        ends[level] = place[level + 1]
    for i in range(labels.shape[0]):
        level = level_of[i]
        order[base + place[level]] = base + i
        place[level] += 1


@jit
def _order_by_label(labels: Any, starts: Any) -> Any:
    n_queries = starts.shape[0] - 1
    order = np.empty(labels.shape[0], dtype=np.int64)
    level_ptr = np.zeros(n_queries + 1, dtype=np.int64)
    level_starts = np.zeros(labels.shape[0] + 1, dtype=np.int64)
    table = np.empty(FEW_LEVELS)
    ends = np.empty(FEW_LEVELS, dtype=np.int64)
    total = 0
    for q in range(n_queries):
        start, stop = starts[q], starts[q + 1]
        values = labels[start:stop]
        count = _few_levels(values, table)
        if count >= 0:
            _count_into(values, start, table, count, order, ends)
            for level in range(count):
                total += 1
                level_starts[total] = start + ends[level]
        else:
            size = stop - start
            rising = values.copy()
            for k in range(start, stop):
                order[k] = k
            spare = np.empty(size)
            merge_sort(rising, order[start:stop], spare, np.empty(size, dtype=np.int64))
            for k in range(1, size):
                if rising[k] != rising[k - 1]:
                    total += 1
                    level_starts[total] = start + k
            total += 1
            level_starts[total] = stop
        level_ptr[q + 1] = total
    return order, level_ptr, level_starts[: total + 1].copy()
