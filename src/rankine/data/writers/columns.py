"""A Dataset as Arrow batches: the columns that the Parquet and Arrow readers understand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import EmptyDataError, ParameterError, SchemaError
from rankine.data.readers.column_plan import SPARSE, FileNotes, write_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.dataset import Dataset

__all__ = ["BatchMaker", "start_batches"]

LAYOUTS = ("columns", "sparse")


class BatchMaker:
    """Turns the blocks of one data set into batches of one schema, fixed by the first block.

    Parameters
    ----------
    first
        First block: its storage, types, names and columns are those of the file.
    layout
        "columns" (one per feature) or "sparse" (``indices`` and ``values``); None takes the
        block's own storage.
    base
        First index of the sparse layout.
    """

    def __init__(self, first: Dataset, layout: str | None = None, base: int = 1) -> None:
        if layout is None:
            layout = "sparse" if sparse.issparse(first.X) else "columns"
        if layout not in LAYOUTS:
            raise ParameterError(f"layout={layout!r} is not known", fix="Choose columns or sparse")
        if base not in (0, 1):
            raise ParameterError(f"base={base!r} is not known", fix="Choose 0 or 1")
        self.sparse = layout == "sparse"
        self.base = base
        self.n_features = first.n_features
        self.names = first.feature_names
        self.extra = tuple(first.columns)
        self.dtype = first.X.dtype
        batch_schema = self._batch(first).schema
        notes = FileNotes(
            first.n_features,
            base,
            self.names is not None,
            self.names if self.sparse else None,
            self.extra,
        )
        self.schema = batch_schema.with_metadata(write_notes(notes))

    def make(self, block: Dataset) -> pa.RecordBatch:
        """One batch of the file's schema."""
        if (
            block.n_features != self.n_features
            or block.feature_names != self.names
            or tuple(block.columns) != self.extra
        ):
            raise SchemaError(
                f"a block has {block.n_features} features where the first has {self.n_features}, "
                "or other names or columns",
                fix="Give all blocks the same features and columns",
            )
        batch = self._batch(block)
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise SchemaError(
                "a block has other columns or types than the first block",
                fix="Give all blocks ids, docids, weights and values of the same type",
            )
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _batch(self, block: Dataset) -> pa.RecordBatch:
        arrays: dict[str, pa.Array] = {"label": pa.array(block.y), "qid": _ids(block.qid)}
        if block.docid is not None:
            arrays["docid"] = _ids(block.docid)
        if block.weight is not None:
            arrays["weight"] = pa.array(block.weight)
        if block.position is not None:
            arrays["position"] = pa.array(np.asarray(block.position))
        features = self._lists(block.X) if self.sparse else self._columns(block.X)
        extra = {name: _ids(np.asarray(values)) for name, values in block.columns.items()}
        for group in (extra, features):
            for name, array in group.items():
                if name in arrays:
                    raise SchemaError(
                        f"a feature or column is called {name!r}, which has another meaning",
                        fix="Rename it",
                        column=name,
                    )
                arrays[name] = array
        return pa.RecordBatch.from_pydict(arrays)

    def _columns(self, X: Any) -> dict[str, pa.Array]:
        dense = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=self.dtype)
        names = self.names or tuple(f"f{j + 1}" for j in range(self.n_features))
        return {name: pa.array(dense[:, j]) for j, name in enumerate(names)}

    def _lists(self, X: Any) -> dict[str, pa.Array]:
        rows = X if sparse.issparse(X) else sparse.csr_matrix(X)
        wide = rows.nnz >= 2**31
        kind = pa.LargeListArray if wide else pa.ListArray
        pointer = pa.array(rows.indptr.astype(np.int64 if wide else np.int32, copy=False))
        indices = rows.indices.astype(np.int32, copy=False)
        if self.base:
            indices = indices + np.int32(self.base)
        values = np.asarray(rows.data, dtype=self.dtype)
        return dict(
            zip(
                SPARSE,
                (kind.from_arrays(pointer, pa.array(part)) for part in (indices, values)),
                strict=True,
            )
        )


def start_batches(
    blocks: Iterator[Dataset], layout: str | None, base: int
) -> tuple[Dataset, BatchMaker]:
    """The first block of a stream and the maker that it decides; no rows is an error."""
    first = next(blocks, None)
    if first is None:
        raise EmptyDataError("there are no rows to write", fix="Check the input")
    return first, BatchMaker(first, layout, base)


def _ids(values: NDArray[Any]) -> pa.Array:
    """Integers, numbers, times or text as an Arrow array."""
    if values.dtype.kind in "UTO":
        return pa.array(values.tolist(), type=pa.string())
    return pa.array(values)
