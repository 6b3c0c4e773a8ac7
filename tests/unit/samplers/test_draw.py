"""Drawn pairs follow the distribution that each sampling rule states."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numba
import numpy as np
import pytest
from scipy import stats
from slow_pairs import pair_weights

import rankine
from rankine import SPDRanker
from rankine.core.errors import NoPairsError, ParameterError
from rankine.kernels.random import random_bits, random_unit
from rankine.samplers import draw
from rankine.samplers.draw import (
    SAMPLINGS,
    StreamPairs,
    _pick_level,
    _pick_outside,
    _pick_position,
    _pick_query,
    _pick_within,
    build_pair_index,
    draw_pair,
    pair_masses,
    pair_sampler,
    query_shares,
    stream_sampler,
    stream_spans,
)
from rankine.samplers.pairs import draw_span, pair_rows

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


# -- every rule against its definition, compiled or not

#: Labels of each list: drawn directly, few lists or many; most rows of one label; many labels.
LISTS = {
    "even": [[0, 0, 1, 1, 2, 2], [1, 0, 2], [0, 1, 1, 1]],
    "short": [[2, 3, 3], [0, 2]] * 4,
    "skewed": [[0] * 12 + [1, 2], [0] * 9 + [1], [0] * 12 + [3, 1]],
    "levels": [[0] * 50 + list(range(1, 9)), [5] * 60 + list(range(6, 16)), [0, 1]],
}
WAYS = [("query", False), ("uniform", False), ("indexed", False), ("rejection", False)]
WAYS += [("query", True), ("uniform", True), ("rejection", True)]
#: Rejection is slow where most of its trials fail.
RULES = [
    (*way, kind)
    for way in WAYS
    for kind in LISTS
    if way[0] != "rejection" or kind in ("even", "short")
]


def made(kind, weighted):
    """Rows of several lists, shuffled, with weights of rows and of lists."""
    rng = np.random.default_rng(len(kind))
    y = np.concatenate(LISTS[kind]).astype(float)
    n_lists = len(LISTS[kind])
    qid = np.repeat(np.arange(n_lists), [len(one) for one in LISTS[kind]])
    order = rng.permutation(len(y))
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], len(y)) if weighted else None
    if weighted:
        weight[y[order] == 1] = 0.0
    one = rankine.Dataset.from_arrays(np.zeros((len(y), 1)), y[order], qid[order], weight=weight)
    return one, np.resize([1.0, 3.0, 0.5], n_lists) if weighted else np.ones(n_lists)


def by_definition(one, query_weight, sampling, ties):
    """Chance of every (preferred, other); rows of equal labels in either order."""
    w = np.ones(one.n_rows) if one.weight is None else one.weight
    v = dict(zip(one.queries.ids.tolist(), query_weight, strict=True))
    chance = {}
    for i in range(one.n_rows):
        for j in range(one.n_rows):
            same = i != j and one.qid[i] == one.qid[j]
            if (
                same
                and w[i] * w[j] > 0
                and (one.y[i] > one.y[j] or (ties and one.y[i] == one.y[j]))
            ):
                chance[i, j] = w[i] * w[j] * (1.0 if one.y[i] > one.y[j] else 0.5)
    per_query, per_labels = {}, {}
    for (i, j), mass in chance.items():
        q, labels = one.qid[i], (one.qid[i], one.y[i], one.y[j])
        per_query[q] = per_query.get(q, 0.0) + mass
        per_labels[labels] = per_labels.get(labels, 0.0) + mass
    cells = {q: sum(key[0] == q for key in per_labels) for q in per_query}
    for i, j in chance:
        q = one.qid[i]
        if sampling == "indexed":
            chance[i, j] /= per_labels[q, one.y[i], one.y[j]] * cells[q]
        elif sampling == "query":
            chance[i, j] /= per_query[q]
        chance[i, j] *= v[q]
    total = sum(chance.values())
    return {pair: mass / total for pair, mass in chance.items()}


@pytest.mark.kernels
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("sampling", "ties", "kind"), RULES)
def test_every_rule_draws_by_its_definition(sampling, ties, kind, weighted):
    one, query_weight = made(kind, weighted)
    expected = by_definition(one, query_weight, sampling, ties)
    sampler = pair_sampler(one, query_weight, sampling=sampling, ties=ties)
    slow = 600 if sampling == "rejection" else 1500
    draws = slow if numba.config.DISABLE_JIT else 20_000
    count = frequencies(sampler, draws)
    assert set(count) <= set(expected)
    cells, seen = draws * np.array(list(expected.values())), [count.get(p, 0) for p in expected]
    assert (np.abs(seen - cells) < 5.5 * np.sqrt(cells) + 2.5).all()
    # And the rows drawn, of which there are fewer than pairs.
    for place in (0, 1):
        by_row = np.zeros((2, one.n_rows))
        for pair, share in expected.items():
            by_row[:, pair[place]] += draws * share, count.get(pair, 0)
        assert (np.abs(by_row[1] - by_row[0]) < 5.0 * np.sqrt(by_row[0]) + 1.5).all()


def drawn_by_hand(one, query_weight, sampling, ties, seed):
    """One draw as it is written down: which of a seed's numbers decides what."""
    w = np.ones(one.n_rows) if one.weight is None else one.weight
    y, v = one.y, dict(zip(one.queries.ids.tolist(), query_weight, strict=True))

    def unit(counter):
        return (int(random_bits(seed, counter)) >> 11) / 2**53

    def first_above(masses, counter):
        sums = np.cumsum(masses)
        return int(np.searchsorted(sums, unit(counter) * sums[-1], side="right"))

    def pick(rows, counter):
        return rows[first_above(w[rows], counter)]

    def oriented(a, b):
        return (a, b) if y[a] >= y[b] else (b, a)

    if sampling == "rejection":
        for counter in range(0, 10**6, 3):
            a, b = int(unit(counter) * one.n_rows), int(unit(counter + 1) * one.n_rows)
            if a == b or one.qid[a] != one.qid[b] or (y[a] == y[b] and not ties):
                continue
            chance = w[a] / w.max() * w[b] / w.max() * v[one.qid[a]] / max(query_weight)
            if chance >= 1 or unit(counter + 2) < chance:
                return oriented(a, b)
    shares = query_shares(one, query_weight, sampling=sampling, ties=ties)
    k = first_above(shares, 0)
    rows = np.array(sorted(one.queries.rows_of(k), key=lambda i: (y[i], i)))
    labels, level = np.unique(y[rows], return_inverse=True)
    masses = np.array([w[rows[level == k]].sum() for k in range(len(labels))])
    if sampling == "indexed":
        for counter in range(1, 10**4, 4):
            i, j = int(unit(counter) * len(labels)), int(unit(counter + 1) * (len(labels) - 1))
            low, high = sorted((i, j + (j >= i)))
            if masses[low] > 0 and masses[high] > 0:
                worse = pick(rows[level == low], counter + 3)
                return pick(rows[level == high], counter + 2), worse
    across = masses * (masses.sum() - masses)
    if ties or across.sum() / masses.sum() ** 2 >= 0.25:
        for counter in range(1, 10**4, 2):
            a, b = pick(rows, counter), pick(rows, counter + 1)
            if (a != b) if ties else (y[a] != y[b]):
                return oriented(a, b)
    own = first_above(across, 1)
    return oriented(pick(rows[level == own], 2), pick(rows[level != own], 3))


@pytest.mark.kernels
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("sampling", "ties", "kind"), RULES)
def test_a_seed_decides_draws_as_written_down(sampling, ties, kind, weighted):
    """A number that moved would move every model made with it."""
    one, query_weight = made(kind, weighted)
    sampler = pair_sampler(one, query_weight, sampling=sampling, ties=ties)
    first, second = np.empty((2, 120), dtype=np.int64)
    assert draw_span(sampler, np.uint64(8), 40, first, second)
    for step, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True), 40):
        seed = random_bits(8, step)
        assert pair == drawn_by_hand(one, query_weight, sampling, ties, seed)


@pytest.mark.kernels
def test_masses_are_kept_where_queries_or_rows_differ():
    one, differing = made("skewed", weighted=False)[0], np.array([1.0, 3.0, 0.5])
    assert build_pair_index(one, 2 * np.ones(3)).query_mass.shape == (0,)
    assert build_pair_index(one, np.array([0.0, 7.0, 0.0])).query_mass.shape == (0,)
    np.testing.assert_allclose(build_pair_index(one, differing).query_mass, np.cumsum(differing))
    assert build_pair_index(one, differing).row_mass.shape == (0,)
    assert build_pair_index(one, differing).order.dtype == np.uint32


@pytest.mark.kernels
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_numbers_of_very_many_rows_are_drawn_alike(weighted, monkeypatch):
    one, query_weight = made("skewed", weighted)
    found = []
    for many in (draw._MANY_ROWS, 10):
        monkeypatch.setattr(draw, "_MANY_ROWS", many)
        sampler = pair_sampler(one, query_weight)
        pairs = [draw_pair(sampler, random_bits(1, step), step) for step in range(40)]
        found.append((sampler.pairs.order.dtype, pairs))
    assert [dtype for dtype, _ in found] == [np.uint32, np.uint64]
    assert found[0][1] == found[1][1]


def seed_with(counter, low, high):
    """A seed whose number of this counter is in a range, and the number."""
    for number in range(1000):
        seed = random_bits(5, number)
        if low < float(random_unit(seed, counter)) < high:
            return seed, float(random_unit(seed, counter))
    raise AssertionError


def weighed(y, weight):
    """The index of one list."""
    rows = rankine.Dataset.from_arrays(np.zeros((len(y), 1)), y, weight=np.array(weight))
    return build_pair_index(rows, np.ones(1))


@pytest.mark.kernels
def test_a_number_on_the_edge_of_two_belongs_to_the_second():
    """Whatever has the masses [a, b) is drawn by numbers from a on and below b."""
    seed, unit = seed_with(0, 0.1, 0.9)
    assert _pick_query(np.array([unit, 1.0]), 2, seed) == 1
    assert _pick_query(np.array([unit / 2, unit, 1.0]), 3, seed) == 2
    seed, unit = seed_with(1, 0.1, 0.9)
    two = weighed([0, 1], [unit, 1.0 - unit])
    assert two.order[_pick_position(two, seed, 1, 0)] == 1
    same = weighed([0, 0, 1], [unit, 1.0 - unit, 1.0])
    assert same.order[_pick_within(same, seed, 1, 0)] == 1
    for rest in (5, 3, 2):  # nine levels are searched, eight and seven are scanned
        edges = np.r_[unit * np.array([0.25, 0.5, 0.75, 1.0]), np.linspace(unit, 1.0, rest + 1)[1:]]
        assert _pick_level(edges, 0, len(edges), seed) == 4
        assert _pick_level(np.r_[7.0, edges, 7.0], 1, len(edges), seed) == 5
    seed, unit = seed_with(3, 0.1, 0.4)
    for own in (0.25, 1e30):
        three = weighed([0, 1, 2], [unit, own, 1.0 - unit])
        assert three.order[_pick_outside(three, seed, 0, 1)] == 2
        last = weighed([0, 1, 2], [own, unit, 1.0 - unit])
        assert last.order[_pick_outside(last, seed, 0, 0)] == 2


@pytest.mark.kernels
@pytest.mark.parametrize("ties", [False, True])
def test_masses_of_pairs_are_those_of_their_definition_at_any_weights(ties):
    """Fractions: a row that outweighs its list by 1e30 hides none of the pairs."""
    rng = np.random.default_rng(4)
    qid, y = np.repeat(np.arange(20), 5), rng.integers(0, 3, 100).astype(float)
    weight = rng.choice([0.0, 1e-15, 1.0, 3.0, 1e15], 100)
    given = rankine.Dataset.from_arrays(np.zeros((100, 1)), y, qid, weight=weight)
    expected = [
        float(sum(
            Fraction(weight[i]) * Fraction(weight[j])
            for i in rows for j in rows
            if i != j and (ties or y[i] != y[j])
        ))
        for rows in np.arange(100).reshape(20, 5).tolist()
    ]  # fmt: skip
    np.testing.assert_allclose(pair_masses(given, ties=ties), expected, rtol=1e-14, atol=0.0)


@pytest.mark.kernels
@pytest.mark.parametrize("sizes", list(permutations([1e-60, 1.0, 1e60])), ids=str)
@pytest.mark.parametrize(("sampling", "ties"), [way for way in WAYS if way[0] != "rejection"])
def test_weights_of_any_size_are_drawn_by_their_definition(sampling, ties, sizes):
    """Sums that hold 1e60 know nothing of 1e-60; a label of such rows was never drawn, or never
    another than its last row, and the label-first rule waited for it for ever.
    """
    y, weight = np.repeat([0.0, 1.0, 2.0], 3), np.repeat(sizes, 3) * np.tile([1.0, 3.0, 0.0], 3)
    if ties:
        weight[0] *= 1e9  # one row has almost all of the weight
    one = rankine.Dataset.from_arrays(np.zeros((9, 1)), y, weight=weight)
    expected = by_definition(one, np.ones(1), sampling, ties)
    draws = 1500 if numba.config.DISABLE_JIT else 20_000
    count = frequencies(pair_sampler(one, np.ones(1), sampling=sampling, ties=ties), draws)
    assert set(count) <= set(expected)
    cells, seen = draws * np.array(list(expected.values())), [count.get(p, 0) for p in expected]
    assert (np.abs(seen - cells) < 5.5 * np.sqrt(cells) + 2.5).all()


@pytest.mark.kernels
@pytest.mark.parametrize("zeros", [0, 2])
def test_a_huge_block_at_the_end_is_not_drawn_from_for_rows_outside(zeros):
    """Rows that weigh 1.5 and 1e16, and perhaps nothing: their sums are rounded to even numbers."""
    index = weighed([0, 1, *[2] * zeros], [1.5, 1e16, *[0.0] * zeros])
    assert {_pick_outside(index, seed, 0, 1) for seed in range(200)} == {0}


@pytest.mark.kernels
@pytest.mark.parametrize("labels", [[0.0, 0.0, 1.0, 1.0], [0.0, 2.0, 2.0, 1.0, 3.0, 3.0]])
@pytest.mark.parametrize("sampling", ["query", "uniform", "indexed"])
@pytest.mark.parametrize("huge", [0, -1])
def test_light_rows_beside_a_huge_one_are_drawn_by_their_weights(sampling, huge, labels):
    """1e30 + 3 is 1e30: labels of light rows were none, which never ended, or gave their last."""
    y, weight = np.array(labels), np.resize([3.0, 1.0], len(labels))
    weight[huge] = 1e30
    one = rankine.Dataset.from_arrays(np.zeros((len(y), 1)), y, weight=weight)
    expected = by_definition(one, np.ones(1), sampling, ties=False)
    draws = 1500 if numba.config.DISABLE_JIT else 20_000
    for sampler in (
        pair_sampler(one, np.ones(1), sampling=sampling),
        stream_sampler(one, np.ones(1), np.array([10**9]), sampling=sampling),
    ):
        count = frequencies(sampler, draws)
        for pair, chance in expected.items():
            near = 5.5 * np.sqrt(draws * chance) + 2.5
            assert abs(count.get(pair, 0) - draws * chance) < near, pair


@pytest.mark.kernels
@pytest.mark.parametrize("huge", [0.0, 1.0, 2.0])
def test_rows_that_add_nothing_to_a_huge_sum_still_form_pairs_with_it(huge):
    """1e16 + 1 is 1e16, though the rows of weight 1 are a hundred."""
    y = np.repeat([0.0, 1.0, 2.0], [100, 1, 100]) if huge == 1.0 else np.repeat([0.0, 2.0], 100)
    weight = np.ones(len(y))
    weight[np.flatnonzero(y == huge)[0]] = 1e16
    one = rankine.Dataset.from_arrays(np.zeros((len(y), 1)), y, weight=weight)
    sampler = pair_sampler(one, np.ones(1))
    assert sampler.pairs.accept[0] < 0.25
    drawn = frequencies(sampler, 200)
    assert all(y[a] > y[b] for a, b in drawn)
    assert all(huge in (y[a], y[b]) for a, b in drawn)


@pytest.mark.kernels
def test_masses_at_the_end_of_all_numbers_are_drawn_within_their_range():
    """More than half of the smallest number is that number: only the range ends the search."""
    tiny = 5e-324
    seed, _ = seed_with(0, 0.6, 1.0)
    for length in (2, 3, 4, 7, 8):
        assert _pick_query(np.full(length, tiny), length, seed) == length - 1
    seed, _ = seed_with(1, 0.6, 1.0)
    for length in (1, 2, 3, 8, 9, 12):
        assert _pick_level(np.full(length, tiny), 0, length, seed) == length - 1


@pytest.mark.kernels
@pytest.mark.parametrize(("sampling", "ties"), [w for w in WAYS if w[0] in ("query", "indexed")])
def test_steps_of_a_stream_belong_to_its_queries_in_turn(sampling, ties):
    """Within its steps a query is drawn from as if it were alone."""
    plain = made("skewed", weighted=False)[0]
    weight = np.linspace(0.5, 2.0, plain.n_rows)
    one = rankine.Dataset.from_arrays(plain.X, plain.y, plain.qid, weight=weight)
    ends = np.array([3, 7, 12])
    stream = stream_sampler(one, np.ones(3), ends, sampling=sampling, ties=ties)
    for step in range(12):
        q = int(np.searchsorted(ends, step, side="right"))
        only = pair_sampler(one, np.eye(3)[q], sampling=sampling, ties=ties)
        seed = random_bits(3, step)
        assert draw_pair(stream, seed, step) == draw_pair(only, seed, step)


@pytest.mark.kernels
def test_weight_in_one_row_alone_leaves_rejection_without_a_pair():
    one = rankine.Dataset.from_arrays(np.zeros((2, 1)), [0, 1], weight=np.array([1.0, 1e-15]))
    for ties in (False, True):
        sampler = pair_sampler(one, np.ones(1), ties=ties)
        assert draw_pair(sampler, random_bits(0, 0), 0) == (1, 0, 1.0)
    rejecting = pair_sampler(one, np.ones(1), sampling="rejection", max_trials=1)
    found = {draw_pair(rejecting, random_bits(0, step), step) for step in range(20)}
    assert found == {(0, 0, -1.0)}
    first = np.zeros(3, dtype=np.int64)
    assert not draw_span(rejecting, np.uint64(0), 0, first, first)


def test_rejection_gives_up_after_its_trials():
    one = rankine.Dataset.from_arrays(np.zeros((40, 1)), np.r_[np.zeros(39), 1.0])
    with pytest.raises(NoPairsError, match="no pair was found in the allowed trials"):
        list(rankine.sample_pairs(one, 50, sampling="rejection", max_trials=2, random_state=0))
    sampler = pair_sampler(one, np.ones(1), sampling="rejection", max_trials=7)
    assert sampler.max_trials == 7
    assert len(sampler.row_weight) == len(sampler.query_weight) == 0
    weighed = pair_sampler(
        data(np.arange(12.0)), np.array([1.0, 2.0, 1.5, 1.0]), sampling="rejection"
    )
    np.testing.assert_array_equal(weighed.row_weight, np.arange(12.0) / 11)
    assert weighed.query_weight.tolist() == [0.5, 1.0, 0.75, 0.5]


# -- pairs as rows


@pytest.mark.parametrize("n", [-1, 1.5])
def test_a_number_of_pairs_is_whole(n):
    with pytest.raises(ParameterError, match=f"n={n} must be a whole number of pairs"):
        list(rankine.sample_pairs(data(), n))


def test_no_pair_is_no_block_and_unknown_words_are_refused():
    assert list(rankine.sample_pairs(data(), 0)) == []
    with pytest.raises(ParameterError, match="sampling"):
        list(rankine.sample_pairs(data(), 5, sampling="some"))
    with pytest.raises(NoPairsError, match="two different labels"):
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
    found = []
    for stream in (lists, whole):
        blocks = rankine.sample_pairs(stream, 100, sampling=sampling, random_state=4, block=30)
        parts = list(blocks)
        found.append([np.concatenate([getattr(b, name) for b in parts]) for name in ("X", "sign")])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(found[0][1]) == 100
    own = {q: {tuple(X[i] - X[j]) for i, j in pair_weights(Y, QID, "query") if QID[i] == q}
           for q in (3, 1)}  # fmt: skip
    rows = [tuple(row) for row in found[0][0] * found[0][1][:, None]]
    # Four pairs of the first list and five of the second.
    first = 50 if sampling in ("query", "indexed") else 100 * 4 // 9
    assert set(rows[:first]) <= own[3]
    assert set(rows[first:]) <= own[1]


def test_a_stream_without_pairs_is_refused():
    nothing = [data().take(np.flatnonzero(q == QID)) for q in (9, 2)]
    with pytest.raises(NoPairsError, match="no query of the stream holds two different labels"):
        list(rankine.sample_pairs(nothing, 5))


@pytest.mark.kernels
def test_all_pairs_are_listed_up_to_a_limit_and_drawn_alike_beyond():
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


def test_blocks_without_pairs_are_passed_over():
    """Ends of steps do not depend on the cut; the first block has no pair at all."""
    lists = [data().take(np.flatnonzero(q == QID)) for q in (2, 3, 9, 1)]
    spans = list(stream_spans(
        lambda: [(one, np.ones(one.n_queries)) for one in lists], 2.0, 11,
        sampling="query", n_passes=2, taken=100,
    ))  # fmt: skip
    assert [end for _, _, end in spans] == [102, 105, 108, 111]
    assert [span[1].step_ends.tolist() for span in spans] == [[102], [105], [108], [111]]
    assert all(isinstance(span[1], StreamPairs) for span in spans)
