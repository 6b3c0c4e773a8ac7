"""Every metric against its slow definition, on lists full of ties, and worked by hand."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankine.data.query_index import QueryIndex
from rankine.metrics import engine, evaluate, parse_metric, random_expectation
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
    "ndcg@3:short=zero": lambda l, s: slow.of_whole(slow.ndcg(l, 3), l, 3),
    "dcg@3": lambda l, s: slow.dcg(l, 3) if slow.has_relevant(l) else None,
    "mean-ndcg:discount=letor": lambda l, s: slow.mean_ndcg(l),
    "map": lambda l, s: slow.average_precision(l),
    "map@2:threshold=2": lambda l, s: slow.average_precision(l, 2, 2),
    "p@3": lambda l, s: slow.precision(l, 3),
    "p@3:short=zero": lambda l, s: slow.of_whole(slow.precision(l, 3), l, 3),
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
    "auc:threshold=2": lambda l, s: slow.roc_area(l, s, 2),
    "kendall": slow.kendall,
    "kendall:ties=errors": lambda l, s: slow.kendall(l, s, "errors"),
    "pairwise-error": slow.pairwise_error,
    "pairwise-error:ties=strict": lambda l, s: slow.pairwise_error(l, s, 0.0),
    "pairwise-error:ties=errors": lambda l, s: slow.pairwise_error(l, s, 1.0),
    "domination-error:ties=errors": slow.domination_error,
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


def as_array(found):
    return np.array([np.nan if value is None else value for value in found], dtype=float)


def skipping(metric):
    """The metric with no value for lists without a relevant item, rather than 0."""
    return f"{metric}:no_relevant=skip"


def by_file(metric):
    """The same with equal scores in the order of the rows, as the slow metrics rank them."""
    return f"{skipping(metric)}:ties=file" if metric in ORDERED else skipping(metric)


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
        found = values(by_file(metric), queries)
        np.testing.assert_allclose(found, as_array(brute), atol=1e-12, err_msg=metric)


@settings(max_examples=60, deadline=None)
@given(few_lists)
def test_pairs(queries):
    check_pairs(queries)


def check_pairs(queries):
    for metric, value in PAIRS.items():
        brute = [value(l, s) for l, s in queries]
        found = values(metric, queries)
        np.testing.assert_allclose(found, as_array(brute), atol=1e-12, err_msg=metric)


@settings(max_examples=12, deadline=None)
@given(lists.filter(lambda pair: len(pair[0]) <= 5))
def test_expected_ties_are_the_mean_over_all_their_orders(query):
    labels, scores = query
    tied = {"domination-error": slow.domination_error, "kendall": slow.kendall}
    assert all(parse_metric(m).ties == "expected" for m in (*ORDERED, "domination-error"))
    for metric, value in {**ORDERED, **tied}.items():
        brute = slow.over_orders(labels, scores, value)
        found = values(skipping(f"{metric}:ties=expected"), [query])
        np.testing.assert_allclose(found, as_array([brute]), atol=1e-12, err_msg=metric)


@settings(max_examples=12, deadline=None)
@given(lists.filter(lambda pair: len(pair[0]) <= 5))
def test_random_expectation_is_the_mean_over_all_orders(query):
    labels, _ = query
    for metric, value in {**ORDERED, **PAIRS}.items():
        zeros = [0.0] * len(labels)
        brute = slow.over_orders(labels, zeros, value)
        found = random_expectation(skipping(metric), labels, per_query=True)
        np.testing.assert_allclose(found, as_array([brute]), atol=1e-12, err_msg=metric)
        if metric in ORDERED:  # by default a constant score is worth a random order
            constant = evaluate(skipping(metric), labels, zeros, per_query=True)
            np.testing.assert_array_equal(constant, found)


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
            values(skipping(f"{metric}:ties=worst"), [query]), as_array([worst]), atol=1e-12
        )


@pytest.fixture(scope="module")
def shuffled():
    """Rows of eight lists in any order: labels, scores, queries, marks of some, document ids."""
    rng = np.random.default_rng(11)
    qid = rng.permutation(np.repeat(np.arange(8), [1, 2, 3, 4, 5, 6, 7, 8]))
    y, marks = rng.integers(0, 4, 36), rng.random(36) < 0.6
    marks[qid == 2] = False
    return y, rng.choice([-1.5, 0.0, 0.25, 2.0], 36), qid, marks, rng.permutation(36).astype(str)


def by_list(y, scores, qid, *more):
    """Labels, scores and more of each list, in order of first appearance."""
    for q in dict.fromkeys(qid.tolist()):
        yield tuple(column[qid == q].tolist() for column in (y, scores, *more))


@pytest.mark.parametrize("metric", {**ORDERED, **PAIRS})
def test_items_that_were_not_displayed_have_no_label(shuffled, metric):
    y, s, qid, marks, _ = shuffled
    columns = {"displayed": marks}
    found = evaluate(by_file(metric), y, s, qid, per_query=True, columns=columns)
    if metric in ORDERED:
        brute = [ORDERED[metric](slow.ranked(l, v), v) for l, v in by_list(y * marks, s, qid)]
    else:
        kept = [
            [[x for x, shown in zip(part, m, strict=True) if shown] for part in (l, v)]
            for l, v, m in by_list(y, s, qid, marks)
        ]
        brute = [PAIRS[metric](*part) for part in kept]
    np.testing.assert_allclose(found, as_array(brute), atol=1e-12)


@pytest.mark.parametrize("metric", {**ORDERED, **PAIRS})
def test_items_that_were_not_retrieved_stand_below_all_ranks_that_count(shuffled, metric):
    y, s, qid, marks, _ = shuffled
    columns = {"retrieved": marks}
    found = evaluate(by_file(metric), y, s, qid, per_query=True, columns=columns)
    brute = []
    for l, v, m in by_list(y, np.where(marks, s, -9.0), qid, marks):
        if metric in PAIRS:
            brute.append(PAIRS[metric](l, v))
            continue
        order, kept = slow.ranked(l, v), sum(m)
        if "short=zero" in metric:
            value = ORDERED[metric](order, v)
            brute.append(0.0 if value is not None and kept < 3 else value)
        elif "mean-ndcg" in metric:  # the mean over the ranks there are
            each = [slow.ndcg(order, r, kind="letor") for r in range(1, kept + 1)]
            brute.append(None if max(l) == 0 else np.mean(each) if each else 0.0)
        else:  # what counts nothing fills the ranks
            cut = [*order[:kept], *[0] * 9, *order[kept:]]
            limited = skipping(metric if "@" in metric else f"{metric}@9")
            brute += values(limited, [(cut, list(range(len(cut), 0, -1)))]).tolist()
    np.testing.assert_allclose(found, as_array(brute), atol=1e-12)


@pytest.mark.parametrize("metric", ORDERED)
def test_ties_fall_by_document_id(shuffled, metric):
    y, s, qid, _, docid = shuffled
    columns = {"docid": docid}
    found = evaluate(skipping(f"{metric}:ties=docid"), y, s, qid, per_query=True, columns=columns)
    brute = []
    for l, v, d in by_list(y, s, qid, docid):
        first = sorted(range(len(l)), key=d.__getitem__, reverse=True)
        order = slow.ranked([l[i] for i in first], [v[i] for i in first])
        brute.append(ORDERED[metric](order, None))
    np.testing.assert_allclose(found, as_array(brute), atol=1e-12)


@pytest.mark.parametrize("ties", ["", ":ties=expected", ":ties=worst", ":ties=file"])
@pytest.mark.parametrize("metric", ["ndcg@3", "map", "mrr@2", "pairwise-error", "p@3:short=zero"])
def test_many_weights_at_once_give_what_each_gives_alone(shuffled, metric, ties):
    y, _, qid, marks, _ = shuffled
    rng = np.random.default_rng(5)
    X, W = rng.integers(0, 4, (36, 2)) / 4, rng.integers(-3, 4, (6, 2)) / 2
    order = np.argsort(qid, kind="stable")
    y, X, columns = y[order], X[order], {"retrieved": marks[order]}
    index = QueryIndex.from_qid(qid[order], 36)
    if metric == "pairwise-error" and ties == ":ties=file":
        return
    rule = parse_metric(f"{metric}{ties}:no_relevant=1")
    evaluator = engine.query_evaluator(rule, y.astype(float), index, columns)
    found = evaluator.from_weights(X, W)
    alone = [evaluate(rule, y, X @ w, index, per_query=True, columns=columns) for w in W]
    np.testing.assert_array_equal(found.value, alone)
    one = evaluator.from_scores(X @ W[0])
    np.testing.assert_array_equal(found.mass, one.mass)
    few = evaluator.from_weights(X, W[:1])
    np.testing.assert_array_equal(few.value, alone[:1])


def test_long_lists_take_the_sorting_path():
    rng = np.random.default_rng(5)
    y, s = rng.integers(0, 4, 300), np.round(rng.normal(size=300), 1)
    order = slow.ranked(y.tolist(), s.tolist())
    assert evaluate("ndcg@100:ties=file", y, s) == pytest.approx(slow.ndcg(order, 100), abs=1e-12)
    assert evaluate("map:ties=file", y, s) == pytest.approx(
        slow.average_precision(order), abs=1e-12
    )
    assert evaluate("pairwise-error", y, s) == pytest.approx(
        slow.pairwise_error(y.tolist(), s.tolist()), abs=1e-12
    )


#: Labels in ranked order 0, 1, 2.
LABELS, SCORES = [0, 1, 2], [3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("ndcg@2:gain=linear", (1 / math.log2(3)) / (2 + 1 / math.log2(3))),
        ("ndcg@2", (1 / math.log2(3)) / (3 + 1 / math.log2(3))),
        ("letor3:ndcg@2", 0.25),
        ("ndcg@3", (1 / math.log2(3) + 1.5) / (3 + 1 / math.log2(3))),
        ("letor4:ndcg@3", (1 + 3 / math.log2(3)) / 4),
        ("dcg@2:discount=paper", 0.5),
        ("map", (1 / 2 + 2 / 3) / 2),
        ("map@2", 1 / 4),
        ("p@2", 0.5),
        ("p@6", 1 / 3),
        ("letor4:p@6", 1 / 3),
        ("letor3:p@6", 0.0),
        ("recall@2", 0.5),
        ("recall@2:threshold=2", 0.0),
        ("mrr", 0.5),
        ("mrr@1", 0.0),
        ("err", 1 / 16 / 2 + 15 / 16 * 3 / 16 / 3),
        ("auc", 0.0),
        ("pairwise-error", 1.0),
        ("kendall", -1.0),
        ("domination-error", 1.0),
        ("letor4:mean-ndcg", (0 + 0.25 + (1 + 3 / math.log2(3)) / 4) / 3),
        ("letor3:ndcg@4", 0.0),
        ("letor4:ndcg@4", 0.0),
        ("mslr:ndcg@4", 0.0),
        ("mslr:ndcg@4:short=fill", (1 + 3 / math.log2(3)) / 4),
    ],
)
def test_three_documents_in_the_worst_order(metric, expected):
    assert evaluate(metric, LABELS, SCORES) == pytest.approx(expected, abs=1e-15)


def test_published_check_of_three_conventions():
    found = [evaluate(m, LABELS, SCORES) for m in ("ndcg@2:gain=linear", "ndcg@2", "letor3:ndcg@2")]
    assert np.round(found, 4).tolist() == [0.2398, 0.1738, 0.25]
