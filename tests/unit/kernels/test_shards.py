"""Shards on threads: answers in order, errors raised, calls inside calls, where they are cut."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from rankine.kernels.shards import cut_by_weight, map_shards

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("threads", [1, 2, 3, 40])
def test_answers_come_in_the_order_of_the_shards(threads):
    def slow(first, last):
        time.sleep(0.002 * (first % 3))
        return first, last

    assert map_shards(slow, range(9), threads) == [(k, k + 1) for k in range(8)]
    assert map_shards(slow, [3], threads) == []


@pytest.mark.parametrize("bad", range(6))
def test_an_error_in_any_shard_is_raised_when_all_threads_are_done(bad):
    working = set()

    def work(first, _last):
        working.add(first)
        time.sleep(0.002)
        working.discard(first)
        if first == bad:
            raise ZeroDivisionError(first)

    with pytest.raises(ZeroDivisionError):
        map_shards(work, range(7), 2)
    assert not working


def test_a_shard_may_have_shards():
    def inner(first, _last):
        return map_shards(lambda a, b: (a, b), range(first, first + 6), 2)

    assert map_shards(inner, range(0, 9, 3), 2) == [
        [(first + k, first + k + 1) for k in range(5)] for first in (0, 3)
    ]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_more_threads_work_than_were_asked_for(threads):
    def work(_first, _last):
        time.sleep(0.002)
        return threading.get_ident()

    seen = set(map_shards(work, range(13), threads))
    assert len(seen) <= threads
    assert threads > 1 or seen == {threading.get_ident()}


def test_two_threads_work_at_the_same_time():
    meeting = threading.Barrier(2)
    assert set(map_shards(lambda _first, _last: meeting.wait(10), range(3), 2)) == {0, 1}


@pytest.mark.parametrize("n_shards", [1, 2, 3, 16])
@pytest.mark.parametrize("size", [0, 1, 2, 5, 40])
def test_a_shard_ends_with_the_item_that_reaches_its_share(n_shards, size):
    weights = np.random.default_rng(size).integers(0, 4, size)
    weights[:1] = 0
    ends = np.concatenate([[0], np.cumsum(weights)])
    share = [int(ends[-1]) * k // n_shards for k in range(1, n_shards)]
    reached = [next(i for i, end in enumerate(ends) if end >= target) for target in share]
    assert cut_by_weight(ends, n_shards).tolist() == sorted({0, *reached, size})
