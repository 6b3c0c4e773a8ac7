"""Parquet, Arrow IPC (files, also called Feather version 2, and streams), CSV and JSON lines.

All give record batches of a schema with bounded memory; from there on they are read alike. Types of
text are those of its first 16 MiB; a later value of another type is an error.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from operator import length_hint
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankine.core.errors import (
    EmptyDataError,
    FileKindError,
    LimitError,
    ParseError,
    SchemaError,
)
from rankine.data.compression import ByteStream, open_stream, strip_compression
from rankine.data.dataset import Dataset, concat
from rankine.data.formats import choose_format
from rankine.data.options import ReadOptions
from rankine.data.progress import Meter
from rankine.data.readers.arrow_guard import GuardedStream, check_file
from rankine.data.readers.column_plan import ColumnPlan, plan_columns
from rankine.data.readers.columns import batch_to_dataset, highest_index, validate
from rankine.data.readers.parquet_guard import RowGroup, check_row_group, read_footer
from rankine.data.readers.values import Place, arrow_errors, is_text, open_seekable
from rankine.data.sources import Source

#: First bytes of an IPC file.
FILE_MAGIC = b"ARROW1"
#: Items of list columns in one batch, on average.
BATCH_ITEMS = 2**23
#: What Arrow may allocate while it reads a footer.
_LIMITS = {"thrift_string_size_limit": 2**26, "thrift_container_size_limit": 2**20}
#: Bytes of text whose values decide the types of its columns, and of a batch.
TEXT_BLOCK = 2**24
#: Bytes buffered per column, instead of whole column chunks.
_BUFFER = 256 * 1024


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Datasets of at most ``options.block_rows`` rows, in file order, not query-aligned."""
    with open_table(source, options) as table:
        yield from _blocks(table, source, options)


def read(source: Source, options: ReadOptions, span: tuple[int, int] | None = None) -> Dataset:
    """The whole file, or the rows of ``span`` of a Parquet file.

    Dense features of Parquet are decoded into their place.
    """
    with open_table(source, options) as table:
        direct = not table.plan.sparse and options.dense is not False
        if isinstance(table, ParquetRows) and direct and options.on_bad_row == "error":
            start, stop = span or (0, table.n_rows)
            X = _room(table, options, stop - start)
            blocks = _blocks(table, source, options, X, (start, stop))
            narrow = [replace(block, X=block.X[:, :0]) for block in blocks]
            return replace(concat(narrow), X=X) if narrow else _nothing()
        parts = list(_blocks(table, source, options, None, span))
        return concat(parts) if parts else _nothing()


def _nothing() -> Dataset:
    return Dataset(np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=np.int64))


def _blocks(
    table: ParquetRows | ArrowRows,
    source: Source,
    options: ReadOptions,
    X: NDArray[Any] | None = None,
    span: tuple[int, int] | None = None,
) -> Iterator[Dataset]:
    """Blocks of some rows; their dense features lie in the rows of ``X`` where it is given."""
    start = 0 if span is None else span[0]
    with Meter(source, options) as meter:
        for batch, place in table.batches(table.plan.columns, span):
            stop = place.first_row + batch.num_rows
            out = None if X is None else X[place.first_row - start : stop - start]
            yield batch_to_dataset(batch, table.plan, options, place, out)
            meter.update(table.consumed(stop))


def _room(table: ParquetRows, options: ReadOptions, n_rows: int) -> NDArray[Any]:
    """Uninitialised memory for all rows; it is touched only as rows arrive."""
    shape = (n_rows, len(table.plan.features))
    needed = n_rows * len(table.plan.features) * table.plan.dtype.itemsize
    if needed > options.memory_limit:
        raise LimitError(
            f"{shape[0]} rows of {shape[1]} features need {needed} bytes",
            fix="Stream them with rankine.scan, use dtype='float32', or raise max_memory",
        )
    with arrow_errors("the file"):
        return np.empty(shape, dtype=table.plan.dtype)


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features: from the schema, or the largest index of the sparse layout."""
    with open_table(source, options) as table:
        if table.plan.n_features is not None:
            return table.plan.n_features
        name = table.plan.features[0]
        width = 0
        for batch, _ in table.batches([name]):
            width = max(width, highest_index(batch.column(name), options))
    return width


def feature_names(source: Source, options: ReadOptions) -> tuple[str, ...] | None:
    """Names of the features, if the file has them."""
    with open_table(source, options) as table:
        return table.plan.feature_names


def column_names(source: Source, options: ReadOptions) -> list[str]:
    """Names of all columns, from a schema that was checked first."""
    with open_table(source, options) as table:
        return list(table.schema.names)


def open_table(
    source: Source, options: ReadOptions
) -> AbstractContextManager[ParquetRows] | AbstractContextManager[ArrowRows]:
    """An open file with a schema and batches; closed at the end."""
    form = choose_format(source, options.format, source.head())
    if form.name == "parquet":
        return open_parquet(source, options)
    return (_open_arrow if form.name == "arrow" else _open_text)(source, options)


@contextmanager
def open_parquet(source: Source, options: ReadOptions) -> Iterator[ParquetRows]:
    """An open Parquet file; closed at the end."""
    with source.watched(), open_seekable(source, "Parquet") as raw:
        yield ParquetRows(raw, source, options)


@contextmanager
def _open_arrow(source: Source, options: ReadOptions) -> Iterator[ArrowRows]:
    """Schema and batches of a file or stream, each message checked before Arrow decodes it."""
    with source.watched():
        yield from _arrow_rows(source, options)


def _arrow_rows(source: Source, options: ReadOptions) -> Iterator[ArrowRows]:
    name = source.name
    if not source.head().startswith(FILE_MAGIC):
        with source.open() as pipe:
            guarded = GuardedStream(pipe, options)
            with arrow_errors("the Arrow schema", FileKindError):
                stream = pa.ipc.open_stream(pa.PythonFile(guarded, "r"))
            yield ArrowRows(name, options, stream.schema, stream, lambda: guarded.consumed)
        return
    with open_seekable(source, "an Arrow file") as raw:
        first = check_file(raw, options)
        with arrow_errors("the Arrow schema", FileKindError):
            file = pa.ipc.open_file(raw)
        # The format has no checksum, but holds its schema before the batches and after.
        if not first.equals(file.schema, check_metadata=True):
            raise FileKindError(
                "the schema at its start and the one at its end differ: the file is damaged",
                fix="Fetch or write it again",
            )
        count = file.num_record_batches
        left = iter(range(count))
        tell = lambda: raw.size() * (count - length_hint(left)) // count  # noqa: E731
        yield ArrowRows(name, options, file.schema, map(file.get_batch, left), tell)


@contextmanager
def _open_text(source: Source, options: ReadOptions) -> Iterator[ArrowRows]:
    """Schema and batches of CSV (commas, tabs in .tsv) or JSON lines, plain or compressed."""
    from pyarrow import csv
    from pyarrow import json as lines

    form = choose_format(source, options.format, source.head())
    if not source.head():
        raise EmptyDataError("no rows: the file is empty", file=source.name, fix="Check the path")
    with open_stream(source, options) as stream, _Bytes(stream) as file:
        with arrow_errors(f"text as {form.name}", ParseError):
            if form.name == "csv":
                tabs = strip_compression(source.name.lower()).endswith(".tsv")
                reader = csv.open_csv(
                    file,
                    csv.ReadOptions(use_threads=False, block_size=TEXT_BLOCK),
                    csv.ParseOptions(delimiter="\t" if tabs else ","),
                )
            elif hasattr(lines, "open_json"):
                reader = lines.open_json(file, lines.ReadOptions(False, TEXT_BLOCK))
            else:  # before pyarrow 20
                table = lines.read_json(file, lines.ReadOptions(False, TEXT_BLOCK))
                reader = table.to_reader()
        yield ArrowRows(source.name, options, reader.schema, iter(reader), lambda: stream.consumed)


class _Bytes(io.RawIOBase):
    """A stream of bytes as Arrow reads it."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._stream.readinto(memoryview(buffer).cast("B"))


class _Table:
    """An open file with a schema."""

    batches: Any

    def __init__(self, name: str, options: ReadOptions, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._options = options

    @cached_property
    def plan(self) -> ColumnPlan:
        """The columns that the schema offers."""
        return plan_columns(self.schema, self._options)

    def everything(self) -> Iterator[tuple[pa.RecordBatch, Place]]:
        """Batches of all columns; only the query column has a meaning."""
        rest = tuple(name for name in self.schema.names if name != self._options.query)
        none: Any = dict.fromkeys(("label", "docid", "weight", "position", "feature_names"))
        self._options = replace(self._options, columns=rest, features=(), **none)
        found: Iterator[tuple[pa.RecordBatch, Place]] = self.batches(self.plan.columns)
        return found


class ArrowRows(_Table):
    """An open Arrow file or stream, read once."""

    def __init__(
        self,
        name: str,
        options: ReadOptions,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        tell: Callable[[], int],
    ) -> None:
        super().__init__(name, options, schema)
        self._batches = batches
        self._tell = tell

    def consumed(self, _: int) -> int:
        """Bytes of the file read so far."""
        return self._tell()

    def batches(
        self, columns: list[str], _: tuple[int, int] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Place]]:
        """Validated batches, long ones cut without copying."""
        first_row = number = 0
        while True:
            part = f"record batch {number}"
            with arrow_errors(part):
                batch = next(self._batches, None)
            if batch is None:
                return
            validate(batch, Place(self.name, first_row, part))
            batch = batch.select(columns)
            for start in range(0, batch.num_rows, self._options.block_rows):
                place = Place(self.name, first_row + start, part, start)
                yield batch.slice(start, self._options.block_rows), place
            first_row += batch.num_rows
            number += 1


def _parquet(raw: pa.NativeFile, **options: Any) -> pq.ParquetFile:
    with arrow_errors("the Parquet footer", FileKindError):
        return pq.ParquetFile(raw, **options, **_LIMITS)


class ParquetRows(_Table):
    """An open Parquet file."""

    def __init__(self, raw: pa.NativeFile, source: Source, options: ReadOptions) -> None:
        self._raw = raw
        self._size = raw.size()
        #: Row groups, as the footer says.
        self.groups: list[RowGroup] = read_footer(raw)
        #: Rows of the file, as its footer says.
        self.n_rows = sum(group.n_rows for group in self.groups)
        super().__init__(source.name, options, _parquet(raw).schema_arrow)

    @cached_property
    def texts(self) -> list[str]:
        """Columns of text."""
        return [name for name in self.plan.columns if is_text(self.schema.field(name).type)]

    @cached_property
    def _file(self) -> pq.ParquetFile:
        # Text stays dictionary-encoded until its full size is known.
        return _parquet(
            self._raw,
            read_dictionary=self.texts,
            buffer_size=_BUFFER,
            page_checksum_verification=True,
        )

    def bounded_groups(self) -> list[RowGroup]:
        """Row groups with the smallest and largest values of their columns."""
        return read_footer(self._raw, bounds=True)

    def consumed(self, rows: int) -> int:
        """About as many bytes of the file as hold its first rows."""
        return self._size * rows // max(self.n_rows, 1)

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
            with arrow_errors(part):
                rows = self._batch_rows(group, columns)
                batches = self._file.iter_batches(rows, row_groups=[number], columns=columns)
            found = 0
            while True:
                with arrow_errors(part):
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
                )
            first_row += found

    def _batch_rows(self, group: RowGroup, columns: list[str]) -> int:
        """Rows per batch, fewer where lists are long, so that a batch stays small."""
        items = check_row_group(self._raw, group, columns, self._options)
        per_row = -(-items // max(group.n_rows, 1))
        return int(max(1, min(self._options.block_rows, BATCH_ITEMS // max(per_row, 1))))
