"""Write LETOR text, Parquet, Arrow IPC and npz; a file appears only when it is complete.

A writer takes datasets in row order and of any size, the path, and the options of its format; it
returns the number of rows written. Text holds the shortest decimals that read back as the same
numbers. Text, Parquet and Arrow are written block by block; npz is joined in memory.
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
from rankine.data.readers.column_plan import SPARSE, FileMetadata, encode_metadata
from rankine.data.scan import align, run_ends

LAYOUTS = ("columns", "sparse")
#: Arrays of an npz file that are not further columns.
_NPZ_NAMES = (
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


def _take_first(blocks: Iterator[Dataset]) -> Dataset:
    """Take the first block; refuse data without rows."""
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
        rows_file = files.enter_context(open_target(target))
        side_files = _SideFiles(target, files)
        group_sizes: list[int] = []
        last_id = None
        for block in blocks:
            _check_columns(block)
            for part in map(block.take, row_slices(block, _SLAB_VALUES)):
                rows_file.write(_format_rows(part, base, zeros=zeros, ids=not group))
                side_files.write(part)
            # LightGBM and XGBoost expect rows per query in order, not ids.
            sizes = np.diff(run_ends(block.qid), prepend=0).tolist()
            if sizes and group_sizes and block.qid[0] == last_id:
                group_sizes[-1] += sizes.pop(0)  # the query continues from the block before
            group_sizes += sizes
            if block.n_rows:
                last_id = block.qid[-1]
            n_rows += block.n_rows
        if group:
            side_files.open("query").write("".join(f"{size}\n" for size in group_sizes).encode())
    return n_rows


class _SideFiles:
    """``PATH.weight`` and ``PATH.position``, opened when the first block has such a column."""

    def __init__(self, target: str, files: ExitStack) -> None:
        self._target = target
        self._files = files
        self._by_name: dict[str, Any] = {}

    def open(self, name: str) -> Any:
        if self._target == "-":
            raise SchemaError(f"{name} needs a separate file", fix="Write to a file, or drop it")
        if name not in self._by_name:
            self._by_name[name] = self._files.enter_context(atomic_file(f"{self._target}.{name}"))
        return self._by_name[name]

    def write(self, part: Dataset) -> None:
        for name in ("weight", "position"):
            values = getattr(part, name)
            if values is not None:
                lines = "".join(f"{text}\n" for text in _to_strings(values).to_pylist())
                self.open(name).write(lines.encode())


def _check_columns(block: Dataset) -> None:
    if block.columns:
        raise SchemaError(
            f"text cannot hold the column {next(iter(block.columns))!r}",
            fix="Write Parquet, or drop the column",
        )


def _format_rows(part: Dataset, base: int, *, zeros: bool, ids: bool) -> bytes:
    """Format rows as lines, column by column, by Arrow."""
    # Arrow formats whole columns, Python one number at a time.
    matrix = _as_csr(part.X, zeros=zeros)
    pairs = pc.binary_join_element_wise(
        _to_strings(matrix.indices.astype(np.int64) + base), _to_strings(matrix.data), ":"
    )
    features = pa.ListArray.from_arrays(pa.array(matrix.indptr.astype(np.int32)), pairs)
    fields = [_to_strings(part.y)]
    if ids:
        fields.append(pc.binary_join_element_wise("qid:", _format_ids(part.qid), ""))
    line = pc.binary_join_element_wise(*fields, pc.binary_join(features, " "), " ")
    # A row without features would end in a blank.
    line = pc.utf8_rtrim(line, " ")
    if part.docid is not None:
        docids = _check_tokens(part.docid, "document id", empty=True)
        comment = pc.binary_join_element_wise(" #docid = ", docids, "")
        line = pc.binary_join_element_wise(line, pc.if_else(pc.equal(docids, ""), "", comment), "")
    return ("\n".join(line.to_pylist()) + "\n").encode()


def _as_csr(X: Any, *, zeros: bool) -> Any:
    if sparse.issparse(X):
        return X
    # SciPy leaves zeros out.
    if not zeros:
        return sparse.csr_matrix(X)
    n_rows, n_features = X.shape
    indices = np.tile(np.arange(n_features, dtype=np.int32), n_rows)
    return sparse.csr_matrix(
        (X.ravel(), indices, np.arange(n_rows + 1, dtype=np.int64) * n_features), shape=X.shape
    )


def _to_strings(values: NDArray[Any]) -> Any:
    """Format numbers as the shortest decimals that read back as the same numbers."""
    return pc.cast(pa.array(values), pa.string())


def _format_ids(qid: NDArray[Any]) -> Any:
    if qid.dtype.kind in "iu":
        return _to_strings(qid)
    return _check_tokens(qid, "query id", empty=False)


def _check_tokens(values: NDArray[Any], what: str, *, empty: bool) -> Any:
    """Return texts as Arrow's; refuse those that a reader would not see as one token."""
    texts = pa.array(values.tolist(), type=pa.string())
    pattern = r"^[^\s\pC]*$" if empty else r"^[^\s\pC#]+$"
    valid = pc.match_substring_regex(texts, pattern)
    if not pc.all(valid).as_py():
        bad = texts[pc.index(valid, False).as_py()].as_py()
        raise SchemaError(
            f"{what} {bad!r} cannot be written as text",
            fix="Remove blanks and control characters, or write Parquet",
        )
    return texts


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
        First index of the sparse layout; it is stored in the file's metadata.
    compression
        "none", "snappy", "gzip", "brotli", "lz4" or "zstd".
    row_group_rows
        A row group ends with the first query that reaches this many rows, so that each query is
        in one row group, which the statistics of ``qid`` identify.
    """
    import pyarrow.parquet as pq

    check_choice("compression", compression, ("none", "snappy", "gzip", "brotli", "lz4", "zstd"))
    options = ReadOptions(block_rows=row_group_rows, max_query_rows=sys.maxsize)
    # Whole queries per row group: streams and partitions can then be cut between row groups.
    aligned = align(iter(blocks), options)
    first = _take_first(aligned)
    maker = _BatchMaker(first, layout, base)
    settings = {"compression": compression, "write_page_checksum": True}
    with atomic_file(path) as file, pq.ParquetWriter(file, maker.schema, **settings) as writer:
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
    """Write an Arrow IPC file, or a stream when the name ends in ``.arrows``; one batch per block.

    ``layout`` and ``base`` are as for Parquet; compression is "none", "lz4" or "zstd".
    """
    check_choice("compression", compression, ("none", "lz4", "zstd"))
    codec = None if compression == "none" else compression
    settings = pa.ipc.IpcWriteOptions(compression=codec)
    open_writer = pa.ipc.new_stream if os.fspath(path).endswith(".arrows") else pa.ipc.new_file
    stream = (block for block in blocks if block.n_rows)
    first = _take_first(stream)
    maker = _BatchMaker(first, layout, base)
    with atomic_file(path) as file, open_writer(file, maker.schema, options=settings) as writer:
        return maker.write_all(chain([first], stream), writer.write_batch)


class _BatchMaker:
    """Turns the blocks of a data set into batches of one schema.

    The first block decides the storage, types, names and columns of the file.
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
        # The types of the first block are those of the file; later blocks are compared with them.
        batch_schema = self._to_batch(first).schema
        metadata = FileMetadata(
            first.n_features,
            base,
            self.names is not None,
            self.names if self.sparse else None,
            self.extra,
        )
        self.schema = batch_schema.with_metadata(encode_metadata(metadata))

    def write_all(self, blocks: Iterable[Dataset], write: Callable[[pa.RecordBatch], None]) -> int:
        """Write one batch per block and return the number of rows."""
        n_rows = 0
        for block in blocks:
            write(self._check_batch(block))
            n_rows += block.n_rows
        return n_rows

    def _check_batch(self, block: Dataset) -> pa.RecordBatch:
        """Make the batch of a block; refuse a block that does not fit the file's schema."""
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
        batch = self._to_batch(block)
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise SchemaError(
                "a block has other columns or types than the first block",
                fix="Give all blocks ids, docids, weights and values of the same type",
            )
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _to_batch(self, block: Dataset) -> pa.RecordBatch:
        arrays: dict[str, pa.Array] = {"label": pa.array(block.y), "qid": to_arrow(block.qid)}
        for name in ("docid", "weight", "position"):
            values = getattr(block, name)
            if values is not None:
                arrays[name] = to_arrow(np.asarray(values))
        features = self._to_lists(block.X) if self.sparse else self._to_columns(block.X)
        extra = {name: to_arrow(np.asarray(values)) for name, values in block.columns.items()}
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

    def _to_columns(self, X: Any) -> dict[str, pa.Array]:
        dense = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=self.dtype)
        names = self.names or tuple(f"f{j + 1}" for j in range(self.n_features))
        return {name: pa.array(dense[:, j]) for j, name in enumerate(names)}

    def _to_lists(self, X: Any) -> dict[str, pa.Array]:
        rows = X if sparse.issparse(X) else sparse.csr_matrix(X)
        list_type: Any = pa.ListArray
        offset_type: type[np.signedinteger[Any]] = np.int32
        # Lists with 32-bit offsets hold fewer items than this.
        if rows.nnz >= 2**31:
            list_type, offset_type = pa.LargeListArray, np.int64
        pointer = rows.indptr.astype(offset_type, copy=False)
        indices = rows.indices.astype(np.int32, copy=False)
        # Indices are stored as the file's metadata says, from 0 or from 1.
        if self.base:
            indices = indices + np.int32(self.base)
        values = np.asarray(rows.data, dtype=self.dtype)
        items = zip(SPARSE, (indices, values), strict=True)
        offsets = pa.array(pointer)
        return {name: list_type.from_arrays(offsets, pa.array(item)) for name, item in items}


def to_arrow(values: NDArray[Any]) -> pa.Array:
    """Convert integers, numbers, times or text to an Arrow array."""
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
    """Write arrays for ``numpy.load``: a dense ``X`` (layout "columns") or CSR ("sparse").

    Compression is "none" or "deflate".
    """
    check_choice("compression", compression, ("none", "deflate"))
    if layout is not None:
        check_choice("layout", layout, LAYOUTS)
    stream = (block for block in blocks if block.n_rows)
    data = concat(chain([_take_first(stream)], stream))
    arrays = {**_matrix_arrays(data.X, layout), **_column_arrays(data)}
    save: Any = np.savez if compression == "none" else np.savez_compressed
    with atomic_file(path) as file:
        save(file, **arrays)
    return data.n_rows


def _column_arrays(data: Dataset) -> dict[str, NDArray[Any]]:
    for name in data.columns:
        if name in _NPZ_NAMES:
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
    arrays = {name: np.asarray(values) for name, values in columns.items() if values is not None}
    for name, array in arrays.items():
        if array.dtype.kind in "TO":  # numpy.load reads neither without pickle
            arrays[name] = np.asarray(array.tolist(), dtype=str)
    return arrays


def _matrix_arrays(X: Any, layout: str | None) -> dict[str, NDArray[Any]]:
    if layout == "columns" or (layout is None and not sparse.issparse(X)):
        return {"X": X.toarray() if sparse.issparse(X) else X}
    rows = sparse.csr_matrix(X)
    return {
        "data": rows.data,
        "indices": rows.indices,
        "indptr": rows.indptr.astype(np.int64),
        "shape": np.array(rows.shape, dtype=np.int64),
    }
