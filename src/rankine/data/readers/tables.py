"""Read Parquet, Arrow IPC (files, also called Feather version 2, and streams), CSV and JSON lines.

Each format becomes record batches of one schema, in bounded memory; the rest of the reader is the
same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from operator import length_hint
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import types as pt

from rankine.core.errors import (
    EmptyDataError,
    FileKindError,
    LimitError,
    SchemaError,
)
from rankine.data.compression import open_stream, strip_compression
from rankine.data.dataset import Dataset, concat
from rankine.data.expressions import Expression
from rankine.data.formats import choose_format
from rankine.data.frames import BatchReader, frame_batches
from rankine.data.options import ReadOptions
from rankine.data.progress import Meter
from rankine.data.readers.arrow_guard import GuardedStream, check_file
from rankine.data.readers.column_plan import ColumnPlan, plan_columns, require_column
from rankine.data.readers.columns import (
    batch_to_dataset,
    highest_index,
    validate,
    without_views,
)
from rankine.data.readers.parquet_bounds import row_group_bounds
from rankine.data.readers.parquet_guard import RowGroup, check_row_group, read_footer
from rankine.data.readers.values import (
    BatchLocation,
    ObjectFile,
    RowFaults,
    is_text,
    open_seekable,
    wrap_arrow_errors,
)
from rankine.data.sources import Source
from rankine.data.where import ColumnBounds, condition_mask, may_hold, partition_bounds

#: First bytes of an IPC file.
FILE_MAGIC = b"ARROW1"
#: Items of list columns in one batch, on average.
BATCH_ITEMS = 2**23
#: What pyarrow may allocate while it reads a footer.
_FOOTER_LIMITS = {"thrift_string_size_limit": 2**26, "thrift_container_size_limit": 2**20}
#: Bytes buffered per column, instead of whole column chunks.
_BUFFER_BYTES = 256 * 1024


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Yield datasets of at most ``options.block_rows`` rows in file order, not query-aligned."""
    with open_table(source, options) as table:
        yield from _read_blocks(table, source, options)


def read(source: Source, options: ReadOptions, span: tuple[int, int] | None = None) -> Dataset:
    """Read the whole file, or the rows of ``span`` of a Parquet file."""
    with open_table(source, options) as table:
        is_dense = not table.plan.sparse and options.dense is not False
        all_rows = options.on_bad_row == "error" and options.where is None
        if isinstance(table, ParquetRows) and is_dense and all_rows:
            return _read_dense(table, source, options, span or (0, table.n_rows))
        return concat(_read_blocks(table, source, options, None, span))


def _read_dense(
    table: ParquetRows, source: Source, options: ReadOptions, span: tuple[int, int]
) -> Dataset:
    """Read rows of a Parquet file into one matrix, which the footer gives the size of."""
    start, stop = span
    X = _allocate(table, options, stop - start)
    blocks = _read_blocks(table, source, options, X, span)
    without_features = (replace(block, X=block.X[:, :0]) for block in blocks)
    data = concat(without_features)
    if not data.n_rows:
        return data
    return replace(data, X=X)


def _read_blocks(
    table: ParquetRows | ArrowRows,
    source: Source,
    options: ReadOptions,
    X: NDArray[Any] | None = None,
    span: tuple[int, int] | None = None,
) -> Iterator[Dataset]:
    """Yield blocks of the rows of ``span``; with ``X``, dense features are written into it.

    Row 0 of ``X`` is the first row of the span.
    """
    first_row = 0
    if span is not None:
        first_row = span[0]
    with Meter(source, options) as meter:
        for batch, location in table.batches(table.plan.columns, span):
            stop = location.first_row + batch.num_rows
            out = None
            if X is not None:
                out = X[location.first_row - first_row : stop - first_row]
            yield batch_to_dataset(batch, table.plan, options, location, out)
            meter.update(table.consumed(stop))


def _allocate(table: ParquetRows, options: ReadOptions, n_rows: int) -> NDArray[Any]:
    """Allocate the matrix for ``n_rows`` rows; the system gives the memory as rows arrive."""
    shape = (n_rows, len(table.plan.features))
    needed = n_rows * len(table.plan.features) * table.plan.dtype.itemsize
    if needed > options.memory_limit:
        raise LimitError(
            f"{shape[0]} rows of {shape[1]} features need {needed} bytes",
            parameter="max_memory",
            fix="Stream them with rankine.scan, read them as float32, or raise the limit",
        )
    with wrap_arrow_errors("the file"):
        return np.empty(shape, dtype=table.plan.dtype)


def measure(source: Source, options: ReadOptions) -> int:
    """Return the number of features: from the schema, or the largest index of sparse rows."""
    with open_table(source, options) as table:
        if table.plan.n_features is not None:
            return table.plan.n_features
        index_column = table.plan.features[0]
        width = 0
        for batch, _ in table.batches([index_column]):
            width = max(width, highest_index(batch.column(index_column), options))
    return width


def feature_names(source: Source, options: ReadOptions) -> tuple[str, ...] | None:
    """Return the names of the features, if the file has them."""
    with open_table(source, options) as table:
        return table.plan.feature_names


def column_names(source: Source, options: ReadOptions) -> list[str]:
    """Return the names of all columns."""
    with open_table(source, options) as table:
        return list(table.schema.names)


def table_schema(source: Source, options: ReadOptions) -> pa.Schema:
    """Return the names and types of the columns of a file, without its Hive columns."""
    with open_table(source, options) as table:
        return table.stored


def open_table(
    source: Source, options: ReadOptions
) -> AbstractContextManager[ParquetRows] | AbstractContextManager[ArrowRows]:
    """Open a file of any table format; leaving the context closes it."""
    form = choose_format(source, options.format, source.head())
    if source.table is not None:
        return _open_frame(source, options)
    if form.name == "parquet":
        return open_parquet(source, options)
    if form.name == "arrow":
        return _open_arrow(source, options)
    return _open_text(source, options)


@contextmanager
def open_parquet(source: Source, options: ReadOptions) -> Iterator[ParquetRows]:
    """Open a Parquet file; leaving the context closes it."""
    with source.watched(), open_seekable(source, "Parquet") as raw:
        yield ParquetRows(raw, source, options)


@contextmanager
def _open_frame(source: Source, options: ReadOptions) -> Iterator[ArrowRows]:
    """Open a frame, or another table in memory; leaving the context ends its query."""
    with source.watched(), ExitStack() as stack:
        with wrap_arrow_errors("the table"):
            schema, read = stack.enter_context(frame_batches(source.table))
        yield ArrowRows(
            source, options, schema, lambda columns: source.pass_over(read(columns)), lambda: 0
        )


@contextmanager
def _open_arrow(source: Source, options: ReadOptions) -> Iterator[ArrowRows]:
    """Open an IPC file or stream; each message is checked before Arrow decodes it."""
    with source.watched():
        if source.head().startswith(FILE_MAGIC):
            with open_seekable(source, "an Arrow file") as raw:
                yield _open_ipc_file(raw, source, options)
        else:
            with source.open() as pipe:
                guarded = GuardedStream(pipe, options)
                with wrap_arrow_errors("the Arrow schema", FileKindError):
                    stream = pa.ipc.open_stream(pa.PythonFile(guarded, "r"))
                yield ArrowRows(source, options, stream.schema, stream, lambda: guarded.consumed)


def _open_ipc_file(raw: pa.NativeFile, source: Source, options: ReadOptions) -> ArrowRows:
    check_file(raw, options)
    with wrap_arrow_errors("the Arrow schema", FileKindError):
        file = pa.ipc.open_file(raw)
        raw.seek(8)  # the magic bytes and their padding; a stream of messages follows
        first_schema = pa.ipc.open_stream(raw).schema
    # The format has no checksum, but stores its schema before the batches and after them.
    if not first_schema.equals(file.schema, check_metadata=True):
        raise FileKindError(
            "the schemas at the start and the end of the file differ: it is damaged",
            fix="Fetch or write it again",
        )
    n_batches = file.num_record_batches
    batch_numbers = iter(range(n_batches))

    def consumed_bytes() -> int:
        return raw.size() * (n_batches - length_hint(batch_numbers)) // n_batches

    batches = map(file.get_batch, batch_numbers)
    return ArrowRows(source, options, file.schema, batches, consumed_bytes)


@contextmanager
def _open_text(source: Source, options: ReadOptions) -> Iterator[ArrowRows]:
    """Open CSV (with commas, or tabs in .tsv) or JSON lines, compressed or not."""
    # Imported here: Arrow's parsers of text take a while to load.
    from rankine.data.readers.text_tables import read_csv, read_json

    form = choose_format(source, options.format, source.head())
    if not source.head():
        raise EmptyDataError("no rows: the file is empty", file=source.name, fix="Check the path")
    with open_stream(source, options) as stream:
        if form.name == "csv":
            delimiter = ","
            if strip_compression(source.name.lower()).endswith(".tsv"):
                delimiter = "\t"
            schema, batches = read_csv(stream, options, delimiter)
        else:
            schema, batches = read_json(stream, options)
        yield ArrowRows(source, options, schema, batches, lambda: stream.consumed)


def all_columns(source: Source, options: ReadOptions) -> ReadOptions:
    """Return options that read all columns of a file, of which only the query column has a role."""
    with open_table(source, options) as table:
        return _without_roles(table.schema.names, options)


def _without_roles(names: list[str], options: ReadOptions) -> ReadOptions:
    columns = tuple(name for name in names if name != options.query)
    no_roles: Any = dict.fromkeys(("label", "docid", "weight", "position", "feature_names"))
    return replace(options, columns=columns, features=(), **no_roles)


class _Table(ABC):
    """An open file with a schema.

    Attributes
    ----------
    stored
        Columns of the file.
    schema
        All columns: those of the file, with the types that they are cast to, and Hive columns.
    """

    def __init__(self, source: Source, options: ReadOptions, schema: pa.Schema) -> None:
        self.name = source.name
        self.stored = schema
        self._options = options
        self._partition: dict[str, pa.Scalar] = source.partition
        self._casts: dict[str, pa.DataType] = source.casts
        self.schema = self._full_schema()

    def _full_schema(self) -> pa.Schema:
        schema = self.stored
        for name, data_type in self._casts.items():
            schema = schema.set(schema.get_field_index(name), pa.field(name, data_type))
        for name, value in self._partition.items():
            if name not in schema.names:
                schema = schema.append(pa.field(name, value.type))
        return schema

    @abstractmethod
    def stored_batches(
        self,
        columns: list[str],
        span: tuple[int, int] | None = None,
        condition: Expression | None = None,
    ) -> Iterator[tuple[pa.RecordBatch, BatchLocation]]:
        """Yield validated batches of columns of the file, with their locations.

        Parts of the file in which no row can meet a ``condition`` may be left out.
        """

    def batches(
        self, columns: list[str], span: tuple[int, int] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, BatchLocation]]:
        """Yield batches of the rows that meet the condition of the options."""
        condition = self._options.condition
        if condition is None:
            yield from self._complete_batches(columns, span)
            return
        for name in condition.columns:
            require_column(self.schema, name, "where")
        needed = list(dict.fromkeys([*columns, *condition.columns]))
        for batch, location in self._complete_batches(needed, span, condition):
            yield _choose_rows(batch.select(columns), batch, location, condition, self._options)

    def _complete_batches(
        self,
        columns: list[str],
        span: tuple[int, int] | None,
        condition: Expression | None = None,
    ) -> Iterator[tuple[pa.RecordBatch, BatchLocation]]:
        """Yield batches with Hive columns, and with the types of the data set."""
        stored = [name for name in columns if name in self.stored.names]
        changed = {*self._casts, *self._partition} & {*columns}
        # A batch without columns would lose its number of rows.
        batches = self.stored_batches(stored or self.stored.names[:1], span, condition)
        if not changed:
            yield from batches
            return
        for batch, location in batches:
            arrays = [self._column(batch, name, location) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=columns), location

    def _column(self, batch: pa.RecordBatch, name: str, location: BatchLocation) -> pa.Array:
        if name not in self._partition:
            array = batch.column(name)
            if name in self._casts:
                with wrap_arrow_errors(f"column {name!r} as {self._casts[name]}", SchemaError):
                    array = array.cast(self._casts[name])
            return array
        value = self._partition[name]
        if name in batch.schema.names:
            _check_partition(batch.column(name), name, value, location)
        if not value.is_valid:
            return pa.nulls(batch.num_rows, value.type)
        return pa.repeat(value, batch.num_rows)

    @cached_property
    def plan(self) -> ColumnPlan:
        """Role of every column that is read."""
        return plan_columns(self.schema, self._options, tuple(self._partition))

    def all_columns(self) -> Iterator[tuple[pa.RecordBatch, BatchLocation]]:
        """Yield batches of all columns, of which only the query column has a role."""
        plan = plan_columns(self.schema, _without_roles(self.schema.names, self._options))
        yield from self.batches(plan.columns)


def _check_partition(array: pa.Array, name: str, value: pa.Scalar, location: BatchLocation) -> None:
    """Raise if a column of the file differs from the Hive column of the same name."""
    values = array
    if pt.is_dictionary(array.type):
        values = array.dictionary_decode()
    with wrap_arrow_errors(
        f"column {name!r}, which is also in the path, as {value.type}", SchemaError
    ):
        values = values.cast(value.type)
    differs = pc.invert(pc.fill_null(pc.equal(values, value), fill_value=False))
    if not value.is_valid:
        differs = pc.is_valid(values)
    if pc.any(differs).as_py():
        row = int(np.argmax(differs.to_numpy(zero_copy_only=False)))
        raise location.error(
            row,
            name,
            f"{name} is {values[row]} here, and {value} in the path of the file",
            "Correct the name of the folder, or the column",
        )


def _choose_rows(
    wanted: pa.RecordBatch,
    batch: pa.RecordBatch,
    location: BatchLocation,
    condition: Expression,
    options: ReadOptions,
) -> tuple[pa.RecordBatch, BatchLocation]:
    """Return the rows that meet a condition on the columns of ``batch``."""
    with wrap_arrow_errors(location.part or "the table", SchemaError):
        faults = RowFaults(location, batch.num_rows, skip=options.on_bad_row == "skip")
        meets = condition_mask(condition, batch, faults)
        n_bad = 0
        if faults.bad is not None:
            n_bad = int(faults.bad.sum())
            meets &= ~faults.bad
        if meets.all():
            return wanted, location
        rows = np.flatnonzero(meets)
        n_excluded = location.n_excluded + batch.num_rows - len(rows) - n_bad
        location = location._replace(rows=rows, n_excluded=n_excluded, n_bad=n_bad)
        names = wanted.schema.names
        columns = [
            without_views(column, name, location).take(pa.array(rows))
            for name, column in zip(names, wanted.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=names), location


class ArrowRows(_Table):
    """Rows of an open Arrow file or stream, or of text; they can be read once."""

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch] | BatchReader,
        consumed_bytes: Callable[[], int],
    ) -> None:
        super().__init__(source, options, schema)
        self._batches = batches
        self._consumed_bytes = consumed_bytes

    def consumed(self, _: int) -> int:
        """Return the bytes of the file read so far."""
        return self._consumed_bytes()

    def stored_batches(
        self,
        columns: list[str],
        span: tuple[int, int] | None = None,  # noqa: ARG002 - of Parquet files alone
        condition: Expression | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[pa.RecordBatch, BatchLocation]]:
        """Yield validated batches with their locations; long ones are cut without copying."""
        first_row = number = 0
        batches = self._batches(columns) if callable(self._batches) else self._batches
        while True:
            part = f"record batch {number}"
            with wrap_arrow_errors(part):
                batch = next(batches, None)
            if batch is None:
                return
            validate(batch, BatchLocation(self.name, first_row, part))
            batch = batch.select(columns)
            for start in range(0, batch.num_rows, self._options.block_rows):
                location = BatchLocation(self.name, first_row + start, part, start)
                yield batch.slice(start, self._options.block_rows), location
            first_row += batch.num_rows
            number += 1


class ParquetRows(_Table):
    """Rows of an open Parquet file."""

    def __init__(self, raw: pa.NativeFile, source: Source, options: ReadOptions) -> None:
        self._raw = raw
        self._size = raw.size()
        #: Row groups, and rows of the file, as the footer states them.
        self.groups: list[RowGroup] = read_footer(raw)
        self.n_rows = sum(group.n_rows for group in self.groups)
        with wrap_arrow_errors("the Parquet footer", FileKindError):
            file = pq.ParquetFile(raw, **_FOOTER_LIMITS)
            self._metadata = file.metadata
            schema = file.schema_arrow
        super().__init__(source, options, schema)

    def value_bounds(self, group: RowGroup, column: str) -> tuple[Any, Any] | None:
        """Return the smallest and largest value of a column of ids, if the footer has them.

        Texts may be cut, but are bounds nevertheless. Unsigned integers may have no usable bounds.
        """
        for chunk in group.chunks:
            if chunk.path == (column,) and chunk.minimum and chunk.maximum:
                if is_text(self.schema.field(column).type):
                    return chunk.minimum, chunk.maximum
                low = int.from_bytes(chunk.minimum, "little", signed=True)
                high = int.from_bytes(chunk.maximum, "little", signed=True)
                if low <= high:
                    return low, high
        return None

    def consumed(self, rows: int) -> int:
        """Estimate the bytes of the file that hold its first rows."""
        return self._size * rows // max(self.n_rows, 1)

    def stored_batches(
        self,
        columns: list[str],
        span: tuple[int, int] | None = None,
        condition: Expression | None = None,
    ) -> Iterator[tuple[pa.RecordBatch, BatchLocation]]:
        """Yield validated batches with their locations, and verify the footer's row counts.

        ``span`` is the first row and the row after the last; other row groups are not read, nor are
        those whose statistics exclude a row that meets the ``condition``.
        """
        low, high = span or (0, self.n_rows)
        with wrap_arrow_errors("the Parquet footer", FileKindError):
            file = pq.ParquetFile(
                self._raw,
                metadata=self._metadata,
                # Text stays dictionary-encoded until its full size has been checked.
                read_dictionary=[c for c in columns if is_text(self.stored.field(c).type)],
                buffer_size=_BUFFER_BYTES,
                page_checksum_verification=True,
                **_FOOTER_LIMITS,
            )
        parts = list(self._parts(low, high, condition))
        if isinstance(self._raw, ObjectFile):
            needed = [self.groups[number] for number, _, is_read in parts if is_read]
            names = set(columns)
            ranges = [
                [(chunk.start, chunk.stop) for chunk in group.chunks if chunk.path[0] in names]
                for group in needed
            ]
            self._raw.blocks.plan(ranges, self._options.memory_limit // 4)
        for number, first_row, is_read in parts:
            if is_read:
                yield from self._group_batches(file, number, columns, first_row, (low, high))
            else:
                n_excluded = min(first_row + self.groups[number].n_rows, high) - max(first_row, low)
                location = BatchLocation(self.name, first_row, f"row group {number}")
                empty_schema = pa.schema([self.stored.field(name) for name in columns])
                empty = pa.RecordBatch.from_pylist([], empty_schema)
                yield empty, location._replace(n_excluded=n_excluded)

    def _parts(
        self, low: int, high: int, condition: Expression | None
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield the row groups with rows of a span: number, first row, whether rows may match."""
        first_row = 0
        for number, group in enumerate(self.groups):
            stop_row = first_row + group.n_rows
            if stop_row > low and first_row < high:
                yield number, first_row, condition is None or self._may_hold(condition, group)
            first_row = stop_row

    def _may_hold(self, condition: Expression, group: RowGroup) -> bool:
        """Whether statistics and Hive columns allow a row that meets a condition."""
        partition = partition_bounds(condition, self._partition)
        stored = [name for name in condition.columns if name not in self._partition]
        group_bounds = row_group_bounds(group, stored, self.stored, self._metadata.schema)
        bounds = ColumnBounds(
            {**group_bounds.numbers, **partition.numbers}, {**group_bounds.texts, **partition.texts}
        )
        return may_hold(condition, bounds)

    def _group_batches(
        self,
        file: pq.ParquetFile,
        number: int,
        columns: list[str],
        first_row: int,
        span: tuple[int, int],
    ) -> Iterator[tuple[pa.RecordBatch, BatchLocation]]:
        low, high = span
        part = f"row group {number}"
        with wrap_arrow_errors(part):
            batch_rows = self._batch_rows(self.groups[number], columns)
            batches = file.iter_batches(batch_rows, row_groups=[number], columns=columns)
        n_read = 0
        while True:
            with wrap_arrow_errors(part):
                batch = next(batches, None)
            if batch is None:
                break
            batch_row = first_row + n_read
            n_read += batch.num_rows
            skip = max(low - batch_row, 0)
            batch_row += skip
            batch = batch.slice(skip, max(high - batch_row, 0))
            if batch.num_rows:
                location = BatchLocation(self.name, batch_row, part, batch_row - first_row)
                validate(batch, location)
                yield batch, location
        stated_rows = self.groups[number].n_rows
        if n_read != stated_rows:
            raise SchemaError(
                f"{part} holds {n_read} rows but the footer states {stated_rows}",
                fix="The file is damaged; write it again",
            )

    def _batch_rows(self, group: RowGroup, columns: list[str]) -> int:
        """Return the rows per batch, fewer where lists are long, so that a batch stays small."""
        n_items = check_row_group(self._raw, group, columns, self._options)
        items_per_row = -(-n_items // max(group.n_rows, 1))
        n_rows = BATCH_ITEMS // max(items_per_row, 1)
        return max(1, min(self._options.block_rows, n_rows))
