"""Group files of any size by query.

Runs that fit in memory are sorted by query id and merged; rows of a query keep their order. Runs of
text are kept one after the other in an unnamed temporary file: every run holds a query's rows as
one segment, so merging copies segments, not lines. Runs of tables are kept as Arrow files in the
folder of the target; merging takes from every run the queries that no run can add to any more.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.errors import EmptyDataError, FileKindError, ParameterError, SchemaError
from rankine.core.stores import is_url
from rankine.data.compression import open_target
from rankine.data.dataset import Dataset
from rankine.data.formats import choose_format, format_for
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.readers.columns import to_ids
from rankine.data.readers.tables import all_columns, open_table
from rankine.data.readers.values import BatchLocation, RowFaults, wrap_arrow_errors
from rankine.data.save import convert
from rankine.data.scan import Scan
from rankine.data.selection import no_rows_error, select_sources
from rankine.data.sources import Source, find_sources
from rankine.data.splits import query_times
from rankine.kernels.compile import jit

#: Memory used where ``max_memory`` is not given.
_DEFAULT_MEMORY = 768 * 2**20


@dataclass(frozen=True)
class SortReport:
    """What was sorted.

    Attributes
    ----------
    rows, queries
        Numbers of rows and queries.
    runs
        Sorted runs that were merged.
    skipped
        Bad rows that were left out.
    excluded_rows, excluded_files
        Rows that do not meet ``where``, and files without other rows by their Hive columns.
    """

    rows: int
    queries: int
    runs: int
    skipped: int
    excluded_rows: int = 0
    excluded_files: int = 0


def sort_file(
    path: Any,
    target: str | os.PathLike[str],
    *,
    by_time: str | None = None,
    **options: Unpack[ReadKeywords],
) -> SortReport:
    """Write the rows of files grouped by query, queries in increasing order of their ids.

    Parameters
    ----------
    path
        Files, as for ``rankine.load``.
    target
        The file to write, whole or not at all; ``.gz``, ``.bz2``, ``.xz`` and ``.zst``
        compress it, ``-`` is standard output. Lines of text are not changed; comment lines
        and blank lines are left out. Rows of tables can be written to any format; tables (raw
        logs too) keep names, types and all columns in Parquet and Arrow.
    by_time
        For tables: a column of times. Queries are then in order of the time of their earliest row,
        equal times in order of ids. Two numbers for each query are kept in memory.
    **options
        As for ``rankine.scan``; ``max_memory`` (default 768 MiB) bounds the memory used.
    """
    read_options = ReadOptions.make(**{"max_memory": _DEFAULT_MEMORY, **options})
    if not read_options.has_query_ids:
        raise ParameterError(
            "there are no query ids to sort by", parameter="group", fix="Leave it out"
        )
    sources = find_sources(path)
    formats = {choose_format(s, read_options.format, s.head()).name: s for s in sources}
    if "letor" not in formats:
        return sort_tables(sources, target, read_options, by_time)
    if by_time is not None:
        raise ParameterError(
            "applies to tables with a column of times",
            parameter="by_time",
            fix="Leave it out, or convert the files first",
        )
    if len(formats) > 1:
        table = next(source for name, source in formats.items() if name != "letor")
        raise FileKindError(
            "text and other formats cannot be sorted together",
            file=table.name,
            fix="Convert the files to one format first: rankine convert IN OUT",
        )
    with tempfile.TemporaryFile(dir=_folder_of(target)) as store:
        # Sorting a run takes two copies of it.
        sorter = _LineSorter(store, read_options.memory_limit // 3)
        n_skipped = sum(_add_lines(sorter, source, read_options) for source in sources)
        sorter.end_run()
        if not sorter.n_rows:
            raise EmptyDataError("no rows to sort", file=sources[0].name, fix="Check the path")
        with open_target(target) as out:
            n_queries = sorter.merge(out)
    return SortReport(sorter.n_rows, n_queries, len(sorter.runs), n_skipped)


def _folder_of(target: str | os.PathLike[str]) -> Path | None:
    """Return the folder for temporary files, which need as much room as the target."""
    if os.fspath(target) == "-" or is_url(target):
        return None
    return Path(os.path.realpath(target)).parent


def _add_lines(sorter: _LineSorter, source: Source, options: ReadOptions) -> int:
    """Add the rows of one file to the sorter; return the number of bad rows that were skipped."""
    from rankine.data.readers.letor import Reader

    reader = Reader(source, replace(options, feature_names=None), streaming=True, keep_spans=True)
    for window in reader.windows():
        starts, stops, qid = reader.take_spans()
        sorter.add(window.buffer, starts, stops, qid)
    return reader.read_counts.get("skipped_rows", 0)


@dataclass
class _SortedRun:
    """A sorted run in the temporary file.

    Attributes
    ----------
    qid, sizes
        Query id and bytes of each segment.
    start
        Where the first segment starts.
    """

    qid: NDArray[Any]
    sizes: NDArray[np.int64]
    start: int


class _LineSorter:
    def __init__(self, store: BinaryIO, run_bytes: int) -> None:
        self._store = store
        self._run_bytes = run_bytes
        self._lines: list[NDArray[np.uint8]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._qid: list[NDArray[Any]] = []
        self._held_bytes = 0
        self._written_bytes = 0
        self.runs: list[_SortedRun] = []
        self.n_rows = 0

    def add(
        self,
        buffer: NDArray[np.uint8],
        starts: NDArray[np.int64],
        stops: NDArray[np.int64],
        qid: NDArray[Any],
    ) -> None:
        """Copy the lines ``buffer[starts[k]:stops[k]]``, each with its line feed."""
        if len(starts) == 0:
            return
        # The window is used again for the next lines, so these are copied.
        sizes = stops - starts
        lines = np.empty(int(sizes.sum()), dtype=np.uint8)
        _copy_lines(buffer, starts, sizes, np.arange(len(sizes)), lines)
        self._lines.append(lines)
        self._sizes.append(sizes)
        self._qid.append(qid)
        self._held_bytes += lines.nbytes + 24 * len(sizes)
        self.n_rows += len(sizes)
        if self._held_bytes >= self._run_bytes:
            self.end_run()

    def end_run(self) -> None:
        """Sort the lines held in memory and append them to the temporary file."""
        if not self._lines:
            return
        lines = np.concatenate(self._lines)
        sizes, qid = np.concatenate(self._sizes), np.concatenate(self._qid)
        self._lines, self._sizes, self._qid, self._held_bytes = [], [], [], 0
        order = np.argsort(qid, kind="stable")
        sorted_lines = np.empty(len(lines), dtype=np.uint8)
        _copy_lines(lines, np.cumsum(sizes) - sizes, sizes, order, sorted_lines)
        qid, sizes = qid[order], sizes[order]
        # Only one entry per query and run stays in memory.
        first = np.append(0, np.flatnonzero(qid[1:] != qid[:-1]) + 1)
        run = _SortedRun(qid[first], np.add.reduceat(sizes, first), self._written_bytes)
        self.runs.append(run)
        self._store.write(sorted_lines.data)
        self._written_bytes += len(sorted_lines)

    def merge(self, out: Any) -> int:
        """Write all segments in order of query id, then run; return the number of queries."""
        # Segments are read back with ``seek``, past Python's buffer.
        self._store.flush()
        qid = np.concatenate([run.qid for run in self.runs])
        sizes = np.concatenate([run.sizes for run in self.runs])
        starts = np.concatenate([run.start + np.cumsum(run.sizes) - run.sizes for run in self.runs])
        order = np.argsort(qid, kind="stable")
        for start, size in _join_neighbours(starts[order], sizes[order]):
            _copy_bytes(self._store, start, size, out)
        return len(np.unique(qid))


def _join_neighbours(
    starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Yield start and size of the segments to copy; adjacent ones are joined."""
    ends = starts + sizes
    first = np.append(0, np.flatnonzero(starts[1:] != ends[:-1]) + 1)
    totals = np.add.reduceat(sizes, first)
    yield from zip(starts[first].tolist(), totals.tolist(), strict=True)


def _copy_bytes(store: BinaryIO, start: int, size: int, out: Any) -> None:
    store.seek(start)
    while size:
        data = store.read(min(size, 2**20))
        out.write(data)
        size -= len(data)


@jit
def _copy_lines(lines: Any, starts: Any, sizes: Any, order: Any, out: Any) -> None:
    """Copy lines to ``out`` in the given order."""
    position = 0
    for k in order:
        for j in range(sizes[k]):
            out[position + j] = lines[starts[k] + j]
        position += sizes[k]


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
    with tempfile.TemporaryDirectory(dir=_folder_of(target), prefix=".sort-") as folder:
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
