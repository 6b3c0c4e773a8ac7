"""A model on a dataset: columns by name, encodings of logs, transforms."""

import numpy as np
import pytest
from scipy import sparse

import rankine
from error_checks import raises_at
from rankine import Dataset, LinearModel
from rankine.core.errors import FeatureMismatchError, ModelError
from rankine.core.specs import Bins, ListRange, LogColumns, MissingValues
from rankine.transforms.apply import align_columns, score_dataset, transformed_scores

NAMES = ["price", "age", "stars"]
X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [0.0, 8.0, 9.0]])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_are_matched_by_name_if_both_have_names(kind):
    model = LinearModel.from_weights([1.0, 10.0], ["stars", "price"])
    data = Dataset.from_arrays(kind(X), np.zeros(3), feature_names=NAMES)
    fitted = align_columns(model, data)
    assert fitted.feature_names == ("stars", "price")
    found = fitted.X if kind is np.asarray else fitted.X.toarray()
    assert found.tolist() == X[:, [2, 0]].tolist()
    if kind is np.asarray:
        assert fitted.X.flags.c_contiguous
    assert score_dataset(model, data).tolist() == [13.0, 46.0, 9.0]
    same = Dataset.from_arrays(kind(X), np.zeros(3), feature_names=NAMES)
    assert align_columns(LinearModel.from_weights([1.0, 1.0, 1.0], NAMES), same) is same
    for names, given in ((None, NAMES), (NAMES, None)):
        plain = Dataset.from_arrays(kind(X), np.zeros(3), feature_names=given)
        assert align_columns(LinearModel.from_weights([1.0, 1.0, 1.0], names), plain) is plain


def test_columns_that_do_not_fit_are_refused():
    data = Dataset.from_arrays(X, np.zeros(3), feature_names=NAMES)
    with pytest.raises(FeatureMismatchError, match=r"lacks feature 'x' of the model \(and 1 more"):
        align_columns(LinearModel.from_weights([1.0, 1.0, 1.0], ["age", "x", "y"]), data)
    with pytest.raises(FeatureMismatchError, match="has 2 features and the data 3"):
        align_columns(LinearModel.from_weights([1.0, 1.0]), data)
    log = LogColumns(numeric=("price",), hashed=("brand",), hash_bits=3)
    model = LinearModel.from_weights(np.ones(log.n_features), transforms=(log,))
    with pytest.raises(ModelError, match="raw columns of a log"):
        align_columns(model, data)
    wide = Dataset.from_arrays(np.ones((2, log.n_features)), np.zeros(2))
    assert align_columns(model, wide) is wide
    with pytest.raises(ModelError, match=r"raw columns \(Bins\)"):
        transformed_scores((Bins(((),)),), data, np.ones(3))


def test_transforms_run_in_order():
    holes = np.where(X == 0, np.nan, X)
    data = Dataset.from_arrays(holes, np.zeros(3))
    specs = (MissingValues("indicator", (0,), (100.0,)), ListRange())
    w = np.array([1.0, 1.0, 1.0])
    scaled = X / np.ptp(X, axis=0)
    expected = scaled.sum(axis=1) + np.array([0.0, 0.0, 100.0])
    np.testing.assert_allclose(transformed_scores(specs, data, w), expected, rtol=1e-15)
    log = LogColumns(numeric=tuple(NAMES))
    found = transformed_scores((log, ListRange()), data, w)
    np.testing.assert_allclose(found, scaled.sum(axis=1), rtol=1e-15)


@pytest.fixture
def read(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "session,price,brand,age,hit\n"
        "a,3,x,1,1\na,1,y,2,0\na,2,,3,0\nb,5,x,4,1\nb,,z,5,0\nb,1,y,6,0\n"
    )

    def scan(**columns):
        few = {"hash_bits": 4} if "categorical" in columns else {}
        return rankine.logs.scan(path, query="session", label="hit", **few, **columns)

    return scan


def test_lists_of_a_log_are_encoded_for_the_model_that_scores_them(read):
    own = read(numeric=["price"], categorical=["brand"])
    model = rankine.LeastSquaresRanker(l2=0.1, missing="zero").fit(own).to_model()
    scores = score_dataset(model, own.load())
    assert np.ptp(scores) > 0
    data = own.load()
    assert align_columns(model, data) is data
    other = read(numeric=["price", "age"], one_hot=["brand"]).load()
    assert score_dataset(model, other).tolist() == scores.tolist()
    tables = rankine.AdditiveRanker(smooth=1.0, pairs=0)
    tables.fit(read(numeric=["price"], one_hot=["brand"]))
    expected = tables.predict(read(numeric=["price"], one_hot=["brand"]).load())
    assert score_dataset(tables.to_model(), other).tolist() == expected.tolist()
    with raises_at(FeatureMismatchError, column="brand") as caught:
        score_dataset(model, read(numeric=["price"]).load())
    assert caught.value.column == "brand"
