"""Evaluation of scores and data sets: queries, weights, means and threads."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from error_checks import raises_at, raises_for
from rankine.core.errors import (
    EmptyDataError,
    NoPairsError,
    ParameterError,
    SchemaError,
)
from rankine.core.specs import ListRange
from rankine.data import Dataset
from rankine.data.query_index import QueryIndex
from rankine.metrics import (
    evaluate,
    evaluate_on,
    random_expectation,
)
from rankine.model import LinearModel
from rankine.transforms.scaling import scale_lists

pytestmark = pytest.mark.kernels

Y = [1, 0, 0, 0, 2, 0]


S = [1.0, 2.0, 1.0, 2.0, 3.0, 1.0]


Q = ["a", "a", "b", "b", "c", "c"]


@pytest.mark.parametrize(("option", "mean"), [("0", 1.5 / 3), ("1", 2.5 / 3), ("skip", 0.75)])
def test_value_of_a_query_without_relevant_documents(option, mean):
    assert evaluate(f"map:no_relevant={option}", Y, S, Q) == pytest.approx(mean)


def test_skipped_queries_hold_nan_and_all_skipped_is_an_error():
    values = evaluate("map:no_relevant=skip", Y, S, Q, per_query=True)
    assert np.isnan(values).tolist() == [False, True, False]
    with pytest.raises(NoPairsError):
        evaluate("auc", [0, 0], [1.0, 2.0])


def test_interleaved_queries_give_the_same_values_in_order_of_appearance():
    order = [4, 0, 2, 5, 1, 3]
    y, s, q = (np.asarray(v)[order] for v in (Y, S, Q))
    expected = evaluate("map", Y, S, Q, per_query=True)[[2, 0, 1]]
    assert evaluate("map", y, s, q, per_query=True).tolist() == expected.tolist()


class TestWeights:
    def test_a_query_weighs_the_mean_of_its_rows(self):
        values = evaluate("map", Y, S, Q, per_query=True)
        found = evaluate("map", Y, S, Q, sample_weight=[1, 3, 1, 1, 0, 8])
        assert found == pytest.approx(np.average(values, weights=[2, 1, 4]))
        weight, lists = [1.0, 3.0, 2.0], ["a", "a", "b"]  # however many there are
        assert evaluate("mrr", [0, 1, 1], [2.0, 1.0, 0.0], lists, sample_weight=weight) == 0.75

    def test_query_weights_by_id_or_by_order(self):
        values = evaluate("map", Y, S, Q, per_query=True)
        expected = np.average(values, weights=[1, 2, 3])
        assert evaluate("map", Y, S, Q, query_weight=[1, 2, 3]) == pytest.approx(expected)
        by_id = {"a": 1, "b": 2, "c": 3}
        assert evaluate("map", Y, S, Q, query_weight=by_id) == pytest.approx(expected)
        with raises_for("query_weight", SchemaError):
            evaluate("map", Y, S, Q, query_weight={"a": 1})
        with pytest.raises(SchemaError, match="weight 0"):
            evaluate("map:no_relevant=skip", Y, S, Q, query_weight=[0, 1, 0])

    def test_weights_of_rows_and_of_queries_are_multiplied(self):
        values = evaluate("map", Y, S, Q, per_query=True)
        rows, queries = [1, 3, 1, 1, 0, 8], [3, 2, 1]
        found = evaluate("map", Y, S, Q, sample_weight=rows, query_weight=queries)
        assert found == pytest.approx(np.average(values, weights=[6, 2, 4]))

    def test_pooled_pairs(self):
        y, s, q = [1, 0, 1, 0, 0], [1.0, 2.0, 3.0, 1.0, 2.0], [0, 0, 1, 1, 1]
        assert evaluate("pairwise-error", y, s, q) == 0.5
        assert evaluate("pairwise-error:mean=pairs", y, s, q) == pytest.approx(1 / 3)
        found = evaluate("pairwise-error:mean=pairs", y, s, q, query_weight=[2.0, 3.0])
        assert found == pytest.approx(2 / (2 * 1 + 3 * 2))


def test_bad_arrays_are_refused():
    for scores, match in (
        ([1.0], r"shape \(1,\)"),
        ([[1.0, 2.0], [3.0, 4.0]], "shape"),
        ([np.nan, 1.0], "score"),
        (["x", "y"], "not numeric"),
    ):
        with pytest.raises(SchemaError, match=match):
            evaluate("map", [1, 0], scores)
    with pytest.raises(SchemaError, match="covers 3 rows, not 2"):
        evaluate("map", [1, 0], [1.0, 2.0], QueryIndex.from_group([3], 3))
    with pytest.raises(EmptyDataError):
        evaluate("map", [], [])


def test_same_bits_for_any_number_of_threads(monkeypatch):
    rng = np.random.default_rng(2)
    y, s = rng.integers(0, 4, 40_000), rng.normal(size=40_000)
    qid = np.repeat(np.arange(1000), 40)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("RANKINE_NUM_THREADS", threads)
        found.append(evaluate("ndcg@10", y, s, qid).hex())
    assert len(set(found)) == 1


@pytest.fixture
def data() -> Dataset:
    rng = np.random.default_rng(3)
    qid = rng.integers(0, 6, 60)
    return Dataset.from_arrays(
        rng.normal(size=(60, 3)),
        rng.integers(0, 3, 60),
        qid,
        docid=[f"d{k}" for k in rng.permutation(60)],
        columns={"depth": 2 + qid % 3},
    )


def test_coef_scores_and_model_agree(data: Dataset) -> None:
    w = np.array([1.0, -0.5, 0.25])
    truth = evaluate("ndcg@5", data.y, data.X @ w, data.qid)
    for said in ({"coef": w}, {"scores": data.X @ w}, {"model": LinearModel.from_weights(w)}):
        assert evaluate_on(data, metric="ndcg@5", **said) == pytest.approx(truth, abs=1e-15)


def test_a_model_scores_with_its_own_scaling(data: Dataset) -> None:
    w = np.array([1.0, -0.5, 0.25])
    model = LinearModel.from_weights(w, transforms=(ListRange(),))
    truth = evaluate("map", data.y, scale_lists(data) @ w, data.qid)
    assert evaluate_on(data, metric="map", model=model) == pytest.approx(truth, abs=1e-15)


def test_metrics_find_the_columns_and_document_ids_of_the_data(data: Dataset) -> None:
    scores = np.round(data.X[:, 0])
    for metric in ("ndcg@depth", "map:ties=docid"):
        columns = {**data.columns, "docid": data.docid}
        truth = evaluate(metric, data.y, scores, data.qid, columns=columns, per_query=True)
        found = evaluate_on(data, metric=metric, scores=scores, per_query=True)
        np.testing.assert_array_equal(found, truth)


def test_columns_are_read_in_the_order_of_their_rows(data: Dataset) -> None:
    """Also those that are kept by name and belong to queries in any order."""
    marked = data.y + np.arange(60) % 2
    bare = Dataset.from_arrays(data.X, data.y, data.qid, columns={"displayed": marked})
    for metric in ("map", "auc"):
        found = evaluate_on(bare, metric=metric, scores=data.X[:, 0], per_query=True)
        for k, value in enumerate(found):
            rows = data.queries.rows_of(k)
            marks = {"displayed": marked[rows]}
            (alone,) = evaluate(
                metric, data.y[rows], data.X[rows, 0], per_query=True, columns=marks
            )
            np.testing.assert_array_equal(value, alone)


def test_labels_and_gains_from_formulas(data: Dataset) -> None:
    rng = np.random.default_rng(5)
    scores, bought, margin = rng.normal(size=60), rng.integers(0, 2, 60), rng.random(60)
    columns = {"bought": bought, "margin": margin, "kind": np.where(bought, "x", "y")}
    for text, labels, plain in (
        ("map:label=bought", bought, "map"),
        ("p@3:label=kind=='x'", bought, "p@3"),
        ("dcg@4:gain=linear:label=bought*margin", bought * margin, "dcg@4:gain=linear"),
        ("dcg@4:gain=bought*margin", bought * margin, "dcg@4:gain=linear"),
    ):
        value = evaluate(text, data.y, scores, data.queries, columns=columns, per_query=True)
        expected = evaluate(plain, labels, scores, data.qid, per_query=True)
        np.testing.assert_array_equal(value, expected)
    with raises_at(SchemaError, column="sold") as caught:
        evaluate("map:label=sold*bought", data.y, scores, data.queries, columns=columns)
    assert caught.value.column == "sold"


def test_query_weights_reach_the_mean(data: Dataset) -> None:
    values = evaluate_on(data, metric="p@2", scores=data.y, per_query=True)
    weight = np.arange(1.0, data.n_queries + 1)
    mean = evaluate_on(data, metric="p@2", scores=data.y, query_weight=weight)
    assert mean == pytest.approx(np.average(values, weights=weight))


@pytest.mark.parametrize("said", [{}, {"coef": np.ones(3), "scores": np.ones(60)}])
def test_exactly_one_says_what_is_evaluated(data: Dataset, said: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="exactly one of"):
        evaluate_on(data, metric="map", **said)  # type: ignore[call-overload]


@pytest.mark.parametrize("metric", ["ndcg@10", "ndcg@10:ties=worst", "auc"])
def test_rows_are_let_go_at_once(metric):
    evaluate(metric, [1, 0, 1], [0.3, 0.2, 0.1])
    gc.collect()
    gc.disable()
    try:
        evaluate(metric, [1, 0, 1], [0.3, 0.2, 0.1])
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_random_order_of_one_relevant_among_four():
    y = [1, 0, 0, 0]
    assert random_expectation("p@1", y) == pytest.approx(1 / 4)
    assert random_expectation("recall@3", y) == pytest.approx(3 / 4)
    assert random_expectation("mrr", y) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert random_expectation("domination-error", y) == pytest.approx(3 / 4)
    assert random_expectation("pairwise-error", y) == 0.5
