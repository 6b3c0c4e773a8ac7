"""Shards on threads: answers in order, errors raised, calls inside calls."""

from __future__ import annotations

import time

import pytest

from rankine.kernels.shards import map_shards


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
