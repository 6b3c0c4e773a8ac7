"""One way to score a dataset and evaluate, whatever says the scores."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from rankine.core.errors import ParameterError
from rankine.core.specs import ListRange
from rankine.data import Dataset
from rankine.metrics import evaluate, evaluate_on
from rankine.model import LinearModel
from rankine.transforms.scaling import scale_lists


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
