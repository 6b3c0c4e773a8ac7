"""Required gaps between scores: what a user may say, turned into numbers and checked.

A separable margin asks for a gap s_i - s_j between rows i and j, which is an offset -s_i on the
scores (the paper's section 1.4). A table of gaps M[k, l] between labels need not be separable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from rankine.data.query_index import LabelIndex

__all__ = ["check_margins", "resolve_margin", "resolve_table"]

#: e^500 is far from overflow even when summed over every row that fits in memory.
LARGEST_GAP = 500.0


def resolve_margin(
    margin: Any, scale: float, y: NDArray[np.float64], columns: Mapping[str, NDArray[Any]]
) -> NDArray[np.float64] | None:
    """s of every row, or None.

    ``margin`` is None, a number (times the label), a function of the array of labels, one number
    per row, or the name of a column that holds them; everything is multiplied by ``scale``.
    """
    if not 0 <= scale < np.inf:
        raise ParameterError(
            f"margin_scale={scale!r} must be a finite number >= 0", fix="Pass for example 1.0"
        )
    if margin is None or scale == 0:
        return None
    if isinstance(margin, str):
        if margin not in columns:
            known = ", ".join(sorted(columns)) or "none"
            raise ParameterError(
                f"margin={margin!r} names no column of the data (columns: {known})",
                fix="Load it with columns=[...], or pass one number per row",
            )
        margin = columns[margin]
    elif callable(margin):
        margin = margin(y.copy())
    elif np.isscalar(margin):
        margin = _number(margin) * y
    values = np.asarray(margin, dtype=np.float64)
    if values.shape != y.shape:
        raise SchemaError(
            f"margin has shape {values.shape} for {len(y)} rows", fix="Give one number per row"
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise SchemaError(f"margin of row {row} is {values[row]}", fix="Give finite numbers")
    return values * float(scale)


def _number(margin: Any) -> float:
    value = float(margin)
    if not np.isfinite(value) or value < 0:
        raise ParameterError(
            f"margin={margin!r} must be finite and >= 0", fix="Pass a scale on the labels"
        )
    return value


def check_margins(
    labels: LabelIndex, s: NDArray[np.float64], y: NDArray[np.float64], ids: NDArray[Any]
) -> None:
    """Refuse margins under which a higher label of a query asks for less than a lower one.

    Levels follow each other from low to high, so neighbours decide: the smallest margin of a level
    must not fall below the largest of the level before it.
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
    below, above = (y[labels.order[labels.level_starts[k]]] for k in (level, level + 1))
    raise SchemaError(
        f"query {query}: a row of label {above:g} has margin {lowest[level + 1]:g}, "
        f"below the margin {highest[level]:g} of a row of label {below:g}",
        fix="A higher label must never have the smaller margin",
    )


def resolve_table(
    table: Any, y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.uint32]] | None:
    """Checked K x K table of gaps, and the row of the table of every label of ``y``.

    Row k, column l < k of the table is the gap that label k must keep above label l. Labels that
    are integers in 0..K-1 number the rows themselves; other labels are numbered by their order,
    and then there must be K different ones.
    """
    if table is None:
        return None
    gaps = np.asarray(table, dtype=np.float64)
    if gaps.ndim != 2 or gaps.shape[0] != gaps.shape[1] or len(gaps) < 2:
        raise ParameterError(
            f"margin_table has shape {gaps.shape}", fix="Pass a K x K table, K levels"
        )
    lower = gaps[np.tril_indices(len(gaps), -1)]
    if not np.isfinite(lower).all() or (lower < 0).any() or (lower > LARGEST_GAP).any():
        raise ParameterError(
            f"margin_table needs gaps between 0 and {LARGEST_GAP:g} below its diagonal",
            fix="Row k, column l < k is the gap that level k must keep above level l",
        )
    own = np.tril(gaps, -1)
    if len(y) == 0:
        return own, np.zeros(0, dtype=np.uint32)
    if (y == np.floor(y)).all() and y.min() >= 0 and y.max() < len(gaps):
        return own, y.astype(np.uint32)
    values, row_label = np.unique(y, return_inverse=True)
    if len(values) != len(gaps):
        raise ParameterError(
            f"margin_table is {len(gaps)} x {len(gaps)} but the data has {len(values)} labels",
            fix="Pass one row and column per label, in increasing order",
        )
    return own, row_label.astype(np.uint32)
