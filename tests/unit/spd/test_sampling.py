"""Drawn pairs follow the distribution that each sampling rule states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from slow_pairs import pair_weights

import rankine
from rankine.core.errors import NoPairsError, ParameterError
from rankine.rankers.pairs import draw_span
from rankine.rankers.spd import SPDRanker
from rankine.rankers.spd_parts import make_sampler

# Unequal queries: two, three and one label, one row alone; rows interleaved on purpose.
QID = np.array([3, 1, 3, 1, 1, 2, 3, 1, 2, 9, 3, 2])
Y = np.array([0.0, 1, 2, 0, 0, 1, 0, 2, 1, 5, 2, 1])
X = np.arange(24, dtype=np.float64).reshape(12, 2) % 7


def data(weight=None):
    return rankine.Dataset.from_arrays(X, Y, QID, weight=weight)


def frequencies(sampler, draws, seed=3):
    first, second = np.empty(draws, dtype=np.int64), np.empty(draws, dtype=np.int64)
    assert draw_span(sampler, np.uint64(seed), 0, first, second)
    count = {}
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        key = (a, b)
        count[key] = count.get(key, 0) + 1
    return count


def assert_distribution(count, expected, draws):
    assert set(count) == set(expected)
    chi2 = sum((count[p] - draws * e) ** 2 / (draws * e) for p, e in expected.items())
    assert chi2 < stats.chi2.ppf(0.9999, len(expected) - 1)


@pytest.mark.kernels
@pytest.mark.parametrize("sampling", ["query", "uniform", "indexed", "rejection"])
def test_pairs_have_their_stated_probability(sampling):
    ranker = SPDRanker(sampling=sampling)
    sampler = make_sampler(ranker, data(), np.ones(4))
    draws = 20_000
    assert_distribution(frequencies(sampler, draws), pair_weights(Y, QID, sampling), draws)


@pytest.mark.parametrize("sampling", ["query", "uniform", "rejection"])
def test_row_and_query_weights_are_probabilities(sampling):
    weight = np.array([1, 2, 1, 0.5, 3, 1, 2, 1, 1, 1, 0, 1.0])
    query_weight = np.array([2.0, 1.0, 1.0, 1.0])  # order of first appearance: 3, 1, 2, 9
    sampler = make_sampler(SPDRanker(sampling=sampling), data(weight), query_weight)
    share = {3: 2.0, 1: 1.0}
    mass = {
        pair: weight[pair[0]] * weight[pair[1]]
        for pair in pair_weights(Y, QID, "uniform")
        if weight[pair[0]] * weight[pair[1]] > 0
    }
    per_query = {q: sum(m for (i, _), m in mass.items() if QID[i] == q) for q in share}
    total = sum(share[q] * (1 if sampling == "query" else per_query[q]) for q in share)
    expected = {
        pair: share[QID[pair[0]]]
        * m
        / (per_query[QID[pair[0]]] if sampling == "query" else 1)
        / total
        for pair, m in mass.items()
    }
    assert_distribution(frequencies(sampler, 20_000), expected, 20_000)


def test_ties_are_drawn_when_asked():
    sampler = make_sampler(SPDRanker(ties="zero", sampling="uniform"), data(), np.ones(4))
    expected = {}
    for i in range(12):
        for j in range(12):
            if i != j and QID[i] == QID[j] and Y[i] >= Y[j]:
                # A query is drawn by its squared size, then two different rows, oriented.
                n = (QID[i] == QID).sum()
                expected[i, j] = n / (n - 1) * (1 if Y[i] == Y[j] else 2)
    total = sum(expected.values())
    shares = {pair: mass / total for pair, mass in expected.items()}
    assert_distribution(frequencies(sampler, 20_000), shares, 20_000)


def test_many_levels_and_direct_comparison_agree_with_the_oracle():
    rng = np.random.default_rng(0)
    for y in (rng.permutation(12).astype(float), np.r_[np.zeros(11), 1.0]):
        one = rankine.Dataset.from_arrays(X, y)
        sampler = make_sampler(SPDRanker(), one, np.ones(1))
        expected = pair_weights(y, np.zeros(12), "query")
        assert_distribution(frequencies(sampler, 20_000), expected, 20_000)


def test_no_pairs_is_an_error_before_any_step():
    with pytest.raises(NoPairsError, match="two different labels"):
        SPDRanker().fit(X, np.ones(12), qid=QID)
    with pytest.raises(NoPairsError, match="trials"):
        SPDRanker(sampling="rejection", max_trials=1, n_steps=1000).fit(X, Y, qid=QID)


def test_indexed_sampling_refuses_ties():
    with pytest.raises(ParameterError, match="indexed"):
        SPDRanker(sampling="indexed", ties="zero").fit(X, Y, qid=QID)


def test_sample_pairs_gives_signed_differences_of_real_pairs():
    expected = {tuple(X[i] - X[j]) for i, j in pair_weights(Y, QID, "query")}
    total = 0
    for block in rankine.sample_pairs(data(), 1000, random_state=1, block=300):
        assert set(np.unique(block.sign)) <= {-1, 1}
        assert {tuple(row) for row in block.sign[:, None] * block.X} <= expected
        assert (block.weight == 1).all()
        total += len(block.sign)
    assert total == 1000


def test_sampled_pairs_do_not_depend_on_the_block_size():
    def drawn(size):
        blocks = list(rankine.sample_pairs(data(), 500, random_state=5, block=size))
        return np.concatenate([b.X for b in blocks]), np.concatenate([b.sign for b in blocks])

    for one, other in zip(drawn(7), drawn(500), strict=True):
        np.testing.assert_array_equal(one, other)
