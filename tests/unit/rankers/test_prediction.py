"""Prediction and scores: query ids, lists, weights for evaluation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

from rankine import LeastSquaresRanker, RankSVM
from rankine.core.errors import (
    ParameterError,
    SchemaError,
)
from rankine.data import Dataset
from rankine.metrics import evaluate

SIZES = [3, 5, 4, 6]


QID = np.repeat(["a", "b", "c", "d"], SIZES)


def lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(QID), 3))
    return X, (X[:, 0] + rng.normal(size=len(QID)) > 0).astype(float)


@pytest.fixture
def fitted() -> LeastSquaresRanker:
    return LeastSquaresRanker(scale="query").fit(*lists(), qid=QID)


@pytest.mark.parametrize("act", ["score", "predict"])
def test_a_forgotten_query_id_is_refused(act: str, fitted: LeastSquaresRanker) -> None:
    X, y = lists()
    given = (X, y) if act == "score" else (X,)
    with pytest.raises(SchemaError):
        getattr(fitted, act)(*given)


def test_every_way_to_name_the_lists_gives_the_same(fitted: LeastSquaresRanker) -> None:
    X, y = lists()
    frame = pd.DataFrame(X, columns=["f", "g", "h"]).assign(qid=QID)
    named = LeastSquaresRanker(scale="query").fit(frame, y)
    wanted = fitted.score(X, y, qid=QID)
    assert fitted.score(X, y, group=SIZES) == wanted
    assert fitted.score(Dataset.from_arrays(X, y, QID)) == wanted
    assert named.score(frame, y) == wanted
    scores = fitted.predict(X, QID)
    np.testing.assert_array_equal(fitted.predict(X, group=SIZES), scores)
    np.testing.assert_array_equal(named.predict(frame), scores)
    by_id, by_group = fitted.rank(X, QID), fitted.rank(X, group=SIZES)
    for one, other in zip(by_id.values(), by_group.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(SchemaError):
        fitted.score(X, y, qid=QID, group=SIZES)
    with pytest.raises(ParameterError, match="already holds"):
        fitted.score(Dataset.from_arrays(X, y, QID), qid=QID)


def test_one_list_needs_no_id() -> None:
    X, y = lists()
    ranker = LeastSquaresRanker(scale="query").fit(X, y)
    assert ranker.score(X, y) == ranker.score(X, y, group=[len(y)])


def test_scikit_learn_helpers_without_metadata_routing_fail() -> None:
    X, y = lists()
    search = GridSearchCV(
        LeastSquaresRanker(), {"l2": [1.0]}, cv=GroupKFold(2), error_score="raise"
    )
    with pytest.raises(SchemaError):
        search.fit(X, y, groups=QID, qid=QID)
    frame = pd.DataFrame(X, columns=["f", "g", "h"]).assign(qid=QID)
    found = cross_validate(
        LeastSquaresRanker(), frame, y, groups=QID, cv=GroupKFold(2), error_score="raise"
    )
    assert np.isfinite(found["test_score"]).all()


def test_score_uses_weights_only_if_they_are_passed() -> None:
    X, y = lists()
    weight = {"a": 3.0, "b": 0.0, "c": 1.0, "d": 0.5}
    ranker = LeastSquaresRanker().fit(X, y, qid=QID, query_weight=weight, sample_weight=1 + y)
    scores = ranker.predict(X)
    data = Dataset.from_arrays(X, y, QID, weight=1 + y)
    assert ranker.score(X, y, QID) == evaluate(ranker.metric, y, scores, QID)
    assert ranker.score(data) == evaluate(ranker.metric, y, scores, QID)
    wanted = evaluate(ranker.metric, y, scores, QID, query_weight=weight)
    assert ranker.score(X, y, QID, query_weight=weight) == wanted
    assert ranker.score(data, query_weight=list(weight.values())) == wanted


def test_one_row_or_one_list_needs_no_query_id(fitted: LeastSquaresRanker) -> None:
    X, y = lists()
    assert fitted.predict(X[:1]).shape == (1,)
    one = RankSVM().fit(X, y, eval_set=(X, y))
    assert len(one.evals_) > 0
    frame = pd.DataFrame(X, columns=["f", "g", "h"])
    RankSVM().fit(frame, y, qid=QID, eval_set=(frame.assign(qid=QID), y))
    assert fitted.predict(X, QID).shape == y.shape
    with pytest.raises(SchemaError, match="scale='query'"):
        fitted.predict(X)
    by_list = LeastSquaresRanker(missing="query_min").fit(X, y, qid=QID)
    with pytest.raises(SchemaError, match="missing='query_min'"):
        by_list.predict(X)
    zero = LeastSquaresRanker(missing="zero").fit(X, y, qid=QID)
    np.testing.assert_array_equal(zero.predict(X), zero.predict(X, QID))


@pytest.mark.parametrize("n_lists", [1, 2])
def test_two_lists_need_ids_and_one_does_not(n_lists: int) -> None:
    X, y = np.array([[1.0], [2.0], [3.0], [5.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    ids = np.arange(4) * n_lists // 4
    ranker = LeastSquaresRanker(scale="query").fit(X, y, qid=ids)
    if n_lists == 1:
        assert ranker.predict(X[:2]).shape == (2,)
        ranker.fit(X, y, qid=ids, eval_set=(X, y))
        return
    with pytest.raises(SchemaError, match="the 2 rows to predict"):
        ranker.predict(X[:2])
    with pytest.raises(SchemaError, match="the 2 rows to score"):
        LeastSquaresRanker().fit(X, y, qid=ids).score(X[:2], y[:2])
    with pytest.raises(SchemaError) as caught:
        ranker.fit(X, y, qid=ids, eval_set=(X, y))
    assert caught.value.parameter == "eval_set"
