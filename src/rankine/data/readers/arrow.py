"""Arrow IPC: files (also called Feather version 2) and streams."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from rankine.core.errors import FileKindError
from rankine.data.readers.arrow_errors import arrow_errors, open_seekable
from rankine.data.readers.column_plan import plan_columns
from rankine.data.readers.columns import batch_to_dataset, validate
from rankine.data.readers.list_rows import highest_index
from rankine.data.readers.row_faults import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.dataset import Dataset
    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["FILE_MAGIC", "feature_names", "measure", "read_blocks"]

#: First bytes of an IPC file; a stream starts with a continuation marker.
FILE_MAGIC = b"ARROW1"


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Datasets of at most ``options.block_rows`` rows, in file order, not query-aligned."""
    with _open(source) as (schema, batches):
        plan = plan_columns(schema, options, source.name)
        for batch, place in _parts(batches, source.name, options.block_rows):
            yield batch_to_dataset(batch.select(plan.columns), plan, options, place)
    source.check()


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features: from the schema, or the largest index of the sparse layout."""
    with _open(source) as (schema, batches):
        plan = plan_columns(schema, options, source.name)
        if plan.n_features is not None:
            return plan.n_features
        width = 0
        for batch, _ in _parts(batches, source.name, options.block_rows):
            width = max(width, highest_index(batch.column(plan.features[0]), options))
    source.check()
    return width


def feature_names(source: Source, options: ReadOptions) -> tuple[str, ...] | None:
    """Names of the features, if the file has them."""
    with _open(source) as (schema, _):
        return plan_columns(schema, options, source.name).feature_names


@contextmanager
def _open(source: Source) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Schema and batches of a file or stream."""
    if source.path is None or not source.path.is_file():
        with source.open() as pipe, arrow_errors(source.name, "the Arrow stream", FileKindError):
            reader = pa.ipc.open_stream(pa.PythonFile(pipe, "r"))
        yield reader.schema, iter(reader)
        return
    with open_seekable(source, "an Arrow file") as raw:
        is_file = raw.read(len(FILE_MAGIC)) == FILE_MAGIC
        raw.seek(0)
        with arrow_errors(source.name, "the Arrow schema", FileKindError):
            if is_file:
                file = pa.ipc.open_file(raw)
                schema = file.schema
                batches = (file.get_batch(k) for k in range(file.num_record_batches))
            else:
                reader = pa.ipc.open_stream(raw)
                schema, batches = reader.schema, iter(reader)
        yield schema, batches


def _parts(
    batches: Iterator[pa.RecordBatch], name: str, block_rows: int
) -> Iterator[tuple[pa.RecordBatch, Place]]:
    """Validated batches, long ones cut without copying."""
    first_row = 0
    number = 0
    while True:
        part = f"record batch {number}"
        with arrow_errors(name, part):
            batch = next(batches, None)
        if batch is None:
            return
        validate(batch, Place(name, first_row, part))
        for start in range(0, batch.num_rows, block_rows):
            yield (
                batch.slice(start, block_rows),
                Place(name, first_row + start, part, start),
            )
        first_row += batch.num_rows
        number += 1
