"""Group files by query, whatever their size.

Runs that fit in memory are sorted by query id and merged; rows of a query keep their order. Runs of
text are kept one after the other in an unnamed temporary file: since every run holds a query's rows
as one segment, merging copies segments, not lines; every row is checked on the way. Runs of tables
are kept as Arrow files beside the target; merging takes from every run the queries that no run can
add to any more.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankine.core.atomic import atomic_file
from rankine.core.errors import EmptyDataError, FileKindError, ParameterError, SchemaError
from rankine.data.compression import open_target
from rankine.data.formats import choose_format, format_for
from rankine.data.open import load_sources
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.readers.columns import to_ids
from rankine.data.readers.tables import open_table
from rankine.data.readers.values import Place, RowFaults, arrow_errors
from rankine.data.save import convert, save
from rankine.data.sources import Source, find_sources
from rankine.kernels.compile import jit


@dataclass(frozen=True)
class SortReport:
    """What was sorted: rows, queries, runs that had to be merged, lines that were no rows."""

    rows: int
    queries: int
    runs: int
    skipped: int


def sort_file(
    path: Any, target: str | os.PathLike[str], **options: Unpack[ReadKeywords]
) -> SortReport:
    """Write the rows of files grouped by query, queries in increasing order of their ids.

    Parameters
    ----------
    path
        Files, as for ``rankine.load``.
    target
        The file to write, whole or not at all; ``.gz``, ``.bz2``, ``.xz`` and ``.zst``
        compress it, ``-`` is standard output. Lines of text are not changed; comment lines
        and blank lines are left out. Rows of tables and npz files go to any format; tables (raw
        logs too) keep names, types and all columns in Parquet and Arrow.
    **options
        As for ``rankine.scan``; ``max_memory`` (default 768 MiB) bounds the memory used.

    Returns
    -------
    SortReport
        Rows, queries, runs, skipped rows.
    """
    chosen = ReadOptions.make(**{"max_memory": 3 * 2**28, **options})
    if not chosen.has_query_ids:
        raise ParameterError("there are no query ids to sort by", fix="Leave out group")
    sources = find_sources(path)
    forms = {choose_format(s, chosen.format, s.head()).name: s for s in sources}
    if "letor" not in forms:
        return sort_tables(sources, target, chosen)
    if len(forms) > 1:
        other = next(source for name, source in forms.items() if name != "letor")
        raise FileKindError(
            "text and other formats cannot be sorted together",
            file=other.name,
            fix="Convert the files to one format first: rankine convert IN OUT",
        )
    folder = None if os.fspath(target) == "-" else Path(os.path.realpath(target)).parent
    with tempfile.TemporaryFile(dir=folder) as store:
        sorter = _Sorter(store, chosen.memory_limit // 3)
        skipped = sum(_collect(source, chosen, sorter) for source in sources)
        sorter.end_run()
        if not sorter.rows:
            raise EmptyDataError("no rows to sort", file=sources[0].name, fix="Check the path")
        with open_target(target) as out:
            queries = sorter.merge(out)
    return SortReport(sorter.rows, queries, len(sorter.runs), skipped)


def _collect(source: Source, options: ReadOptions, sorter: _Sorter) -> int:
    """Feed the rows of one file to the sorter; returns the rows skipped as bad."""
    from rankine.data.readers.letor import Reader

    reader = Reader(source, replace(options, feature_names=None), streaming=True, keep_spans=True)
    for window in reader.windows():
        starts, stops, qid = reader.lines()
        sorter.add(window.buffer, starts, stops, qid)
    return reader.read_counts.get("skipped_rows", 0)


@dataclass
class _SortedRun:
    """Segments of a sorted run: query ids, bytes of each, place of the first."""

    qid: NDArray[Any]
    sizes: NDArray[np.int64]
    offset: int


class _Sorter:
    def __init__(self, store: BinaryIO, run_bytes: int) -> None:
        self._store = store
        self._limit = run_bytes
        self._parts: list[NDArray[np.uint8]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._qid: list[NDArray[Any]] = []
        self._held = 0
        self._written = 0
        self.runs: list[_SortedRun] = []
        self.rows = 0

    def add(
        self,
        buffer: NDArray[np.uint8],
        starts: NDArray[np.int64],
        stops: NDArray[np.int64],
        qid: NDArray[Any],
    ) -> None:
        """Take the lines ``buffer[starts[k]:stops[k]]``, each with its line feed."""
        if len(starts) == 0:
            return
        sizes = stops - starts
        part = np.empty(int(sizes.sum()), dtype=np.uint8)
        _gather(buffer, starts, sizes, np.arange(len(sizes)), part)
        self._parts.append(part)
        self._sizes.append(sizes)
        self._qid.append(qid)
        self._held += part.nbytes + 24 * len(sizes)
        self.rows += len(sizes)
        if self._held >= self._limit:
            self.end_run()

    def end_run(self) -> None:
        """Sort what is held and put it behind the runs before it."""
        if not self._parts:
            return
        lines = np.concatenate(self._parts)
        sizes, qid = np.concatenate(self._sizes), np.concatenate(self._qid)
        self._parts, self._sizes, self._qid, self._held = [], [], [], 0
        order = np.argsort(qid, kind="stable")
        out = np.empty(len(lines), dtype=np.uint8)
        _gather(lines, np.cumsum(sizes) - sizes, sizes, order, out)
        qid, sizes = qid[order], sizes[order]
        first = np.append(0, np.flatnonzero(qid[1:] != qid[:-1]) + 1)
        self.runs.append(_SortedRun(qid[first], np.add.reduceat(sizes, first), self._written))
        self._store.write(out.data)
        self._written += len(out)

    def merge(self, out: Any) -> int:
        """Write all segments in order of query id, then run; returns the number of queries."""
        self._store.flush()
        qid = np.concatenate([run.qid for run in self.runs])
        sizes = np.concatenate([run.sizes for run in self.runs])
        places = np.concatenate(
            [run.offset + np.cumsum(run.sizes) - run.sizes for run in self.runs]
        )
        order = np.argsort(qid, kind="stable")
        for place, size in _joined(places[order], sizes[order]):
            _copy(self._store, place, size, out)
        return len(np.unique(qid))


def _joined(places: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Pieces to copy, neighbours in one piece."""
    ends = places + sizes
    first = np.append(0, np.flatnonzero(places[1:] != ends[:-1]) + 1)
    totals = np.add.reduceat(sizes, first)
    yield from zip(places[first].tolist(), totals.tolist(), strict=True)


def _copy(store: BinaryIO, place: int, size: int, out: Any) -> None:
    store.seek(place)
    while size:
        piece = store.read(min(size, 2**20))
        out.write(piece)
        size -= len(piece)


@jit
def _gather(lines: Any, starts: Any, sizes: Any, order: Any, out: Any) -> None:
    """Lines in the given order, each ending in a line feed."""
    place = 0
    for k in order:
        for j in range(sizes[k]):
            out[place + j] = lines[starts[k] + j]
        place += sizes[k]


#: Rows of a block while merging; every run holds one or two of them.
_MERGE_ROWS = 8192
#: Rows of a row group of Parquet, at least.
_GROUP_ROWS = 65536
#: A run may take this part of the memory: sorting and writing it take copies.
_SHARE = 8


def sort_tables(
    sources: list[Source], target: str | os.PathLike[str], options: ReadOptions
) -> SortReport:
    """Write the rows grouped by query, queries in increasing order of their ids.

    Names, types and all columns stay. The suffix of ``target`` decides the format;
    ``options.max_memory`` bounds the memory used.
    """
    name = os.fspath(target)
    folder = None if name == "-" else Path(os.path.realpath(target)).parent
    form = format_for("-.txt" if name == "-" else name).name
    with tempfile.TemporaryDirectory(dir=folder, prefix=".sort-") as room:
        if any(not choose_format(s, options.format, s.head()).streams for s in sources):
            save(load_sources(sources, options), f"{room}/rows.arrow")
            sources = find_sources(f"{room}/rows.arrow")
            options = replace(options, format=None, query="qid")
        skipped: list[int] = []
        runs: list[str] = []
        for run in _runs(_table_rows(sources, options, skipped), options.memory_limit // _SHARE):
            runs.append(f"{room}/{len(runs)}.arrow")
            rows = run.ordered()
            _write_table("arrow", runs[-1], rows.table.schema, rows.pieces())
        if not runs:
            raise EmptyDataError(
                "no rows in " + ", ".join(s.name for s in sources[:3]), fix="Check the path"
            )
        readers = [pa.ipc.open_file(pa.memory_map(run)) for run in runs]
        ids = replace(options, on_bad_row="error")
        merged = _merge([_run_rows(reader, ids) for reader in readers])
        whole = form in ("parquet", "arrow")
        file = name if whole else f"{room}/sorted.parquet"
        counts = _write_table(form if whole else "parquet", file, readers[0].schema, merged)
        if not whole:
            convert(file, target, query=options.query)
    return SortReport(*counts, len(runs), sum(skipped))


class _Rows(NamedTuple):
    """Rows of a table with their query ids."""

    table: pa.Table
    qid: NDArray[Any]

    def cut(self, first: int, last: int) -> _Rows:
        return _Rows(self.table.slice(first, last - first), self.qid[first:last])

    def ordered(self) -> _Rows:
        order = np.argsort(self.qid, kind="stable")
        return _Rows(self.table.take(order), self.qid[order])

    def pieces(self) -> Iterator[_Rows]:
        for first in range(0, len(self.qid), _MERGE_ROWS):
            yield self.cut(first, min(first + _MERGE_ROWS, len(self.qid)))


def _join(parts: list[_Rows]) -> _Rows:
    if len(parts) == 1:
        return parts[0]
    tables = pa.concat_tables([part.table for part in parts])
    return _Rows(tables, np.concatenate([part.qid for part in parts]))


def _table_rows(sources: list[Source], options: ReadOptions, skipped: list[int]) -> Iterator[_Rows]:
    """All columns of all files, batch by batch; the first file says their names and types."""
    first: pa.Schema | None = None
    query = str(options.query)
    for source in sources:
        with open_table(source, options) as table:
            first = table.schema if first is None else first
            if set(table.schema.names) != set(first.names):
                raise SchemaError(
                    f"not the columns of {sources[0].name}",
                    file=source.name,
                    fix="Sort files of the same columns together",
                )
            for batch, place in table.everything():
                faults = RowFaults(place, batch.num_rows, skip=options.on_bad_row == "skip")
                rows = pa.Table.from_batches([batch])
                with arrow_errors(f"a column with its type of {sources[0].name}", SchemaError):
                    rows = rows.select(first.names).cast(first)
                found = _Rows(rows, to_ids(batch.column(query), query, faults))
                if faults.bad is not None:
                    good = np.flatnonzero(~faults.bad)
                    skipped.append(int(faults.bad.sum()))
                    found = _Rows(rows.take(good), found.qid[good])
                if len(found.qid):
                    yield found
        source.check()


def _run_rows(reader: Any, options: ReadOptions) -> Iterator[_Rows]:
    for k in range(reader.num_record_batches):
        batch = reader.get_batch(k)
        faults = RowFaults(Place("a sorted run"), batch.num_rows, skip=False)
        ids = to_ids(batch.column(options.query), str(options.query), faults)
        yield _Rows(pa.Table.from_batches([batch]), ids)


def _runs(batches: Iterator[_Rows], budget: int) -> Iterator[_Rows]:
    """As many batches at a time as fit into ``budget`` bytes."""
    pending: list[_Rows] = []
    size = 0
    for rows in batches:
        pending.append(rows)
        size += rows.table.nbytes
        if size >= budget:
            yield _join(pending)
            pending, size = [], 0
    if pending:
        yield _join(pending)


def _write_table(
    form: str, path: str, schema: pa.Schema, blocks: Iterator[_Rows]
) -> tuple[int, int]:
    """Write blocks to a file, whole or not at all; returns rows and runs of equal ids.

    A row group of Parquet ends where a block does, so that it never cuts a query of sorted blocks.
    """
    rows, queries = 0, 0
    last: Any = None
    with atomic_file(path) as file, _table_writer(form, file, schema) as writer:
        pending: list[_Rows] = []
        for block in blocks:
            pending.append(block)
            queries += int((block.qid[1:] != block.qid[:-1]).sum()) + int(block.qid[0] != last)
            last = block.qid[-1]
            rows += len(block.qid)
            if form == "arrow" or sum(len(part.qid) for part in pending) >= _GROUP_ROWS:
                _write_pending(writer, pending)
        if pending:
            _write_pending(writer, pending)
    return rows, queries


def _write_pending(writer: Any, pending: list[_Rows]) -> None:
    table = _join(pending).table
    writer.write_table(table, table.num_rows)
    pending.clear()


def _table_writer(form: str, file: Any, schema: pa.Schema) -> Any:
    if form == "arrow":
        return pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    return pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)


def _merge(runs: list[Iterator[_Rows]]) -> Iterator[_Rows]:
    """Blocks of whole queries in order of their ids."""
    waiting: list[_Rows | None] = [None] * len(runs)
    open_runs = set(range(len(runs)))
    while True:
        for k in list(open_runs):
            if waiting[k] is None:
                _refill(k, runs, waiting, open_runs)
        held = [(k, rows) for k, rows in enumerate(waiting) if rows is not None]
        if not held:
            return
        # A query at the end of an open run may go on in that run's next block.
        ends = [rows.qid[-1] for k, rows in held if k in open_runs]
        cut = min(ends) if ends else None
        parts = []
        for k, rows in held:
            size = len(rows.qid)
            count = size if cut is None else int((rows.qid < cut).sum())
            if count:
                parts.append(rows.cut(0, count))
                waiting[k] = rows.cut(count, size) if count < size else None
        if parts:
            yield _join(parts).ordered()
        else:
            for k, rows in held:
                if k in open_runs and rows.qid[-1] == cut:
                    _refill(k, runs, waiting, open_runs)


def _refill(
    k: int, runs: list[Iterator[_Rows]], waiting: list[_Rows | None], open_runs: set[int]
) -> None:
    """Add the next block of a run to what waits of it; a run that ends is no longer open."""
    fresh = next(runs[k], None)
    if fresh is None:
        open_runs.discard(k)
        return
    before = waiting[k]
    waiting[k] = fresh if before is None else _join([before, fresh])
