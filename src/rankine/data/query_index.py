"""Group rows by query, and by query and label.

``LabelIndex`` orders rows by (query, label), for pair sampling, counting and levels. It takes O(m)
for a query of m rows with few distinct labels, and O(m log m) otherwise.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.errors import NoPairsError, SchemaError
from rankine.kernels.compile import jit
from rankine.kernels.sorting import merge_sort


@dataclass(frozen=True, eq=False)
class QueryIndex:
    """Rows grouped by query.

    Attributes
    ----------
    ids
        Query ids in order of first appearance.
    starts
        Query ``k`` holds positions ``starts[k]:starts[k + 1]`` of the grouped order.
    rows
        Row number at each position, or None when rows are already grouped (the usual case).
    """

    ids: NDArray[Any]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64] | None = None

    @classmethod
    def from_qid(cls, qid: ArrayLike | None, n_rows: int) -> QueryIndex:
        """Group rows by query id; None puts all rows in one query with id 0."""
        if qid is None:
            starts = np.array([0, n_rows] if n_rows else [0], dtype=np.int64)
            return cls(np.zeros(min(n_rows, 1), dtype=np.int64), starts)
        values = check_qid(qid)
        if len(values) != n_rows:
            raise SchemaError(
                f"qid has {len(values)} entries for {n_rows} rows", fix="Pass one query id per row"
            )
        if n_rows == 0:
            return cls(values, np.zeros(1, dtype=np.int64))
        # Work on runs of equal ids: in the usual case every query is one run.
        runs = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1]).astype(np.int64)
        run_ids = values[runs]
        unique, first, inverse = np.unique(run_ids, return_index=True, return_inverse=True)
        if len(unique) == len(run_ids):
            return cls(run_ids, np.append(runs, n_rows).astype(np.int64))
        # Some queries have several runs: sort the rows by query, in order of first appearance.
        # ``np.unique`` sorts by id; queries are numbered by first appearance instead.
        rank = np.empty(len(unique), dtype=np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(unique))
        codes = np.repeat(rank[inverse], np.diff(np.append(runs, n_rows)))
        rows = np.argsort(codes, kind="stable").astype(np.int64)
        ends = np.cumsum(np.bincount(codes, minlength=len(unique)))
        starts = np.concatenate([[0], ends]).astype(np.int64)
        return cls(run_ids[np.sort(first)], starts, rows)

    @classmethod
    def from_group(cls, sizes: ArrayLike, n_rows: int) -> QueryIndex:
        """Group consecutive rows by the sizes of the groups, which must sum to ``n_rows``."""
        counts = check_group(sizes)
        total = int(counts.sum())
        if total != n_rows:
            raise SchemaError(
                f"the sizes add up to {total} rows but the data has {n_rows}",
                parameter="group",
                fix="Pass sizes in row order, one per query; or pass qid, one id per row",
            )
        # Empty groups hold no rows: kernels may then assume that every query has one.
        starts = np.concatenate([[0], np.cumsum(counts[counts > 0])]).astype(np.int64)
        return cls(np.flatnonzero(counts > 0).astype(np.int64), starts)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.starts) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.starts[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows per query."""
        return np.diff(self.starts)

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Position of each row's query in ``ids``, in row order."""
        return self.scatter(np.repeat(np.arange(self.n_queries, dtype=np.int64), self.sizes))

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values that are in row order in grouped order."""
        return values if self.rows is None else values[self.rows]

    def scatter(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values that are in grouped order in row order."""
        if self.rows is None:
            return values
        row_values = np.empty_like(values)
        row_values[self.rows] = values
        return row_values

    def rows_of(self, query: int) -> NDArray[np.int64]:
        """Return the row numbers of the query at position ``query`` of ``ids``."""
        return self.rows_at(np.arange(self.starts[query], self.starts[query + 1]))

    def rows_of_queries(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row numbers of several queries, one query after the other."""
        sizes = self.sizes[queries]
        first_positions = self.starts[queries] - (np.cumsum(sizes) - sizes)
        return self.rows_at(np.arange(sizes.sum()) + np.repeat(first_positions, sizes))

    def rows_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row numbers at positions of the grouped order."""
        return positions if self.rows is None else self.rows[positions]


def check_group(sizes: ArrayLike) -> NDArray[np.int64]:
    """Return rows per query as int64; refuse all but non-negative integers."""
    counts = np.asarray(sizes)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise SchemaError(
            "not a list of row counts", parameter="group", fix="Pass non-negative integers"
        )
    return counts.astype(np.int64, copy=False)


def check_qid(qid: ArrayLike) -> NDArray[Any]:
    """Return query ids as int64 or strings; whole floats are taken as integers."""
    values = np.asarray(qid)
    if values.dtype.kind == "U" and not hasattr(qid, "dtype"):
        values = np.asarray(qid, dtype=object)  # NumPy turns a NaN among strings into text
    if values.ndim != 1:
        raise SchemaError("qid must be one-dimensional", fix="Pass one query id per row")
    type_code = values.dtype.kind
    if type_code in "iub":
        if type_code == "u" and len(values) and values.max() > np.iinfo(np.int64).max:
            raise SchemaError("qid exceeds 2^63 - 1", fix="Pass such ids as strings")
        return values.astype(np.int64, copy=False)
    if type_code in "UT":
        return values
    if type_code == "f":
        # Frames turn integers into floats when a value is missing; from 2^53 on floats skip
        # integers.
        with np.errstate(invalid="ignore"):
            bad = ~((values == np.floor(values)) & (np.abs(values) < 2**53))
        if bad.any():
            raise _bad_id(values, int(np.argmax(bad)))
        return values.astype(np.int64)
    if type_code == "O":
        return _check_objects(values)
    raise SchemaError(
        f"qid is of type {values.dtype}", fix="Pass integers or strings", column="qid"
    )


def id_texts(ids: Any) -> NDArray[np.str_]:
    """Return ids as texts of fixed width, also those of Parquet files, which NumPy cannot cast."""
    return np.array([str(value) for value in np.asarray(ids).tolist()], dtype=np.str_)


def _check_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return ids given as Python objects as int64 or strings."""
    types = {type(value) for value in values}
    if types <= {str}:
        return values.astype(str)
    if all(issubclass(id_type, (int, np.integer)) for id_type in types):
        too_large = [not -(2**63) <= value < 2**63 for value in values]
        if any(too_large):
            raise _bad_id(values, too_large.index(True))
        return values.astype(np.int64)
    missing = [_is_missing(value) for value in values]
    if any(missing):
        raise _bad_id(values, missing.index(True))
    # Name the first id that is not of the type of most others.
    is_text = [isinstance(value, str) for value in values]
    if sum(is_text) * 2 > len(values):
        odd = [not text for text in is_text]
    else:
        odd = [not isinstance(value, (int, np.integer)) for value in values]
    raise _bad_id(values, odd.index(True))


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 - NaN and NaT differ from themselves


def _bad_id(values: NDArray[Any], row: int) -> SchemaError:
    value = values[row]
    if _is_missing(value):
        return SchemaError(
            f"the qid of row {row} is missing", fix="Give every row a query id", column="qid"
        )
    return SchemaError(
        f"the qid of row {row} is {reprlib.repr(value)}: neither all ids are whole numbers below "
        "2^53 nor all strings",
        fix="Pass integers, or strings",
        column="qid",
    )


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
        """Order rows by query and label."""
        # Labels of one type, so that the kernel is compiled once.
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
        """Pairs of rows with different labels per query.

        N_q = (m_q^2 - sum over levels of n_l^2) / 2, in 64 bits.
        """
        sizes = np.diff(self.query_starts)
        # A cumulative sum of integers is exact, so that differences of it are too.
        squares = np.concatenate([[0], np.cumsum(self.level_sizes**2)])
        return (sizes**2 - np.diff(squares[self.level_ptr])) // 2

    @cached_property
    def queries_with_pairs(self) -> NDArray[np.int64]:
        """Positions of the queries that hold at least one pair."""
        return np.flatnonzero(self.n_levels >= 2).astype(np.int64)

    @property
    def n_pairs(self) -> int:
        """Pairs in all queries."""
        return int(self.pair_counts.sum())

    def level_masses(self, weight: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return the weight of each level times the weight of its query's other levels.

        Without weights every row weighs 1.
        """
        if weight is None:
            level = self.level_sizes.astype(np.float64)
        else:
            # Every level holds at least one row, as ``reduceat`` requires.
            level = np.add.reduceat(weight[self.order], self.level_starts[:-1])
        return level * sums_of_others(level, self.level_ptr)

    def require_pairs(self) -> None:
        """Raise NoPairsError if no query holds two different labels."""
        if len(self.queries_with_pairs) == 0:
            raise NoPairsError(
                "no query holds two different labels, so no pair can be formed",
                fix="Check the label and query columns; each query needs a better and a worse row",
            )


def sums_of_others(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of the other values of each value's part; part k begins at ``starts[k]``.

    The sums before and after a value are added: to subtract the value from the sum of all would
    leave rounding errors in place of small sums.
    """
    out = np.empty_like(values)
    _sum_others(values, starts, out)
    return out


@jit
def _sum_others(values: Any, starts: Any, out: Any) -> None:
    for part in range(starts.shape[0] - 1):
        total = 0.0
        for k in range(starts[part], starts[part + 1]):
            out[k] = total
            total += values[k]
        total = 0.0
        for k in range(starts[part + 1] - 1, starts[part] - 1, -1):
            out[k] += total
            total += values[k]


@jit
def _level_of(table: Any, count: int, value: float) -> int:
    """Return the number of labels below ``value`` among the first ``count`` of a sorted table."""
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
    """Fill ``table`` with the sorted distinct labels and return their number.

    The result is negative when the table is too short.
    """
    count = 0
    for value in labels:
        low = _level_of(table, count, value)
        if low < count and table[low] == value:
            continue
        if count == table.shape[0]:
            return -count
        for k in range(count, low, -1):
            table[k] = table[k - 1]
        table[low] = value
        count += 1
    return count


@jit
def _count_into(labels: Any, base: int, table: Any, count: int, order: Any, ends: Any) -> None:
    """Sort one query by counting; ``ends[l]`` becomes the end of level l within the query."""
    # Two passes, as in a counting sort: count, then place. Rows of a level keep their order.
    position = np.zeros(count, dtype=np.int64)
    level_of = np.empty(labels.shape[0], dtype=np.uint8)
    for i in range(labels.shape[0]):
        level = _level_of(table, count, labels[i]) if count > 2 else np.int64(labels[i] > table[0])
        level_of[i] = level
        position[level] += 1
    end = 0
    for level in range(count):
        size = position[level]
        position[level] = end
        end += size
        ends[level] = end
    for i in range(labels.shape[0]):
        level = level_of[i]
        order[base + position[level]] = base + i
        position[level] += 1


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
        # Graded labels have few values, and counting is cheaper than sorting.
        values = labels[start:stop]
        count = _few_levels(values, table)
        if count >= 0:
            _count_into(values, start, table, count, order, ends)
            for level in range(count):
                total += 1
                level_starts[total] = start + ends[level]
        else:
            size = stop - start
            sorted_labels = values.copy()
            for k in range(start, stop):
                order[k] = k
            workspace = np.empty(size)
            merge_sort(sorted_labels, order[start:stop], workspace, np.empty(size, dtype=np.int64))
            for k in range(1, size):
                if sorted_labels[k] != sorted_labels[k - 1]:
                    total += 1
                    level_starts[total] = start + k
            total += 1
            level_starts[total] = stop
        level_ptr[q + 1] = total
    return order, level_ptr, level_starts[: total + 1].copy()
