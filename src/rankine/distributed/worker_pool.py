"""All partitions, asked as one, and what a worker does when one of them is asked.

A task is a pure function of a description, a question and small arrays. A worker keeps the
partitions it has read while they fit into its share of memory. That is only to save time: whoever
is asked reads what it does not have, and answers the same bits. Answers are added by halves, in the
order of partitions: tuples part by part, lists by joining them.
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
    """Digest of numbers, texts, arrays, functions, None, and lists, tuples, mappings of these.

    Equal values have equal digests in every process.
    """
    digest = hashlib.sha256()
    for value in values:
        _update(digest, value)
    return digest.hexdigest()


def _update(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, dict):
        digest.update(b"{")
        for key in sorted(value, key=str):
            _update(digest, key)
            _update(digest, value[key])
        digest.update(b"}")
    elif isinstance(value, (list, tuple)):
        digest.update(b"(")
        for item in value:
            _update(digest, item)
        digest.update(b")")
    elif callable(value):
        digest.update(f"function {value.__module__}.{value.__qualname__};".encode())
    else:
        digest.update(f"{type(value).__name__} {value!r};".encode())


def _plus(a: Any, b: Any) -> Any:
    if hasattr(a, "joined"):
        return a.joined(b)
    return tuple(map(_plus, a, b)) if isinstance(a, tuple) else a + b


def sum_in_order(answers: Iterable[Any]) -> Any:
    """The sum of ``kernels.linalg.tree_sum``, holding only log2 of the answers at a time.

    Like a binary counter: two neighbours that cover the same number of answers are added at once.
    An odd rest is added from the right, which is where carrying it upwards would add it.
    """
    held: list[tuple[int, Any]] = []
    for answer in answers:
        size, total = 1, answer
        while held and held[-1][0] == size:
            total = _plus(held.pop()[1], total)
            size *= 2
        held.append((size, total))
    _, total = held.pop()
    while held:
        total = _plus(held.pop()[1], total)
    return total


#: Part of a worker's memory that may hold partitions: the rest is Python, Numba, Arrow, and the
#: copies of the partition at work. Dask pauses a worker at 80 % of its limit.
SHARE = 0.25
#: Part of its memory limit at which a worker forgets everything rather than be paused at 80 %.
PAUSE = 0.7
#: Token of the rows as they are.
RAW = "rows"
#: Memory of a process before it holds any data.
BASELINE = 320 * 2**20


class PartitionTask(Protocol):
    """How the rows of a partition become something that answers questions."""

    @property
    def token(self) -> str:
        """Equal for equal tasks."""

    def build(self, data: Dataset, threads: int | None, number: int) -> Any:
        """An object whose methods are the questions; ``number`` is the partition's."""


@dataclass(frozen=True)
class WorkItem:
    """A partition with its task: all that a worker has to know.

    ``version`` is the version of rankine that asks; ``threads`` what the kernels may use.
    """

    partition: Partition
    task: Any
    version: str = __version__
    threads: int | None = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """Under which a worker remembers it."""
        return (self.partition.number, *self.partition.key, self.task.token)


class PartitionCache:
    """Partitions that were used last, as many as fit.

    ``limit`` gives the bytes that may be held; ``pressed`` says whether so many bytes more would
    bring the process near its limit, whoever holds the rest.
    """

    def __init__(
        self, limit: Callable[[], int], pressed: Callable[[int], bool] = lambda _: False
    ) -> None:
        self._limit = limit
        self._pressed = pressed
        self._held: OrderedDict[Any, tuple[int, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.loads = 0

    def get(self, item: WorkItem) -> Any:
        """The partition, read now if it is not held."""
        key = item.key
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key][1]
            # Rows that were read to be measured become what answers; they are not kept twice.
            raw = self._held.pop((*key[:-1], RAW), None)
            # Room first: the old and the new partition must not stand side by side.
            self._make_room(item.partition.nbytes)
            if self._pressed(item.partition.nbytes):
                self._forget()
        data = self._load(item.partition) if raw is None else raw[1].data
        part = item.task.build(data, item.threads, item.partition.number)
        size = max(item.partition.nbytes, bytes_of(data))
        with self._lock:
            if self._make_room(size):
                self._held[key] = size, part
        return part

    def relieve(self) -> None:
        """Forget everything if the process stays near its limit after its work.

        Dask pauses such a worker, and a paused one is asked nothing that would make it forget.
        """
        with self._lock:
            if self._pressed(0):
                self._forget()

    def _forget(self) -> None:
        self._held.clear()
        pa.default_memory_pool().release_unused()
        with suppress(
            OSError, AttributeError
        ):  # only glibc keeps what was freed, and gives it back
            ctypes.CDLL(None).malloc_trim(0)

    def _load(self, partition: Partition) -> Dataset:
        self.loads += 1
        return partition.load()

    def _make_room(self, size: int) -> bool:
        limit = self._limit()
        while self._held and self.nbytes + size > limit:
            self._held.popitem(last=False)
        return size <= limit

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(size for size, _ in self._held.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()


def memory_share() -> int:
    """Bytes that this process may spend on partitions; ``RANKINE_PARTITION_CACHE`` overrules."""
    if chosen := os.environ.get("RANKINE_PARTITION_CACHE"):
        return int(chosen)
    return max(0, int(SHARE * (memory_limit() - BASELINE)))


def memory_limit() -> int:
    """Bytes that this process may use: a worker's limit, or the machine's memory."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with suppress(ValueError):  # not on a worker
            limit = distributed.get_worker().memory_manager.memory_limit
            if limit:
                return int(limit)
    return available_memory()


def near_limit(size: int) -> bool:
    """Whether ``size`` bytes more would pause this worker; only Dask's workers have a limit."""
    if "distributed" not in sys.modules:
        return False
    import psutil

    resident = int(psutil.Process().memory_info().rss)
    return resident + size > PAUSE * memory_limit()


CACHE = PartitionCache(memory_share, near_limit)


def describe(item: WorkItem) -> WorkItem:
    """The item itself: a small result that keeps the partition's tasks where its rows are."""
    return item


def ask(item: WorkItem, question: str, arguments: tuple[Any, ...]) -> Any:
    """One partition's answer: a tuple, a list or anything that can be added."""
    if item.version != __version__:
        raise ClusterError(
            f"a worker runs rankine {__version__}, this process {item.version}",
            fix="Install the same version everywhere and restart the workers",
        )
    answer = getattr(CACHE.get(item), question)(*arguments)
    CACHE.relieve()
    return answer


def listed(item: WorkItem, question: str, arguments: tuple[Any, ...]) -> list[Any]:
    """The answer in a list of one, so that adding joins answers in order."""
    return [ask(item, question, arguments)]


def bytes_of(data: Dataset) -> int:
    """About the memory of a dataset and its index."""
    X: Any = data.X
    matrix = X.data.nbytes + X.indices.nbytes if hasattr(X, "indptr") else X.nbytes
    return int(matrix) + ROW_BYTES * data.n_rows


class WorkerPool:
    """Partitions that were all prepared by one task, and who asks them.

    A journal remembers sums, or gives those of an interrupted run.
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
        self.size = len(partitions)
        self.rounds = 0
        self._assignments = [WorkItem(partition, task) for partition in partitions]
        self._placed: Any = None

    def total(self, question: str, *arguments: Any) -> tuple[Any, ...]:
        """The sum of all answers; a single number or array is a tuple of one."""
        self.rounds += 1
        if self.journal is None:
            return self._ask(question, arguments)
        return self.journal.recall_or_compute(question, arguments, lambda: self._ask(question, arguments))

    def resume_point(self, solver: str, *given: Any) -> ResumePoint:
        """Where a solver that asks stands; see ``Journal``."""
        return ResumePoint() if self.journal is None else self.journal.resume_point(solver, *given)

    def each(self, question: str, *arguments: Any) -> list[Any]:
        """All answers, in the order of partitions."""
        return self.runner.each(self._known(), question, arguments)

    def _ask(self, question: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        answer: Any = self.runner.total(self._known(), question, arguments)
        return tuple(answer) if isinstance(answer, tuple) else (answer,)

    def _known(self) -> Any:
        if self._placed is None:
            self._placed = self.runner.place(self._assignments)
        return self._placed
