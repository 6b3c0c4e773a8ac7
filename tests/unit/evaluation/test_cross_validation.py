import time

import numpy as np
import pytest

import rankine
from rankine.core.errors import ParameterError, SchemaError
from rankine.metrics import evaluate


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(240, 3))
    y = (X[:, 0] + rng.normal(0, 0.5, 240) > 0).astype(int)
    qid = np.repeat(np.arange(24), 10)[rng.permutation(240)]
    return rankine.Dataset.from_arrays(X, y, qid)


@pytest.fixture
def result(data):
    ranker = rankine.SPDRanker(n_steps=2000, random_state=0, metric="map")
    return rankine.cross_validate(ranker, data, cv=4, random_state=7)


def test_every_query_is_held_out_once_and_its_value_kept(data, result):
    assert np.bincount(result.fold).tolist() == [6, 6, 6, 6]
    assert np.isfinite(result.scores).all()
    expected = evaluate("map", data.y, result.scores, data.queries, per_query=True)
    np.testing.assert_array_equal(result.values, expected)
    for k in range(4):
        assert result.fold_means[k] == pytest.approx(result.values[result.fold == k].mean())
    assert result.mean == pytest.approx(result.fold_means.mean())
    assert result.std == pytest.approx(np.std(result.fold_means, ddof=1))


def test_query_weights_apply_to_the_means_of_folds(data, result):
    weight = {q: 1.0 + q for q in range(24)}
    ranker = rankine.SPDRanker(n_steps=2000, random_state=0, metric="map")
    found = rankine.cross_validate(ranker, data, cv=4, random_state=7, query_weight=weight)
    np.testing.assert_array_equal(found.scores, result.scores)  # training does not see it
    np.testing.assert_array_equal(found.values, result.values)
    given = np.array([weight[q] for q in data.queries.ids.tolist()])
    for k in range(4):
        held = found.fold == k
        expected = np.average(found.values[held], weights=given[held])
        assert found.fold_means[k] == pytest.approx(expected)


def test_scores_come_from_rankers_that_never_saw_the_query(data, result):
    held = result.fold[data.queries.codes] == 2
    seen = data.take(np.flatnonzero(~held))
    ranker = rankine.SPDRanker(n_steps=2000, random_state=0, metric="map").fit(seen)
    np.testing.assert_allclose(result.scores[held], ranker.predict(data.X[held]))


def test_results_can_be_compared(data, result):
    found = rankine.compare(
        {"spd": result.scores, "noise": data.X[:, 2]}, data, "map", n_resamples=500
    )
    assert found.pairs[0].verdict == "worse"


def test_scikit_learn_splitters_and_row_lists_are_accepted(data):
    from sklearn.model_selection import GroupKFold

    ranker = rankine.SPDRanker(n_steps=500, random_state=0)
    calls = []
    found = rankine.cross_validate(
        ranker, data, GroupKFold(3), metric="auc", progress=lambda *done: calls.append(done)
    )
    assert sorted(set(found.fold.tolist())) == [0, 1, 2]
    assert str(found.metric) == "auc"
    assert calls == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_queries_that_no_fold_holds_out_are_nan(data):
    held, rest = (np.flatnonzero(mine) for mine in (data.queries.codes < 4, data.queries.codes > 7))
    ranker = rankine.SPDRanker(n_steps=500, random_state=0, metric="map")
    started = time.perf_counter()
    found = rankine.cross_validate(ranker, data, [(rest, held)])
    assert 0 < found.fit_seconds[0] < time.perf_counter() - started
    assert found.fold.tolist() == [0] * 4 + [-1] * 20
    assert np.isnan(found.values).tolist() == [False] * 4 + [True] * 20
    assert np.isnan(found.scores).tolist() == (data.queries.codes >= 4).tolist()
    assert found.std == 0.0
    assert found.mean == found.fold_means[0] == pytest.approx(found.values[:4].mean())


def test_invalid_input_is_refused(data):
    ranker = rankine.SPDRanker(n_steps=100, random_state=0)
    rows = np.arange(240)
    with pytest.raises(SchemaError, match="fold 1 has documents of one query"):
        rankine.cross_validate(ranker, data, [(rows[:200], rows[100:])])
    held = np.flatnonzero(data.queries.codes == 0)
    rest = np.flatnonzero(data.queries.codes != 0)
    with pytest.raises(SchemaError, match="fold 2 holds out a query that another fold"):
        rankine.cross_validate(ranker, data, [(rest, held), (rest, held)])
    with pytest.raises(SchemaError):
        rankine.cross_validate(ranker, data.X, data.y)
    with pytest.raises(ParameterError) as caught:
        rankine.cross_validate(ranker, data, [])
    assert caught.value.parameter == "cv"
    with pytest.raises(ParameterError):
        rankine.cross_validate(ranker, data, 1000)
