"""npz archives, written by numpy from data in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.atomic import atomic_file
from rankine.core.errors import EmptyDataError, ParameterError, SchemaError
from rankine.data.dataset import concat

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["write_blocks"]

_MATRIX = ("X", "data", "indices", "indptr", "shape")
_COLUMNS = ("y", "qid", "docid", "weight", "position", "feature_names")


def write_blocks(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    compression: str = "none",
) -> int:
    """Write blocks to an npz archive that appears only when it is complete.

    Parameters
    ----------
    blocks
        Datasets in row order; they are joined in memory.
    path
        The file.
    layout
        "columns" (dense ``X``) or "sparse" (CSR); None takes the storage of the data.
    compression
        "none" or "deflate".

    Returns
    -------
    int
        Rows written.
    """
    if compression not in ("none", "deflate"):
        raise ParameterError(
            f"compression={compression!r} is not known", fix="Choose none or deflate"
        )
    if layout not in (None, "columns", "sparse"):
        raise ParameterError(f"layout={layout!r} is not known", fix="Choose columns or sparse")
    parts = [block for block in blocks if block.n_rows]
    if not parts:
        raise EmptyDataError("there are no rows to write", fix="Check the input")
    members = _members(concat(parts), layout)
    save: Any = np.savez if compression == "none" else np.savez_compressed
    with atomic_file(path) as file:
        save(file, **members)
    return len(members["y"])


def _members(data: Dataset, layout: str | None) -> dict[str, NDArray[Any]]:
    for name in data.columns:
        if name in _MATRIX + _COLUMNS:
            raise SchemaError(
                f"a column is called {name!r}, which has another meaning",
                fix="Rename it",
                column=name,
            )
    names = None if data.feature_names is None else np.asarray(data.feature_names, dtype=str)
    columns = {
        "y": data.y,
        "qid": data.qid,
        "docid": data.docid,
        "weight": data.weight,
        "position": data.position,
        "feature_names": names,
        **data.columns,
    }
    found = {name: np.asarray(values) for name, values in columns.items() if values is not None}
    plain = {
        name: np.asarray(v.tolist(), dtype=str) if v.dtype.kind in "TO" else v
        for name, v in found.items()
    }
    return {**_matrix(data.X, layout), **plain}


def _matrix(X: Any, layout: str | None) -> dict[str, NDArray[Any]]:
    if layout == "columns" or (layout is None and not sparse.issparse(X)):
        return {"X": X.toarray() if sparse.issparse(X) else X}
    rows = sparse.csr_matrix(X)
    return {
        "data": rows.data,
        "indices": rows.indices,
        "indptr": rows.indptr.astype(np.int64),
        "shape": np.array(rows.shape, dtype=np.int64),
    }
