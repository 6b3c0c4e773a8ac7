"""Parquet files, read batch by batch with bounded memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.dataset import Dataset, concat
from rankine.data.progress import Meter
from rankine.data.readers.column_plan import plan_columns
from rankine.data.readers.columns import batch_to_dataset, highest_index, validate
from rankine.data.readers.parquet_guard import RowGroup, check_row_group, read_footer
from rankine.data.readers.values import Place, arrow_errors, is_text, open_seekable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["feature_names", "measure", "open_file", "read", "read_blocks"]

#: Items of list columns in one batch, on average.
BATCH_ITEMS = 2**23
#: What Arrow may allocate while it reads a footer.
_LIMITS = {"thrift_string_size_limit": 2**26, "thrift_container_size_limit": 2**20}
#: Bytes buffered per column, instead of whole column chunks.
_BUFFER = 256 * 1024


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Datasets of at most ``options.block_rows`` rows, in file order, not query-aligned."""
    with open_file(source, options) as file:
        yield from _blocks(file, source, options, None, (0, file.n_rows))


def read(source: Source, options: ReadOptions, span: tuple[int, int] | None = None) -> Dataset:
    """The whole file, or the rows of ``span``; dense features are decoded into their place."""
    with open_file(source, options) as file:
        start, stop = (0, file.n_rows) if span is None else span
        direct = not file.plan.sparse and options.dense is not False
        if direct and options.on_bad_row == "error":
            X = _room(file, options, source.name, stop - start)
            narrow = [
                replace(b, X=b.X[:, :0]) for b in _blocks(file, source, options, X, (start, stop))
            ]
            return replace(concat(narrow), X=X) if narrow else _nothing()
        blocks = _blocks(file, source, options, None, (start, stop))
        parts = [block for block in blocks if block.n_rows]
        return concat(parts) if parts else _nothing()


def _nothing() -> Dataset:
    return Dataset(np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=np.int64))


def _blocks(
    file: ParquetRows,
    source: Source,
    options: ReadOptions,
    X: NDArray[Any] | None,
    span: tuple[int, int],
) -> Iterator[Dataset]:
    """Blocks of some rows; their dense features lie in the rows of ``X`` where it is given."""
    with Meter(source, options) as meter:
        for batch, place in file.batches(file.plan.columns, span):
            stop = place.first_row + batch.num_rows
            out = None if X is None else X[place.first_row - span[0] : stop - span[0]]
            yield batch_to_dataset(batch, file.plan, options, place, out)
            meter.update((source.size or 0) * stop // max(file.n_rows, 1))
    source.check()


def _room(file: ParquetRows, options: ReadOptions, name: str, n_rows: int) -> NDArray[Any]:
    """Uninitialised memory for all rows; it is touched only as rows arrive."""
    shape = (n_rows, len(file.plan.features))
    needed = n_rows * len(file.plan.features) * file.plan.dtype.itemsize
    if n_rows < 0 or needed > options.memory_limit:
        raise LimitError(
            f"{shape[0]} rows of {shape[1]} features need {needed} bytes",
            fix="Stream them with rankine.scan, use dtype='float32', or raise max_memory",
            file=name,
        )
    with arrow_errors(name, "the file"):
        return np.empty(shape, dtype=file.plan.dtype)


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features: from the schema, or the largest index of the sparse layout."""
    with open_file(source, options) as file:
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
    with open_file(source, options) as file:
        return file.plan.feature_names


def column_names(source: Source, options: ReadOptions) -> list[str]:
    """Names of all columns, from a footer that was checked first."""
    with open_seekable(source, "Parquet") as raw:
        read_footer(raw, source.name)
        return list(_schema(raw, source.name).names)


@contextmanager
def open_file(source: Source, options: ReadOptions) -> Iterator[ParquetRows]:
    """An open file; closed at the end."""
    with open_seekable(source, "Parquet") as raw:
        yield ParquetRows(raw, source.name, options)


def _schema(raw: pa.NativeFile, name: str) -> pa.Schema:
    with arrow_errors(name, "the Parquet footer", FileKindError):
        return pq.ParquetFile(raw, **_LIMITS).schema_arrow


class ParquetRows:
    """An open Parquet file and the columns that its schema offers."""

    def __init__(self, raw: pa.NativeFile, name: str, options: ReadOptions) -> None:
        self._raw = raw
        self.name = name
        self._options = options
        #: Row groups, as the footer says.
        self.groups: list[RowGroup] = read_footer(raw, name)
        schema = _schema(raw, name)
        self.plan = plan_columns(schema, options, name)
        # Text stays dictionary-encoded until its full size is known.
        self.texts = [name for name in self.plan.columns if is_text(schema.field(name).type)]
        with arrow_errors(name, "the Parquet footer", FileKindError):
            self._file = pq.ParquetFile(
                raw,
                read_dictionary=self.texts,
                buffer_size=_BUFFER,
                page_checksum_verification=True,
                **_LIMITS,
            )

    def bounded_groups(self) -> list[RowGroup]:
        """Row groups with the smallest and largest values of their columns."""
        return read_footer(self._raw, self.name, bounds=True)

    @property
    def n_rows(self) -> int:
        """Rows of the file, as its footer says."""
        return sum(group.n_rows for group in self.groups)

    def batches(
        self, columns: list[str], span: tuple[int, int] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Place]]:
        """Validated batches with their places; the row counts of the footer are verified.

        ``span`` keeps the rows from its first to before its second; other row groups are passed.
        """
        low, high = (0, self.n_rows) if span is None else span
        first_row = 0
        for number, group in enumerate(self.groups):
            if first_row + group.n_rows <= low or first_row >= high:
                first_row += group.n_rows
                continue
            part = f"row group {number}"
            with arrow_errors(self.name, part):
                rows = self._batch_rows(group, columns)
                batches = self._file.iter_batches(rows, row_groups=[number], columns=columns)
            found = 0
            while True:
                with arrow_errors(self.name, part):
                    batch = next(batches, None)
                if batch is None:
                    break
                here = first_row + found
                found += batch.num_rows
                skip = max(low - here, 0)
                kept = batch.slice(skip, max(high - here - skip, 0))
                if kept.num_rows == 0:
                    continue
                place = Place(self.name, here + skip, part, here + skip - first_row)
                validate(kept, place)
                yield kept, place
            if found != group.n_rows:
                raise SchemaError(
                    f"{part} holds {found} rows but its description says {group.n_rows}",
                    fix="The file is damaged; write it again",
                    file=self.name,
                )
            first_row += found

    def _batch_rows(self, group: RowGroup, columns: list[str]) -> int:
        """Rows per batch, fewer where lists are long, so that a batch stays small."""
        items = check_row_group(self._raw, group, columns, self._options, self.name)
        per_row = -(-items // max(group.n_rows, 1))
        return int(max(1, min(self._options.block_rows, BATCH_ITEMS // max(per_row, 1))))
