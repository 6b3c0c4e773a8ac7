"""User input: bad values, query ids, labels, evaluation sets."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from error_checks import raises_at, raises_for
from rankine import AdditiveRanker, LeastSquaresRanker, RankSVM
from rankine.core.errors import (
    EmptyDataError,
    FeatureMismatchError,
    NoPairsError,
    ParameterError,
    SchemaError,
)
from rankine.data import Dataset

SIZES = [3, 5, 4, 6]


QID = np.repeat(["a", "b", "c", "d"], SIZES)


def lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(QID), 3))
    return X, (X[:, 0] + rng.normal(size=len(QID)) > 0).astype(float)


def test_a_long_list_without_ids_is_warned_about_once() -> None:
    X = np.random.default_rng(0).normal(size=(1_001, 2))
    y = (X[:, 0] > 0).astype(float)
    with pytest.warns(UserWarning, match="one list") as seen:
        LeastSquaresRanker().fit(X, y)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LeastSquaresRanker().fit(X, y, qid=np.zeros(len(y), dtype=int))
        LeastSquaresRanker().fit(X[1:], y[1:])


def test_a_column_of_ids_without_qid_is_warned_about() -> None:
    X, y = lists()
    ids = np.repeat([7, 3, 9, 1], SIZES)
    frame = pd.DataFrame({"price": X[:, 0], "session": ids})
    with pytest.warns(UserWarning, match="'session' looks like query ids.*pass qid="):
        LeastSquaresRanker().fit(frame, y)
    with pytest.warns(UserWarning, match="column 3 looks like"):
        LeastSquaresRanker().fit(np.column_stack([X, ids]), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LeastSquaresRanker().fit(frame, y, qid=QID)
        for column in (np.sort(ids), ids % 2, np.arange(len(y)), X[:, 1]):
            # A column with values of one row, two values or fractions is no column of ids.
            mixed = np.where(np.arange(len(y)) == 9, 99, column)
            LeastSquaresRanker().fit(np.column_stack([X, mixed]), y)


def test_cross_validation_with_groups_alone_is_warned_about() -> None:
    from sklearn.model_selection import GroupKFold, cross_val_score

    X = np.random.default_rng(0).normal(size=(3_000, 2))
    y = (X[:, 0] > 0).astype(float)
    with pytest.warns(UserWarning, match="cross-validation passes groups= to the splitter only"):
        cross_val_score(RankSVM(), X, y, groups=np.arange(3_000) // 10, cv=GroupKFold(2))
    few = slice(200)
    with pytest.warns(UserWarning, match="cross-validation passes groups= to the splitter only"):
        cross_val_score(RankSVM(), X[few], y[few], groups=np.arange(200) // 10, cv=GroupKFold(2))


def test_an_evaluation_set_may_hold_its_query_ids() -> None:
    X, y = lists()
    ranker = LeastSquaresRanker().fit(X, y, qid=QID, eval_set=(X, y, QID))
    other = LeastSquaresRanker().fit(X, y, qid=QID, eval_set=(X, y), eval_qid=QID)
    assert ranker.evals_ == other.evals_
    ranker.fit(X, y, qid=QID, eval_set=[(X, y, QID), (X[:8], y[:8], QID[:8])])
    assert len(ranker.evals_[-1]) > 2
    for bad, options in (((X, y, QID), {"eval_group": SIZES}), ((X, y, QID, QID), {})):
        with raises_for("eval_set"):
            ranker.fit(X, y, qid=QID, eval_set=bad, **options)


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
def test_errors_name_query_weight(weight: list[float], words: str) -> None:
    X, y = lists()
    with pytest.raises(SchemaError, match=f"query_weight.*{words}|{words}"):
        LeastSquaresRanker().fit(X, y, qid=QID, query_weight=weight)
    ranker = LeastSquaresRanker().fit(X, y, qid=QID)
    with pytest.raises(SchemaError):
        ranker.score(X, y, qid=QID, query_weight=weight)


def test_columns_of_times_are_refused() -> None:
    _, y = lists()
    with pytest.raises(SchemaError, match="datetime64"):
        LeastSquaresRanker().fit(np.full((len(y), 2), np.datetime64("2024-01-01")), y)


@pytest.mark.parametrize("ids", [[1.0, np.nan], ["a", None], ["a", np.nan]])
def test_fit_names_a_missing_query_id(ids: list[object]) -> None:
    with raises_at(SchemaError, column="qid") as caught:
        LeastSquaresRanker().fit([[1.0], [2.0]], [0, 1], qid=ids)
    assert caught.value.column == "qid"


def test_eval_query_weight_weighs_the_evaluation_set() -> None:
    X, y = lists()
    weight = [3.0, 0.0, 1.0, 0.5]
    ranker = LeastSquaresRanker().fit(
        X, y, qid=QID, eval_set=(X, y), eval_group=SIZES, eval_query_weight=weight
    )
    wanted = ranker.score(X, y, QID, query_weight=weight)
    assert ranker.evals_[-1]["value"] == pytest.approx(wanted, abs=1e-12)
    for options in ({"eval_set": (X, y)}, {"eval_query_weight": weight}):
        with pytest.raises((SchemaError, ParameterError)) as caught:
            ranker.fit(X, y, qid=QID, **options)
        assert caught.value.parameter == "eval_set"


def test_several_eval_sets_are_reported_by_name_and_the_last_one_decides():
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
    with pytest.raises(ParameterError) as caught:
        RankSVM().fit(X, y, qid=QID, eval_set=sets, eval_group=SIZES)
    assert caught.value.parameter == "eval_group"
    with pytest.raises(ParameterError) as caught:
        RankSVM().fit(X, y, qid=QID, eval_set=sets, eval_group=group, eval_names=["a", "a"])
    assert caught.value.parameter == "eval_names"


def test_a_dataset_cannot_be_combined_with_labels_or_ids() -> None:
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


def test_feature_names_are_those_of_the_last_fit() -> None:
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


def test_labels_may_be_a_column_vector_and_one_row_is_refused() -> None:
    X, y = lists()
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = RankSVM().fit(X, y[:, None], qid=QID)
    np.testing.assert_array_equal(column.coef_, RankSVM().fit(X, y, qid=QID).coef_)
    with pytest.raises(NoPairsError, match="n_samples=1"):
        RankSVM().fit(X[:1], y[:1])
    with pytest.raises(SchemaError):
        RankSVM().fit(X)
    with pytest.raises(SchemaError):
        column.score(X)
    for wrong in (np.c_[y, y], y[:-1]):
        with pytest.raises(ValueError):
            RankSVM().fit(X, wrong, qid=QID)


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


def test_options_of_eval_sets_need_one_entry_per_set() -> None:
    X, y = lists()
    data = Dataset.from_arrays(X, y, QID)
    with pytest.raises(ParameterError) as caught:
        RankSVM().fit(data, eval_set=[])
    assert caught.value.parameter == "eval_set"
    for alone in ({"eval_names": ["a"]}, {"eval_qid": QID}, {"eval_group": SIZES}):
        with pytest.raises(ParameterError) as caught:
            RankSVM().fit(data, **alone)
        assert caught.value.parameter == "eval_set"
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
        with pytest.raises(ParameterError) as caught:
            RankSVM().fit(data, eval_set=[data, data], eval_query_weight=given)
        assert caught.value.parameter == "eval_query_weight"


@pytest.mark.parametrize("column", [True, np.True_, 0.5, 1.0, None, (0,), b"a", 2, -1, np.int64(9)])
def test_what_names_no_column_is_refused(column: Any) -> None:
    X, y = lists()
    for options in ({"categorical": [column]}, {"linear": [column]}, {"pairs": [(0, column)]}):
        with pytest.raises(ParameterError):
            AdditiveRanker(**options).fit(X[:, :2], y, qid=QID)
