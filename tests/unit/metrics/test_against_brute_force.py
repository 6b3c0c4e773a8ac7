"""Every metric against its slow definition, on lists full of ties."""

import itertools
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankine.kernels.compile import plain
from rankine.metrics import engine, evaluate, random_expectation
from reference import ranking_metrics as slow

pytestmark = pytest.mark.kernels

#: Metric -> its value for labels in ranked order (and scores that fall strictly).
ORDERED = {
    "ndcg": lambda l, s: slow.ndcg(l),
    "ndcg@2": lambda l, s: slow.ndcg(l, 2),
    "ndcg@3:gain=linear": lambda l, s: slow.ndcg(l, 3, gain=float),
    "ndcg@3:gain=0,2,5,6": lambda l, s: slow.ndcg(l, 3, gain=[0, 2, 5, 6].__getitem__),
    "ndcg@3:discount=paper": lambda l, s: slow.ndcg(l, 3, kind="paper"),
    "ndcg@3:discount=letor": lambda l, s: slow.ndcg(l, 3, kind="letor"),
    "dcg@3": lambda l, s: slow.dcg(l, 3),
    "mean-ndcg:discount=letor": lambda l, s: slow.mean_ndcg(l),
    "map": lambda l, s: slow.average_precision(l),
    "map@2:threshold=2": lambda l, s: slow.average_precision(l, 2, 2),
    "p@3": lambda l, s: slow.precision(l, 3),
    "recall@2": lambda l, s: slow.recall(l, 2),
    "mrr": lambda l, s: slow.reciprocal_rank(l),
    "mrr@2:threshold=2": lambda l, s: slow.reciprocal_rank(l, 2, 2),
    "hit@2": lambda l, s: slow.hit(l, 2),
    "rbp": lambda l, s: slow.rbp(l),
    "rbp@2:persistence=0.5": lambda l, s: slow.rbp(l, 2, 0.5),
    "err": lambda l, s: slow.err(l),
    "err@2:max_label=3": lambda l, s: slow.err(l, 2, 3),
}
PAIRS = {
    "auc": slow.roc_area,
    "pairwise-error": slow.pairwise_error,
    "pairwise-error:ties=strict": lambda l, s: slow.pairwise_error(l, s, 0.0),
    "pairwise-error:ties=errors": lambda l, s: slow.pairwise_error(l, s, 1.0),
    "domination-error": slow.domination_error,
    "domination-error:ties=strict": lambda l, s: slow.domination_error(l, s, "strict"),
}

lists = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.lists(st.sampled_from([-1.5, 0.0, 0.25, 2.0]), min_size=n, max_size=n),
    )
)
few_lists = st.lists(lists, min_size=1, max_size=4)


def flatten(queries):
    y = [l for labels, _ in queries for l in labels]
    s = [v for _, scores in queries for v in scores]
    return y, s, [q for q, (labels, _) in enumerate(queries) for _ in labels]


def values(metric, queries, **options):
    y, s, q = flatten(queries)
    return evaluate(metric, y, s, q, per_query=True, **options)


def as_array(found, empty):
    return np.array([empty if value is None else value for value in found], dtype=float)


@settings(max_examples=60, deadline=None)
@given(few_lists)
def test_ranked_lists(queries):
    check_ranked_lists(queries)


@pytest.mark.full
@settings(max_examples=2000, deadline=None)
@given(few_lists)
def test_two_thousand_sets_of_lists(queries):
    check_ranked_lists(queries)
    check_pairs(queries)


def check_ranked_lists(queries):
    for metric, value in ORDERED.items():
        brute = [value(slow.ranked(l, s), s) for l, s in queries]
        np.testing.assert_allclose(values(metric, queries), as_array(brute, 0.0), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(few_lists)
def test_pairs(queries):
    check_pairs(queries)


def check_pairs(queries):
    for metric, value in PAIRS.items():
        brute = [value(l, s) for l, s in queries]
        np.testing.assert_allclose(values(metric, queries), as_array(brute, np.nan), atol=1e-12)


@settings(max_examples=12, deadline=None)
@given(lists.filter(lambda pair: len(pair[0]) <= 5))
def test_expected_ties_are_the_mean_over_all_their_orders(query):
    labels, scores = query
    for metric, value in {**ORDERED, "domination-error": slow.domination_error}.items():
        empty = np.nan if metric in PAIRS else 0.0
        brute = slow.over_orders(labels, scores, value)
        found = values(f"{metric}:ties=expected", [query])
        np.testing.assert_allclose(found, as_array([brute], empty), atol=1e-12)


@settings(max_examples=12, deadline=None)
@given(lists.filter(lambda pair: len(pair[0]) <= 5))
def test_random_expectation_is_the_mean_over_all_orders(query):
    labels, _ = query
    for metric, value in {**ORDERED, **PAIRS}.items():
        empty = np.nan if metric in PAIRS else 0.0
        brute = slow.over_orders(labels, [0.0] * len(labels), value)
        found = random_expectation(metric, labels, per_query=True)
        np.testing.assert_allclose(found, as_array([brute], empty), atol=1e-12)


@settings(max_examples=12, deadline=None)
@given(lists.filter(lambda pair: len(pair[0]) <= 5))
def test_worst_ties_are_the_worst_of_all_their_orders(query):
    labels, scores = query
    n = range(len(labels))
    orders = [
        [labels[i] for i in order]
        for order in itertools.permutations(n)
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    for metric, value in ORDERED.items():
        found = [value(order, None) for order in orders]
        worst = None if found[0] is None else min(found)
        np.testing.assert_allclose(
            values(f"{metric}:ties=worst", [query]), as_array([worst], 0.0), atol=1e-12
        )


def test_long_lists_take_the_sorting_path():
    rng = np.random.default_rng(5)
    y, s = rng.integers(0, 4, 300), np.round(rng.normal(size=300), 1)
    order = slow.ranked(y.tolist(), s.tolist())
    assert evaluate("ndcg@100", y, s) == pytest.approx(slow.ndcg(order, 100), abs=1e-12)
    assert evaluate("map", y, s) == pytest.approx(slow.average_precision(order), abs=1e-12)
    assert evaluate("pairwise-error", y, s) == pytest.approx(
        slow.pairwise_error(y.tolist(), s.tolist()), abs=1e-12
    )


@pytest.mark.parametrize("ties", ["", ":ties=expected"])
@pytest.mark.parametrize("metric", ORDERED)
def test_few_rows_are_measured_the_same_without_compiling(metric, ties):
    """To the bit, on lists long enough for compiled sums to differ if they were re-ordered."""
    rng = np.random.default_rng(7)
    y, qid = rng.integers(0, 4, 300), np.repeat(np.arange(6), 50)
    scores = rng.standard_normal(300).round(1)
    metric = metric if ":" in metric and not ties else metric.split(":")[0] + ties
    found = []
    for choose in (lambda kernel, _: kernel, lambda kernel, _: plain(kernel)):
        with mock.patch.object(engine, "light", choose):
            found.append(evaluate(metric, y, scores, qid, per_query=True))
    assert np.asarray(found[0]).tobytes() == np.asarray(found[1]).tobytes()
