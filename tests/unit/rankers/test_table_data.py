"""Rows as cells of tables: columns, cuts, linear columns."""

import numpy as np
import pytest
from scipy import sparse

import rankine
from rankine import AdditiveRanker, Dataset
from rankine.core.errors import ParameterError, SchemaError
from rankine.transforms.bins import fit_bins


def shop(n_queries=60, size=15, seed=0):
    """Labels bend in the first column and multiply the next two; the last is a category."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 5))
    X[:, 4] = rng.integers(0, 4, len(X))
    utility = X[:, 0] ** 2 + 1.5 * X[:, 1] * X[:, 2] + np.array([0, 2, -1, 0])[X[:, 4].astype(int)]
    y = np.digitize(utility + 0.2 * rng.normal(size=len(X)), [-0.5, 0.5, 1.5, 2.5])
    return X, y, np.repeat(np.arange(n_queries), size)


@pytest.fixture(scope="module")
def fitted():
    X, y, qid = shop()
    return AdditiveRanker(smooth=0.3, pairs=3, categorical=[4]).fit(X, y, qid=qid)


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"bins": 1}, "bins"),
        ({"bins": 256}, "bins"),
        ({"pairs": [(0, 9)]}, "column 9"),
        ({"pairs": [(0, 0)]}, "twice"),
        ({"categorical": ["brand"]}, "brand"),
        ({"categorical": [5]}, "column 5 of 5"),
        ({"categorical": [-1]}, "column -1 of 5"),
        ({"linear": [0], "shapes": {0: "increasing"}}, "column 0"),
    ],
)
def test_errors_name_the_column(wrong, fact):
    X, y, qid = shop(4)
    with pytest.raises(ParameterError, match=fact):
        AdditiveRanker(**{"smooth": 1.0, **wrong}).fit(X, y, qid=qid)


def test_cuts_are_those_of_the_first_lists_and_no_more_is_read(monkeypatch):
    monkeypatch.setattr("rankine.data.dataset.first_lists.__defaults__", (7,))
    X, y, qid = shop(20)
    data, read = Dataset.from_arrays(X, y, qid), []

    class Blocks:
        n_features = 5

        def __iter__(self):
            for first in range(0, 20, 4):
                read.append(first)
                yield data.take_queries(np.arange(first, first + 4))

    ranker = AdditiveRanker(smooth=1.0, pairs=0).fit(Blocks())
    assert ranker.bins_ == fit_bins(X[: 7 * 15], 64)
    assert read == [0, 4, *range(0, 20, 4)]
    assert ranker.training_["queries"] == 20


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix])
def test_linear_columns_hold_finite_numbers(make, bad):
    """Tables have a place for any value; a linear column has none, wherever it is scored."""
    X, y, qid = shop(6)
    names = list("abcde")
    told = {"smooth": 1.0, "pairs": 0, "linear": ["d"]}
    fitted = AdditiveRanker(**told).fit(Dataset.from_arrays(X, y, qid, feature_names=names))
    X[7, 0], X[7, 3] = np.nan, bad
    data = Dataset.from_arrays(make(X), y, qid, feature_names=names, infinite=True)
    whole = Dataset.from_arrays(np.nan_to_num(X, posinf=0.0), y, qid, feature_names=names)
    for act in (
        lambda: AdditiveRanker(**told).fit(data),
        lambda: AdditiveRanker(**told).fit(whole, eval_set=data),
        lambda: fitted.predict(data),
    ):
        with pytest.raises(SchemaError, match=rf"X\[7, 'd'\] is {bad}, but the column is linear"):
            act()
    unnamed = AdditiveRanker(smooth=1.0, pairs=0, linear=[3])
    with pytest.raises(SchemaError, match=rf"X\[7, 3\] is {bad}"):
        unnamed.fit(Dataset.from_arrays(make(X), y, qid, infinite=True))
    with pytest.raises(SchemaError, match=f"feature 'd' is {bad}"):
        rankine.Scorer(fitted.to_model()).score(X)


def test_an_infinite_value_of_an_array_is_named():
    X, y, qid = shop(6)
    X[7, 2] = np.inf
    with pytest.raises(SchemaError, match=r"X\[7, 2\] is inf"):
        AdditiveRanker(smooth=1.0, pairs=0).fit(X, y, qid=qid)
