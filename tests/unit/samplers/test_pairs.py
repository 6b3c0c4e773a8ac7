"""Pairs as rows: sampled with random signs, or all of them."""

from __future__ import annotations

import numpy as np
import pytest
from slow_pairs import pair_weights

import rankine
from rankine.core.errors import NoPairsError, ParameterError
from rankine.kernels.random import random_bits
from rankine.samplers.draw import draw_pair, pair_sampler
from rankine.samplers.pairs import pair_rows

# Unequal queries: two, three and one label, one row alone; rows interleaved on purpose.
QID = np.array([3, 1, 3, 1, 1, 2, 3, 1, 2, 9, 3, 2])
Y = np.array([0.0, 1, 2, 0, 0, 1, 0, 2, 1, 5, 2, 1])
X = np.arange(24, dtype=np.float64).reshape(12, 2) % 7


def data(weight=None):
    return rankine.Dataset.from_arrays(X, Y, QID, weight=weight)


def test_rows_are_signed_differences_of_pairs():
    expected = {tuple(X[i] - X[j]) for i, j in pair_weights(Y, QID, "query")}
    total = 0
    for block in rankine.sample_pairs(data(), 1000, random_state=1, block=300):
        assert set(np.unique(block.sign)) <= {-1, 1}
        assert {tuple(row) for row in block.sign[:, None] * block.X} <= expected
        assert (block.weight == 1).all()
        total += len(block.sign)
    assert total == 1000


def test_sampled_pairs_do_not_depend_on_the_block_size():
    def sample(size):
        blocks = list(rankine.sample_pairs(data(), 500, random_state=5, block=size))
        return np.concatenate([b.X for b in blocks]), np.concatenate([b.sign for b in blocks])

    for one, other in zip(sample(7), sample(500), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [-1, 1.5])
def test_the_number_of_pairs_must_be_a_whole_number(n):
    with pytest.raises(ParameterError) as caught:
        list(rankine.sample_pairs(data(), n))
    assert caught.value.parameter == "n"


def test_zero_pairs_are_no_block_and_unknown_rules_are_errors():
    assert list(rankine.sample_pairs(data(), 0)) == []
    with pytest.raises(ParameterError) as caught:
        list(rankine.sample_pairs(data(), 5, sampling="some"))
    assert caught.value.parameter == "sampling"
    with pytest.raises(NoPairsError):
        list(rankine.sample_pairs(rankine.Dataset.from_arrays(X, np.ones(12), QID), 5))


def test_signs_are_balanced_and_blocks_full():
    blocks = list(rankine.sample_pairs(data(), 1001, random_state=2, block=250))
    assert [len(block.sign) for block in blocks] == [250] * 4 + [1]
    signs = np.concatenate([block.sign for block in blocks])
    assert signs.dtype == np.int8
    assert abs(int(signs.astype(int).sum())) < 130  # standard deviation 32


@pytest.mark.parametrize("sampling", ["query", "uniform", "indexed", "rejection"])
def test_a_stream_gives_the_same_pairs_for_any_cut(sampling):
    """Every query has its share of the pairs, lists without a pair none."""
    lists = [data().take(np.flatnonzero(q == QID)) for q in (9, 3, 1, 2)]
    whole = [data().take(np.concatenate([np.flatnonzero(q == QID) for q in (9, 3, 1, 2)]))]
    results = []
    for stream in (lists, whole):
        blocks = rankine.sample_pairs(stream, 100, sampling=sampling, random_state=4, block=30)
        parts = list(blocks)
        results.append(
            [np.concatenate([getattr(b, name) for b in parts]) for name in ("X", "sign")]
        )
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(results[0][1]) == 100
    differences = {q: {tuple(X[i] - X[j]) for i, j in pair_weights(Y, QID, "query") if QID[i] == q}
           for q in (3, 1)}  # fmt: skip
    rows = [tuple(row) for row in results[0][0] * results[0][1][:, None]]
    # Four pairs of the first list and five of the second.
    first = 50 if sampling in ("query", "indexed") else 100 * 4 // 9
    assert set(rows[:first]) <= differences[3]
    assert set(rows[first:]) <= differences[1]


def test_a_stream_without_pairs_is_an_error():
    nothing = [data().take(np.flatnonzero(q == QID)) for q in (9, 2)]
    with pytest.raises(NoPairsError):
        list(rankine.sample_pairs(nothing, 5))


@pytest.mark.kernels
def test_all_pairs_are_listed_up_to_a_limit_and_sampled_above_it():
    pairs = pair_weights(Y, QID, "uniform")
    weighed = data(np.r_[np.zeros(6), np.ones(6)])  # listing is not drawing: weights do not count
    for limit in (len(pairs), len(pairs) + 1):
        better, worse, every = pair_rows(weighed, limit)
        assert every
        assert set(zip(better.tolist(), worse.tolist(), strict=True)) == set(pairs)
        assert len(better) == len(pairs)
    few, _, every = pair_rows(weighed, len(pairs) - 1)
    assert (len(few), every) == (len(pairs) - 1, False)
    alone = rankine.Dataset.from_arrays(np.zeros((60, 1)), np.r_[np.zeros(57), 1, 2, 2])
    better, worse, _ = pair_rows(alone, 160, seed=1)
    assert set(better.tolist()) == {57, 58, 59}
    assert (alone.y[better] > alone.y[worse]).all()
    sampler = pair_sampler(alone, np.ones(1), sampling="uniform")
    drawn = [draw_pair(sampler, random_bits(1, step), step) for step in range(160)]
    assert drawn == [(a, b, 1.0) for a, b in zip(better.tolist(), worse.tolist(), strict=True)]
    again = pair_rows(alone, 160, seed=2)[1]
    assert worse.tolist() != again.tolist()
    with pytest.raises(NoPairsError):
        pair_rows(rankine.Dataset.from_arrays(X, np.ones(12), QID), 5)
