"""Parquet files, read batch by batch with bounded memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.readers.arrow_errors import arrow_errors, open_seekable
from rankine.data.readers.column_plan import plan_columns
from rankine.data.readers.columns import batch_to_dataset, validate
from rankine.data.readers.list_rows import highest_index
from rankine.data.readers.row_faults import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rankine.data.dataset import Dataset
    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["feature_names", "measure", "read_blocks"]

#: Items of a list column that one row group may hold; a row cannot be read in parts.
MAX_LIST_ITEMS = 2**28
#: Items of list columns in one batch, on average.
BATCH_ITEMS = 2**23
#: Bytes buffered per column, instead of whole column chunks.
_BUFFER = 256 * 1024


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Datasets of at most ``options.block_rows`` rows, in file order, not query-aligned."""
    with _open(source) as file:
        plan = plan_columns(file.schema_arrow, options, source.name)
        for batch, place in _batches(file, plan.columns, source.name, options.block_rows):
            yield batch_to_dataset(batch, plan, options, place)
    source.check()


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features: from the schema, or the largest index of the sparse layout."""
    with _open(source) as file:
        plan = plan_columns(file.schema_arrow, options, source.name)
        if plan.n_features is not None:
            return plan.n_features
        name = plan.features[0]
        width = 0
        for batch, _ in _batches(file, [name], source.name, options.block_rows):
            width = max(width, highest_index(batch.column(name), options))
    source.check()
    return width


def feature_names(source: Source, options: ReadOptions) -> tuple[str, ...] | None:
    """Names of the features, if the file has them."""
    with _open(source) as file:
        return plan_columns(file.schema_arrow, options, source.name).feature_names


@contextmanager
def _open(source: Source) -> Iterator[pq.ParquetFile]:
    with open_seekable(source, "Parquet") as raw:
        with arrow_errors(source.name, "the Parquet footer", FileKindError):
            file = pq.ParquetFile(
                raw,
                buffer_size=_BUFFER,
                page_checksum_verification=True,
                thrift_string_size_limit=2**26,
                thrift_container_size_limit=2**20,
            )
        yield file


def _batches(
    file: pq.ParquetFile, columns: list[str], name: str, block_rows: int
) -> Iterator[tuple[pa.RecordBatch, Place]]:
    """Validated batches with their places; the row counts of the footer are verified."""
    first_row = 0
    for group in range(file.num_row_groups):
        part = f"row group {group}"
        with arrow_errors(name, f"the description of {part}"):
            expected = file.metadata.row_group(group).num_rows
            size = _batch_rows(file, group, columns, name, block_rows)
        batches = file.iter_batches(size, row_groups=[group], columns=columns)
        found = 0
        while True:
            with arrow_errors(name, part):
                batch = next(batches, None)
            if batch is None:
                break
            place = Place(name, first_row + found, part, found)
            validate(batch, place)
            found += batch.num_rows
            yield batch, place
        if found != expected:
            raise SchemaError(
                f"{part} holds {found} rows but its description says {expected}",
                fix="The file is damaged; write it again",
                file=name,
            )
        first_row += found


def _batch_rows(
    file: pq.ParquetFile, group: int, columns: list[str], name: str, block_rows: int
) -> int:
    """Rows per batch, fewer where lists are long, so that a batch stays small."""
    description = file.metadata.row_group(group)
    wanted = set(columns)
    items = 0
    for k in range(description.num_columns):
        column = description.column(k)
        top, _, inner = column.path_in_schema.partition(".")
        if inner and top in wanted:
            items = max(items, column.num_values)
    if items > MAX_LIST_ITEMS:
        raise LimitError(
            f"row group {group} holds {items} list items, above {MAX_LIST_ITEMS}",
            fix="Write smaller row groups",
            file=name,
        )
    per_row = -(-items // max(description.num_rows, 1))
    return int(max(1, min(block_rows, BATCH_ITEMS // max(per_row, 1))))
