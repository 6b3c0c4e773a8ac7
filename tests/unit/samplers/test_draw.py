"""Drawn pairs follow the distribution that each sampling rule states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from slow_pairs import pair_weights

import rankine
from rankine import SPDRanker
from rankine.core.errors import NoPairsError, ParameterError
from rankine.samplers.draw import (
    SAMPLINGS,
    build_pair_index,
    pair_sampler,
    query_shares,
    stream_spans,
)
from rankine.samplers.pairs import draw_span

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
    sampler = pair_sampler(data(), np.ones(4), sampling=sampling)
    draws = 20_000
    assert_distribution(frequencies(sampler, draws), pair_weights(Y, QID, sampling), draws)


@pytest.mark.parametrize("sampling", ["query", "uniform", "rejection"])
def test_row_and_query_weights_are_probabilities(sampling):
    weight = np.array([1, 2, 1, 0.5, 3, 1, 2, 1, 1, 1, 0, 1.0])
    query_weight = np.array([2.0, 1.0, 1.0, 1.0])  # order of first appearance: 3, 1, 2, 9
    sampler = pair_sampler(data(weight), query_weight, sampling=sampling)
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


@pytest.mark.kernels
@pytest.mark.parametrize("sampling", ["query", "uniform", "rejection"])
def test_a_row_of_weight_two_is_drawn_as_the_row_twice(sampling):
    """Also on lists of three labels and more, most of whose rows have one of them."""
    y = np.array([0.0] * 9 + [1.0, 2.0, 2.0, 3.0] + [0.0, 1.0, 5.0])
    qid = np.repeat([1, 2], [13, 3])
    weight = np.array(
        [1.0, 2.0, 0.0, 3.0, 1.0, 1.0, 1.0, 2.0, 1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0, 1.0]
    )
    once = np.repeat(np.arange(16), weight.astype(int))
    x = np.zeros((16, 1))
    draws, count = 20_000, []
    for rows, given in ((np.arange(16), weight), (once, None)):
        data = rankine.Dataset.from_arrays(x[rows], y[rows], qid[rows], weight=given)
        drawn = frequencies(pair_sampler(data, np.ones(2), sampling=sampling), draws)
        own = {}
        for (a, b), n in drawn.items():
            own[rows[a], rows[b]] = own.get((rows[a], rows[b]), 0) + n
        count.append(own)
    exact = pair_weights(y[once], qid[once], sampling)
    expected = {}
    for (a, b), share in exact.items():
        expected[once[a], once[b]] = expected.get((once[a], once[b]), 0.0) + share
    for own in count:
        assert_distribution(own, expected, draws)


def test_a_query_whose_rows_weigh_nothing_is_never_drawn():
    weight = np.where(QID == 3, 0.0, 1.0)
    for sampling in ("query", "uniform", "rejection"):
        sampler = pair_sampler(data(weight), np.ones(4), sampling=sampling)
        assert {QID[a] for a, _ in frequencies(sampler, 200)} == {1}
    with pytest.raises(NoPairsError, match="weight zero"):
        build_pair_index(data(np.where(QID == 2, 1.0, 0.0)), np.ones(4), sampling="query")


def test_ties_are_drawn_when_asked():
    sampler = pair_sampler(data(), np.ones(4), sampling="uniform", ties=True)
    expected = {}
    for i in range(12):
        for j in range(12):
            if i != j and QID[i] == QID[j] and Y[i] >= Y[j]:
                # Both orders of two different labels are the one that prefers the larger.
                expected[i, j] = 1 if Y[i] == Y[j] else 2
    total = sum(expected.values())
    shares = {pair: mass / total for pair, mass in expected.items()}
    assert_distribution(frequencies(sampler, 20_000), shares, 20_000)


def test_many_levels_and_direct_comparison_agree_with_the_oracle():
    rng = np.random.default_rng(0)
    for y in (rng.permutation(12).astype(float), np.r_[np.zeros(11), 1.0]):
        one = rankine.Dataset.from_arrays(X, y)
        sampler = pair_sampler(one, np.ones(1))
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


@pytest.mark.parametrize("n_levels", [4, 12], ids=["scanned", "searched"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_skewed_lists_draw_every_pair_in_proportion(n_levels, weighted):
    """Most rows share the lowest label, so a level is chosen before its rows."""
    rng = np.random.default_rng(n_levels)
    y = np.r_[np.zeros(110), np.arange(1.0, n_levels)]
    weight = rng.choice([0.0, 0.5, 1.0, 4.0], len(y)) if weighted else np.ones(len(y))
    weight[-n_levels:] = rng.choice([0.25, 1.0], n_levels) if weighted else 1.0
    one = rankine.Dataset.from_arrays(np.zeros((len(y), 1)), y, weight=weight if weighted else None)
    sampler = pair_sampler(one, np.ones(1))
    assert sampler.pairs.accept[0] < 0.25
    mass = np.where(y[:, None] > y[None, :], weight[:, None] * weight[None, :], 0.0)
    drawn = frequencies(sampler, 40_000)
    assert all(mass[a, b] > 0 for a, b in drawn)
    # By row rather than by pair, of which there are too many to be counted well.
    counts = np.zeros(len(y))
    for (a, b), times in drawn.items():
        counts[a] += times
        counts[b] += times
    expected = (mass.sum(axis=0) + mass.sum(axis=1)) / mass.sum() * 40_000
    np.testing.assert_allclose(counts, expected, atol=6.0 * np.sqrt(expected.max()))
    assert (counts[expected > 30] > 0).all()
    tops = expected[-n_levels + 1 :]
    np.testing.assert_allclose(counts[-n_levels + 1 :], tops, atol=6.0 * np.sqrt(tops.max()))


@pytest.mark.parametrize("sampling", ["query", "uniform", "indexed"])
def test_pairs_of_no_weight_are_an_error_of_their_own(sampling):
    weight = np.where(Y == 0, 1.0, 0.0)
    with pytest.raises(NoPairsError, match="weight zero"):
        pair_sampler(data(weight), np.ones(4), sampling=sampling)
    with pytest.raises(NoPairsError, match="weight zero"):
        pair_sampler(data(), np.zeros(4), sampling=sampling)


@pytest.mark.parametrize("ties", [False, True])
def test_shares_and_index_agree_on_who_takes_part(ties):
    """Lists without weight, of one row, of one label, of one weighted label: no dust, no step."""
    qid = np.repeat([0, 1, 2, 3, 4], [3, 1, 3, 3, 3])
    y = np.array([0.0, 1, 2, 1, 1, 1, 1, 0, 1, 1, 0, 1, 2])
    weight = np.array([0.1, 0.2, 0.3, 1, 0.7, 0.1, 0.1, 0.0, 0.3, 0.3, 0.0, 0.0, 0.0])
    lists = rankine.Dataset.from_arrays(np.zeros((13, 1)), y, qid, weight=weight)
    expected = np.zeros(5)
    for i in range(13):
        for j in range(13):
            if i != j and qid[i] == qid[j] and (ties or y[i] != y[j]):
                expected[qid[i]] += weight[i] * weight[j]
    for sampling in SAMPLINGS:
        shares = query_shares(lists, np.ones(5), sampling=sampling, ties=ties)
        by_pairs = sampling in ("uniform", "rejection")
        np.testing.assert_allclose(shares, expected if by_pairs else expected > 0, rtol=1e-12)
    index = build_pair_index(lists, np.ones(5), ties=ties)
    assert len(index.query_starts) == np.count_nonzero(expected)


@pytest.mark.parametrize("n_passes", [1, 3, 7])
def test_every_pass_over_a_stream_makes_all_of_its_steps(n_passes):
    """Whatever rounding does to the shares of queries, the last one ends where the pass ends."""
    rng = np.random.default_rng(n_passes)
    for n_steps in (*range(60, 80), 1000):
        lists = data()
        weight = rng.random(lists.n_queries)
        total = float(np.cumsum(query_shares(lists, weight, sampling="query", ties=False))[-1])
        spans = stream_spans(
            lambda lists=lists, weight=weight: [(lists, weight)], total, n_steps,
            sampling="query", n_passes=n_passes, taken=5,
        )  # fmt: skip
        ends = [end for _, _, end in spans]
        assert ends == [5 + n_steps * (k + 1) // n_passes for k in range(n_passes)]
