"""Rows, levels and terms of one ranking task, as the kernels read them.

Within a query the rows of the lowest label are *bottom* rows; every other row dominates the rows
below it and is a *term* of the loss. Terms are numbered query by query, level by level (*slots*).
One number per row says which it is: ``code < n_queries`` is the bottom of that query,
``code == n_queries`` takes no part (not a candidate, or alone in its query), and larger codes are
slots. Rows keep their order, so that many tasks can share one matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit

if TYPE_CHECKING:
    from rankine.data.query_index import LabelIndex

__all__ = [
    "LEVEL",
    "LEVELS",
    "MARGIN",
    "QUERY",
    "ROW",
    "ROWS",
    "SLOTS",
    "TERM",
    "WEIGHT",
    "Levels",
    "build_levels",
]

ROWS, LEVELS = 0, 1
SLOTS, QUERY = 0, 1
ROW, LEVEL = 0, 1
WEIGHT, TERM, MARGIN = 0, 1, 2


class Levels(NamedTuple):
    """One task: who dominates whom, with which weight and margin.

    Few arrays with named columns, because the time to compile a kernel grows with their number.

    Attributes
    ----------
    code
        Kind of each row, see the module.
    order
        Rows by query.
    query
        [q, ``ROWS``]: where the rows of query q start in ``order``; [q, ``LEVELS``]: its first
        dominating level. Levels follow from low to high; one more row closes the last query.
    level
        [k, ``SLOTS``]: first slot of dominating level k; [k, ``QUERY``]: its query. One more row
        closes the last level.
    place
        [d, ``ROW``] and [d, ``LEVEL``] of slot d.
    slot
        [d, ``WEIGHT``], [d, ``TERM``], [d, ``MARGIN``]: a_i, v_q a_i and s_i.
    offset
        log a_i - s_i of each row, or empty when all are zero.
    term
        Sum of v_q a_i over the slots of each query.
    label
        Row of ``table`` of each query's bottom, then of each dominating level; or empty.
    table
        e^M[k, l], the exponentials of required gaps between labels, or empty.
    """

    code: NDArray[np.uint32]
    order: NDArray[np.uint32]
    query: NDArray[np.int64]
    level: NDArray[np.int64]
    place: NDArray[np.uint32]
    slot: NDArray[np.float64]
    offset: NDArray[np.float64]
    term: NDArray[np.float64]
    label: NDArray[np.uint32]
    table: NDArray[np.float64]


def build_levels(
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
) -> Levels:
    """Number the rows of one task.

    Parameters
    ----------
    labels
        Rows by query and label; positions in ``rows`` when that is given.
    n_rows
        Rows of the matrix.
    query_weight
        One weight per query of ``labels``.
    normalization
        "sum": v_q is the query's weight; "query": divided by the query's dominating weight.
    rows
        The candidates, when not every row is one.
    weight, margin
        a_i > 0 and s_i of every row of the matrix, or None for ones and zeros.
    row_label, table
        Row of the K x K ``table`` of gaps for every row of the matrix.
    """
    labels.require_pairs()
    usable = labels.usable
    order = (labels.order if rows is None else rows[labels.order]).astype(np.uint32)
    n_kept = int((labels.query_starts[usable + 1] - labels.query_starts[usable]).sum())
    kept_order = np.empty(n_kept, dtype=np.uint32)
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
        (code, kept_order, query_ptr, slot_ptr, slot_row),
    )
    slot_row = slot_row[:n_slots]
    level_query = np.repeat(np.arange(len(usable), dtype=np.int64), n_levels)
    slot_level = np.repeat(np.arange(level_ptr[-1], dtype=np.uint32), np.diff(slot_ptr))
    slot_query = level_query[slot_level]
    slot = np.zeros((n_slots, 3))
    slot[:, WEIGHT] = 1.0 if weight is None else weight[slot_row]
    per_query = query_weight[usable].astype(np.float64)
    if normalization == "query":
        per_query = per_query / np.bincount(slot_query, slot[:, WEIGHT], minlength=len(usable))
    slot[:, TERM] = per_query[slot_query] * slot[:, WEIGHT]
    if margin is not None:
        slot[:, MARGIN] = margin[slot_row]
    # One row of each bottom and of each dominating level stands for its label.
    examples = np.concatenate([kept_order[query_ptr[:-1]], slot_row[slot_ptr[:-1]]])
    return Levels(
        code,
        kept_order,
        np.column_stack([query_ptr, level_ptr]),
        np.column_stack([slot_ptr, np.append(level_query, len(usable))]),
        np.column_stack([slot_row, slot_level]),
        slot,
        _offsets(weight, margin),
        np.bincount(slot_query, slot[:, TERM], minlength=len(usable)).astype(np.float64),
        np.zeros(0, dtype=np.uint32) if row_label is None else row_label[examples],
        np.zeros((0, 0)) if table is None else np.exp(table),
    )


def _offsets(
    weight: NDArray[np.float64] | None, margin: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """log a_i - s_i; rows of weight zero are no candidates, so their offset is never read."""
    if weight is None:
        return np.zeros(0) if margin is None else -margin
    logs = np.log(weight, out=np.zeros(len(weight)), where=weight > 0)
    return logs if margin is None else logs - margin


@jit
def _number_rows(order: Any, level_ptr: Any, level_starts: Any, usable: Any, out: Any) -> int:
    """Fill codes, rows by query, and slots; returns the number of slots."""
    code, kept_order, query_ptr, slot_ptr, slot_row = out
    kept = 0
    slot = 0
    level = 0
    for u in range(usable.shape[0]):
        first, last = level_ptr[usable[u]], level_ptr[usable[u] + 1]
        for p in range(level_starts[first], level_starts[last]):
            row = order[p]
            kept_order[kept] = row
            kept += 1
            if p < level_starts[first + 1]:
                code[row] = u
            else:
                code[row] = usable.shape[0] + 1 + slot
                slot_row[slot] = row
                slot += 1
        for k in range(first + 1, last):
            slot_ptr[level + 1] = slot_ptr[level] + level_starts[k + 1] - level_starts[k]
            level += 1
        query_ptr[u + 1] = kept
    return slot
