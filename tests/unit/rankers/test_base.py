"""What all rankers do with query ids, bad values and weights for judging."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

from rankine import AdditiveRanker, DominationRanker, LeastSquaresRanker, RankSVM, SPDRanker
from rankine.core.errors import (
    EmptyDataError,
    FeatureMismatchError,
    NoPairsError,
    ParameterError,
    SchemaError,
)
from rankine.data import Dataset
from rankine.metrics import evaluate, scorer

SIZES = [3, 5, 4, 6]
QID = np.repeat(["a", "b", "c", "d"], SIZES)


def _ranker(kind: Any, l2: float, **options: Any) -> Any:
    return kind(l2=l2, **options)


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
    with pytest.raises(SchemaError, match=r"qid=.*group=.*metadata routing"):
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
    with pytest.raises(SchemaError, match="both"):
        fitted.score(X, y, qid=QID, group=SIZES)
    with pytest.raises(ParameterError, match="already holds"):
        fitted.score(Dataset.from_arrays(X, y, QID), qid=QID)


def test_one_list_needs_no_id() -> None:
    X, y = lists()
    ranker = LeastSquaresRanker(scale="query").fit(X, y)
    assert ranker.score(X, y) == ranker.score(X, y, group=[len(y)])


def test_helpers_of_scikit_learn_that_hand_no_ids_on_fail() -> None:
    X, y = lists()
    search = GridSearchCV(
        LeastSquaresRanker(), {"l2": [1.0]}, cv=GroupKFold(2), error_score="raise"
    )
    with pytest.raises(SchemaError, match="set_score_request"):
        search.fit(X, y, groups=QID, qid=QID)
    frame = pd.DataFrame(X, columns=["f", "g", "h"]).assign(qid=QID)
    found = cross_validate(
        LeastSquaresRanker(), frame, y, groups=QID, cv=GroupKFold(2), error_score="raise"
    )
    assert np.isfinite(found["test_score"]).all()


def test_a_long_list_without_ids_is_warned_about_once() -> None:
    X = np.random.default_rng(0).normal(size=(10_001, 2))
    y = (X[:, 0] > 0).astype(float)
    with pytest.warns(UserWarning, match="one list") as seen:
        LeastSquaresRanker().fit(X, y)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LeastSquaresRanker().fit(X, y, qid=np.zeros(len(y), dtype=int))
        LeastSquaresRanker().fit(X[1:], y[1:])


def _with(value: object) -> pd.DataFrame:
    frame = pd.DataFrame(lists()[0], columns=["f", "g", "h"])
    frame["g"] = frame["g"].astype(object) if isinstance(value, str) else frame["g"]
    frame.loc[4, "g"] = value
    return frame


@pytest.mark.parametrize(
    "frame",
    [
        _with("red"),
        _with(np.nan),
        _with(np.inf),
        _with(0.0).assign(g=pd.Timestamp("2024-01-01")),
        pd.DataFrame({"g": pd.to_datetime(["2024-01-01"] * len(QID))}),
    ],
    ids=["text", "nan", "inf", "date", "dates alone"],
)
def test_fit_names_the_column_of_a_bad_value(frame: pd.DataFrame) -> None:
    _, y = lists()
    with pytest.raises(SchemaError) as caught:
        LeastSquaresRanker().fit(frame, y, qid=QID)
    assert caught.value.column == "g"


@pytest.mark.parametrize(
    "value",
    [np.nan, "red", np.datetime64("2024-01-01"), 1j, np.complex64(1j), 10**400, [1.0], {}],
    ids=["nan", "text", "date", "complex", "of numpy", "huge", "list", "dictionary"],
)
def test_fit_names_the_place_of_a_bad_value_in_an_array(value: object) -> None:
    X, y = lists()
    array = X if isinstance(value, float) else X.astype(object)
    array[4, 1] = value
    for rows in (array, array.tolist()):
        with pytest.raises(SchemaError, match=r"X\[4, 1\]"):
            LeastSquaresRanker().fit(rows, y, qid=QID)


def test_complex_numbers_are_refused_with_a_typed_error() -> None:
    X, y = lists()
    for rows in (X + 1j, sparse.csr_array(X + 1j)):
        with pytest.raises(SchemaError, match="complex128, not numbers"):
            LeastSquaresRanker().fit(rows, y, qid=QID)


@pytest.mark.parametrize(
    ("weight", "words"),
    [([1.0], r"\(1,\), expected"), ([-1.0] * 4, "`query_weight`"), ([np.nan] * 4, r"\[0\] is nan")],
)
def test_a_bad_query_weight_is_called_so(weight: list[float], words: str) -> None:
    X, y = lists()
    with pytest.raises(SchemaError, match=f"query_weight.*{words}|{words}"):
        LeastSquaresRanker().fit(X, y, qid=QID, query_weight=weight)
    ranker = LeastSquaresRanker().fit(X, y, qid=QID)
    with pytest.raises(SchemaError, match="query_weight"):
        ranker.score(X, y, qid=QID, query_weight=weight)


def test_times_are_no_numbers() -> None:
    _, y = lists()
    with pytest.raises(SchemaError, match="datetime64"):
        LeastSquaresRanker().fit(np.full((len(y), 2), np.datetime64("2024-01-01")), y)


@pytest.mark.parametrize("ids", [[1.0, np.nan], ["a", None], ["a", np.nan]])
def test_fit_names_a_missing_query_id(ids: list[object]) -> None:
    with pytest.raises(SchemaError, match="row 1 is missing") as caught:
        LeastSquaresRanker().fit([[1.0], [2.0]], [0, 1], qid=ids)
    assert caught.value.column == "qid"


def test_judging_is_weighed_only_when_asked() -> None:
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


def test_the_evaluation_set_has_weights_of_its_own() -> None:
    X, y = lists()
    weight = [3.0, 0.0, 1.0, 0.5]
    ranker = LeastSquaresRanker().fit(
        X, y, qid=QID, eval_set=(X, y), eval_group=SIZES, eval_query_weight=weight
    )
    wanted = ranker.score(X, y, QID, query_weight=weight)
    assert ranker.evals_[-1]["value"] == pytest.approx(wanted, abs=1e-12)
    with pytest.raises(SchemaError, match="eval_qid="):
        ranker.fit(X, y, qid=QID, eval_set=(X, y))
    with pytest.raises(ParameterError, match="belong to an eval_set"):
        ranker.fit(X, y, qid=QID, eval_query_weight=weight)


def _weighted_and_repeated(make: Callable[[float], Any], l2: float) -> tuple[Any, Any]:
    """The same problem by weights 1 to 3, and by rows and queries that occur so often."""
    X, y = lists(3)
    times = np.random.default_rng(3).integers(1, 4, len(y))
    often = {"a": 2, "b": 1, "c": 3, "d": 1}
    rows = np.repeat(np.arange(len(y)), times)
    parts = [(rows[QID[rows] == q], f"{q}{c}") for q, n in often.items() for c in range(n)]
    again = np.concatenate([part for part, _ in parts])
    names = np.concatenate([np.full(len(part), name) for part, name in parts])
    weighted = make(1.0).fit(X, y, qid=QID, sample_weight=times, query_weight=often)
    return weighted, make(l2).fit(X[again], y[again], qid=names)


@pytest.mark.parametrize(
    "make",
    [
        *(
            partial(_ranker, LeastSquaresRanker, pairs=pairs, normalization=norm, tol=1e-12)
            for pairs in ("all", "untied")
            for norm in ("query", "sum", "pair")
            if (pairs, norm) != ("all", "pair")
        ),
        *(partial(_ranker, RankSVM, loss=loss, tol=1e-11) for loss in ("hinge", "squared_hinge")),
        *(
            partial(_ranker, DominationRanker, l1=0.1, normalization=norm, tol=1e-11)
            for norm in ("sum", "query")
        ),
    ],
    ids=lambda make: " ".join([make.args[0].__name__, *map(str, make.keywords.values())]),
)
def test_weight_2_is_the_row_twice(make: Callable[[float], Any]) -> None:
    weighted, repeated = _weighted_and_repeated(make, 1.0)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


def test_the_mean_over_all_pairs_differs_by_a_factor_of_l2() -> None:
    make = partial(_ranker, LeastSquaresRanker, normalization="pair", tol=1e-12)
    _, y = lists(3)
    times = np.random.default_rng(3).integers(1, 4, len(y))
    masses = [times[q == QID] for q in "abcd"]
    usable = [(v, s) for v, s, q in zip((2, 1, 3, 1), masses, "abcd", strict=True)
              if len(set(y[q == QID])) > 1]  # fmt: skip
    with_copies = sum(v * s.sum() * (s.sum() - 1) for v, s in usable)
    without = sum(v * (s.sum() ** 2 - (s**2).sum()) for v, s in usable)
    weighted, repeated = _weighted_and_repeated(make, without / with_copies)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)


def test_several_eval_sets_are_told_by_name_and_the_last_one_counts():
    X, y = lists()
    group = [SIZES, SIZES[:2]]
    n = sum(SIZES[:2])
    sets = [(X, y), (X[:n], 1 - y[:n])]
    ranker = RankSVM().fit(
        X, y, qid=QID, eval_set=sets, eval_group=group, eval_names=["all", "turned"]
    )
    one = RankSVM().fit(X, y, qid=QID, eval_set=sets[1], eval_group=SIZES[:2])
    same = RankSVM().fit(
        X, y, qid=QID, eval_set=dict(zip(["all", "turned"], sets, strict=True)), eval_group=group
    )
    assert ranker.evals_ == same.evals_
    assert [row["value"] for row in ranker.evals_] == [row["value"] for row in one.evals_]
    for row in ranker.evals_:
        assert row["turned"] == row["value"] != row["all"]
    with pytest.raises(ParameterError, match="no entry for each of the 2 eval sets"):
        RankSVM().fit(X, y, qid=QID, eval_set=sets, eval_group=SIZES)
    with pytest.raises(ParameterError, match="one name for each"):
        RankSVM().fit(X, y, qid=QID, eval_set=sets, eval_group=group, eval_names=["a", "a"])


def test_a_scorer_asks_for_lists_and_turns_errors():
    X, y = lists()
    ranker = RankSVM().fit(X, y, qid=QID)
    assert scorer("map")(ranker, X, y, qid=QID) == ranker.score(X, y, qid=QID, metric="map")
    error = ranker.score(X, y, qid=QID, metric="pairwise_error")
    assert scorer("pairwise_error")(ranker, X, y, qid=QID) == -error
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            RankSVM(scale="query").set_fit_request(qid=True),
            X,
            y,
            cv=GroupKFold(2),
            scoring=scorer("map"),
            params={"qid": QID, "groups": QID},
        )
    assert np.isfinite(found["test_score"]).all()


def test_a_dataset_brings_all_there_is() -> None:
    X, y = lists()
    data = Dataset.from_arrays(X, y, QID)
    for given in ({"y": y}, {"qid": QID}, {"group": SIZES}):
        with pytest.raises(ParameterError, match="already holds"):
            RankSVM().fit(data, **given)
    with pytest.raises(ParameterError, match="already holds"):
        RankSVM(scale="query").fit(data).predict(data, group=SIZES)
    weighted = RankSVM().fit(data, sample_weight=1 + y)
    again = RankSVM().fit(Dataset.from_arrays(X, y, QID, weight=1 + y))
    np.testing.assert_array_equal(weighted.coef_, again.coef_)


def test_names_are_those_of_the_last_fit() -> None:
    X, y = lists()
    named = Dataset.from_arrays(X, y, QID, feature_names=["f", "g", "h"])
    ranker = RankSVM().fit(named)
    assert ranker.feature_names_in_.tolist() == ["f", "g", "h"]
    turned = Dataset.from_arrays(X, y, QID, feature_names=["f", "h", "g"])
    with pytest.raises(FeatureMismatchError, match="column 1 is 'h' here and 'g'"):
        ranker.predict(turned)
    with pytest.raises(FeatureMismatchError, match="column 1 is 'g' here and 'h'"):
        RankSVM().fit(turned, coef_init=ranker.to_model())
    assert ranker.predict(Dataset.from_arrays(X, y, QID)).shape == y.shape
    ranker.fit(Dataset.from_arrays(X, y, QID))
    assert not hasattr(ranker, "feature_names_in_")
    assert ranker.to_model().feature_names is None


def test_labels_may_be_a_column_and_rows_need_company() -> None:
    X, y = lists()
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = RankSVM().fit(X, y[:, None], qid=QID)
    np.testing.assert_array_equal(column.coef_, RankSVM().fit(X, y, qid=QID).coef_)
    with pytest.raises(NoPairsError, match="n_samples=1"):
        RankSVM().fit(X[:1], y[:1])
    with pytest.raises(SchemaError, match="requires y"):
        RankSVM().fit(X)
    with pytest.raises(SchemaError, match="score needs labels"):
        column.score(X)
    for wrong in (np.c_[y, y], y[:-1]):
        with pytest.raises(ValueError):
            RankSVM().fit(X, wrong, qid=QID)


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


def test_a_mean_is_kept_only_where_there_is_a_weight() -> None:
    X, y = lists()
    X[:, 2] = 1.0
    X[3, 0] = X[4, 2] = np.nan
    model = DominationRanker(l1=0.1, missing="mean").fit(X, y, qid=QID).to_model()
    weighted = set(np.flatnonzero(model.to_dense()).tolist())
    assert 2 not in weighted
    assert set(model.missing.columns) == weighted


def test_steps_are_handed_on_by_models_of_the_same_ranker_alone() -> None:
    X, y = lists()
    own = SPDRanker(n_steps=70, random_state=0).fit(X, y, qid=QID)
    told = {"n_steps": 30, "random_state": 0}
    assert SPDRanker(**told).fit(X, y, qid=QID, coef_init=own.to_model()).n_iter_ == 100
    other = RankSVM().fit(X, y, qid=QID).to_model()
    assert SPDRanker(**told).fit(X, y, qid=QID, coef_init=other).n_iter_ == 30
    assert SPDRanker(**told).fit(X, y, qid=QID, coef_init=own.coef_).n_iter_ == 30
    again = SPDRanker(**told, warm_start=True).fit(X, y, qid=QID)
    assert (again.n_iter_, again.fit(X, y, qid=QID).n_iter_) == (30, 60)
    cold = SPDRanker(**told).fit(X, y, qid=QID)
    assert cold.fit(X, y, qid=QID).n_iter_ == 30


def test_a_model_that_does_not_know_its_steps_has_made_none() -> None:
    X, y = lists()
    own = SPDRanker(n_steps=70, random_state=0).fit(X, y, qid=QID).to_model()
    bare = replace(own, provenance={})
    assert SPDRanker(n_steps=30, random_state=0).fit(X, y, qid=QID, coef_init=bare).n_iter_ == 30


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
    with pytest.raises(SchemaError, match="those of eval_set no query ids"):
        ranker.fit(X, y, qid=ids, eval_set=(X, y))


def test_two_rows_are_enough() -> None:
    ranker = RankSVM().fit([[1.0], [2.0]], [0, 1])
    assert ranker.coef_[0] > 0
    assert RankSVM().fit(pd.DataFrame({"f": [1.0, 2.0]}), [0, 1]).coef_ == ranker.coef_


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"f": np.zeros(0), "g": np.zeros(0)}),
        pd.DataFrame({"qid": np.zeros(3)}),
        pd.DataFrame(index=range(3)),
        pd.DataFrame(),
    ],
    ids=["no rows", "query ids alone", "no columns", "nothing"],
)
def test_a_frame_without_rows_or_columns_is_refused(frame: pd.DataFrame) -> None:
    labels = np.zeros(len(frame))
    with pytest.raises(EmptyDataError, match=r"0 (sample|feature)\(s\) .*minimum of 1 is required"):
        RankSVM().fit(frame, labels)
    words = "sample" if len(frame) == 0 else "feature"
    with pytest.raises(EmptyDataError, match=f"a frame with 0 {words}"):
        AdditiveRanker().fit(frame, labels)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.arange(3.0), "Expected 2D array"),
        (np.zeros((3, 2)) + 1j, "Complex data not supported"),
        (np.zeros((0, 2)), "minimum of 1 is required"),
        (np.zeros((3, 0)), "minimum of 1 is required"),
        (np.zeros((3, 2, 2)), "Found array with dim 3|expected <= 2"),
    ],
    ids=["one dimension", "complex", "no rows", "no columns", "three dimensions"],
)
def test_arrays_of_another_shape_are_refused_as_scikit_learn_does(X: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RankSVM().fit(X, np.zeros(len(X)))


def test_scikit_learn_is_told_what_a_ranker_is() -> None:
    tags = RankSVM().__sklearn_tags__()
    assert tags.estimator_type == "ranker"
    assert tags.input_tags.sparse
    assert tags.target_tags.required


def test_what_may_be_missing_is_told_to_scikit_learn() -> None:
    for ranker, allowed in ((RankSVM(), False), (RankSVM(missing="error"), False),
                            (RankSVM(missing="zero"), True), (AdditiveRanker(), True)):  # fmt: skip
        assert ranker.__sklearn_tags__().input_tags.allow_nan == allowed


def test_eval_sets_have_an_entry_each() -> None:
    X, y = lists()
    data = Dataset.from_arrays(X, y, QID)
    with pytest.raises(ParameterError, match="0 eval sets"):
        RankSVM().fit(data, eval_set=[])
    for alone in ({"eval_names": ["a"]}, {"eval_qid": QID}, {"eval_group": SIZES}):
        with pytest.raises(ParameterError, match="belong to an eval_set"):
            RankSVM().fit(data, **alone)
    sets = [(X, y), data]
    found = RankSVM().fit(data, eval_set=sets, eval_qid=[QID, None])
    assert set(found.evals_[0]) >= {"valid_0", "valid_1", "step", "value"}
    assert found.evals_[0]["valid_0"] == found.evals_[0]["valid_1"]
    weights = dict.fromkeys("abcd", 2.0)
    for given in (weights, [weights]):
        one = RankSVM().fit(data, eval_set=[data], eval_query_weight=given)
        assert one.evals_[0]["value"] == pytest.approx(found.evals_[0]["value"])
        assert set(one.evals_[0]) & {"valid_0", "value"} == {"value"}
    for given in ([1.0, 2.0], [weights] * 3, (weights,)):
        with pytest.raises(ParameterError, match="no entry for each of the 2"):
            RankSVM().fit(data, eval_set=[data, data], eval_query_weight=given)


def test_a_fitted_ranker_in_a_notebook() -> None:
    X, y = lists()
    ranker = RankSVM(l2=0.1)
    assert "trained on" not in ranker._html_repr()
    html = ranker.fit(pd.DataFrame(X, columns=["f", "g", "h"]), y, qid=QID)._html_repr()
    for words in ("fitted RankSVM", "18 rows of 4 queries", "relative_gap", "3 of 3", ">f<"):
        assert words in html
    unnamed, sizes = RankSVM(l2=0.1).fit(X, y, qid=QID)._displayed_weights()
    assert unnamed == ["0", "1", "2"]
    np.testing.assert_array_equal(sizes, ranker.coef_)
    sparse_one = DominationRanker(l1=2.0).fit(X, y, qid=QID)
    used = np.flatnonzero(sparse_one.coef_)
    assert sparse_one._displayed_weights()[0] == [str(j) for j in used]
    spd = SPDRanker(n_steps=10, random_state=0).fit(X, y, qid=QID)
    assert "certificate" not in spd._html_repr()


def test_rows_of_no_weight_are_absent_but_for_the_range_of_their_list():
    """``scale="query"`` sees what will be seen when the list is scored."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(80, 3)), rng.integers(0, 3, 80), np.repeat(np.arange(10), 8)
    weight = (np.arange(80) % 8 > 0).astype(float)
    kept, told = weight > 0, {"loss": "squared_hinge", "tol": 1e-10}
    for scale in ("none", "auto", "standard", "maxabs", "query"):
        ranker = RankSVM(scale=scale, **told)
        weighed = ranker.fit(X, y, qid=qid, sample_weight=weight).coef_
        alone = ranker.fit(X[kept], y[kept], qid=qid[kept]).coef_
        assert np.allclose(weighed, alone, rtol=1e-5, atol=1e-8) == (scale != "query")
    low, high = (extreme.reduceat(X, np.arange(0, 80, 8)) for extreme in (np.minimum, np.maximum))
    by_hand = (X - low[qid]) / (high - low)[qid]
    ranker = RankSVM(scale="none", **told).fit(by_hand, y, qid=qid, sample_weight=weight)
    np.testing.assert_allclose(weighed, ranker.coef_, rtol=1e-5)
