"""Group Parquet, Arrow and npz files by query, whatever their size.

Runs that fit in memory are sorted by query id and kept as Arrow files beside the target; merging
takes from every run the queries that no run can add to any more. Rows of a query keep their order.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from rankine.core.errors import EmptyDataError
from rankine.data.concat import concat
from rankine.data.open import load_sources, scan
from rankine.data.save import save
from rankine.data.scan import Scan
from rankine.data.sort import SortReport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.dataset import Dataset
    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["sort_tables"]

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
        merged = _CountedQueries(
            _merge([scan(run, block_rows=_MERGE_ROWS).raw_blocks() for run in runs])
        )
        rows = save(merged, target)
    return SortReport(rows, merged.queries, len(runs), skipped)


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


def _merge(runs: list[Iterator[Dataset]]) -> Iterator[Dataset]:
    """Blocks of whole queries in order of their ids."""
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
            yield _by_query(concat(parts))
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


class _CountedQueries:
    """Blocks of whole queries that counts them as they pass."""

    def __init__(self, blocks: Iterator[Dataset]) -> None:
        self._blocks = blocks
        self.queries = 0

    def __iter__(self) -> Iterator[Dataset]:
        for block in self._blocks:
            self.queries += block.n_queries
            yield block
