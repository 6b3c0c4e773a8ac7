"""Gains, discounts, relevance and columns that metrics read."""

import numpy as np
import pytest

from error_checks import raises_at
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
    with pytest.raises(LabelError) as caught:
        evaluate("ndcg@10", [0.0, label], [1.0, 2.0])
    assert caught.value.row == 1
    assert "linear gain" in caught.value.fix


def test_linear_gain_takes_real_labels_and_refuses_negative_ones():
    assert evaluate("ndcg:gain=linear", [0.5, 1e9], [1.0, 2.0]) == 1.0
    with pytest.raises(LabelError) as caught:
        evaluate("ndcg:gain=linear", [1.0, -0.5], [1.0, 2.0])
    assert caught.value.row == 1
    assert evaluate("pairwise-error", [-0.5, 1.0], [1.0, 2.0]) == 0.0


@pytest.mark.parametrize("label", range(32))
def test_exponential_gains_stay_finite(label):
    assert evaluate("dcg@1", [label, 0], [1.0, 0.0]) == 2.0**label - 1


def test_tables_know_their_labels():
    assert evaluate("dcg@1:gain=0,5,7", [2], [0.0]) == 7.0
    with pytest.raises(LabelError) as caught:
        evaluate("letor3:ndcg@1", [3, 0], [0.0, 1.0])
    assert caught.value.row == 0
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
    with pytest.raises(SchemaError) as caught:
        evaluate("mrr:ties=docid", [0, 1], [0.0, 0.0])
    assert caught.value.column == "docid"


class TestColumns:
    def test_cutoff_per_query(self):
        y, s, q = [1, 1, 0, 1, 1, 0], [3, 2, 1, 3, 2, 1], [0, 0, 0, 1, 1, 1]
        shown = {"shown": [1, 1, 1, 2, 2, 2]}
        found = evaluate("recall@shown", y, s, q, per_query=True, columns=shown)
        assert found.tolist() == [0.5, 1.0]

    def test_cutoff_must_exist_be_constant_and_positive(self):
        for columns in ({}, {"shown": [1, 2]}, *({"shown": [k, k]} for k in (0, -3, 2.5, 0.5))):
            with pytest.raises(SchemaError) as caught:
                evaluate("recall@shown", [1, 0], [1.0, 2.0], columns=columns)
            assert caught.value.column == "shown"
        with raises_at(SchemaError, column="shown") as caught:
            depths = {"shown": [1, 1, 2, 3, 1]}
            evaluate("recall@shown", [1, 0, 1, 0, 1], range(5), list("aabbc"), columns=depths)
        assert caught.value.column == "shown"
        with pytest.raises(SchemaError) as caught:
            evaluate("recall@shown", [1, 1], [1.0, 2.0], ["a", "b"], columns={"shown": [1, 0]})
        assert caught.value.column == "shown"

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
        for given, names in (({}, "none"), ({"b": [1, 2], "a": [1, 2]}, "a, b")):
            with pytest.raises(SchemaError) as caught:
                evaluate("dcg@1:gain=price", [0, 0], [0.0, 1.0], columns=given)
            assert caught.value.column == "price"
            assert caught.value.fix.endswith(f"the data has: {names}")

    @pytest.mark.parametrize(
        ("values", "row"),
        [(None, None), ([1, 0, 1], None), (["x", "y"], None), ([1.0, np.inf], 1)],
    )
    def test_bad_columns_are_refused(self, values, row):
        with pytest.raises(SchemaError) as caught:
            evaluate("recall@2:displayed=seen", [1, 0], [0.0, 1.0], columns={"seen": values})
        assert (caught.value.column, caught.value.row) == ("seen", row)


def test_document_ids_are_compared_as_text_in_descending_order():
    key = docid_key({"docid": np.array([10, 9, 2, 9])}, 4)
    assert np.argsort(key, kind="stable").tolist() == [1, 3, 2, 0]
    assert key[1] == key[3]
