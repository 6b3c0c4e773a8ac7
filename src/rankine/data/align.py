"""Blocks that never cut a query, and the guard that notices a query that comes back."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LimitError, QueryOrderError
from rankine.data.concat import concat
from rankine.kernels.compile import jit
from rankine.kernels.random import random_bits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.dataset import Dataset
    from rankine.data.options import ReadOptions

__all__ = ["QueryGuard", "align"]

_SORT = "Group the file by query with 'rankine sort IN OUT', or use rankine.load"


def align(
    blocks: Iterator[Dataset], options: ReadOptions, guard: QueryGuard | None = None
) -> Iterator[Dataset]:
    """Regroup blocks so that each holds whole queries, at least ``block_rows`` rows if there are.

    The cut falls on the first query boundary at or after ``block_rows`` rows, so the blocks do not
    depend on how the input was cut.
    """
    pending: list[Dataset] = []
    waiting = 0  # rows in pending
    for block in blocks:
        start = 0
        ends = run_ends(block.qid)
        if guard is not None:
            guard.see(block, ends)
        if (
            pending
            and len(ends)
            and block.qid[0] != pending[-1].qid[-1]
            and waiting >= options.block_rows
        ):
            yield concat(pending)
            pending, waiting = [], 0
        # The last run may go on in the next block: only the ends before it are known.
        for end in ends[:-1].tolist():
            if waiting + end - start >= options.block_rows:
                pending.append(block.take(slice(start, end)))
                yield concat(pending)
                pending, waiting, start = [], 0, end
        if start < block.n_rows:
            pending.append(block if start == 0 else block.take(slice(start, block.n_rows)))
            waiting += block.n_rows - start
            _check_length(block, pending, options.max_query_rows)
    if pending:
        yield concat(pending)


def run_ends(qid: NDArray[Any]) -> NDArray[np.int64]:
    """Ends of the runs of equal ids."""
    if len(qid) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.append(np.flatnonzero(qid[1:] != qid[:-1]) + 1, len(qid))


def _check_length(block: Dataset, pending: list[Dataset], limit: int) -> None:
    """Refuse a query whose rows would fill the memory."""
    last = block.qid[-1]
    rows = 0
    for part in reversed(pending):
        same = part.qid == last
        rows += int(same.sum())
        if not same.all():
            break
    if rows > limit:
        raise LimitError(
            f"query {last} has more than {limit} rows",
            file=_file(block),
            fix="Check the query ids, or pass a larger max_query_rows",
        )


class QueryGuard:
    """Notices a query that reappears in a stream, in one pass.

    Ids that only increase (or only decrease) prove themselves. Ids are remembered in case the
    order breaks: integers exactly, strings by 128 bits of BLAKE2b, at most ``max_queries`` of them
    (8 bytes each, 16 for strings; about twice as much in a table once the order has broken). When
    there were more and the order breaks, the guard says so instead of guessing.
    """

    def __init__(self, max_queries: int) -> None:
        self._limit = max_queries
        self._last: Any = None
        self._direction = 0
        self._monotone = True
        self._sorted: list[NDArray[np.uint64]] = []  # keys, as long as the order proves them
        self._table: NDArray[np.uint64] | None = None
        self._zero = np.zeros(1, dtype=np.bool_)
        self._used = 0
        self._complete = True

    def see(self, block: Dataset, ends: NDArray[np.int64]) -> None:
        """Take note of the runs of a block; raise at the first query that was seen before."""
        if len(ends) == 0:
            return
        starts = np.concatenate([[0], ends[:-1]])
        if self._last is not None and block.qid[0] == self._last:
            starts = starts[1:]
        if len(starts) == 0:
            return
        ids = block.qid[starts]
        self._watch_order(ids)
        self._last = ids[-1]
        if not self._complete:
            if not self._monotone:
                raise LimitError(
                    f"query ids stop being sorted after more than {self._limit} queries, "
                    "so a query that comes back can no longer be noticed",
                    file=_file(block),
                    fix="Sort the file with 'rankine sort IN OUT', or pass a larger max_queries",
                )
            return
        self._remember(block, starts, ids)

    def _watch_order(self, ids: NDArray[Any]) -> None:
        if not self._monotone:
            return
        if self._last is not None:
            ids = np.concatenate([np.asarray([self._last]), ids])
        if len(ids) < 2:
            return
        if self._direction == 0:
            self._direction = 1 if ids[1] > ids[0] else -1
        ahead = ids[1:] > ids[:-1] if self._direction > 0 else ids[1:] < ids[:-1]
        self._monotone = bool(ahead.all())

    def _remember(self, block: Dataset, starts: NDArray[np.int64], ids: NDArray[Any]) -> None:
        keys = _keys(ids)
        room = self._limit - self._used
        if self._monotone:
            self._sorted.append(keys[:room])
            again = -1
        else:
            again = _insert(self._roomy_table(keys[:room]), keys[:room], self._zero)
        if again >= 0:
            raise QueryOrderError(
                f"query {ids[again]} comes back after other queries",
                file=_file(block),
                line=_line(block, int(starts[again])),
                fix=_SORT,
            )
        self._used += min(len(keys), room)
        if len(keys) > room:
            self._complete = False
            self._sorted, self._table = [], None

    def _roomy_table(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The table of all ids so far, at most half full when ``keys`` are in it too."""
        size = 1024 if self._table is None else len(self._table)
        while 2 * (self._used + len(keys)) > size:
            size *= 2
        if self._table is None:
            self._table = np.zeros((size, keys.shape[1]), dtype=np.uint64)
            for part in self._sorted:
                _insert(self._table, part, self._zero)
            self._sorted = []
        elif size > len(self._table):
            stored = self._table[self._table.any(axis=1)]
            self._table = np.zeros((size, keys.shape[1]), dtype=np.uint64)
            _insert(self._table, stored, self._zero)
        return self._table


def _keys(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Keys of ids: one word per integer, two per string."""
    if ids.dtype.kind == "i":
        return ids.astype(np.int64).view(np.uint64).reshape(-1, 1)
    digests = b"".join(
        hashlib.blake2b(str(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for text in ids.tolist()
    )
    return np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)


def _file(block: Dataset) -> str | None:
    return block.sources[-1] if block.sources else None


def _line(block: Dataset, row: int) -> int | None:
    return None if block.lines is None else int(block.lines[row])


@jit
def _insert(table: Any, keys: Any, zero: Any) -> int:
    """Put keys into an open-addressing table; position of the first that was there, or -1.

    An empty slot is all zeros, so the key of all zeros has a flag of its own.
    """
    mask = np.uint64(table.shape[0] - 1)
    width = keys.shape[1]
    for k in range(keys.shape[0]):
        empty = True
        for c in range(width):
            empty = empty and keys[k, c] == 0
        if empty:
            if zero[0]:
                return k
            zero[0] = True
            continue
        slot = random_bits(0, keys[k, 0]) & mask
        while True:
            free = True
            same = True
            for c in range(width):
                free = free and table[slot, c] == 0
                same = same and table[slot, c] == keys[k, c]
            if free:
                break
            if same:
                return k
            slot = (slot + np.uint64(1)) & mask
        for c in range(width):
            table[slot, c] = keys[k, c]
    return -1
