"""Folds of a search, and the digest of its data."""

import numpy as np
import pytest

import rankine
from error_checks import raises_for
from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.tuning.folds import data_digest, make_folds


def make_data():
    rng = np.random.default_rng(0)
    labels, days = rng.integers(0, 2, 240), np.repeat(np.arange(24), 10)
    return rankine.Dataset.from_arrays(
        rng.normal(size=(240, 4)), labels, days, columns={"day": days[::-1]}
    )


def test_digest_sees_weights_and_columns():
    data = make_data()
    weighted = rankine.Dataset.from_arrays(data.X, data.y, data.qid, weight=np.arange(240) + 1.0)
    plain = rankine.Dataset.from_arrays(data.X, data.y, data.qid)
    words = [
        rankine.Dataset.from_arrays(data.X, data.y, data.qid, columns={name: [text] * 240})
        for name, text in (("a", "x"), ("a", "y"), ("b", "x"))
    ]
    assert len({data_digest(d) for d in (data, weighted, plain, *words)}) == 6
    assert data_digest(make_data()) == data_digest(data)


def test_folds():
    data = make_data()
    early, late = make_folds(data, None, None, "time:0.5,0.5", "day", 0).pairs[0]
    assert early.columns["day"].max() < late.columns["day"].min()
    three = make_folds(data, None, None, "time:0.5,0.25,0.25", None, 0)
    assert three.test.n_queries == 6
    assert three.whole.n_queries == 18
    folds = make_folds(data, None, None, None, None, 0).pairs
    assert len(folds) == 5
    for train, held in folds:
        assert not set(train.qid.tolist()) & set(held.qid.tolist())
    for given in ((3, None), (None, "time:0.5,0.5")):
        with pytest.raises(ParameterError) as caught:
            make_folds(data, data, *given, None, 0)
        assert caught.value.parameter == "valid"
    assert make_folds(data, None, 3, None, None, 0).text == "3 folds"
    assert make_folds(data, None, None, None, None, 0).text == "5 folds"
    assert make_folds(data, data, None, None, None, 0).text == "validation set"
    assert three.text == "time:0.5,0.25,0.25"
    assert make_folds(data, None, None, "time:0.5,0.5", "day", 0).text == "time:0.5,0.5 day"
    with raises_for("folds"):
        make_folds(data, None, 3, "time:1,1", None, 0)
    narrow = rankine.Dataset.from_arrays(data.X[:, :2], data.y, data.qid)
    with pytest.raises(FeatureMismatchError):
        make_folds(data, narrow, None, None, None, 0)
