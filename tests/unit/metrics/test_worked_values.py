"""Values worked by hand, and the ones published with the evaluation scripts."""

import math

import numpy as np
import pytest

from rankine.metrics import evaluate, parse_metric, random_expectation

pytestmark = pytest.mark.kernels

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


def test_random_order_of_one_relevant_among_four():
    y = [1, 0, 0, 0]
    assert random_expectation("p@1", y) == pytest.approx(1 / 4)
    assert random_expectation("recall@3", y) == pytest.approx(3 / 4)
    assert random_expectation("mrr", y) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert random_expectation("domination-error", y) == pytest.approx(3 / 4)
    assert random_expectation("pairwise-error", y) == 0.5


def test_text_forms_round_trip():
    for text in (
        "ndcg@10",
        "recall@shown",
        "letor3:ndcg@10",
        "ndcg@10:gain=linear:ties=expected",
        "ndcg:gain=0,1,3:no_relevant=skip",
        "pairwise-error:mean=pairs",
        "map:threshold=2.5",
        "mslr:map:threshold=2",
    ):
        assert str(parse_metric(text)) == text
        assert parse_metric(str(parse_metric(text))) == parse_metric(text)
