"""Gains, discounts, relevance and columns that metrics read."""

import numpy as np
import pytest

from rankine.core.errors import (
    LabelError,
    ParameterError,
    SchemaError,
)
from rankine.metrics import evaluate
from rankine.metrics.gains import _look_up, discounts, docid_key

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("label", [-1.0, 0.5, 32.0, 1100.0, 1e9])
def test_exponential_gain_refuses_labels_outside_its_domain(label):
    with pytest.raises(LabelError, match="linear gain"):
        evaluate("ndcg@10", [0.0, label], [1.0, 2.0])


def test_linear_gain_takes_real_labels_and_refuses_negative_ones():
    assert evaluate("ndcg:gain=linear", [0.5, 1e9], [1.0, 2.0]) == 1.0
    with pytest.raises(LabelError, match=r"row 1 has gain -0\.5, which is negative"):
        evaluate("ndcg:gain=linear", [1.0, -0.5], [1.0, 2.0])
    assert evaluate("pairwise-error", [-0.5, 1.0], [1.0, 2.0]) == 0.0


@pytest.mark.parametrize("label", range(32))
def test_exponential_gains_stay_finite(label):
    assert evaluate("dcg@1", [label, 0], [1.0, 0.0]) == 2.0**label - 1


def test_tables_know_their_labels():
    assert evaluate("dcg@1:gain=0,5,7", [2], [0.0]) == 7.0
    with pytest.raises(LabelError, match=r"0, 1, ..., 2"):
        evaluate("letor3:ndcg@1", [3, 0], [0.0, 1.0])
    assert evaluate("mslr:ndcg@1", [4, 0], [1.0, 0.0]) == 1.0
    for table in ("0,inf", "0,-1", "nan,1"):
        with pytest.raises(ParameterError, match="negative or infinite"):
            evaluate(f"ndcg:gain={table}", [1, 0], [0.0, 1.0])
    out = np.empty(2)
    assert _look_up(np.array([1.0, 0.0]), np.array([5.0, 7.0]), out) == -1
    assert out.tolist() == [7.0, 5.0]


@pytest.mark.parametrize("kind", ["std", "paper", "letor"])
def test_there_is_a_discount_for_every_rank(kind):
    assert [len(discounts(kind, size)) for size in (1, 2, 5)] == [1, 2, 5]


def test_docid_ties_fall_as_in_trec_eval():
    columns = {"docid": ["d1", "d2"]}
    assert evaluate("mrr:ties=docid", [1, 0], [0.0, 0.0], columns=columns) == 0.5
    assert evaluate("mrr:ties=docid", [0, 1], [0.0, 0.0], columns=columns) == 1.0
    with pytest.raises(SchemaError, match="docid"):
        evaluate("mrr:ties=docid", [0, 1], [0.0, 0.0])


class TestColumns:
    def test_cutoff_per_query(self):
        y, s, q = [1, 1, 0, 1, 1, 0], [3, 2, 1, 3, 2, 1], [0, 0, 0, 1, 1, 1]
        shown = {"shown": [1, 1, 1, 2, 2, 2]}
        found = evaluate("recall@shown", y, s, q, per_query=True, columns=shown)
        assert found.tolist() == [0.5, 1.0]

    def test_cutoff_must_exist_be_constant_and_positive(self):
        with pytest.raises(SchemaError, match="lacks"):
            evaluate("recall@shown", [1, 0], [1.0, 2.0])
        with pytest.raises(SchemaError, match="changes within query"):
            evaluate("recall@shown", [1, 0], [1.0, 2.0], columns={"shown": [1, 2]})
        with pytest.raises(SchemaError, match=r"changes within query b\b"):
            depths = {"shown": [1, 1, 2, 3, 1]}
            evaluate("recall@shown", [1, 0, 1, 0, 1], range(5), list("aabbc"), columns=depths)
        with pytest.raises(SchemaError, match="holds 0, which is not a cutoff"):
            evaluate("recall@shown", [1, 1], [1.0, 2.0], ["a", "b"], columns={"shown": [1, 0]})
        for depth in (0, -3, 2.5, 0.5):
            with pytest.raises(SchemaError, match=f"{depth:g}, which is not a cutoff"):
                evaluate("recall@shown", [1, 0], [1.0, 2.0], columns={"shown": [depth, depth]})

    def test_items_not_displayed_keep_their_rank_but_count_for_nothing(self):
        y, s = [1, 1, 0, 1], [4.0, 3.0, 2.0, 1.0]
        marks = {"displayed": [0, 1, 1, 1]}
        assert evaluate("recall@2", y, s, columns=marks) == 0.5
        assert evaluate("mrr", y, s, columns=marks) == 0.5
        # pairs of displayed items only: (2nd, 3rd) right, (4th, 3rd) wrong
        assert evaluate("auc", y, s, columns=marks) == 0.5
        assert evaluate("recall@2:displayed=none", y, s, columns=marks) == pytest.approx(2 / 3)
        assert evaluate("recall@2:displayed=seen", y, s, columns={"seen": [0, 1, 1, 1]}) == 0.5

    def test_given_gains(self):
        columns = {"price": [1.0, 3.0], "gain": [2.0, 0.0]}
        assert evaluate("dcg@1:gain=price", [0, 0], [0.0, 1.0], columns=columns) == 3.0
        assert evaluate("dcg@1:gain=given", [0, 0], [0.0, 1.0], columns=columns) == 0.0
        with pytest.raises(SchemaError, match=r"'price', which the data lacks.*data has: none"):
            evaluate("dcg@1:gain=price", [0, 0], [0.0, 1.0])
        with pytest.raises(SchemaError, match=r"lacks.*data has: a, b"):
            given = {"b": [1, 2], "a": [1, 2]}
            evaluate("dcg@1:gain=price", [0, 0], [0.0, 1.0], columns=given)

    @pytest.mark.parametrize(
        ("column", "match"),
        [
            (None, "lacks"),
            ([1, 0, 1], r"shape \(3,\) for 2 rows"),
            (["x", "y"], "not numeric"),
            ([1.0, np.inf], "holds inf at row 1"),
        ],
    )
    def test_bad_columns_are_refused(self, column, match):
        with pytest.raises(SchemaError, match=match):
            evaluate("recall@2:displayed=seen", [1, 0], [0.0, 1.0], columns={"seen": column})


def test_document_ids_are_compared_as_text_in_descending_order():
    key = docid_key({"docid": np.array([10, 9, 2, 9])}, 4)
    assert np.argsort(key, kind="stable").tolist() == [1, 3, 2, 0]
    assert key[1] == key[3]
