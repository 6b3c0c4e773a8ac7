"""Position bias: clicks mislead, weighted clicks do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankine import Dataset, ElasticRanker
from rankine.core.errors import ParameterError, SchemaError
from rankine.logs.propensity import estimate_propensity
from rankine.losses.list_objectives import inverse_propensity, position_weights

ITEMS = 8


def simulated(lists, seed, *, randomised):
    """Users click what is relevant (feature 1) if they look; the shop sorts by feature 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(lists, ITEMS, 3))
    key = rng.random((lists, ITEMS)) if randomised else -X[:, :, 0]
    position = np.empty((lists, ITEMS), dtype=np.int64)
    places = np.broadcast_to(np.arange(1, ITEMS + 1), (lists, ITEMS))
    np.put_along_axis(position, np.argsort(key, axis=1), places, axis=1)
    looked = rng.random((lists, ITEMS)) < 1 / position
    relevant = rng.random((lists, ITEMS)) < 1 / (1 + np.exp(3.5 - 2 * X[:, :, 1]))
    return Dataset.from_arrays(
        X.reshape(-1, 3),
        (looked & relevant).ravel().astype(float),
        np.repeat(np.arange(lists), ITEMS),
        position=position.ravel(),
    )


def test_estimate_from_randomised_impressions():
    found = estimate_propensity(simulated(20_000, 1, randomised=True))
    assert len(found) == ITEMS
    np.testing.assert_allclose(found, 1 / np.arange(1, ITEMS + 1), atol=0.04)
    halves = simulated(20_000, 1, randomised=True)
    blocks = list(halves.blocks(max_rows=10_000))
    np.testing.assert_array_equal(estimate_propensity(blocks), found)


def test_weighted_clicks_find_what_unweighted_ones_miss():
    data = simulated(6000, 0, randomised=False)
    propensity = estimate_propensity(simulated(6000, 1, randomised=True))
    options = {"objective": "pairwise", "l1": 0.0, "eta0": 0.1, "random_state": 0}
    biased = ElasticRanker(**options).fit(data).coef_
    fair = ElasticRanker(propensity=propensity, **options).fit(data).coef_
    # Feature 0 says nothing about relevance; it only decided who was seen.
    assert biased[0] / biased[1] > 0.4
    assert abs(fair[0] / fair[1]) < 0.12


def test_weights_are_clipped_and_only_for_clicks():
    table = inverse_propensity([1.0, 0.5, 0.01], 10.0)
    assert table == (1.0, 2.0, 10.0)
    data = Dataset.from_arrays(np.zeros((4, 1)), [1, 0, 1, 1], position=np.array([2, 2, 3, 9]))
    np.testing.assert_array_equal(position_weights(data, table), [2, 1, 10, 10])


def test_given_weights_multiply():
    data = simulated(200, 0, randomised=False)
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


def test_missing_positions_and_clicks():
    data = simulated(50, 0, randomised=True)
    with pytest.raises(SchemaError, match="position"):
        ElasticRanker(propensity=[1.0]).fit(replace(data, position=None))
    with pytest.raises(SchemaError, match="from 1"):
        estimate_propensity(replace(data, position=data.position - 1))
    with pytest.raises(SchemaError, match="0 clicks"):
        estimate_propensity(replace(data, y=np.zeros(data.n_rows)), min_rows=1)
    with pytest.raises(ParameterError, match="max_weight"):
        ElasticRanker(propensity=[1.0], max_weight=0.5).fit(data)
