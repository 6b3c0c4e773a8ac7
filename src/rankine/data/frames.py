"""Data frames of any library, split into values, names and an optional ``qid`` column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FrameParts", "split_frame"]


class FrameParts(NamedTuple):
    """A matrix, its column names, and the query ids found in it."""

    values: Any
    names: tuple[str, ...] | None
    qid: Any


def split_frame(X: Any, names: Sequence[str] | None = None) -> FrameParts:
    """Separate a frame's ``qid`` column from its features; other inputs pass through."""
    if not _is_frame(X):
        return FrameParts(X, None if names is None else tuple(names), None)
    import narwhals.stable.v1 as nw

    frame = nw.from_native(X, eager_only=True)
    qid = None
    if "qid" in frame.columns:
        qid = frame["qid"].to_numpy()
        frame = frame.drop("qid")
    found = tuple(names) if names is not None else tuple(frame.columns)
    return FrameParts(_to_matrix(frame), found, qid)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "shape") and not isinstance(X, np.ndarray)


def _to_matrix(frame: Any) -> Any:
    """Column-wise copy into one C-ordered array; float32 only if every column is float32."""
    columns = [frame[name].to_numpy() for name in frame.columns]
    narrow = bool(columns) and all(column.dtype == np.float32 for column in columns)
    matrix = np.empty((len(frame), len(columns)), dtype=np.float32 if narrow else np.float64)
    for j, column in enumerate(columns):
        matrix[:, j] = column
    return matrix
