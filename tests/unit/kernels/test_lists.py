"""|Delta| in O(1) equals exchanging two items and computing the metric again."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.kernels.compile import jit
from rankine.kernels.lists import (
    AveragePrecisionGain,
    DcgGain,
    RecallGain,
    ReciprocalRankGain,
    deciding_ranks,
    exchange,
    list_work,
    open_list,
    rank_into,
)
from reference.elastic_rank import DISCOUNT, exchange_weight

pytestmark = pytest.mark.kernels


@jit
def all_exchanges(gain, work, n, cutoff):
    out = np.zeros((n, n))
    common = open_list(gain, work, n, cutoff)
    for i in range(n):
        for j in range(n):
            if work.levels[i] > work.levels[j]:
                out[i, j] = exchange(gain, work, i, j, cutoff) * common
    return out


def specs(name, discount):
    if name in ("dcg", "ndcg"):
        return DcgGain(DISCOUNT[discount](np.arange(1.0, 20.0)), name == "ndcg")
    kinds = {"recall": RecallGain, "mrr": ReciprocalRankGain, "map": AveragePrecisionGain}
    return kinds[name]()


CASES = [
    *[(name, d, k) for name in ("dcg", "ndcg") for d in DISCOUNT for k in (None, 1, 3)],
    *[("recall", "std", k) for k in (1, 3, 5)],
    *[("mrr", "std", k) for k in (None, 1, 3)],
    ("map", "std", None),
]


@pytest.mark.parametrize(("name", "discount", "cutoff"), CASES)
def test_exchange_equals_recomputing_the_metric(name, discount, cutoff):
    rng = np.random.default_rng(5)
    nonzero = 0
    work = list_work(10)  # used for one list after the other
    for _ in range(25):
        n = int(rng.integers(2, 11))
        graded = 2.0 ** rng.integers(0, 4, n) - 1
        levels = graded if "dcg" in name else (rng.random(n) < 0.4).astype(float)
        ranks = rng.permutation(n) + 1
        work.first[:] = work.second[:] = rng.normal()  # left over from another list
        work.levels[:n], work.ranks[:n] = levels, ranks
        k = 10**9 if cutoff is None else cutoff
        deltas = all_exchanges(specs(name, discount), work, n, k)
        below = ranks > deciding_ranks(specs(name, discount), work, n, k)
        assert not deltas[np.ix_(below, below)][levels[below, None] > levels[below]].any()
        for i in range(n):
            for j in range(n):
                if levels[i] > levels[j]:
                    options = {"cutoff": cutoff, "discount": discount}
                    expected = exchange_weight(name, ranks, levels, i, j, **options)
                    assert deltas[i, j] == pytest.approx(expected, abs=1e-13)
                    nonzero += expected > 0
    assert nonzero > 20


def test_ties_are_broken_by_the_seed_and_uniformly():
    keys, order, ranks = np.zeros(3), np.zeros(3, np.int64), np.zeros(3, np.int64)
    drawn_ranks = []
    for seed in range(600):
        rank_into(keys, 3, seed, order, ranks)
        drawn_ranks.append(tuple(ranks.tolist()))
    counts = [drawn_ranks.count(kind) for kind in set(drawn_ranks)]
    assert len(counts) == 6
    assert min(counts) > 60  # 100 expected, standard deviation 9
    rank_into(keys, 3, 17, order, ranks)
    assert tuple(ranks.tolist()) == drawn_ranks[17]


def test_each_block_of_equal_keys_is_shuffled_independently():
    keys, order, ranks = np.repeat([5.0, 7.0], 3), np.zeros(6, np.int64), np.zeros(6, np.int64)
    drawn_ranks = []
    for seed in range(1800):
        rank_into(keys, 6, seed, order, ranks)
        drawn_ranks.append((tuple(ranks[:3].tolist()), tuple(ranks[3:].tolist())))
    counts = [drawn_ranks.count(kind) for kind in set(drawn_ranks)]
    assert len(counts) == 36
    assert min(counts) > 22  # 50 expected, standard deviation 7
    assert {rank for low, _ in drawn_ranks for rank in low} == {4, 5, 6}


@pytest.mark.parametrize("gain", [RecallGain(), AveragePrecisionGain(), DcgGain(np.ones(3), True)])
def test_a_list_without_relevant_items_has_no_pairs_that_count(gain):
    work = list_work(3)
    work.ranks[:3] = [1, 2, 3]
    assert open_list(gain, work, 3, 2) == 0.0


@pytest.mark.parametrize(
    ("gain", "cutoff", "expected"),
    [
        (AveragePrecisionGain(), 2, 6),
        (DcgGain(np.ones(6), True), 2, 2),
        (DcgGain(np.ones(6), True), 10, 6),
        (RecallGain(), 4, 4),
        (ReciprocalRankGain(), 10, 3),  # the first relevant item has rank 3
        (ReciprocalRankGain(), 2, 2),
    ],
)
def test_ranks_that_decide(gain, cutoff, expected):
    work = list_work(6)
    work.ranks[:6] = np.arange(6) + 1
    work.levels[:6] = [0.0, 0, 1, 0, 1, 0]
    open_list(gain, work, 6, cutoff)
    assert deciding_ranks(gain, work, 6, cutoff) == expected


def test_only_equal_keys_are_exchanged():
    keys = np.array([2.0, 5.0, 2.0, 9.0])
    order, ranks = np.zeros(4, np.int64), np.zeros(4, np.int64)
    for seed in range(20):
        rank_into(keys, 4, seed, order, ranks)
        assert ranks[3] == 1
        assert ranks[1] == 2
        assert {int(ranks[0]), int(ranks[2])} == {3, 4}
