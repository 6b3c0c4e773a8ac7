"""What a worker keeps, and what tells one thing from another."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from rankine import Dataset
from rankine.distributed import worker_pool
from rankine.distributed.file_partitions import ROW_BYTES
from rankine.distributed.runners import LocalRunner
from rankine.distributed.worker_pool import (
    BASELINE,
    PAUSE,
    RAW,
    SHARE,
    PartitionCache,
    WorkerPool,
    WorkItem,
    bytes_of,
    memory_limit,
    memory_share,
    near_limit,
    token_of,
)

GB = 2**30


def test_equal_values_have_equal_tokens_and_others_do_not():
    values = [
        (), (1,), (1.0,), ("1",), (None,), (True,), ([1],), ([1, 2],), ([[1], 2],), (1, 2),
        ({1: 2},), ({1: 3},), ({2: 2},), ({1: 2, 3: 4},), (np.arange(4),), (np.arange(4.0),),
        (np.arange(4).reshape(2, 2),), (np.arange(4)[::-1],), (np.arange(5),), (token_of,),
        (bytes_of,), ([], []), ([[]],),
    ]  # fmt: skip
    tokens = [token_of(*one) for one in values]
    assert len(set(tokens)) == len(tokens)
    assert token_of({1: 2, 3: 4}) == token_of({3: 4, 1: 2})
    assert token_of((1, 2)) == token_of([1, 2])
    assert token_of(np.arange(8)[::2]) == token_of(np.array([0, 2, 4, 6]))


class Partition(SimpleNamespace):
    """Rows of so many bytes."""

    @property
    def key(self):
        return (self.number,)

    def load(self):
        return Dataset.from_arrays(np.ones((1, 1)), [1.0], [1])


class PartitionTask:
    """Gives the rows and what it was told."""

    def __init__(self, token):
        self.token = token

    def build(self, data, threads, number):
        return SimpleNamespace(data=data, threads=threads, number=number)


def work(number, nbytes=1000, task=RAW):
    return WorkItem(Partition(number=number, nbytes=nbytes), PartitionTask(task))


def test_the_partition_used_longest_ago_makes_room():
    cache = PartitionCache(lambda: 3000)
    parts = {k: cache.get(work(k)) for k in range(3)}
    assert (cache.nbytes, cache.loads) == (3000, 3)
    assert cache.get(work(0)) is parts[0]
    assert (parts[2].threads, parts[2].number) == (1, 2)
    cache.get(work(3))
    assert (cache.nbytes, cache.loads) == (3000, 4)
    assert cache.get(work(0)) is parts[0]
    assert cache.get(work(2)) is parts[2]
    assert cache.loads == 4
    assert cache.get(work(1)) is not parts[1]
    assert cache.loads == 5
    cache.get(work(4, 3001))
    assert cache.nbytes == 0
    whole = cache.get(work(5, 3000))
    assert cache.get(work(5, 3000)) is whole
    cache.clear()
    assert cache.nbytes == 0


def test_a_small_guess_is_corrected_by_the_rows_themselves():
    cache = PartitionCache(lambda: 10**6)
    cache.get(work(0, 1))
    assert cache.nbytes == ROW_BYTES + 8


def test_rows_that_were_measured_are_not_read_again():
    cache = PartitionCache(lambda: 10**6)
    raw = cache.get(work(0))
    learner = cache.get(work(0, task="learn"))
    assert learner.data is raw.data
    assert (cache.loads, cache.nbytes) == (1, 1000)
    assert cache.get(work(0)) is not raw
    assert cache.loads == 2


def test_room_is_asked_for_the_size_of_the_piece():
    asked = []
    cache = PartitionCache(lambda: 10**6, lambda size: asked.append(size) or False)
    cache.get(work(0, 700))
    cache.relieve()
    assert asked == [700, 0]


def test_a_workers_share_of_memory(monkeypatch):
    monkeypatch.delenv("RANKINE_PARTITION_CACHE", raising=False)
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: 4 * GB)
    assert memory_share() == int(SHARE * (4 * GB - BASELINE))
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: BASELINE - 1)
    assert memory_share() == 0
    # A process without data takes about 320 MiB, and of the rest a quarter may be partitions.
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: 320 * 2**20 + 4000)
    assert memory_share() == 1000
    monkeypatch.setenv("RANKINE_PARTITION_CACHE", "123")
    assert memory_share() == 123


def test_the_limit_is_that_of_the_worker_or_of_the_machine(monkeypatch):
    monkeypatch.setattr(worker_pool, "available_memory", lambda: 7 * GB)
    monkeypatch.delitem(sys.modules, "distributed", raising=False)
    assert memory_limit() == 7 * GB
    assert not near_limit(100 * GB)

    def no_worker():
        raise ValueError

    for limit, expected in ((GB, GB), (None, 7 * GB), (0, 7 * GB), (no_worker, 7 * GB)):
        worker = SimpleNamespace(memory_manager=SimpleNamespace(memory_limit=limit))
        get = limit if callable(limit) else lambda worker=worker: worker
        monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(get_worker=get))
        assert memory_limit() == expected


def test_a_worker_is_near_its_limit_before_it_is_paused(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace())
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: GB)
    process = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=GB // 2))
    monkeypatch.setitem(sys.modules, "psutil", SimpleNamespace(Process=lambda: process))
    left = int(PAUSE * GB) - GB // 2
    assert not near_limit(left)
    assert near_limit(left + 1)
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: 10)
    process.memory_info = lambda: SimpleNamespace(rss=5)
    assert [near_limit(size) for size in (1, 2, 3)] == [False, False, True]


def test_bytes_of_rows_and_of_stored_values():
    X = np.eye(5)
    dense = Dataset.from_arrays(X, np.zeros(5), np.ones(5, dtype=int))
    assert bytes_of(dense) == 25 * 8 + 5 * ROW_BYTES
    sparse_rows = sparse.csr_array(X)
    stored = Dataset.from_arrays(sparse_rows, np.zeros(5), np.ones(5, dtype=int))
    assert bytes_of(stored) == 5 * (8 + stored.X.indices.itemsize) + 5 * ROW_BYTES


def test_a_team_is_placed_once_and_counts_its_rounds(monkeypatch):
    placed = []

    class Runner(LocalRunner):
        def place(self, items):
            placed.append(super().place(items))
            return placed[-1]

    monkeypatch.setattr(
        "rankine.distributed.runners.ask",
        lambda one, question, arguments: one.partition.number + sum(arguments),
    )
    members = WorkerPool(Runner(), [Partition(number=k) for k in range(3)], PartitionTask("x"))
    assert (members.size, members.rounds) == (3, 0)
    assert members.total("sum", 10) == (33,)
    assert members.each("sum", 1, 1) == [2, 3, 4]
    assert members.total("sum") == (3,)
    assert (len(placed), members.rounds) == (1, 2)
    assert {one.threads for one in placed[0]} == {None}
    assert members.resume_point("solver").state is None
