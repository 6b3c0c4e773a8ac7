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
from typing import Any, BinaryIO, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import EmptyDataError, FileKindError, ParameterError
from rankine.data.compression import open_target
from rankine.data.dataset import Dataset, concat
from rankine.data.formats import choose_format
from rankine.data.open import load_sources, scan
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.save import save
from rankine.data.scan import Scan
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
        and blank lines are left out. Rows of Parquet, Arrow and npz files go to any format.
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
    return reader.notes.get("skipped_rows", 0)


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
#: A run may take this part of the memory: sorting and writing it take copies.
_SHARE = 8


def sort_tables(
    sources: list[Source], target: str | os.PathLike[str], options: ReadOptions
) -> SortReport:
    """Write the rows grouped by query, queries in increasing order of their ids.

    The suffix of ``target`` decides the format; ``options.max_memory`` bounds the memory used.
    """
    folder = Path(os.path.realpath(target)).parent if os.fspath(target) != "-" else None
    stream = Scan(sources, options)
    blocks = iter([load_sources(sources, options)]) if stream.whole else stream.raw_blocks()
    skipped = 0
    with tempfile.TemporaryDirectory(dir=folder, prefix=".sort-") as room:
        runs: list[str] = []
        for run in _runs(blocks, options.memory_limit // _SHARE):
            skipped += run.notes.get("skipped_rows", 0)
            runs.append(f"{room}/{len(runs)}.arrow")
            _save_run(run, runs[-1])
        if not runs:
            raise EmptyDataError(
                "no rows in " + ", ".join(stream.sources[:3]), fix="Check the path"
            )
        queries: list[int] = []
        merged = _merge([scan(run, block_rows=_MERGE_ROWS).raw_blocks() for run in runs], queries)
        rows = save(merged, target)
    return SortReport(rows, sum(queries), len(runs), skipped)


def _runs(blocks: Iterator[Dataset], budget: int) -> Iterator[Dataset]:
    """As many blocks at a time as fit into ``budget`` bytes."""
    pending: list[Dataset] = []
    size = 0
    for block in blocks:
        if block.n_rows == 0:
            continue
        pending.append(replace(block, lines=None))
        size += _bytes(block)
        if size >= budget:
            yield concat(pending)
            pending, size = [], 0
    if pending:
        yield concat(pending)


def _bytes(block: Dataset) -> int:
    X: Any = block.X
    matrix = X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes
    return int(matrix) + 64 * block.n_rows * (2 + len(block.columns))


def _save_run(run: Dataset, path: str) -> None:
    ordered = _by_query(run)
    starts = range(0, ordered.n_rows, _MERGE_ROWS)
    save((ordered.take(slice(start, start + _MERGE_ROWS)) for start in starts), path)


def _by_query(data: Dataset) -> Dataset:
    return data.take(np.argsort(data.qid, kind="stable"))


def _merge(runs: list[Iterator[Dataset]], queries: list[int]) -> Iterator[Dataset]:
    """Blocks of whole queries in order of their ids; ``queries`` notes how many each holds."""
    waiting: list[Dataset | None] = [None] * len(runs)
    open_runs = set(range(len(runs)))
    while True:
        for k in list(open_runs):
            if waiting[k] is None:
                _refill(k, runs, waiting, open_runs)
        held = [(k, block) for k, block in enumerate(waiting) if block is not None]
        if not held:
            return
        # A query at the end of an open run may go on in that run's next block.
        ends = [block.qid[-1] for k, block in held if k in open_runs]
        cut = min(ends) if ends else None
        parts = []
        for k, block in held:
            count = block.n_rows if cut is None else int((block.qid < cut).sum())
            if count:
                parts.append(block.take(slice(0, count)))
                rest = block.take(slice(count, block.n_rows))
                waiting[k] = rest if rest.n_rows else None
        if parts:
            block = _by_query(concat(parts))
            queries.append(block.n_queries)
            yield block
        else:
            for k, block in held:
                if k in open_runs and block.qid[-1] == cut:
                    _refill(k, runs, waiting, open_runs)


def _refill(
    k: int, runs: list[Iterator[Dataset]], waiting: list[Dataset | None], open_runs: set[int]
) -> None:
    """Add the next block of a run to what waits of it; a run that ends is no longer open."""
    block = next(runs[k], None)
    if block is None:
        open_runs.discard(k)
        return
    before = waiting[k]
    fresh = replace(block, lines=None)
    waiting[k] = fresh if before is None else concat([before, fresh])
