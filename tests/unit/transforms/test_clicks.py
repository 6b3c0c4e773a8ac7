"""Corrections of training rows for the positions they were shown at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from error_checks import raises_for
from rankine import Dataset, ElasticRanker, LeastSquaresRanker
from rankine.core.errors import ParameterError, SchemaError
from rankine.logs import coec, estimate_propensity, read_clicks
from rankine.logs.simulation import simulate
from rankine.metrics import evaluate
from rankine.transforms.clicks import (
    ContextWeights,
    add_position_columns,
    apply_position_weights,
    check_offset,
    check_positions,
    inverse_propensity,
    position_weights,
    remove_position_weights,
)
from rankine.transforms.scaling import Scaling


def test_weights_are_clipped_and_only_for_clicks():
    table = inverse_propensity([1.0, 0.5, 0.01], 10.0)
    assert table == (1.0, 2.0, 10.0)
    data = Dataset.from_arrays(np.zeros((4, 1)), [1, 0, 1, 1], position=np.array([2, 2, 3, 9]))
    np.testing.assert_array_equal(position_weights(data, table), [2, 1, 10, 10])
    heavy = apply_position_weights(replace(data, weight=np.array([1.0, 2.0, 3.0, 0.5])), table)
    assert heavy.weight.tolist() == [2.0, 2.0, 30.0, 5.0]
    tables = ContextWeights("device", (("phone", (1.0, 3.0)), ("desk", (1.0, 4.0, 5.0))))
    by_device = replace(data, columns={"device": np.array(["phone", "phone", "desk", "phone"])})
    assert position_weights(by_device, tables).tolist() == [3.0, 1.0, 5.0, 3.0]
    with raises_for("columns", SchemaError):
        position_weights(data, tables)
    with raises_for("propensity", SchemaError):
        position_weights(replace(data, columns={"device": np.array(["desk", "tv"] * 2)}), tables)


def test_propensities_by_context_weight_each_click_by_its_context():
    log = simulate(3000, exploration=0.5, n_searches=20, random_state=0)
    table = log.to_table().to_pydict() | {"device": np.where(log.session % 3 == 0, "phone", "desk")}
    looks = estimate_propensity(
        table, item="item", search="search", context="device", n_resamples=0, min_rows=20
    )
    data = log.to_dataset()
    data = replace(data, columns={**data.columns, "device": table["device"]})
    found = position_weights(data, inverse_propensity(looks, 10.0))
    for name, part in looks.contexts.items():
        rows = table["device"] == name
        wanted = position_weights(data.take(rows), inverse_propensity(part, 10.0))
        np.testing.assert_array_equal(found[rows], wanted)
    ranker = LeastSquaresRanker(propensity=looks, normalization="pair").fit(data)
    by_hand = LeastSquaresRanker(normalization="pair").fit(replace(data, weight=found))
    np.testing.assert_allclose(ranker.coef_, by_hand.coef_, rtol=1e-9)
    with raises_for("columns", SchemaError):
        LeastSquaresRanker(propensity=looks).fit(log.to_dataset())
    strange = replace(data, columns={"device": np.full(data.n_rows, "tv")})
    with raises_for("propensity", SchemaError):
        LeastSquaresRanker(propensity=looks).fit(strange)
    with pytest.raises(ParameterError) as caught:
        coec(read_clicks(table, item="item"), looks)
    assert caught.value.parameter == "propensity"


def test_position_weights_multiply_row_weights():
    data = simulate(200, random_state=0).to_dataset()
    weight = np.random.default_rng(0).uniform(0.5, 2, data.n_rows)
    options = {"objective": "pairwise", "random_state": 0}
    by_hand = replace(data, weight=weight * position_weights(data, (1.0, 2.0, 3.0)))
    one = ElasticRanker(**options).fit(by_hand)
    two = ElasticRanker(propensity=[1, 1 / 2, 1 / 3], **options).fit(replace(data, weight=weight))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-12)


def test_limits_of_weights_and_positions():
    assert inverse_propensity([0.5, 1.0], 1) == (1.0, 1.0)
    for bad in (0.99, 0, -1, np.inf, np.nan):
        with raises_for("max_weight"):
            inverse_propensity([0.5], bad)
    assert check_positions([1, 1_000_000]).tolist() == [1, 1_000_000]
    assert check_positions(np.array([3], dtype=np.uint8)).dtype == np.int64
    for bad in ([0, 1], [1, -1], [1, 1_000_001], [1.0, 2.0], [True]):
        with pytest.raises(SchemaError) as caught:
            check_positions(bad)
        assert caught.value.parameter == "position"


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("seed", range(3))
def test_offsets_are_one_where_a_row_was_shown(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (7, 2)).astype(float)
    shown = rng.integers(1, 6, 7)
    wide = add_position_columns(Dataset.from_arrays(kind(X), np.zeros(7), position=shown), 4).X
    found = wide if kind is np.asarray else wide.toarray()
    np.testing.assert_array_equal(found, np.c_[X, np.minimum(shown, 4)[:, None] == [2, 3, 4]])


@pytest.mark.parametrize("bad", [[], [0.0], [1.5], [[0.5]], [np.nan]])
def test_bad_propensities_are_refused(bad):
    with raises_for("propensity"):
        inverse_propensity(bad, 10.0)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_offsets_are_columns_after_the_features(kind):
    X = np.arange(8.0).reshape(4, 2)
    data = Dataset.from_arrays(
        kind(X), [1, 0, 0, 1], position=np.array([1, 2, 3, 7]), feature_names=["a", "b"]
    )
    wide = add_position_columns(apply_position_weights(data, (1.0, 2.0)), 3)
    found = wide.X if kind is np.asarray else wide.X.toarray()
    np.testing.assert_array_equal(found, np.c_[X, [[0, 0], [1, 0], [0, 1], [0, 1]]])
    assert wide.feature_names == ("a", "b", "position 2", "position 3")
    assert wide.weight.tolist() == [1.0, 1.0, 1.0, 2.0]
    assert remove_position_weights(wide, (1.0, 2.0)).weight.tolist() == [1.0] * 4
    assert remove_position_weights(wide, ()).weight.tolist() == [1.0, 1.0, 1.0, 2.0]
    assert remove_position_weights(data, (1.0, 2.0)).weight is None
    scaling = Scaling("maxabs", np.array([0.5, 1.0]), 3)
    learnt = np.array([5.0, 6.0, -1.0, -2.0])
    assert scaling.fold(learnt).tolist() == [2.5, 6.0]
    assert scaling.split(learnt)[2].tolist() == [-1.0, -2.0]
    assert scaling.unfold(scaling.fold(learnt)).tolist() == [5.0, 6.0, 0.0, 0.0]


def test_no_correction_returns_the_same_data():
    data = Dataset.from_arrays(np.zeros((2, 1)), [0, 1])
    assert apply_position_weights(data, ()) is data
    assert add_position_columns(data, 0) is data
    assert [check_offset(k) for k in (None, 2, np.int64(3), 1000)] == [0, 2, 3, 1000]
    for bad in (1, 0, 2.5, 1001):
        with raises_for("position_offset"):
            check_offset(bad)
    with raises_for("position", SchemaError):
        add_position_columns(data, 3)


def test_an_offset_learns_the_effect_of_the_position():
    log = simulate(4000, exploration=0.5, random_state=1)
    data, judged = log.to_dataset(), log.catalogue
    plain = LeastSquaresRanker().fit(data)
    ranker = LeastSquaresRanker(position_offset=10).fit(data)
    value = [evaluate("ndcg@10", judged.y, r.predict(judged), judged.qid) for r in (plain, ranker)]
    assert value[1] > value[0] + 0.01
    assert (np.diff(ranker.position_offset_[:5]) < 0).all()
