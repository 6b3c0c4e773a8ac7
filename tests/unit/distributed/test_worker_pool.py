"""Digests, ordered sums, and the cache of a worker."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import rankine.distributed as rd
from rankine import Dataset
from rankine.core.errors import (
    ClusterError,
)
from rankine.distributed import worker_pool
from rankine.distributed.file_partitions import ROW_BYTES
from rankine.distributed.partition_tasks import (
    RawRowsTask,
)
from rankine.distributed.runners import LocalRunner
from rankine.distributed.worker_pool import (
    CACHE_SHARE,
    CLEAR_SHARE,
    PROCESS_BYTES,
    RAW,
    PartitionCache,
    WorkerPool,
    WorkItem,
    cache_limit,
    compute_partial,
    estimate_bytes,
    memory_limit,
    near_limit,
    sum_in_order,
    token_of,
)
from rankine.kernels.shards import tree_sum

GB = 2**30


def test_equal_values_have_equal_tokens_and_others_do_not():
    values = [
        (), (1,), (1.0,), ("1",), (None,), (True,), ([1],), ([1, 2],), ([[1], 2],), (1, 2),
        ({1: 2},), ({1: 3},), ({2: 2},), ({1: 2, 3: 4},), (np.arange(4),), (np.arange(4.0),),
        (np.arange(4).reshape(2, 2),), (np.arange(4)[::-1],), (np.arange(5),), (token_of,),
        (estimate_bytes,), ([], []), ([[]],),
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


def test_the_least_recently_used_partition_is_evicted():
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


def test_an_estimate_that_is_too_small_is_corrected():
    cache = PartitionCache(lambda: 10**6)
    cache.get(work(0, 1))
    assert cache.nbytes == ROW_BYTES + 8


def test_raw_rows_in_the_cache_are_not_read_again():
    cache = PartitionCache(lambda: 10**6)
    raw = cache.get(work(0))
    learner = cache.get(work(0, task="learn"))
    assert learner.data is raw.data
    assert (cache.loads, cache.nbytes) == (1, 1000)
    assert cache.get(work(0)) is not raw
    assert cache.loads == 2


def test_the_memory_check_gets_the_size_of_the_partition():
    asked = []
    cache = PartitionCache(lambda: 10**6, lambda size: asked.append(size) or False)
    cache.get(work(0, 700))
    cache.clear_near_limit()
    assert asked == [700, 0]


def test_the_cache_takes_its_share_of_a_workers_memory(monkeypatch):
    monkeypatch.delenv("RANKINE_PARTITION_CACHE", raising=False)
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: 4 * GB)
    assert cache_limit() == int(CACHE_SHARE * (4 * GB - PROCESS_BYTES))
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: PROCESS_BYTES - 1)
    assert cache_limit() == 0
    # A process without data takes about 320 MiB, and of the rest a quarter may be partitions.
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: 320 * 2**20 + 4000)
    assert cache_limit() == 1000
    monkeypatch.setenv("RANKINE_PARTITION_CACHE", "123")
    assert cache_limit() == 123


def test_the_memory_limit_is_the_workers_or_the_machines(monkeypatch):
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
    left = int(CLEAR_SHARE * GB) - GB // 2
    assert not near_limit(left)
    assert near_limit(left + 1)
    monkeypatch.setattr(worker_pool, "memory_limit", lambda: 10)
    process.memory_info = lambda: SimpleNamespace(rss=5)
    assert [near_limit(size) for size in (1, 2, 3)] == [False, False, True]


def test_memory_is_estimated_from_rows_and_stored_values():
    X = np.eye(5)
    dense = Dataset.from_arrays(X, np.zeros(5), np.ones(5, dtype=int))
    assert estimate_bytes(dense) == 25 * 8 + 5 * ROW_BYTES
    sparse_rows = sparse.csr_array(X)
    stored = Dataset.from_arrays(sparse_rows, np.zeros(5), np.ones(5, dtype=int))
    assert estimate_bytes(stored) == 5 * (8 + stored.X.indices.itemsize) + 5 * ROW_BYTES


def test_a_worker_pool_submits_its_items_once(monkeypatch):
    placed = []

    class Runner(LocalRunner):
        def submit(self, items):
            placed.append(super().submit(items))
            return placed[-1]

    monkeypatch.setattr(
        "rankine.distributed.runners.compute_partial",
        lambda one, question, arguments: one.partition.number + sum(arguments),
    )
    members = WorkerPool(Runner(), [Partition(number=k) for k in range(3)], PartitionTask("x"))
    assert members.total("sum", 10) == (33,)
    assert members.each("sum", 1, 1) == [2, 3, 4]
    assert members.total("sum") == (3,)
    assert len(placed) == 1
    assert {one.threads for one in placed[0]} == {None}
    assert members.resume_point("solver").state is None


@pytest.fixture(scope="module")
def parts(files):
    return rd.scan(files, partition_bytes=20_000)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 11, 23, 64, 100])
def test_sums_in_order_have_the_bits_of_the_tree(count):
    values = np.random.default_rng(count).normal(size=(count, 3)) * 10.0 ** np.arange(-8, 16, 8)[:3]
    expected = tree_sum(list(values))
    np.testing.assert_array_equal(sum_in_order(iter(values)), expected)
    groups = [sum_in_order(values[k : k + 8]) for k in range(0, count, 8)]
    np.testing.assert_array_equal(sum_in_order(groups), expected)


def test_partial_results_add_numbers_and_concatenate_lists():
    assert sum_in_order([(1.0, [1]), (2.0, [2]), (4.0, [3])]) == (7.0, [1, 2, 3])


def test_a_worker_of_another_version_is_named(parts):
    old = WorkItem(parts.partitions[0], RawRowsTask(), version="0.0.1")
    with pytest.raises(ClusterError, match=r"runs rankine .*, this process 0\.0\.1"):
        compute_partial(old, "counts", ())


def test_a_process_near_its_limit_clears_the_cache_before_it_reads(parts):
    tight = []
    cache = PartitionCache(lambda: 10**9, lambda size: bool(tight))
    work = [WorkItem(partition, RawRowsTask()) for partition in parts.partitions]
    for one in work[:3]:
        cache.get(one)
    before = cache.nbytes
    tight.append(True)
    cache.get(work[3])
    assert 0 < cache.nbytes < before


def test_a_process_near_its_limit_clears_the_cache_after_its_work(parts, monkeypatch):
    """A paused worker gets no further task, so it must clear its cache before it is idle."""
    full = []
    cache = PartitionCache(lambda: 2**40, lambda size: bool(full) and size == 0)
    monkeypatch.setattr("rankine.distributed.worker_pool.CACHE", cache)
    one = WorkItem(parts.partitions[0], RawRowsTask())
    compute_partial(one, "counts", ())
    assert cache.nbytes > 0
    full.append(True)
    compute_partial(one, "counts", ())
    assert cache.nbytes == 0


def test_partitions_that_do_not_fit_the_cache_are_read_again(parts):
    size = max(partition.nbytes for partition in parts.partitions) * 3
    cache = PartitionCache(lambda: size)
    work = [WorkItem(partition, RawRowsTask()) for partition in parts.partitions]
    first = [cache.get(one).counts() for one in work]
    assert cache.loads == len(work)
    assert 0 < cache.nbytes <= size
    assert [cache.get(one).counts() for one in work] == first
    assert cache.loads > len(work)
    cache.get(work[-1])
    loads = cache.loads
    cache.get(work[-1])
    assert cache.loads == loads
