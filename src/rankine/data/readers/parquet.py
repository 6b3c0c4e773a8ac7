"""Parquet files, read batch by batch with bounded memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.concat import concat
from rankine.data.dataset import Dataset
from rankine.data.progress import Meter
from rankine.data.readers.arrow_errors import arrow_errors, open_seekable
from rankine.data.readers.arrow_types import is_text
from rankine.data.readers.column_plan import plan_columns
from rankine.data.readers.columns import batch_to_dataset, validate
from rankine.data.readers.list_rows import highest_index
from rankine.data.readers.parquet_pages import RowGroup, check_row_group, read_footer
from rankine.data.readers.row_faults import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["feature_names", "measure", "read", "read_blocks"]

#: Items of list columns in one batch, on average.
BATCH_ITEMS = 2**23
#: Bytes buffered per column, instead of whole column chunks.
_BUFFER = 256 * 1024


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Datasets of at most ``options.block_rows`` rows, in file order, not query-aligned."""
    with _open(source, options) as file:
        yield from _blocks(file, source, options, None)


def read(source: Source, options: ReadOptions) -> Dataset:
    """The whole file; dense features are decoded straight into their place."""
    with _open(source, options) as file:
        direct = not file.plan.sparse and options.dense is not False
        if direct and options.on_bad_row == "error":
            X = _room(file, options, source.name)
            narrow = [replace(b, X=b.X[:, :0]) for b in _blocks(file, source, options, X)]
            return replace(concat(narrow), X=X) if narrow else _nothing()
        parts = [block for block in _blocks(file, source, options, None) if block.n_rows]
        return concat(parts) if parts else _nothing()


def _nothing() -> Dataset:
    return Dataset(np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=np.int64))


def _blocks(
    file: _File, source: Source, options: ReadOptions, X: NDArray[Any] | None
) -> Iterator[Dataset]:
    """Blocks; their dense features lie in the rows of ``X`` where it is given."""
    with Meter(source, options) as meter:
        for batch, place in file.batches(file.plan.columns):
            stop = place.first_row + batch.num_rows
            out = None if X is None else X[place.first_row : stop]
            yield batch_to_dataset(batch, file.plan, options, place, out)
            meter.update((source.size or 0) * stop // max(file.n_rows, 1))
    source.check()


def _room(file: _File, options: ReadOptions, name: str) -> NDArray[Any]:
    """Uninitialised memory for all rows; it is touched only as rows arrive."""
    shape = (file.n_rows, len(file.plan.features))
    needed = file.n_rows * len(file.plan.features) * file.plan.dtype.itemsize
    if file.n_rows < 0 or needed > options.memory_limit:
        raise LimitError(
            f"{shape[0]} rows of {shape[1]} features need {needed} bytes",
            fix="Stream them with rankine.scan, use dtype='float32', or raise max_memory",
            file=name,
        )
    with arrow_errors(name, "the file"):
        return np.empty(shape, dtype=file.plan.dtype)


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features: from the schema, or the largest index of the sparse layout."""
    with _open(source, options) as file:
        if file.plan.n_features is not None:
            return file.plan.n_features
        name = file.plan.features[0]
        width = 0
        for batch, _ in file.batches([name]):
            width = max(width, highest_index(batch.column(name), options))
    source.check()
    return width


def feature_names(source: Source, options: ReadOptions) -> tuple[str, ...] | None:
    """Names of the features, if the file has them."""
    with _open(source, options) as file:
        return file.plan.feature_names


@contextmanager
def _open(source: Source, options: ReadOptions) -> Iterator[_File]:
    with open_seekable(source, "Parquet") as raw:
        yield _File(raw, source.name, options)


class _File:
    """An open Parquet file and the columns that its schema offers."""

    def __init__(self, raw: pa.NativeFile, name: str, options: ReadOptions) -> None:
        self._raw = raw
        self._name = name
        self._options = options
        with arrow_errors(name, "the Parquet footer", FileKindError):
            limits = {"thrift_string_size_limit": 2**26, "thrift_container_size_limit": 2**20}
            schema = pq.ParquetFile(raw, **limits).schema_arrow
        self.plan = plan_columns(schema, options, name)
        # Text stays dictionary-encoded until its full size is known.
        texts = [column for column in self.plan.columns if is_text(schema.field(column).type)]
        with arrow_errors(name, "the Parquet footer", FileKindError):
            self._file = pq.ParquetFile(
                raw,
                read_dictionary=texts,
                buffer_size=_BUFFER,
                page_checksum_verification=True,
                **limits,
            )

    @cached_property
    def _groups(self) -> list[RowGroup]:
        return read_footer(self._raw, self._name)

    @property
    def n_rows(self) -> int:
        """Rows of the file, as its footer says."""
        return sum(group.n_rows for group in self._groups)

    def batches(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, Place]]:
        """Validated batches with their places; the row counts of the footer are verified."""
        first_row = 0
        for number, group in enumerate(self._groups):
            part = f"row group {number}"
            with arrow_errors(self._name, part):
                rows = self._batch_rows(group, columns)
                batches = self._file.iter_batches(rows, row_groups=[number], columns=columns)
            found = 0
            while True:
                with arrow_errors(self._name, part):
                    batch = next(batches, None)
                if batch is None:
                    break
                place = Place(self._name, first_row + found, part, found)
                validate(batch, place)
                found += batch.num_rows
                yield batch, place
            if found != group.n_rows:
                raise SchemaError(
                    f"{part} holds {found} rows but its description says {group.n_rows}",
                    fix="The file is damaged; write it again",
                    file=self._name,
                )
            first_row += found

    def _batch_rows(self, group: RowGroup, columns: list[str]) -> int:
        """Rows per batch, fewer where lists are long, so that a batch stays small."""
        items = check_row_group(self._raw, group, columns, self._options, self._name)
        per_row = -(-items // max(group.n_rows, 1))
        return int(max(1, min(self._options.block_rows, BATCH_ITEMS // max(per_row, 1))))
