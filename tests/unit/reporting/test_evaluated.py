"""A model is evaluated against the opponents that a reader would name."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import rankine
from rankine import Dataset, LinearModel
from rankine.core.specs import ListRange, MissingValues, RunScores
from rankine.metrics import evaluate, parse_metric
from rankine.reporting.evaluated import _candidates, _measurable, evaluate_model
from rankine.reporting.run import evaluate_subject
from rankine.reporting.weights import (
    weights,
)
from rankine.transforms.apply import score_dataset
from unit.reporting.report_cases import fitted, random_data, shop

NDCG = parse_metric("ndcg@10")


def test_the_best_single_feature_is_the_best(evaluated):
    test = shop()[1]
    values = {
        (j, sign): evaluate("ndcg@10", test.y, sign * test.X[:, j], test.qid)
        for j in range(test.n_features)
        for sign in (1, -1)
    }
    found = evaluated.opponent("feature")
    (j, _), best = max(values.items(), key=lambda item: item[1])
    assert found.name == f"best single feature: {test.feature_names[j]}"
    assert evaluate("ndcg@10", test.y, found.scores, test.qid) == best


def test_of_many_features_the_most_correlated_are_tried():
    data = random_data(20, 10, 300, make_sparse=True)
    X = data.X.tolil()
    X[:, [271]] = -data.y[:, None]
    data = Dataset.from_arrays(X.tocsr(), data.y, data.qid)
    found = evaluate_subject(LinearModel.from_weights(np.ones(300)), data).opponent("feature")
    assert found.name == "best single feature: feature 272"
    assert "less is better" in found.note


def test_effects_are_weight_times_spread_within_query_groups():
    test = shop()[1]
    evaluated = evaluate_subject(fitted(), test)  # whose effects nobody has asked for
    model = evaluated.model
    centred = test.X.copy()
    for q in range(test.n_queries):
        rows = test.queries.rows_of(q)
        centred[rows] -= test.X[rows].mean(axis=0)
    expected = model.to_dense() * np.sqrt((centred**2).mean(axis=0))
    np.testing.assert_allclose(evaluated.effect, expected[model.indices], rtol=1e-9)
    found = weights(model, evaluated.effect, top=4)
    strongest = max(zip(model.weight_names, expected, strict=True), key=lambda item: item[1])
    assert found.positive[0].name == strongest[0]
    assert found.positive[0].effect == pytest.approx(strongest[1])
    assert [w.effect for w in found.positive] == sorted(w.effect for w in found.positive)[::-1]
    assert all(w.weight < 0 for w in found.negative)
    sizes = sorted(np.abs(expected), reverse=True)
    shares = np.cumsum(sizes) / sum(sizes)
    assert found.concentration[-1] == (14, pytest.approx(1.0))
    assert found.for_half == int((shares < 0.5).sum()) + 1
    assert found.groups == []


def test_aliases_of_a_metric_are_shown_once(scores):
    wanted = ["ndcg@10", "ndcg@10:gain=exp", "map"]
    found, refused = _measurable(wanted, shop()[1], scores)
    assert [str(metric) for metric in found] == ["ndcg@10", "map"]
    assert refused == {}


def test_opponents_of_a_model(monkeypatch):
    test = shop()[1]
    evaluated = evaluate_subject(fitted(), test)
    assert evaluated.rival.kind == "shown"
    other = evaluate_subject(fitted(), test, against=fitted().to_model())
    assert [one.kind for one in other.opponents][:2] == ["model", "against"]
    assert other.opponents[1].name == "model"
    assert other.rival.kind == "against"
    same = evaluate_subject(fitted(), test, against=fitted())
    assert same.opponents[1].name == "LeastSquaresRanker (other)"
    bare = Dataset.from_arrays(test.X, test.y, test.qid)
    assert evaluate_subject(fitted(), bare).rival.kind == "feature"
    assert (
        evaluate_subject(LinearModel.from_weights([1.0]), random_data(3, 4, 1)).rival.kind
        == "feature"
    )
    flat = Dataset.from_arrays(np.ones((6, 1)), [0, 1, 0, 1, 0, 1], [0, 0, 0, 1, 1, 1])
    alone = evaluate_subject(LinearModel.from_weights([1.0]), flat)
    assert [one.kind for one in alone.opponents] == ["model", "random"]
    assert alone.rival.kind == "random"
    places = np.array([1.0, np.nan, 2.0, 1.0, 2.0, 3.0])
    odd = Dataset.from_arrays(flat.X, flat.y, flat.qid, position=places)
    assert evaluate_subject(LinearModel.from_weights([1.0]), odd).opponent("shown") is None
    assert other.opponent("nothing") is None


def test_values_are_measured_once(evaluated, monkeypatch):
    values = [evaluated.values(one, NDCG) for one in evaluated.opponents]
    monkeypatch.setattr("rankine.reporting.evaluated.evaluate_on", None)
    monkeypatch.setattr("rankine.reporting.evaluated.random_expectation", None)
    again = [evaluated.values(one, NDCG) for one in evaluated.opponents]
    assert all(a is b for a, b in zip(values, again, strict=True))


@pytest.mark.parametrize("direction", [1.0, -1.0])
@pytest.mark.parametrize("metric", ["ndcg@10", "pairwise_error"])
@pytest.mark.parametrize("some", [None, 3])
def test_the_best_feature_is_found_beside_constant_ones(direction, metric, some, monkeypatch):
    data = random_data(7, 6, 4, labels=2)
    X = data.X.copy()
    X[:, 0] = 1.0
    X[:, 2] = X[:, 3] = direction * data.y
    if some is not None:
        monkeypatch.setattr("rankine.reporting.evaluated.MAX_QUERIES", some)
    data = Dataset.from_arrays(X, data.y, data.qid)
    model = LinearModel.from_weights(np.ones(4), base=0, metric=metric)
    found = evaluate_subject(model, data).opponent("feature")
    assert found.name == "best single feature: feature 2"
    np.testing.assert_array_equal(found.scores, direction * X[:, 2])
    assert found.note.startswith("more" if direction > 0 else "less")


@pytest.mark.parametrize("make_sparse", [True, False])
def test_candidates_are_ordered_by_correlation_with_the_labels(make_sparse, monkeypatch):
    data = random_data(9, 6, 20, make_sparse=True, seed=2)
    X = data.X.toarray()
    X[:, 3] = 5.0
    X[:, 7] = 1000.0 * X[:, 7]
    matrix = sparse.csr_array(X) if make_sparse else X
    evaluated = evaluate_subject(
        LinearModel.from_weights(np.ones(20)), Dataset.from_arrays(matrix, data.y, data.qid)
    )
    strength = np.zeros(20)
    for j in range(20):
        rows = [data.queries.rows_of(q) for q in range(9)]
        inner = [(X[r, j] - X[r, j].mean(), data.y[r] - data.y[r].mean()) for r in rows]
        spread_of = math.sqrt(sum((x**2).sum() for x, _ in inner))
        strength[j] = abs(sum((x * y).sum() for x, y in inner)) / spread_of if spread_of else 0.0
    monkeypatch.setattr("rankine.reporting.evaluated.MAX_TRIED", 6)
    assert _candidates(evaluated).tolist() == np.argsort(-strength, kind="stable")[:6].tolist()
    monkeypatch.setattr("rankine.reporting.evaluated.MAX_TRIED", 20)
    assert _candidates(evaluated).tolist() == list(range(20))


def test_the_best_feature_is_found_where_lists_are_mixed():
    data = random_data(6, 5, 3)
    mixed = Dataset.from_arrays(data.X, data.y, np.tile(np.arange(6), 5))
    X = mixed.X.copy()
    X[:, 1] = mixed.y
    mixed = Dataset.from_arrays(X, mixed.y, mixed.qid)
    found = evaluate_subject(LinearModel.from_weights(np.ones(3)), mixed).opponent("feature")
    assert found.name == "best single feature: feature 2"
    np.testing.assert_array_equal(found.scores, mixed.y)


def test_features_are_named_by_the_model_then_by_the_data_then_by_number():
    data = random_data(4, 5, 3)
    named = Dataset.from_arrays(data.X, data.y, data.qid, feature_names=list("xyz"))
    model = LinearModel.from_weights([0.0, 1.0, 0.0])
    assert evaluate_model(model, data).feature_name(2) == "feature 3"
    assert evaluate_model(model, named).feature_name(2) == "z"
    assert (
        evaluate_model(LinearModel.from_weights([0, 1.0, 0], list("abc")), data).feature_name(0)
        == "a"
    )
    some = LinearModel.from_weights([0.0, 1.0, 0.0], weight_names=["b"])
    assert [evaluate_model(some, data).feature_name(j) for j in range(3)] == [
        "feature 1",
        "b",
        "feature 3",
    ]


def test_metrics_are_the_models_own_then_the_usual_ones():
    data = random_data(4, 5, 3)
    names = [
        str(m)
        for m in evaluate_model(LinearModel.from_weights(np.ones(3), metric="err"), data).metrics
    ]
    assert names == ["err", "ndcg@10", "map", "mrr"]
    assert str(evaluate_model(LinearModel.from_weights(np.ones(3)), data).metric) == "ndcg@10"
    asked = evaluate_model(LinearModel.from_weights(np.ones(3)), data, metrics=["p@3", "map"])
    assert [str(m) for m in asked.metrics] == ["p@3", "map", "ndcg@10", "mrr"]
    odd = Dataset.from_arrays(data.X, data.y - 0.5, data.qid)
    found = evaluate_model(LinearModel.from_weights(np.ones(3), metric="map"), odd)
    assert [str(m) for m in found.metrics] == ["map", "mrr"]
    assert list(found.refused) == ["ndcg@10"]
    assert str(evaluate_model(LinearModel.from_weights(np.ones(3)), odd).metric) == "pairwise-error"


@pytest.mark.parametrize("rule", ["zero", "mean", "query_min", "indicator"])
@pytest.mark.parametrize("scaled", [True, False])
def test_features_times_weights_are_the_scores(rule, scaled):
    data = random_data(5, 6, 3)
    X = data.X.copy()
    X[::4, 1] = np.nan
    numbers = {"mean": ((1,), (0.25,)), "indicator": ((1,), (0.75,))}.get(rule, ((), ()))
    transforms = [MissingValues(rule, *numbers), *([ListRange()] if scaled else [])]
    model = LinearModel.from_weights([1.0, -2.0, 0.5], list("abc"), transforms=transforms)
    full = Dataset.from_arrays(X, data.y, data.qid, feature_names=list("abc"))
    evaluated = evaluate_model(model, full)
    np.testing.assert_allclose(evaluated.scores, score_dataset(model, full), atol=1e-12)
    np.testing.assert_allclose(
        evaluated.features @ evaluated.view.to_dense(), evaluated.scores, atol=1e-12
    )
    if rule == "indicator":
        assert evaluated.view.feature_names == ("a", "b", "c", "b missing")
    unnamed = LinearModel.from_weights([1.0, -2.0, 0.5], transforms=transforms)
    names = evaluate_model(unnamed, Dataset.from_arrays(X, data.y, data.qid)).view.feature_names
    assert (names is not None and names[-1] == "feature 2 missing") == (rule == "indicator")


def test_features_of_a_log_have_names_with_and_without_a_weight():
    rng = np.random.default_rng(0)
    log = pa.table(
        {
            "session": np.repeat(np.arange(30), 5),
            "clicked": rng.integers(0, 2, 150),
            "rating": pa.array(np.where(rng.random(150) < 0.2, np.nan, rng.random(150))),
            "brand": rng.choice(["acme", "bolt"], 150),
            "product": [f"p{k % 40}" for k in range(150)],
        }
    )
    columns = {"numeric": ["rating"], "one_hot": ["brand"], "categorical": ["product"]}
    data = rankine.logs.scan(log, query="session", label="clicked", **columns, hash_bits=8).load()
    model = rankine.ElasticRanker(random_state=0, max_nonzero=5).fit(data).to_model()
    evaluated = evaluate_model(model, data)
    names = [evaluated.feature_name(j) for j in range(3)]
    assert names == ["rating", "brand=acme", "brand=bolt"]
    weighted = {evaluated.feature_name(j) for j in evaluated.view.indices.tolist()}
    assert weighted <= {*names, "rating missing", *(f"product=p{k}" for k in range(40))}
    single = evaluated.opponent("feature")
    assert single is not None
    assert single.name.startswith("best single feature: ")


def test_retrievers_are_evaluated_on_normalised_scores():
    data = random_data(5, 6, 2)
    model = LinearModel.from_weights([1.0, 0.5], ["a", "b"], transforms=(RunScores("min_max"),))
    evaluated = evaluate_model(model, data)
    np.testing.assert_allclose(evaluated.scores, score_dataset(model, data), atol=1e-12)
    assert evaluated.features.max() <= 1.0
