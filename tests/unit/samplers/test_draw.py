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
from error_checks import raises_for
from rankine import SPDRanker
from rankine.core.errors import NoPairsError
from rankine.kernels.random import random_bits, random_unit
from rankine.samplers import draw
from rankine.samplers.draw import (
    SAMPLINGS,
    StreamPairs,
    _pick_level,
    _pick_outside,
    _pick_position,
    _pick_weighted_query,
    _pick_within,
    build_pair_index,
    draw_pair,
    pair_masses,
    pair_sampler,
    query_shares,
    stream_sampler,
    stream_spans,
)
from rankine.samplers.pairs import draw_span

# Unequal queries: two, three and dataset label, dataset row alone; rows interleaved on purpose.
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


def test_a_query_without_row_weight_is_never_drawn():
    weight = np.where(QID == 3, 0.0, 1.0)
    for sampling in ("query", "uniform", "rejection"):
        sampler = pair_sampler(data(weight), np.ones(4), sampling=sampling)
        assert {QID[a] for a, _ in frequencies(sampler, 200)} == {1}
    with pytest.raises(NoPairsError):
        build_pair_index(data(np.where(QID == 2, 1.0, 0.0)), np.ones(4), sampling="query")


def test_ties_are_drawn_on_request():
    sampler = pair_sampler(data(), np.ones(4), sampling="uniform", ties=True)
    expected = {}
    for i in range(12):
        for j in range(12):
            if i != j and QID[i] == QID[j] and Y[i] >= Y[j]:
                # Both orders of two different labels are the dataset that prefers the larger.
                expected[i, j] = 1 if Y[i] == Y[j] else 2
    total = sum(expected.values())
    shares = {pair: mass / total for pair, mass in expected.items()}
    assert_distribution(frequencies(sampler, 20_000), shares, 20_000)


def test_many_levels_and_direct_comparison_agree_with_the_oracle():
    rng = np.random.default_rng(0)
    for y in (rng.permutation(12).astype(float), np.r_[np.zeros(11), 1.0]):
        dataset = rankine.Dataset.from_arrays(X, y)
        sampler = pair_sampler(dataset, np.ones(1))
        expected = pair_weights(y, np.zeros(12), "query")
        assert_distribution(frequencies(sampler, 20_000), expected, 20_000)


def test_no_pairs_is_an_error_before_any_step():
    with pytest.raises(NoPairsError):
        SPDRanker().fit(X, np.ones(12), qid=QID)
    with pytest.raises(NoPairsError):
        SPDRanker(sampling="rejection", max_trials=1, n_steps=1000).fit(X, Y, qid=QID)


def test_indexed_sampling_refuses_ties():
    with raises_for("ties"):
        SPDRanker(sampling="indexed", ties="zero").fit(X, Y, qid=QID)


@pytest.mark.parametrize("n_levels", [4, 12], ids=["scanned", "searched"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_skewed_lists_draw_every_pair_in_proportion(n_levels, weighted):
    """Most rows share the lowest label, so a level is chosen before its rows."""
    rng = np.random.default_rng(n_levels)
    y = np.r_[np.zeros(110), np.arange(1.0, n_levels)]
    weight = rng.choice([0.0, 0.5, 1.0, 4.0], len(y)) if weighted else np.ones(len(y))
    weight[-n_levels:] = rng.choice([0.25, 1.0], n_levels) if weighted else 1.0
    dataset = rankine.Dataset.from_arrays(
        np.zeros((len(y), 1)), y, weight=weight if weighted else None
    )
    sampler = pair_sampler(dataset, np.ones(1))
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
def test_pairs_without_weight_are_an_error(sampling):
    weight = np.where(Y == 0, 1.0, 0.0)
    with pytest.raises(NoPairsError):
        pair_sampler(data(weight), np.ones(4), sampling=sampling)
    with pytest.raises(NoPairsError):
        pair_sampler(data(), np.zeros(4), sampling=sampling)


@pytest.mark.parametrize("ties", [False, True])
def test_shares_and_index_agree_on_which_queries_are_drawable(ties):
    """Lists without weight, with one row, or with one label (of weight) have no share."""
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
    """The last query ends where the pass ends, whatever the shares are rounded to."""
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

#: Labels of each list: drawn directly, few lists or many; most rows of dataset label; many labels.
LISTS = {
    "even": [[0, 0, 1, 1, 2, 2], [1, 0, 2], [0, 1, 1, 1]],
    "short": [[2, 3, 3], [0, 2]] * 4,
    "skewed": [[0] * 12 + [1, 2], [0] * 9 + [1], [0] * 12 + [3, 1]],
    "levels": [[0] * 50 + list(range(1, 9)), [5] * 60 + list(range(6, 16)), [0, 1]],
}
RULES_AND_TIES = [("query", False), ("uniform", False), ("indexed", False), ("rejection", False)]
RULES_AND_TIES += [("query", True), ("uniform", True), ("rejection", True)]
#: Rejection is slow where most of its trials fail.
CASES = [
    (*way, kind)
    for way in RULES_AND_TIES
    for kind in LISTS
    if way[0] != "rejection" or kind in ("even", "short")
]


def make_lists(kind, weighted):
    """Return rows of several lists, shuffled, with weights of rows and of lists."""
    rng = np.random.default_rng(len(kind))
    y = np.concatenate(LISTS[kind]).astype(float)
    n_lists = len(LISTS[kind])
    qid = np.repeat(np.arange(n_lists), [len(dataset) for dataset in LISTS[kind]])
    order = rng.permutation(len(y))
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], len(y)) if weighted else None
    if weighted:
        weight[y[order] == 1] = 0.0
    dataset = rankine.Dataset.from_arrays(
        np.zeros((len(y), 1)), y[order], qid[order], weight=weight
    )
    return dataset, np.resize([1.0, 3.0, 0.5], n_lists) if weighted else np.ones(n_lists)


def pair_probabilities(dataset, query_weight, sampling, ties):
    """Return the probability of every (preferred, other), computed from the definition.

    Rows of equal labels occur in either order.
    """
    w = np.ones(dataset.n_rows) if dataset.weight is None else dataset.weight
    v = dict(zip(dataset.queries.ids.tolist(), query_weight, strict=True))
    chance = {}
    for i in range(dataset.n_rows):
        for j in range(dataset.n_rows):
            same = i != j and dataset.qid[i] == dataset.qid[j]
            if (
                same
                and w[i] * w[j] > 0
                and (dataset.y[i] > dataset.y[j] or (ties and dataset.y[i] == dataset.y[j]))
            ):
                chance[i, j] = w[i] * w[j] * (1.0 if dataset.y[i] > dataset.y[j] else 0.5)
    per_query, per_labels = {}, {}
    for (i, j), mass in chance.items():
        q, labels = dataset.qid[i], (dataset.qid[i], dataset.y[i], dataset.y[j])
        per_query[q] = per_query.get(q, 0.0) + mass
        per_labels[labels] = per_labels.get(labels, 0.0) + mass
    cells = {q: sum(key[0] == q for key in per_labels) for q in per_query}
    for i, j in chance:
        q = dataset.qid[i]
        if sampling == "indexed":
            chance[i, j] /= per_labels[q, dataset.y[i], dataset.y[j]] * cells[q]
        elif sampling == "query":
            chance[i, j] /= per_query[q]
        chance[i, j] *= v[q]
    total = sum(chance.values())
    return {pair: mass / total for pair, mass in chance.items()}


@pytest.mark.kernels
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("sampling", "ties", "kind"), CASES)
def test_every_rule_draws_by_its_definition(sampling, ties, kind, weighted):
    dataset, query_weight = make_lists(kind, weighted)
    expected = pair_probabilities(dataset, query_weight, sampling, ties)
    sampler = pair_sampler(dataset, query_weight, sampling=sampling, ties=ties)
    slow = 600 if sampling == "rejection" else 1500
    draws = slow if numba.config.DISABLE_JIT else 20_000
    count = frequencies(sampler, draws)
    assert set(count) <= set(expected)
    cells, seen = draws * np.array(list(expected.values())), [count.get(p, 0) for p in expected]
    assert (np.abs(seen - cells) < 5.5 * np.sqrt(cells) + 2.5).all()
    # And the rows drawn, of which there are fewer than pairs.
    for place in (0, 1):
        by_row = np.zeros((2, dataset.n_rows))
        for pair, share in expected.items():
            by_row[:, pair[place]] += draws * share, count.get(pair, 0)
        assert (np.abs(by_row[1] - by_row[0]) < 5.0 * np.sqrt(by_row[0]) + 1.5).all()


def slow_draw(dataset, query_weight, sampling, ties, seed):
    """Draw a pair with plain Python; which of a seed's numbers decides what is fixed."""
    w = np.ones(dataset.n_rows) if dataset.weight is None else dataset.weight
    y, v = dataset.y, dict(zip(dataset.queries.ids.tolist(), query_weight, strict=True))

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
            a, b = int(unit(counter) * dataset.n_rows), int(unit(counter + 1) * dataset.n_rows)
            if a == b or dataset.qid[a] != dataset.qid[b] or (y[a] == y[b] and not ties):
                continue
            chance = w[a] / w.max() * w[b] / w.max() * v[dataset.qid[a]] / max(query_weight)
            if chance >= 1 or unit(counter + 2) < chance:
                return oriented(a, b)
    shares = query_shares(dataset, query_weight, sampling=sampling, ties=ties)
    k = first_above(shares, 0)
    rows = np.array(sorted(dataset.queries.rows_of(k), key=lambda i: (y[i], i)))
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
@pytest.mark.parametrize(("sampling", "ties", "kind"), CASES)
def test_a_seed_determines_its_draw(sampling, ties, kind, weighted):
    """A number that moved would move every model made with it."""
    dataset, query_weight = make_lists(kind, weighted)
    sampler = pair_sampler(dataset, query_weight, sampling=sampling, ties=ties)
    first, second = np.empty((2, 120), dtype=np.int64)
    assert draw_span(sampler, np.uint64(8), 40, first, second)
    for step, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True), 40):
        seed = random_bits(8, step)
        assert pair == slow_draw(dataset, query_weight, sampling, ties, seed)


@pytest.mark.kernels
def test_masses_are_stored_where_queries_or_rows_differ():
    dataset, differing = make_lists("skewed", weighted=False)[0], np.array([1.0, 3.0, 0.5])
    assert build_pair_index(dataset, 2 * np.ones(3)).uniform_queries
    assert build_pair_index(dataset, np.array([0.0, 7.0, 0.0])).uniform_queries
    index = build_pair_index(dataset, differing)
    assert not index.uniform_queries
    np.testing.assert_allclose(index.query_mass, np.cumsum(differing))
    assert index.uniform_rows
    assert index.order.dtype == np.uint32
    weighted = build_pair_index(make_lists("skewed", weighted=True)[0], differing)
    assert not weighted.uniform_rows


@pytest.mark.kernels
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_64_bit_row_numbers_give_the_same_draws(weighted, monkeypatch):
    dataset, query_weight = make_lists("skewed", weighted)
    found = []
    for many in (draw._MANY_ROWS, 10):
        monkeypatch.setattr(draw, "_MANY_ROWS", many)
        sampler = pair_sampler(dataset, query_weight)
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


def index_of_one_list(y, weight):
    """Return the index of one list."""
    rows = rankine.Dataset.from_arrays(np.zeros((len(y), 1)), y, weight=np.array(weight))
    return build_pair_index(rows, np.ones(1))


@pytest.mark.kernels
def test_a_target_on_the_edge_of_two_masses_selects_the_second():
    """Whatever has the masses [a, b) is drawn by numbers from a on and below b."""
    seed, unit = seed_with(0, 0.1, 0.9)
    assert _pick_weighted_query(np.array([unit, 1.0]), 2, seed) == 1
    assert _pick_weighted_query(np.array([unit / 2, unit, 1.0]), 3, seed) == 2
    seed, unit = seed_with(1, 0.1, 0.9)
    two = index_of_one_list([0, 1], [unit, 1.0 - unit])
    assert two.order[_pick_position(two, seed, 1, 0)] == 1
    same = index_of_one_list([0, 0, 1], [unit, 1.0 - unit, 1.0])
    assert same.order[_pick_within(same, seed, 1, 0)] == 1
    for rest in (5, 3, 2):  # nine levels are searched, eight and seven are scanned
        edges = np.r_[unit * np.array([0.25, 0.5, 0.75, 1.0]), np.linspace(unit, 1.0, rest + 1)[1:]]
        assert _pick_level(edges, 0, len(edges), seed) == 4
        assert _pick_level(np.r_[7.0, edges, 7.0], 1, len(edges), seed) == 5
    seed, unit = seed_with(3, 0.1, 0.4)
    for own in (0.25, 1e30):
        three = index_of_one_list([0, 1, 2], [unit, own, 1.0 - unit])
        assert three.order[_pick_outside(three, seed, 0, 1)] == 2
        last = index_of_one_list([0, 1, 2], [own, unit, 1.0 - unit])
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
@pytest.mark.parametrize(
    ("sampling", "ties"), [case for case in RULES_AND_TIES if case[0] != "rejection"]
)
def test_weights_of_any_size_are_drawn_by_their_definition(sampling, ties, sizes):
    """A sum that contains 1e60 loses 1e-60: a label of such light rows would never be drawn, or
    always its last row, and drawing by labels would not end.
    """
    y, weight = np.repeat([0.0, 1.0, 2.0], 3), np.repeat(sizes, 3) * np.tile([1.0, 3.0, 0.0], 3)
    if ties:
        weight[0] *= 1e9  # dataset row has almost all of the weight
    dataset = rankine.Dataset.from_arrays(np.zeros((9, 1)), y, weight=weight)
    expected = pair_probabilities(dataset, np.ones(1), sampling, ties)
    draws = 1500 if numba.config.DISABLE_JIT else 20_000
    count = frequencies(pair_sampler(dataset, np.ones(1), sampling=sampling, ties=ties), draws)
    assert set(count) <= set(expected)
    cells, seen = draws * np.array(list(expected.values())), [count.get(p, 0) for p in expected]
    assert (np.abs(seen - cells) < 5.5 * np.sqrt(cells) + 2.5).all()


@pytest.mark.kernels
@pytest.mark.parametrize("zeros", [0, 2])
def test_a_huge_block_at_the_end_is_not_drawn_from_for_rows_outside(zeros):
    """Rows that weigh 1.5 and 1e16, and perhaps nothing: their sums are rounded to even numbers."""
    index = index_of_one_list([0, 1, *[2] * zeros], [1.5, 1e16, *[0.0] * zeros])
    assert {_pick_outside(index, seed, 0, 1) for seed in range(200)} == {0}


@pytest.mark.kernels
@pytest.mark.parametrize("labels", [[0.0, 0.0, 1.0, 1.0], [0.0, 2.0, 2.0, 1.0, 3.0, 3.0]])
@pytest.mark.parametrize("sampling", ["query", "uniform", "indexed"])
@pytest.mark.parametrize("huge", [0, -1])
def test_light_rows_beside_a_huge_one_are_drawn_by_their_weights(sampling, huge, labels):
    """1e30 + 3 is 1e30: labels of light rows were none, which never ended, or gave their last."""
    y, weight = np.array(labels), np.resize([3.0, 1.0], len(labels))
    weight[huge] = 1e30
    dataset = rankine.Dataset.from_arrays(np.zeros((len(y), 1)), y, weight=weight)
    expected = pair_probabilities(dataset, np.ones(1), sampling, ties=False)
    draws = 1500 if numba.config.DISABLE_JIT else 20_000
    for sampler in (
        pair_sampler(dataset, np.ones(1), sampling=sampling),
        stream_sampler(dataset, np.ones(1), np.array([10**9]), sampling=sampling),
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
    dataset = rankine.Dataset.from_arrays(np.zeros((len(y), 1)), y, weight=weight)
    sampler = pair_sampler(dataset, np.ones(1))
    assert sampler.pairs.accept[0] < 0.25
    drawn = frequencies(sampler, 200)
    assert all(y[a] > y[b] for a, b in drawn)
    assert all(huge in (y[a], y[b]) for a, b in drawn)


@pytest.mark.kernels
def test_the_smallest_masses_are_drawn_within_their_range():
    """More than half of the smallest number is that number: only the range ends the search."""
    tiny = 5e-324
    seed, _ = seed_with(0, 0.6, 1.0)
    for length in (2, 3, 4, 7, 8):
        assert _pick_weighted_query(np.full(length, tiny), length, seed) == length - 1
    seed, _ = seed_with(1, 0.6, 1.0)
    for length in (1, 2, 3, 8, 9, 12):
        assert _pick_level(np.full(length, tiny), 0, length, seed) == length - 1


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("sampling", "ties"), [case for case in RULES_AND_TIES if case[0] in ("query", "indexed")]
)
def test_steps_of_a_stream_belong_to_its_queries_in_turn(sampling, ties):
    """Within its steps a query is drawn from as if it were alone."""
    plain = make_lists("skewed", weighted=False)[0]
    weight = np.linspace(0.5, 2.0, plain.n_rows)
    dataset = rankine.Dataset.from_arrays(plain.X, plain.y, plain.qid, weight=weight)
    ends = np.array([3, 7, 12])
    stream = stream_sampler(dataset, np.ones(3), ends, sampling=sampling, ties=ties)
    for step in range(12):
        q = int(np.searchsorted(ends, step, side="right"))
        only = pair_sampler(dataset, np.eye(3)[q], sampling=sampling, ties=ties)
        seed = random_bits(3, step)
        assert draw_pair(stream, seed, step) == draw_pair(only, seed, step)


@pytest.mark.kernels
def test_rejection_fails_where_one_row_has_all_the_weight():
    dataset = rankine.Dataset.from_arrays(np.zeros((2, 1)), [0, 1], weight=np.array([1.0, 1e-15]))
    for ties in (False, True):
        sampler = pair_sampler(dataset, np.ones(1), ties=ties)
        assert draw_pair(sampler, random_bits(0, 0), 0) == (1, 0, 1.0)
    rejecting = pair_sampler(dataset, np.ones(1), sampling="rejection", max_trials=1)
    found = {draw_pair(rejecting, random_bits(0, step), step) for step in range(20)}
    assert found == {(0, 0, -1.0)}
    first = np.zeros(3, dtype=np.int64)
    assert not draw_span(rejecting, np.uint64(0), 0, first, first)


def test_rejection_gives_up_after_its_trials():
    dataset = rankine.Dataset.from_arrays(np.zeros((40, 1)), np.r_[np.zeros(39), 1.0])
    with pytest.raises(NoPairsError) as caught:
        list(rankine.sample_pairs(dataset, 50, sampling="rejection", max_trials=2, random_state=0))
    assert caught.value.parameter == "max_trials"
    sampler = pair_sampler(dataset, np.ones(1), sampling="rejection", max_trials=7)
    assert sampler.max_trials == 7
    assert sampler.uniform_rows
    assert sampler.uniform_queries
    weighed = pair_sampler(
        data(np.arange(12.0)), np.array([1.0, 2.0, 1.5, 1.0]), sampling="rejection"
    )
    np.testing.assert_array_equal(weighed.row_weight, np.arange(12.0) / 11)
    assert weighed.query_weight.tolist() == [0.5, 1.0, 0.75, 0.5]


def test_blocks_without_pairs_are_skipped():
    """Ends of steps do not depend on the cut; the first block has no pair at all."""
    lists = [data().take(np.flatnonzero(q == QID)) for q in (2, 3, 9, 1)]
    spans = list(stream_spans(
        lambda: [(dataset, np.ones(dataset.n_queries)) for dataset in lists], 2.0, 11,
        sampling="query", n_passes=2, taken=100,
    ))  # fmt: skip
    assert [end for _, _, end in spans] == [102, 105, 108, 111]
    assert [span[1].step_ends.tolist() for span in spans] == [[102], [105], [108], [111]]
    assert all(isinstance(span[1], StreamPairs) for span in spans)
