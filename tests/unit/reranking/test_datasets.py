"""Rules applied to datasets: ranks, evaluation, and where columns come from."""

import numpy as np
import pytest

from rankine import LinearModel
from rankine.data import Dataset
from rankine.metrics import evaluate_on
from rankine.reranking import Rules
from rankine.reranking.datasets import apply_rules, columns_to_read, mark_removed, rule_ranks

pytestmark = pytest.mark.kernels


def dataset(sparse=False):
    X = np.array([[4.0, 0.0], [3.0, 1.0], [2.0, 0.0], [1.0, 5.0], [2.0, 2.0]])
    if sparse:
        from scipy.sparse import csr_array

        X = csr_array(X)
    return Dataset.from_arrays(
        X,
        [1, 0, 0, 1, 1],
        [7, 7, 7, 7, 8],
        docid=np.array(["a", "b", "c", "d", "e"]),
        feature_names=("score", "age"),
        columns={"brand": np.array(["x", "x", "x", "y", "x"])},
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_ranks_follow_rules_over_columns_features_and_ids(sparse):
    data = dataset(sparse)
    scores = np.array([4.0, 3.0, 2.0, 1.0, 2.0])
    rules = Rules(
        {
            "filter": [{"where": "id == 'c'"}],
            "at_most": [{"column": "brand", "count": 1, "first": 2}],
            "boost": [{"where": "age == 5", "amount": 0.1}],
        }
    )
    assert rule_ranks(rules, data, scores).tolist() == [1, 3, 0, 2, 1]
    model = LinearModel.from_weights([1.0, 0.0], ["score", "age"])
    assert columns_to_read(rules, model) == ("brand",)


def test_removed_rows_count_in_recall_and_untouched_lists_keep_their_ties():
    data = dataset()
    scores = np.array([4.0, 3.0, 2.0, 4.0, 2.0])
    rules = Rules({"filter": [{"name": "f", "where": "brand == 'y'"}]})
    ruled, stays, effects = apply_rules(rules, data, scores)
    assert stays.tolist() == [True, True, True, False, True]
    assert (ruled[4], effects.items["f"], effects.lists["f"]) == (2.0, 1, 1)
    marked = mark_removed(data, stays, ["retrieved"])
    per_query = evaluate_on(marked, scores=ruled, metric="recall@4", per_query=True)
    assert per_query.tolist() == [0.5, 1.0]
    spread = Rules({"spread": [{"column": "brand"}]})
    ties = np.array([4.0, 4.0, 4.0, 3.0, 1.0])
    assert not np.array_equal(apply_rules(spread, data, ties)[0], ties)
    last = Rules({"pin": [{"where": "brand == 'y'", "position": 4}]})
    assert np.array_equal(apply_rules(last, data, ties)[0], ties)


def test_equal_scores_of_changed_lists_are_not_in_file_order():
    """A log lists clicked items first; the order of ties must not reveal that."""
    n = 400
    labels = np.tile([1, 0, 0, 0], n)
    data = Dataset.from_arrays(
        np.zeros((4 * n, 1)), labels, np.repeat(np.arange(n), 4), docid=np.tile(list("abcd"), n)
    )
    rules = Rules({"pin": [{"where": "id == 'd'", "position": 4}]})
    ruled, _, _ = apply_rules(rules, data, np.zeros(4 * n))
    first = evaluate_on(data, scores=ruled, metric="p@1")
    assert 0.25 < first < 0.42
    assert np.array_equal(ruled, apply_rules(rules, data, np.zeros(4 * n))[0])


def test_lists_after_an_untouched_one_follow_the_rules():
    qid = np.repeat([1, 2, 3], 3)
    data = Dataset.from_arrays(np.zeros((9, 1)), np.zeros(9), qid, docid=list("abcdefghi"))
    rules = Rules({"pin": [{"where": "id == 'f' or id == 'i'", "position": 1}]})
    scores = np.tile([3.0, 2.0, 1.0], 3)
    ruled, _, _ = apply_rules(rules, data, scores)
    assert ruled[:3].tolist() == [3.0, 2.0, 1.0]
    assert ruled[3:].reshape(2, 3).argsort(axis=1).tolist() == [[1, 0, 2]] * 2
