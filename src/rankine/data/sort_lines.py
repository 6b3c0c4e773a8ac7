"""Sort lines of text of any size by query.

Runs that fit in memory are kept one after the other in a temporary file. Every run holds the rows
of a query as one segment, so merging copies segments, not lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rankine.data.options import ReadOptions
from rankine.data.sources import Source
from rankine.kernels.compile import jit


def add_lines(sorter: LineSorter, source: Source, options: ReadOptions) -> int:
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


class LineSorter:
    """Collects lines and writes sorted runs of them.

    Parameters
    ----------
    store
        Temporary file for the runs.
    run_bytes
        Memory after which a run ends.

    Attributes
    ----------
    runs
        The sorted runs so far.
    n_rows
        Number of lines so far.
    """

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
