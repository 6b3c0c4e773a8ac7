"""Files that appear only when they are complete: LETOR text, Parquet, Arrow IPC, npz.

A writer takes datasets in row order and of any size, the path, and the options of its format; it
returns the number of rows written. Text holds the shortest decimals that read back as the same
numbers. Parquet and Arrow are streamed; npz is joined in memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.atomic import atomic_file
from rankine.core.checks import check_choice
from rankine.core.errors import EmptyDataError, SchemaError
from rankine.data.compression import open_target
from rankine.data.dataset import Dataset, concat, row_slices
from rankine.data.options import ReadOptions
from rankine.data.readers.column_plan import SPARSE, FileNotes, write_notes
from rankine.data.scan import align, run_ends

LAYOUTS = ("columns", "sparse")
#: Members of an npz archive that are no further columns.
_RESERVED = (
    "X",
    "data",
    "indices",
    "indptr",
    "shape",
    "y",
    "qid",
    "docid",
    "weight",
    "position",
    "feature_names",
)
#: Values formatted as text at a time.
_SLAB_VALUES = 2**18


def _some(blocks: Iterator[Dataset]) -> Dataset:
    """The first block; no rows is an error."""
    first = next(blocks, None)
    if first is None:
        raise EmptyDataError("there are no rows to write", fix="Check the input")
    return first


def write_letor(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    base: int = 1,
    zeros: bool = False,
    group: bool = False,
) -> int:
    """Write text; ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` compress it, ``-`` is standard output.

    Weights and positions go to ``PATH.weight`` and ``PATH.position``, one number a line, which is
    where XGBoost and LightGBM look for them.

    Parameters
    ----------
    base
        First feature index.
    zeros
        Write the zeros of dense rows too.
    group
        Leave out the query ids and write the rows per query to ``PATH.query`` instead.
    """
    check_choice("base", base, (0, 1))
    target = os.fspath(path)
    n_rows = 0
    with ExitStack() as files:
        main = files.enter_context(open_target(target))
        side = _SideFiles(target, files)
        sizes: list[int] = []
        last = None
        for block in blocks:
            _check_columns(block)
            for part in map(block.take, row_slices(block, _SLAB_VALUES)):
                main.write(_format(part, base, zeros=zeros, ids=not group))
                side.write(part)
            ends = run_ends(block.qid)
            fresh = np.diff(ends, prepend=0).tolist()
            if fresh and sizes and block.qid[0] == last:
                sizes[-1] += fresh.pop(0)
            sizes += fresh
            last = block.qid[-1] if len(ends) else last
            n_rows += block.n_rows
        if group:
            side.file("query").write("".join(f"{size}\n" for size in sizes).encode())
    return n_rows


class _SideFiles:
    """``PATH.weight`` and ``PATH.position``, opened when the first block has such a column."""

    def __init__(self, target: str, files: ExitStack) -> None:
        self._target = target
        self._files = files
        self._open: dict[str, Any] = {}

    def file(self, name: str) -> Any:
        if self._target == "-":
            raise SchemaError(f"{name} needs a file of its own", fix="Write to a file, or drop it")
        if name not in self._open:
            self._open[name] = self._files.enter_context(atomic_file(f"{self._target}.{name}"))
        return self._open[name]

    def write(self, part: Dataset) -> None:
        for name in ("weight", "position"):
            values = getattr(part, name)
            if values is not None:
                self.file(name).write(
                    "".join(f"{text}\n" for text in _strings(values).to_pylist()).encode()
                )


def _check_columns(block: Dataset) -> None:
    if block.columns:
        raise SchemaError(
            f"text cannot hold the column {next(iter(block.columns))!r}",
            fix="Write Parquet, or drop the column",
        )


def _format(part: Dataset, base: int, *, zeros: bool, ids: bool) -> bytes:
    """Lines of a slab, formatted column-wise by Arrow."""
    matrix = _as_csr(part.X, zeros=zeros)
    pairs = pc.binary_join_element_wise(
        _strings(matrix.indices.astype(np.int64) + base), _strings(matrix.data), ":"
    )
    features = pa.ListArray.from_arrays(pa.array(matrix.indptr.astype(np.int32)), pairs)
    fields = [_strings(part.y)]
    if ids:
        fields.append(pc.binary_join_element_wise("qid:", _query_ids(part.qid), ""))
    line = pc.binary_join_element_wise(*fields, pc.binary_join(features, " "), " ")
    line = pc.utf8_rtrim(line, " ")
    if part.docid is not None:
        docids = _tokens(part.docid, "document id", empty=True)
        comment = pc.binary_join_element_wise(" #docid = ", docids, "")
        line = pc.binary_join_element_wise(line, pc.if_else(pc.equal(docids, ""), "", comment), "")
    return ("\n".join(line.to_pylist()) + "\n").encode()


def _as_csr(X: Any, *, zeros: bool) -> Any:
    if sparse.issparse(X):
        return X
    if not zeros:
        return sparse.csr_matrix(X)
    n_rows, n_features = X.shape
    indices = np.tile(np.arange(n_features, dtype=np.int32), n_rows)
    return sparse.csr_matrix(
        (X.ravel(), indices, np.arange(n_rows + 1, dtype=np.int64) * n_features), shape=X.shape
    )


def _strings(values: NDArray[Any]) -> Any:
    """Shortest decimal that reads back as the same number, by Arrow's formatter."""
    return pc.cast(pa.array(values), pa.string())


def _query_ids(qid: NDArray[Any]) -> Any:
    return _strings(qid) if qid.dtype.kind in "iu" else _tokens(qid, "query id", empty=False)


def _tokens(values: NDArray[Any], what: str, *, empty: bool) -> Any:
    """Texts that a reader will see as one token, or an error."""
    found = pa.array(values.tolist(), type=pa.string())
    pattern = r"^[^\s\pC]*$" if empty else r"^[^\s\pC#]+$"
    good = pc.match_substring_regex(found, pattern)
    if not pc.all(good).as_py():
        bad = found[pc.index(good, False).as_py()].as_py()
        raise SchemaError(
            f"{what} {bad!r} cannot be written as text",
            fix="Remove blanks and control characters, or write Parquet",
        )
    return found


def write_parquet(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    base: int = 1,
    compression: str = "zstd",
    row_group_rows: int = 65536,
) -> int:
    """Write a Parquet file: row groups end on query boundaries and pages carry checksums.

    Parameters
    ----------
    layout
        "columns" or "sparse"; None takes the storage of the first block.
    base
        First index of the sparse layout; it is noted in the file.
    compression
        "none", "snappy", "gzip", "brotli", "lz4" or "zstd".
    row_group_rows
        A row group ends with the first query that reaches this many rows, so that each query is
        in one row group and the statistics of ``qid`` tell which.
    """
    import pyarrow.parquet as pq

    check_choice("compression", compression, ("none", "snappy", "gzip", "brotli", "lz4", "zstd"))
    options = ReadOptions(block_rows=row_group_rows, max_query_rows=sys.maxsize)
    aligned = align(iter(blocks), options)
    first = _some(aligned)
    maker = _BatchMaker(first, layout, base)
    chosen = {"compression": compression, "write_page_checksum": True}
    with atomic_file(path) as file, pq.ParquetWriter(file, maker.schema, **chosen) as writer:
        return maker.write_all(
            chain([first], aligned),
            lambda batch: writer.write_batch(batch, row_group_size=batch.num_rows),
        )


def write_arrow(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    base: int = 1,
    compression: str = "lz4",
) -> int:
    """Write an Arrow IPC file, or a stream when the name ends in ``.arrows``; a batch per block.

    The parameters are those of the Parquet writer; compression is "none", "lz4" or "zstd".
    """
    check_choice("compression", compression, ("none", "lz4", "zstd"))
    chosen = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    start = pa.ipc.new_stream if os.fspath(path).endswith(".arrows") else pa.ipc.new_file
    stream = (block for block in blocks if block.n_rows)
    first = _some(stream)
    maker = _BatchMaker(first, layout, base)
    with atomic_file(path) as file, start(file, maker.schema, options=chosen) as writer:
        return maker.write_all(chain([first], stream), writer.write_batch)


class _BatchMaker:
    """Turns the blocks of one data set into batches of one schema, fixed by the first block.

    Its storage, types, names and columns are those of the file.
    """

    def __init__(self, first: Dataset, layout: str | None, base: int) -> None:
        if layout is None:
            layout = "sparse" if sparse.issparse(first.X) else "columns"
        check_choice("layout", layout, LAYOUTS)
        check_choice("base", base, (0, 1))
        self.sparse = layout == "sparse"
        self.base = base
        self.n_features = first.n_features
        self.names = first.feature_names
        self.extra = tuple(first.columns)
        self.dtype = first.X.dtype
        batch_schema = self._batch(first).schema
        metadata = FileNotes(
            first.n_features,
            base,
            self.names is not None,
            self.names if self.sparse else None,
            self.extra,
        )
        self.schema = batch_schema.with_metadata(write_notes(metadata))

    def write_all(self, blocks: Iterable[Dataset], write: Callable[[pa.RecordBatch], None]) -> int:
        """Write one batch a block; returns the rows written."""
        n_rows = 0
        for block in blocks:
            write(self._make(block))
            n_rows += block.n_rows
        return n_rows

    def _make(self, block: Dataset) -> pa.RecordBatch:
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
        for name in ("docid", "weight", "position"):
            values = getattr(block, name)
            if values is not None:
                arrays[name] = _ids(np.asarray(values))
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
        parts = zip(SPARSE, (indices, values), strict=True)
        return {name: kind.from_arrays(pointer, pa.array(part)) for name, part in parts}


def _ids(values: NDArray[Any]) -> pa.Array:
    """Integers, numbers, times or text as an Arrow array."""
    if values.dtype.kind in "UTO":
        return pa.array(values.tolist(), type=pa.string())
    return pa.array(values)


def write_npz(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    compression: str = "none",
) -> int:
    """Write an npz archive, by numpy, with a dense ``X`` (layout "columns") or CSR ("sparse").

    Compression is "none" or "deflate".
    """
    check_choice("compression", compression, ("none", "deflate"))
    if layout is not None:
        check_choice("layout", layout, LAYOUTS)
    stream = (block for block in blocks if block.n_rows)
    members = _members(concat([_some(stream), *stream]), layout)
    save: Any = np.savez if compression == "none" else np.savez_compressed
    with atomic_file(path) as file:
        save(file, **members)
    return len(members["y"])


def _members(data: Dataset, layout: str | None) -> dict[str, NDArray[Any]]:
    for name in data.columns:
        if name in _RESERVED:
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
