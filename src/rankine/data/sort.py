"""Group a text file by query, whatever its size.

Runs that fit in memory are sorted by query id and kept one after the other in an unnamed temporary
file; since every run holds a query's rows as one segment, merging copies segments, not lines. Rows
of a query keep their order. Every row is checked on the way.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import EmptyDataError, FileKindError, ParameterError
from rankine.data.compression import open_target
from rankine.data.formats import choose_format
from rankine.data.options import ReadOptions
from rankine.data.sources import find_sources
from rankine.kernels.compile import jit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.keywords import ReadKeywords
    from rankine.data.sources import Source

__all__ = ["SortReport", "sort_file"]


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
        from rankine.data.sort_tables import sort_tables

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
