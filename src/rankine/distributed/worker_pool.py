"""Compute sums over all partitions, and what a worker does for one of them.

A partial result is a pure function of a work item, a method's name and small arrays. A worker
caches the partitions it has read while they fit into its share of memory. The cache only saves
time: a worker without the partition reads it, and returns the same bits. Partial results are added
pairwise, in the order of partitions: tuples element by element, lists by concatenation.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from rankine._version import __version__
from rankine.core.errors import ClusterError
from rankine.data.dataset import Dataset
from rankine.data.options import available_memory
from rankine.distributed.file_partitions import ROW_BYTES, Partition
from rankine.solvers.base import ResumePoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.distributed.journal import Journal
    from rankine.distributed.runners import LocalRunner


def token_of(*values: Any) -> str:
    """Return a digest of numbers, strings, arrays, functions, None, and containers of these.

    Equal values have equal digests in every process.
    """
    digest = hashlib.sha256()
    for value in values:
        _update_digest(digest, value)
    return digest.hexdigest()


def _update_digest(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, dict):
        digest.update(b"{")
        for key in sorted(value, key=str):
            _update_digest(digest, key)
            _update_digest(digest, value[key])
        digest.update(b"}")
    elif isinstance(value, (list, tuple)):
        digest.update(b"(")
        for item in value:
            _update_digest(digest, item)
        digest.update(b")")
    elif callable(value):
        digest.update(f"function {value.__module__}.{value.__qualname__};".encode())
    else:
        digest.update(f"{type(value).__name__} {value!r};".encode())


def _add(a: Any, b: Any) -> Any:
    """Add two partial results."""
    if hasattr(a, "merge"):
        return a.merge(b)
    if isinstance(a, tuple):
        return tuple(map(_add, a, b))
    return a + b


def sum_in_order(results: Iterable[Any]) -> Any:
    """Sum partial results as ``kernels.shards.tree_sum`` does, holding log2 of them at a time.

    This works like a binary counter: two neighbours that cover the same number of results are
    added at once. The remainder is added from the right, where carrying it upwards would add it.
    """
    subtotals: list[tuple[int, Any]] = []
    for result in results:
        size, total = 1, result
        while subtotals and subtotals[-1][0] == size:
            total = _add(subtotals.pop()[1], total)
            size *= 2
        subtotals.append((size, total))
    _, total = subtotals.pop()
    while subtotals:
        total = _add(subtotals.pop()[1], total)
    return total


#: Share of a worker's memory that cached partitions may take: the rest is for Python, Numba, Arrow,
#: and copies of the partition at work. Dask pauses a worker at 80 % of its limit.
CACHE_SHARE = 0.25
#: Share of its memory limit at which a worker clears its cache rather than be paused at 80 %.
CLEAR_SHARE = 0.7
#: Token of the task that keeps the rows as they are.
RAW = "rows"
#: Memory of a process before it holds any data.
PROCESS_BYTES = 320 * 2**20


class PartitionTask(Protocol):
    """How a worker turns the rows of a partition into an object that computes partial results."""

    @property
    def token(self) -> str:
        """Digest, equal for equal tasks."""

    def build(self, data: Dataset, threads: int | None, number: int) -> Any:
        """Build the object for the rows of partition ``number``; its methods are requested."""


@dataclass(frozen=True)
class WorkItem:
    """A partition and its task: all that a worker needs.

    ``version`` is the version of rankine that sends the item; ``threads`` limits the kernels.
    """

    partition: Partition
    task: PartitionTask
    version: str = __version__
    threads: int | None = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """Cache key of this item on a worker."""
        return (self.partition.number, *self.partition.key, self.task.token)


class PartitionCache:
    """The partitions that were used last, as many as fit.

    ``limit`` returns the number of bytes that the cache may take. ``near_limit`` returns whether
    the whole process would be near its memory limit with a given number of additional bytes.
    """

    def __init__(
        self, limit: Callable[[], int], near_limit: Callable[[int], bool] = lambda _: False
    ) -> None:
        self._limit = limit
        self._near_limit = near_limit
        self._entries: OrderedDict[Any, tuple[int, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.loads = 0

    def get(self, item: WorkItem) -> Any:
        """Return the object of a partition; it is read and built if it is not cached."""
        key = item.key
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][1]
            # Raw rows that are cached are used for the new object, and not kept twice.
            raw = self._entries.pop((*key[:-1], RAW), None)
            # Evict first: the old and the new partition must not be in memory at the same time.
            self._evict_for(item.partition.nbytes)
            if self._near_limit(item.partition.nbytes):
                self._release()
        if raw is None:
            self.loads += 1
            data = item.partition.load()
        else:
            data = raw[1].data
        built = item.task.build(data, item.threads, item.partition.number)
        size = max(item.partition.nbytes, estimate_bytes(data))
        with self._lock:
            if self._evict_for(size):
                self._entries[key] = size, built
        return built

    def clear_near_limit(self) -> None:
        """Clear the cache if the process is near its limit after its work.

        Dask pauses such a worker, and a paused worker gets no task that would make it evict.
        """
        with self._lock:
            if self._near_limit(0):
                self._release()

    def _release(self) -> None:
        self._entries.clear()
        pa.default_memory_pool().release_unused()
        # Only glibc holds on to freed memory, and has this function to return it.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

    def _evict_for(self, size: int) -> bool:
        """Evict until ``size`` bytes more fit; False where they cannot."""
        limit = self._limit()
        while self._entries and self.nbytes + size > limit:
            self._entries.popitem(last=False)
        return size <= limit

    @property
    def nbytes(self) -> int:
        """Number of cached bytes."""
        return sum(size for size, _ in self._entries.values())

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()


def cache_limit() -> int:
    """Return the bytes that cached partitions may take (or ``RANKINE_PARTITION_CACHE``)."""
    if configured := os.environ.get("RANKINE_PARTITION_CACHE"):
        return int(configured)
    return max(0, int(CACHE_SHARE * (memory_limit() - PROCESS_BYTES)))


def memory_limit() -> int:
    """Return the bytes that this process may use: a worker's limit, or the machine's memory."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with suppress(ValueError):  # this process is not a worker
            limit = distributed.get_worker().memory_manager.memory_limit
            if limit:
                return int(limit)
    return available_memory()


def near_limit(size: int) -> bool:
    """Whether ``size`` additional bytes would pause this worker; only Dask workers have a limit."""
    if "distributed" not in sys.modules:
        return False
    import psutil

    resident = int(psutil.Process().memory_info().rss)
    return resident + size > CLEAR_SHARE * memory_limit()


CACHE = PartitionCache(cache_limit, near_limit)


def return_item(item: WorkItem) -> WorkItem:
    """Return the item: Dask then prefers the worker that holds this small result."""
    return item


def compute_partial(item: WorkItem, method: str, arguments: tuple[Any, ...]) -> Any:
    """Call a method of a partition's object; the result is a tuple, a list or can be added."""
    if item.version != __version__:
        raise ClusterError(
            f"a worker runs rankine {__version__}, this process {item.version}",
            fix="Install the same version everywhere and restart the workers",
        )
    result = getattr(CACHE.get(item), method)(*arguments)
    CACHE.clear_near_limit()
    return result


def compute_in_list(item: WorkItem, method: str, arguments: tuple[Any, ...]) -> list[Any]:
    """Return the partial result in a list, so that adding concatenates results in order."""
    return [compute_partial(item, method, arguments)]


def estimate_bytes(data: Dataset) -> int:
    """Estimate the memory of a dataset and its index."""
    X: Any = data.X
    if hasattr(X, "indptr"):
        matrix_bytes = X.data.nbytes + X.indices.nbytes
    else:
        matrix_bytes = X.nbytes
    return int(matrix_bytes) + ROW_BYTES * data.n_rows


class WorkerPool:
    """All partitions with one task, and the runner that computes their partial results.

    A journal records sums, or replays the sums that an interrupted run recorded.
    """

    def __init__(
        self,
        runner: LocalRunner,
        partitions: Sequence[Partition],
        task: PartitionTask,
        journal: Journal | None = None,
    ) -> None:
        self.runner = runner
        self.journal = journal
        self._items = [WorkItem(partition, task) for partition in partitions]
        self._submitted: Any = None

    def total(self, method: str, *arguments: Any) -> tuple[Any, ...]:
        """Sum the results of a method over all partitions; one number or array gives a 1-tuple."""
        if self.journal is None:
            return self._compute_total(method, arguments)
        return self.journal.recall_or_compute(
            method, arguments, lambda: self._compute_total(method, arguments)
        )

    def resume_point(self, solver: str, *start: Any) -> ResumePoint:
        """Return where the loop of a solver saves its state; see ``Journal``."""
        if self.journal is None:
            return ResumePoint()
        return self.journal.resume_point(solver, *start)

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Return the results of a method for each partition, in order."""
        return self.runner.each(self._submit(), method, arguments)

    def _compute_total(self, method: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        total: Any = self.runner.total(self._submit(), method, arguments)
        if isinstance(total, tuple):
            return tuple(total)
        return (total,)

    def _submit(self) -> Any:
        """Submit the items once."""
        if self._submitted is None:
            self._submitted = self.runner.submit(self._items)
        return self._submitted
