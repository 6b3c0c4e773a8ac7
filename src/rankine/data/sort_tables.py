"""Sort rows of tables of any size by query.

Runs that fit in memory are kept as Arrow files in the folder of the target. Merging takes from
every run the queries that no run can add to any more.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.errors import SchemaError
from rankine.data.dataset import Dataset
from rankine.data.formats import format_for
from rankine.data.options import ReadOptions
from rankine.data.readers.columns import to_ids
from rankine.data.readers.tables import all_columns, open_table
from rankine.data.readers.values import BatchLocation, RowFaults, wrap_arrow_errors
from rankine.data.save import convert
from rankine.data.scan import Scan
from rankine.data.selection import no_rows_error, select_sources
from rankine.data.sort import SortReport, temporary_folder
from rankine.data.sources import Source
from rankine.data.splits import query_times

#: Rows of a block while merging; every run holds one or two of them.
_MERGE_ROWS = 8192
#: Rows of a row group of Parquet, at least.
_GROUP_ROWS = 65536
#: A run may take this part of the memory: sorting and writing it take copies.
_RUN_SHARE = 8


class ListOrder:
    """The order of lists by the time of their earliest row, then by id.

    Parameters
    ----------
    blocks
        All rows, in any order, with the column of times.
    time
        Its name.
    """

    def __init__(self, blocks: Iterable[Dataset], time: str) -> None:
        self._ids: NDArray[Any] = np.zeros(0, dtype=np.int64)
        self._times: NDArray[Any] = np.zeros(0)
        ids: list[NDArray[Any]] = []
        times: list[NDArray[Any]] = []
        n_pending = 0
        for block in blocks:
            ids.append(block.queries.ids)
            times.append(query_times(block, time))
            n_pending += block.n_queries
            # Merging at twice the size keeps its cost small for each block.
            if n_pending > len(self._ids):
                self._merge(ids, times)
                ids, times, n_pending = [], [], 0
        if ids:
            self._merge(ids, times)
        self._rank = np.empty(len(self._ids), dtype=np.int64)
        self._rank[np.argsort(self._times, kind="stable")] = np.arange(len(self._ids))

    def _merge(self, ids: list[NDArray[Any]], times: list[NDArray[Any]]) -> None:
        if len(self._ids):
            ids, times = [self._ids, *ids], [self._times, *times]
        all_ids, all_times = np.concatenate(ids), np.concatenate(times)
        order = np.argsort(all_times, kind="stable")
        # The first occurrence of an id is its earliest.
        self._ids, first = np.unique(all_ids[order], return_index=True)
        self._times = all_times[order][first]

    def __call__(self, qid: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of each row's list in the order."""
        return self._rank[np.searchsorted(self._ids, qid)]


def _order_of_lists(
    sources: list[Source], options: ReadOptions, by_time: str | None
) -> ListOrder | None:
    """Read the times of all lists; None where the ids decide the order."""
    if by_time is None:
        return None
    times = replace(
        options, label=None, features=(), columns=(by_time,), docid=None, weight=None,
        position=None,
    )  # fmt: skip
    return ListOrder(Scan.open(sources, times).raw_blocks(), by_time)


def sort_tables(
    sources: list[Source],
    target: str | os.PathLike[str],
    options: ReadOptions,
    by_time: str | None = None,
) -> SortReport:
    """Write the rows grouped by query, queries in increasing order of ids, or of earliest times.

    Names, types and all columns stay. The suffix of ``target`` decides the format;
    ``options.max_memory`` bounds the memory used.
    """
    name = os.fspath(target)
    selecting = options
    if len(sources) > 1 and sources[0].has_header:
        selecting = all_columns(sources[0], options)
    sources, n_excluded_files = select_sources(sources, selecting)
    order = _order_of_lists(sources, options, by_time)
    form = "letor" if name == "-" else format_for(name).name
    with tempfile.TemporaryDirectory(dir=temporary_folder(target), prefix=".sort-") as folder:
        counts: Counter[str] = Counter()
        run_files: list[str] = []
        batches = read_tables(sources, options, counts, order)
        for run in _join_batches(batches, options.memory_limit // _RUN_SHARE):
            run_files.append(f"{folder}/{len(run_files)}.arrow")
            rows = run.sort()
            write_table("arrow", run_files[-1], rows.table.schema, rows.split())
        if not run_files:
            raise no_rows_error([source.name for source in sources], options)
        # Mapped files are read as needed while they are merged.
        readers = [pa.ipc.open_file(pa.memory_map(file)) for file in run_files]
        run_options = replace(options, on_bad_row="error", where=None)
        merged = _merge([_read_run(reader, run_options, order) for reader in readers])
        if form in ("parquet", "arrow"):
            n_rows, n_queries = write_table(form, name, readers[0].schema, merged)
        else:
            file = f"{folder}/sorted.parquet"
            n_rows, n_queries = write_table("parquet", file, readers[0].schema, merged)
            convert(file, target, query=options.query)
    return SortReport(
        n_rows,
        n_queries,
        len(run_files),
        counts["skipped_rows"],
        counts["excluded_rows"],
        n_excluded_files,
    )


class TablePart(NamedTuple):
    """Rows of a table with their query ids."""

    table: pa.Table
    qid: NDArray[Any]

    def slice(self, first: int, last: int) -> TablePart:
        """Return the rows from ``first`` to before ``last``."""
        return TablePart(self.table.slice(first, last - first), self.qid[first:last])

    def sort(self) -> TablePart:
        """Return the rows in order of their ids."""
        order = np.argsort(self.qid, kind="stable")
        return TablePart(self.table.take(order), self.qid[order])

    def split(self) -> Iterator[TablePart]:
        """Yield the rows in blocks for merging."""
        for first in range(0, len(self.qid), _MERGE_ROWS):
            yield self.slice(first, min(first + _MERGE_ROWS, len(self.qid)))


def join_rows(parts: list[TablePart]) -> TablePart:
    """Join parts in order."""
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables([part.table for part in parts])
    return TablePart(table, np.concatenate([part.qid for part in parts]))


def read_tables(
    sources: list[Source],
    options: ReadOptions,
    counts: Counter[str],
    order: ListOrder | None = None,
) -> Iterator[TablePart]:
    """Yield all columns of all files, batch by batch; add the rows that are left out to ``counts``.

    The first file decides names and types. Ids are replaced by numbers in the ``order``.
    """
    schema: pa.Schema | None = None
    query = str(options.query)
    for source in sources:
        with open_table(source, options) as table:
            if schema is None:
                schema = table.schema
            if set(table.schema.names) != set(schema.names):
                raise SchemaError(
                    f"not the columns of {sources[0].name}",
                    file=source.name,
                    fix="Sort files of the same columns together",
                )
            for batch, location in table.all_columns():
                faults = RowFaults(location, batch.num_rows, skip=options.on_bad_row == "skip")
                rows = pa.Table.from_batches([batch])
                # Later files may store a narrower type; a value that does not fit is an error of
                # that file.
                with wrap_arrow_errors(f"a column with its type of {sources[0].name}", SchemaError):
                    rows = rows.select(schema.names).cast(schema)
                qid = to_ids(batch.column(query), query, faults)
                if faults.bad is not None:
                    good = np.flatnonzero(~faults.bad)
                    rows, qid = rows.take(good), qid[good]
                counts.update(faults.read_counts)
                if order is not None:
                    qid = order(qid)
                if len(qid):
                    yield TablePart(rows, qid)
        source.check()


def _read_run(reader: Any, options: ReadOptions, order: ListOrder | None) -> Iterator[TablePart]:
    query = str(options.query)
    for k in range(reader.num_record_batches):
        batch = reader.get_batch(k)
        faults = RowFaults(BatchLocation("a sorted run"), batch.num_rows, skip=False)
        qid = to_ids(batch.column(query), query, faults)
        if order is not None:
            qid = order(qid)
        yield TablePart(pa.Table.from_batches([batch]), qid)


def _join_batches(batches: Iterator[TablePart], max_bytes: int) -> Iterator[TablePart]:
    """Join consecutive batches into runs that end at or after ``max_bytes`` bytes."""
    pending: list[TablePart] = []
    pending_bytes = 0
    for rows in batches:
        pending.append(rows)
        pending_bytes += rows.table.nbytes
        if pending_bytes >= max_bytes:
            yield join_rows(pending)
            pending, pending_bytes = [], 0
    if pending:
        yield join_rows(pending)


def write_table(
    form: str, path: str, schema: pa.Schema, blocks: Iterator[TablePart]
) -> tuple[int, int]:
    """Write blocks to a file, whole or not at all; return the rows and the runs of equal ids.

    A row group of Parquet ends where a block does, so that it never cuts a query of sorted blocks.
    """
    n_rows = n_queries = pending_rows = 0
    last_id: Any = None
    with atomic_file(path) as file, _open_writer(form, file, schema) as writer:
        pending: list[TablePart] = []
        for block in blocks:
            pending.append(block)
            pending_rows += len(block.qid)
            n_rows += len(block.qid)
            n_queries += int((block.qid[1:] != block.qid[:-1]).sum())
            # A query may go on from the block before.
            n_queries += int(block.qid[0] != last_id)
            last_id = block.qid[-1]
            if form == "arrow" or pending_rows >= _GROUP_ROWS:
                _write_group(writer, pending)
                pending, pending_rows = [], 0
        if pending:
            _write_group(writer, pending)
    return n_rows, n_queries


def _write_group(writer: Any, blocks: list[TablePart]) -> None:
    table = join_rows(blocks).table
    writer.write_table(table, table.num_rows)


def _open_writer(form: str, file: Any, schema: pa.Schema) -> Any:
    if form == "arrow":
        return pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    return pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)


def _merge(runs: list[Iterator[TablePart]]) -> Iterator[TablePart]:
    """Yield blocks of whole queries in order of their ids."""
    merging = [_MergingRun(run) for run in runs]
    while True:
        for run in merging:
            if run.rows is None:
                run.read()
        holding = [run for run in merging if run.rows is not None]
        if not holding:
            return
        # A query at the end of a run that is not read to its end may continue in its next block.
        ends = [run.last_id for run in holding if not run.finished]
        cut = min(ends, default=None)
        parts = [rows for run in holding if (rows := run.take_below(cut)) is not None]
        if parts:
            yield join_rows(parts).sort()
        else:
            # All rows read so far belong to one query: read on where it may continue.
            for run in holding:
                if not run.finished and run.last_id == cut:
                    run.read()


class _MergingRun:
    """A sorted run while it is merged.

    Attributes
    ----------
    rows
        Rows that were read and not yet taken, or None.
    finished
        Whether all blocks were read.
    """

    def __init__(self, blocks: Iterator[TablePart]) -> None:
        self._blocks = blocks
        self.rows: TablePart | None = None
        self.finished = False

    @property
    def last_id(self) -> Any:
        """Largest query id that was read and not yet taken."""
        if self.rows is None:
            return None
        return self.rows.qid[-1]

    def read(self) -> None:
        """Read the next block, behind the rows that were not taken."""
        block = next(self._blocks, None)
        if block is None:
            self.finished = True
        elif self.rows is None:
            self.rows = block
        else:
            self.rows = join_rows([self.rows, block])

    def take_below(self, cut: Any) -> TablePart | None:
        """Take the rows of queries below ``cut``; None takes all rows."""
        rows = self.rows
        if rows is None:
            return None
        count = len(rows.qid)
        if cut is not None:
            count = int((rows.qid < cut).sum())
        if count == 0:
            return None
        self.rows = None
        if count < len(rows.qid):
            self.rows = rows.slice(count, len(rows.qid))
        return rows.slice(0, count)
