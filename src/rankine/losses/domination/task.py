"""One ranking task of the domination loss: the user's options, and its rows as kernels read them.

Within a query the rows of the lowest label are *bottom* rows; every other row dominates the rows
below it and is a *term* of the loss. Terms are numbered query by query, level by level (*slots*).
One code per row denotes its part: ``code < n_queries`` is a bottom row of that query,
``code == n_queries`` takes no part (not a candidate, or alone in its query), and
``code - n_queries - 1`` is the slot of a term. Rows keep their order, so that many tasks can share
one matrix.

A separable margin requires a gap s_i - s_j between rows i and j, which is an offset -s_i of the
scores (the paper's section 1.4). A table of gaps M[k, l] between labels need not be separable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_choice, check_not_negative
from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.data.query_index import LabelIndex, QueryIndex
from rankine.kernels.compile import jit

#: Columns of ``DominationTask.query``, ``level``, ``slot_index`` and ``slot``.
ROWS, LEVELS = 0, 1
SLOTS, QUERY = 0, 1
ROW, LEVEL = 0, 1
WEIGHT, TERM, MARGIN = 0, 1, 2


class DominationTask(NamedTuple):
    """One task: which rows dominate which, with their weights and margins.

    It has few arrays with named columns because the time to compile a kernel grows with the number
    of arrays.
    """

    #: Code of each row, see the module, and the rows by query.
    code: NDArray[np.uint32]
    order: NDArray[np.uint32]
    #: [q, ``ROWS``]: where the rows of query q start in ``order``; [q, ``LEVELS``]: its first
    #: dominating level. Levels follow from low to high; one more row closes the last query.
    query: NDArray[np.int64]
    #: [k, ``SLOTS``]: first slot of dominating level k; [k, ``QUERY``]: its query. One more row
    #: closes the last level.
    level: NDArray[np.int64]
    #: [d, ``ROW``] and [d, ``LEVEL``]: row and dominating level of slot d.
    slot_index: NDArray[np.uint32]
    #: [d, ``WEIGHT``], [d, ``TERM``], [d, ``MARGIN``]: a_i, v_q a_i and s_i.
    slot: NDArray[np.float64]
    #: log a_i - s_i of each row, read if ``has_offset``.
    offset: NDArray[np.float64]
    has_offset: bool
    #: Sum of v_q a_i over the slots of each query.
    term: NDArray[np.float64]
    #: Row of ``table`` of each query's bottom, then of each dominating level; with ``table`` only.
    label: NDArray[np.uint32]
    #: e^M[k, l], the exponentials of required gaps between labels, read if ``has_table``.
    table: NDArray[np.float64]
    has_table: bool


def number_task(
    labels: LabelIndex,
    n_rows: int,
    *,
    query_weight: NDArray[np.float64],
    normalization: str,
    rows: NDArray[np.int64] | None = None,
    weight: NDArray[np.float64] | None = None,
    margin: NDArray[np.float64] | None = None,
    row_label: NDArray[np.uint32] | None = None,
    table: NDArray[np.float64] | None = None,
) -> DominationTask:
    """Number the rows and terms of one task.

    ``labels`` indexes rows of the matrix by query and label, or positions in ``rows`` if only these
    rows are candidates. ``weight`` and ``margin`` are a_i > 0 and s_i of every row (by default ones
    and zeros); ``row_label`` is each row's row in the K x K ``table`` of gaps.
    """
    labels.require_pairs()
    usable = labels.queries_with_pairs
    order = labels.order
    if rows is not None:
        order = rows[order]
    order = order.astype(np.uint32)
    n_kept_rows = int((labels.query_starts[usable + 1] - labels.query_starts[usable]).sum())
    row_order = np.empty(n_kept_rows, dtype=np.uint32)
    n_levels = labels.n_levels[usable] - 1
    level_ptr = np.concatenate([[0], np.cumsum(n_levels)]).astype(np.int64)
    code = np.full(n_rows, len(usable), dtype=np.uint32)
    query_ptr = np.zeros(len(usable) + 1, dtype=np.int64)
    slot_ptr = np.zeros(level_ptr[-1] + 1, dtype=np.int64)
    slot_row = np.empty(len(order), dtype=np.uint32)
    n_slots = _number_rows(
        order,
        labels.level_ptr,
        labels.level_starts,
        usable,
        (code, row_order, query_ptr, slot_ptr, slot_row),
    )
    slot_row = slot_row[:n_slots]
    level_query = np.repeat(np.arange(len(usable), dtype=np.int64), n_levels)
    slot_level = np.repeat(np.arange(level_ptr[-1], dtype=np.uint32), np.diff(slot_ptr))
    slot_query = level_query[slot_level]
    slot = np.zeros((n_slots, 3))
    slot[:, WEIGHT] = 1.0
    if weight is not None:
        slot[:, WEIGHT] = weight[slot_row]
    per_query = query_weight[usable].astype(np.float64)
    if normalization == "query":
        per_query = per_query / np.bincount(slot_query, slot[:, WEIGHT], minlength=len(usable))
    slot[:, TERM] = per_query[slot_query] * slot[:, WEIGHT]
    if margin is not None:
        slot[:, MARGIN] = margin[slot_row]
    # All rows of a bottom or level share a label: the first row gives it.
    label_rows = np.concatenate([row_order[query_ptr[:-1]], slot_row[slot_ptr[:-1]]])
    return DominationTask(
        code,
        row_order,
        np.column_stack([query_ptr, level_ptr]),
        np.column_stack([slot_ptr, np.append(level_query, len(usable))]),
        np.column_stack([slot_row, slot_level]),
        slot,
        _offsets(weight, margin),
        weight is not None or margin is not None,
        np.bincount(slot_query, slot[:, TERM], minlength=len(usable)).astype(np.float64),
        np.zeros(0, dtype=np.uint32) if row_label is None else row_label[label_rows],
        np.zeros((0, 0)) if table is None else np.exp(table),
        table is not None,
    )


def _offsets(
    weight: NDArray[np.float64] | None, margin: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return log a_i - s_i; empty if all are 0.

    Rows of weight zero are no candidates, so their offset is never read.
    """
    if weight is None:
        return np.zeros(0) if margin is None else -margin
    log_weight = np.log(weight, out=np.zeros(len(weight)), where=weight > 0)
    if margin is not None:
        log_weight = log_weight - margin
    return log_weight


@jit
def _number_rows(order: Any, level_ptr: Any, level_starts: Any, usable: Any, out: Any) -> int:
    """Fill codes, rows by query, and slots; return the number of slots."""
    code, row_order, query_ptr, slot_ptr, slot_row = out
    n_rows = 0
    slot = 0
    level = 0
    for u in range(usable.shape[0]):
        first, last = level_ptr[usable[u]], level_ptr[usable[u] + 1]
        for p in range(level_starts[first], level_starts[last]):
            row = order[p]
            row_order[n_rows] = row
            n_rows += 1
            if p < level_starts[first + 1]:
                code[row] = u
            else:
                code[row] = usable.shape[0] + 1 + slot
                slot_row[slot] = row
                slot += 1
        for k in range(first + 1, last):
            slot_ptr[level + 1] = slot_ptr[level] + level_starts[k + 1] - level_starts[k]
            level += 1
        query_ptr[u + 1] = n_rows
    return slot


#: Largest gap in a table: e^500 cannot overflow, even summed over all rows that fit in memory.
LARGEST_GAP = 500.0


def resolve_margin(
    margin: Any, scale: float, y: NDArray[np.float64], columns: Mapping[str, NDArray[Any]]
) -> NDArray[np.float64] | None:
    """Return the margin s of every row, or None without margins.

    ``margin`` is None, a number (times the label), a function of the array of labels, one number
    per row, or the name of a column with one number per row; it is multiplied by ``scale``.
    """
    check_not_negative("margin_scale", scale)
    if margin is None or scale == 0:
        return None
    if isinstance(margin, str):
        if margin not in columns:
            column_names = ", ".join(sorted(columns)) or "none"
            raise ParameterError(
                f"the data has no column {margin!r} (columns: {column_names})",
                parameter="margin",
                fix="Load the column with the data, or pass one number per row",
            )
        margin = columns[margin]
    elif callable(margin):
        margin = margin(y.copy())
    elif np.isscalar(margin):
        margin = check_not_negative("margin", margin) * y
    values = np.asarray(margin, dtype=np.float64)
    if values.shape != y.shape:
        raise SchemaError(
            f"shape {values.shape} does not match the {len(y)} rows",
            parameter="margin",
            fix="Pass one number per row",
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise SchemaError(
            f"row {row} has the value {values[row]}", parameter="margin", fix="Pass finite numbers"
        )
    return values * float(scale)


def check_margins(
    labels: LabelIndex, s: NDArray[np.float64], y: NDArray[np.float64], ids: NDArray[Any]
) -> None:
    """Raise SchemaError if a row of a higher label has a smaller margin in its query.

    Levels are ordered from low to high, so it suffices to compare neighbours: the smallest margin
    of a level must not be below the largest margin of the previous level.
    """
    if len(labels.order) == 0:
        return
    ordered = s[labels.order]
    lowest = np.minimum.reduceat(ordered, labels.level_starts[:-1])
    highest = np.maximum.reduceat(ordered, labels.level_starts[:-1])
    worse = lowest[1:] < highest[:-1]
    worse[labels.level_ptr[1:-1] - 1] = False
    if not worse.any():
        return
    level = int(np.flatnonzero(worse)[0])
    query = ids[int(np.searchsorted(labels.level_ptr, level, side="right")) - 1]
    below = y[labels.order[labels.level_starts[level]]]
    above = y[labels.order[labels.level_starts[level + 1]]]
    raise SchemaError(
        f"query {query}: a row of label {above:g} has margin {lowest[level + 1]:g}, "
        f"below the margin {highest[level]:g} of a row of label {below:g}",
        parameter="margin",
        fix="Pass margins that do not fall as labels rise",
    )


def resolve_table(
    table: Any, y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.uint32]] | None:
    """Return the checked K x K table of gaps, and the table's row of every label of ``y``.

    Row k, column l < k of the table is the required gap of label k above label l. Labels that are
    integers in 0..K-1 are row numbers; other labels are numbered in ascending order, and there must
    be K distinct ones.
    """
    if table is None:
        return None
    gaps = np.asarray(table, dtype=np.float64)
    if gaps.ndim != 2 or gaps.shape[0] != gaps.shape[1] or len(gaps) < 2:
        raise ParameterError(
            f"shape {gaps.shape} is not square",
            parameter="margin_table",
            fix="Pass a K x K table for K levels",
        )
    lower = gaps[np.tril_indices(len(gaps), -1)]
    if not np.isfinite(lower).all() or (lower < 0).any() or (lower > LARGEST_GAP).any():
        raise ParameterError(
            f"the gaps below the diagonal must be between 0 and {LARGEST_GAP:g}",
            parameter="margin_table",
            fix="Pass in row k, column l < k the gap of level k above level l",
        )
    gaps_below = np.tril(gaps, -1)
    if len(y) == 0:
        return gaps_below, np.zeros(0, dtype=np.uint32)
    if (y == np.floor(y)).all() and y.min() >= 0 and y.max() < len(gaps):
        return gaps_below, y.astype(np.uint32)
    values, row_label = np.unique(y, return_inverse=True)
    if len(values) != len(gaps):
        raise ParameterError(
            f"the table is {len(gaps)} x {len(gaps)} but the data has {len(values)} labels",
            parameter="margin_table",
            fix="Pass one row and column per label, in ascending order",
        )
    return gaps_below, row_label.astype(np.uint32)


NORMALIZATIONS = ("sum", "query")


@dataclass(frozen=True)
class DominationOptions:
    """Parameters of the loss; see ``DominationRanker``."""

    normalization: str = "sum"
    margin: Any = None
    margin_scale: float = 1.0
    margin_table: Any = None

    def __post_init__(self) -> None:
        check_choice("normalization", self.normalization, NORMALIZATIONS)


def build_domination_task(
    y: NDArray[np.float64],
    queries: QueryIndex,
    query_weight: NDArray[np.float64],
    options: DominationOptions,
    *,
    weight: NDArray[np.float64] | None = None,
    candidates: NDArray[np.bool_] | None = None,
    columns: Mapping[str, NDArray[Any]] | None = None,
    labels: LabelIndex | None = None,
) -> DominationTask:
    """Check the options and number the rows of one task.

    Rows that are no candidates, and rows whose weight or whose query's weight is zero, take no
    part. ``labels`` is the index of all rows, if the caller has it.
    """
    rows = _rows_taking_part(queries, query_weight, weight, candidates)
    if rows is None:
        ids = queries.ids
        index = LabelIndex.build(queries, y) if labels is None else labels
    else:
        if len(rows) == 0:
            raise NoPairsError(
                "no row is a candidate of positive weight", fix="Give some rows a positive weight"
            )
        part = QueryIndex.from_qid(queries.codes[rows], len(rows))
        ids, query_weight = queries.ids[part.ids], query_weight[part.ids]
        index = LabelIndex.build(part, y[rows])
    index.require_pairs()
    taking_part: Any = slice(None) if rows is None else rows
    margin = resolve_margin(options.margin, options.margin_scale, y, columns or {})
    if margin is not None:
        check_margins(index, margin[taking_part], y[taking_part], ids)
    table = resolve_table(options.margin_table, y[taking_part])
    row_label = None
    if table is not None:
        row_label = np.zeros(len(y), dtype=np.uint32)
        row_label[taking_part] = table[1]
    return number_task(
        index,
        len(y),
        query_weight=query_weight,
        normalization=options.normalization,
        rows=rows,
        weight=weight,
        margin=margin,
        row_label=row_label,
        table=None if table is None else table[0],
    )


def _rows_taking_part(
    queries: QueryIndex,
    query_weight: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    candidates: NDArray[np.bool_] | None,
) -> NDArray[np.int64] | None:
    """Return the rows that take part, or None for all."""
    keep = np.ones(queries.n_rows, dtype=np.bool_) if candidates is None else candidates
    if weight is not None:
        keep = keep & (weight > 0)
    if not (query_weight > 0).all():
        keep = keep & (query_weight > 0)[queries.codes]
    if keep.all():
        return None
    return np.flatnonzero(keep).astype(np.int64)
