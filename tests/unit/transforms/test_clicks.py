"""Corrections of training rows for the positions they were shown at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from rankine import Dataset, ElasticRanker, LeastSquaresRanker
from rankine.core.errors import ParameterError, SchemaError
from rankine.logs.simulate import simulate
from rankine.metrics import evaluate
from rankine.transforms.clicks import ClickCorrection, inverse_propensity, position_weights


def test_weights_are_clipped_and_only_for_clicks():
    table = inverse_propensity([1.0, 0.5, 0.01], 10.0)
    assert table == (1.0, 2.0, 10.0)
    data = Dataset.from_arrays(np.zeros((4, 1)), [1, 0, 1, 1], position=np.array([2, 2, 3, 9]))
    np.testing.assert_array_equal(position_weights(data, table), [2, 1, 10, 10])


def test_given_weights_multiply():
    data = simulate(200, random_state=0).to_dataset()
    weight = np.random.default_rng(0).uniform(0.5, 2, data.n_rows)
    options = {"objective": "pairwise", "random_state": 0}
    by_hand = replace(data, weight=weight * position_weights(data, (1.0, 2.0, 3.0)))
    one = ElasticRanker(**options).fit(by_hand)
    two = ElasticRanker(propensity=[1, 1 / 2, 1 / 3], **options).fit(replace(data, weight=weight))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-12)


@pytest.mark.parametrize("bad", [[], [0.0], [1.5], [[0.5]], [np.nan]])
def test_bad_propensities(bad):
    with pytest.raises(ParameterError, match="propensity"):
        inverse_propensity(bad, 10.0)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_offsets_are_columns_after_the_features(kind):
    X = np.arange(8.0).reshape(4, 2)
    data = Dataset.from_arrays(
        kind(X), [1, 0, 0, 1], position=np.array([1, 2, 3, 7]), feature_names=["a", "b"]
    )
    correction = ClickCorrection.make([1.0, 0.5], position_offset=3)
    wide = correction.apply(data)
    found = wide.X if kind is np.asarray else wide.X.toarray()
    np.testing.assert_array_equal(found, np.c_[X, [[0, 0], [1, 0], [0, 1], [0, 1]]])
    assert wide.feature_names == ("a", "b", "position 2", "position 3")
    assert wide.weight.tolist() == [1.0, 1.0, 1.0, 2.0]
    coef, offsets = correction.strip(np.array([5.0, 6.0, -1.0, -2.0]))
    assert (coef.tolist(), offsets.tolist()) == ([5.0, 6.0], [0.0, -1.0, -2.0])


def test_nothing_asked_changes_nothing():
    data = Dataset.from_arrays(np.zeros((2, 1)), [0, 1])
    assert ClickCorrection.make(None).apply(data) is data
    with pytest.raises(ParameterError, match="position_offset"):
        ClickCorrection.make(None, position_offset=1)
    with pytest.raises(SchemaError, match="position"):
        ClickCorrection.make(None, position_offset=3).apply(data)


def test_an_offset_takes_up_what_the_position_explains():
    log = simulate(4000, exploration=0.5, random_state=1)
    data, judged = log.to_dataset(), log.catalogue
    correction = ClickCorrection.make(None, position_offset=10)
    plain = LeastSquaresRanker().fit(data).coef_
    coef, offsets = correction.strip(LeastSquaresRanker().fit(correction.apply(data)).coef_)
    value = [evaluate("ndcg@10", judged.y, judged.X @ each, judged.qid) for each in (plain, coef)]
    assert value[1] > value[0] + 0.01
    assert (np.diff(offsets[:5]) < 0).all()
