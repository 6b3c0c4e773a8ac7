"""Simulated users do what their model says."""

from __future__ import annotations

import numpy as np
import pytest

import rankine
from rankine import Dataset, LinearModel
from rankine.core.errors import ParameterError
from rankine.logs import simulate
from rankine.logs.simulate import Cascade, DependentClick, PositionBased, TrustBias

USERS = ["position_based", "cascade", "dependent_click", "trust_bias"]


@pytest.mark.parametrize("users", USERS)
def test_the_same_seed_gives_the_same_log(users):
    one, two = (simulate(500, users=users, exploration=0.3, random_state=4) for _ in range(2))
    other = simulate(500, users=users, exploration=0.3, random_state=5)
    assert one.to_table(features=True, truth=True).equals(two.to_table(features=True, truth=True))
    assert not one.to_table().equals(other.to_table())


@pytest.mark.parametrize("users", USERS)
def test_clicks_fall_on_what_was_looked_at(users):
    log = simulate(2000, users=users, random_state=1)
    assert not (log.clicked & ~log.examined).any()
    assert not (log.purchased & ~log.clicked).any()
    assert log.clicked.any()
    assert log.purchased.any()


def shapes(user, attraction, sessions=40_000):
    rows = np.tile(np.asarray(attraction, dtype=float), (sessions, 1))
    looked, clicked = user.read(rows, np.random.default_rng(0))
    return looked.mean(axis=0), clicked.mean(axis=0)


def test_position_based_users():
    looked, clicked = shapes(PositionBased(1.0), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(looked, [1, 1 / 2, 1 / 3], atol=0.01)
    np.testing.assert_allclose(clicked, np.array([1, 1 / 2, 1 / 3]) / 2, atol=0.01)
    assert PositionBased(examination=(1.0, 0.3)).chances(3).tolist() == [1.0, 0.3, 0.3]


def test_cascade_users_stop_at_the_first_click():
    looked, clicked = shapes(Cascade(patience=0.8), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(looked, [1, 0.4, 0.16], atol=0.01)
    np.testing.assert_allclose(clicked, [0.5, 0.2, 0.08], atol=0.01)


def test_dependent_click_users_go_on_after_some_clicks():
    looked, _ = shapes(DependentClick(go_on=0.6, fade=0.0), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(looked, [1, 0.8, 0.64], atol=0.01)


def test_trusting_users_click_what_stands_high():
    _, clicked = shapes(TrustBias(eta=0.0, clear=0.9, fooled=0.4), [0.0, 0.0, 1.0])
    np.testing.assert_allclose(clicked, [0.4, 0.2, 0.9], atol=0.01)


def test_lists_are_ordered_by_the_ranker_and_cut():
    catalogue = Dataset.from_arrays(
        np.arange(7.0).reshape(-1, 1), np.zeros(7), [1, 1, 1, 1, 1, 2, 2], docid=list("abcdefg")
    )
    for ranker in (lambda X: X[:, 0], LinearModel.from_weights([1.0]), np.arange(7.0)):
        log = simulate(2, rankers=ranker, catalogue=catalogue, popularity=None, list_length=3)
        assert log.to_table()["item"].to_pylist() == ["e", "d", "c", "g", "f"]
        assert log.position.tolist() == [1, 2, 3, 1, 2]
        assert log.session.tolist() == [0, 0, 0, 1, 1]


def test_several_rankers_random_order_and_exploration_move_items():
    def places(**options):
        log = simulate(3000, n_searches=3, random_state=2, **options)
        return len(np.unique(log.row * 100 + log.position)) / len(np.unique(log.row))

    assert places() == 1.0
    assert 1 < places(rankers={"a": lambda X: X[:, 0], "b": lambda X: X[:, 1]}) <= 2
    assert places(rankers="random") > 9
    assert places(exploration=1.0) > 3


def test_drift_changes_the_taste_but_not_the_ranker():
    still, moved = (simulate(4000, n_searches=2, drift=d, random_state=3) for d in (0.0, 1.0))
    np.testing.assert_array_equal(still.row, moved.row)
    assert np.unique(still.attraction[still.row == still.row[0]]).size == 1
    late = moved.attraction[moved.row == moved.row[0]]
    assert (np.sign(np.diff(late)) == np.sign(late[-1] - late[0])).all()


def test_true_grades_follow_attraction():
    log = simulate(3000, random_state=0)
    grade = log.catalogue.y[log.row]
    low = [log.attraction[grade == g].min() for g in range(5)]
    high = [log.attraction[grade == g].max() for g in range(5)]
    assert all(a <= b for a, b in zip(high, low[1:], strict=False))


def test_popular_searches_and_datasets():
    log = simulate(2000, n_searches=50, popularity=1.0, random_state=0)
    searches = np.bincount(np.asarray(log.catalogue.qid)[log.row])
    assert searches[0] > 5 * searches[40]
    data = log.to_dataset(purchase=4.0)
    assert set(np.unique(data.y)) == {0.0, 1.0, 5.0}
    assert data.n_queries == 2000
    np.testing.assert_array_equal(data.position, log.position)


@pytest.mark.parametrize(
    "bad",
    [
        {"users": "psychic"},
        {"users": 3},
        {"taste": "sour"},
        {"taste": np.zeros(3)},
        {"rankers": "best"},
        {"rankers": np.zeros(3)},
        {"rankers": {}},
        {"drift": 2.0},
        {"exploration": -1.0},
        {"list_length": 0},
        {"random_state": None},
    ],
)
def test_bad_parameters(bad):
    with pytest.raises(ParameterError):
        simulate(10, **bad)


def test_it_is_public():
    assert rankine.logs.simulate is simulate
    assert callable(simulate)
