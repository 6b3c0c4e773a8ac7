"""Arrow IPC: files (also called Feather version 2) and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from rankine.core.errors import FileKindError
from rankine.data.progress import Meter
from rankine.data.readers.arrow_guard import GuardedStream, check_file
from rankine.data.readers.column_plan import plan_columns
from rankine.data.readers.columns import batch_to_dataset, highest_index, validate
from rankine.data.readers.values import Place, arrow_errors, open_seekable

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["FILE_MAGIC", "feature_names", "measure", "read_blocks"]

#: First bytes of an IPC file.
FILE_MAGIC = b"ARROW1"


class _Opened(NamedTuple):
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    #: Bytes of the file read so far.
    consumed: Callable[[], int]


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Datasets of at most ``options.block_rows`` rows, in file order, not query-aligned."""
    with _open(source, options) as reader, Meter(source, options) as meter:
        plan = plan_columns(reader.schema, options, source.name)
        for batch, place in _parts(reader.batches, source.name, options.block_rows):
            yield batch_to_dataset(batch.select(plan.columns), plan, options, place)
            meter.update(reader.consumed())
    source.check()


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features: from the schema, or the largest index of the sparse layout."""
    with _open(source, options) as reader:
        plan = plan_columns(reader.schema, options, source.name)
        if plan.n_features is not None:
            return plan.n_features
        width = 0
        for batch, _ in _parts(reader.batches, source.name, options.block_rows):
            width = max(width, highest_index(batch.column(plan.features[0]), options))
    source.check()
    return width


def feature_names(source: Source, options: ReadOptions) -> tuple[str, ...] | None:
    """Names of the features, if the file has them."""
    with _open(source, options) as reader:
        return plan_columns(reader.schema, options, source.name).feature_names


def column_names(source: Source, options: ReadOptions) -> list[str]:
    """Names of all columns."""
    with _open(source, options) as reader:
        return list(reader.schema.names)


@contextmanager
def _open(source: Source, options: ReadOptions) -> Iterator[_Opened]:
    """Schema and batches of a file or stream, each message checked before Arrow decodes it."""
    with ExitStack() as stack:
        if source.head().startswith(FILE_MAGIC):
            raw = stack.enter_context(open_seekable(source, "an Arrow file"))
            first = check_file(raw, options, source.name)
            with arrow_errors(source.name, "the Arrow schema", FileKindError):
                file = pa.ipc.open_file(raw)
            # The format has no checksum, but holds its schema before the batches and after.
            if not first.equals(file.schema, check_metadata=True):
                raise FileKindError(
                    "the schema at its start and the one at its end differ: the file is damaged",
                    fix="Fetch or write it again",
                    file=source.name,
                )
            batches = (file.get_batch(k) for k in range(file.num_record_batches))
            yield _Opened(file.schema, batches, raw.tell)
        else:
            pipe = stack.enter_context(source.open())
            guarded = GuardedStream(pipe, source.name, options)
            with arrow_errors(source.name, "the Arrow schema", FileKindError):
                stream = pa.ipc.open_stream(pa.PythonFile(guarded, "r"))
            yield _Opened(stream.schema, stream, lambda: guarded.consumed)


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
