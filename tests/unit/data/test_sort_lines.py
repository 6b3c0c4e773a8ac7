"""Runs of lines: their ends, their order and how they are copied."""

from __future__ import annotations

import io

import numpy as np
import pytest

from rankine.data import sort_lines as module


def sorter(limit):
    return module.LineSorter(io.BytesIO(), limit)


def add(into, lines, ids):
    """Lines behind some other bytes, as a window of a file holds them."""
    buffer = np.frombuffer(b"##" + b"".join(lines), dtype=np.uint8)
    stops = np.cumsum([len(line) for line in lines]) + 2
    into.add(buffer, stops - [len(line) for line in lines], stops, np.array(ids))


def test_a_run_ends_when_its_memory_is_full():
    for limit, runs in ((60, 1), (61, 0)):
        held = sorter(limit)
        add(held, [b"abcde\n", b"abcde\n"], [1, 1])
        assert (len(held.runs), held.n_rows) == (runs, 2)
    add(held := sorter(60), [b"abcde\n", b"abcde\n"], [1, 1])
    add(held, [b"abcde\n", b"abcd\n"], [1, 1])
    assert len(held.runs) == 1
    none = sorter(1)
    none.add(np.zeros(3, np.uint8), np.zeros(0, int), np.zeros(0, int), np.zeros(0, int))
    none.end_run()
    assert (none.runs, none.n_rows) == ([], 0)


@pytest.mark.kernels
def test_segments_of_several_runs_are_merged_in_order():
    held = sorter(2**30)
    for lines, ids in (
        ([b"b1\n", b"a1\n", b"b2\n"], [2, 1, 2]),
        ([b"c1\n", b"a2\n"], [3, 1]),
        ([b"long a3\n"], [1]),
    ):
        add(held, lines, ids)
        held.end_run()
    assert [run.qid.tolist() for run in held.runs] == [[1, 2], [1, 3], [1]]
    assert [run.sizes.tolist() for run in held.runs] == [[3, 6], [3, 3], [8]]
    assert [run.start for run in held.runs] == [0, 9, 15]
    out = io.BytesIO()
    assert held.merge(out) == 3
    assert out.getvalue() == b"a1\na2\nlong a3\nb1\nb2\nc1\n"


def test_neighbours_are_copied_in_one_piece(monkeypatch):
    found = module._join_neighbours(np.array([0, 5, 20, 8, 10]), np.array([5, 3, 1, 2, 4]))
    assert list(found) == [(0, 8), (20, 1), (8, 6)]
    store, out = io.BytesIO(bytes(range(256)) * 9000), io.BytesIO()
    module._copy_bytes(store, 3, 2**21 + 5, out)
    assert out.getvalue() == store.getvalue()[3 : 2**21 + 8]
