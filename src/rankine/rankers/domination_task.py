"""From labelled rows to one task of domination rank: candidates, weights, margins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError
from rankine.data.query_index import LabelIndex, QueryIndex
from rankine.losses.domination import (
    Levels,
    build_levels,
    check_margins,
    resolve_margin,
    resolve_table,
)
from rankine.rankers.checks import check_choice

__all__ = ["NORMALIZATIONS", "TaskOptions", "task_levels"]

NORMALIZATIONS = ("sum", "query")


@dataclass(frozen=True)
class TaskOptions:
    """What a user chose about the loss; see ``DominationRanker``."""

    normalization: str = "sum"
    margin: Any = None
    margin_scale: float = 1.0
    margin_table: Any = None

    def __post_init__(self) -> None:
        check_choice("normalization", self.normalization, NORMALIZATIONS)


def task_levels(
    y: NDArray[np.float64],
    queries: QueryIndex,
    query_weight: NDArray[np.float64],
    options: TaskOptions,
    *,
    weight: NDArray[np.float64] | None = None,
    candidates: NDArray[np.bool_] | None = None,
    columns: Mapping[str, NDArray[Any]] | None = None,
    labels: LabelIndex | None = None,
) -> Levels:
    """Number the rows of one task.

    Rows that are no candidates, and rows whose weight or whose query's weight is zero, take no
    part. ``labels`` may pass in the index of all rows when the caller has it.
    """
    rows = _taking_part(queries, query_weight, weight, candidates)
    if rows is None:
        ids = queries.ids
        index = LabelIndex.build(queries, y) if labels is None else labels
    else:
        if len(rows) == 0:
            raise NoPairsError("no row takes part", fix="Give some rows a positive weight")
        part = QueryIndex.from_qid(queries.codes[rows], len(rows))
        ids, query_weight = queries.ids[part.ids], query_weight[part.ids]
        index = LabelIndex.build(part, y[rows])
    index.require_pairs()
    margin = resolve_margin(options.margin, options.margin_scale, y, columns or {})
    if margin is not None:
        own = slice(None) if rows is None else rows
        check_margins(index, margin[own], y[own], ids)
    table = resolve_table(options.margin_table, _labels_in_use(y, rows))
    row_label = None
    if table is not None:
        row_label = np.zeros(len(y), dtype=np.uint32)
        row_label[slice(None) if rows is None else rows] = table[1]
    return build_levels(
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


def _labels_in_use(y: NDArray[np.float64], rows: NDArray[np.int64] | None) -> NDArray[np.float64]:
    return y if rows is None else y[rows]


def _taking_part(
    queries: QueryIndex,
    query_weight: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    candidates: NDArray[np.bool_] | None,
) -> NDArray[np.int64] | None:
    """Rows that take part, or None for all."""
    keep = candidates
    if weight is not None and not (weight > 0).all():
        keep = weight > 0 if keep is None else keep & (weight > 0)
    if not (query_weight > 0).all():
        weighed = (query_weight > 0)[queries.codes]
        keep = weighed if keep is None else keep & weighed
    if keep is None or keep.all():
        return None
    return np.flatnonzero(keep).astype(np.int64)
