"""Simulated users do what their model says."""

from __future__ import annotations

import numpy as np
import pytest

import rankine
from rankine import Dataset, LinearModel
from rankine.core.errors import ParameterError
from rankine.logs import simulate
from rankine.logs import simulation as module
from rankine.logs.simulation import (
    SHOP,
    Cascade,
    DependentClick,
    PositionBased,
    TrustBias,
    shop_log,
)

USERS = ["position_based", "cascade", "dependent_click", "trust_bias"]


@pytest.mark.parametrize("users", USERS)
def test_the_same_seed_gives_the_same_log(users):
    one, two = (simulate(500, users=users, exploration=0.3, random_state=4) for _ in range(2))
    other = simulate(500, users=users, exploration=0.3, random_state=5)
    assert one.to_table(features=True, truth=True).equals(two.to_table(features=True, truth=True))
    assert not one.to_table().equals(other.to_table())


@pytest.mark.parametrize("users", USERS)
def test_only_examined_items_are_clicked(users):
    log = simulate(2000, users=users, random_state=1)
    assert not (log.clicked & ~log.examined).any()
    assert not (log.purchased & ~log.clicked).any()
    assert log.clicked.any()
    assert log.purchased.any()


def shapes(user, attraction, sessions=40_000):
    rows = np.tile(np.asarray(attraction, dtype=float), (sessions, 1))
    looked, clicked = user.read(rows, np.random.default_rng(0))
    return looked.mean(axis=0), clicked.mean(axis=0)


def test_position_based_users_examine_positions_by_their_probabilities():
    looked, clicked = shapes(PositionBased(1.0), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(looked, [1, 1 / 2, 1 / 3], atol=0.01)
    np.testing.assert_allclose(clicked, np.array([1, 1 / 2, 1 / 3]) / 2, atol=0.01)
    assert PositionBased(examination=(1.0, 0.3)).examination_probabilities(3).tolist() == [
        1.0,
        0.3,
        0.3,
    ]


def test_cascade_users_stop_at_the_first_click():
    looked, clicked = shapes(Cascade(patience=0.8), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(looked, [1, 0.4, 0.16], atol=0.01)
    np.testing.assert_allclose(clicked, [0.5, 0.2, 0.08], atol=0.01)


def test_dependent_click_users_continue_after_some_clicks():
    looked, _ = shapes(DependentClick(go_on=0.6, fade=0.0), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(looked, [1, 0.8, 0.64], atol=0.01)


def test_users_with_trust_bias_click_unwanted_items_at_the_top():
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


def test_popular_searches_are_frequent_and_logs_become_datasets():
    log = simulate(2000, n_searches=50, popularity=1.0, random_state=0)
    searches = np.bincount(np.asarray(log.catalogue.qid)[log.row])
    assert searches[0] > 5 * searches[40]
    data = log.to_dataset(purchase=4.0)
    assert set(np.unique(data.y)) == {0.0, 1.0, 5.0}
    assert data.n_queries == 2000
    np.testing.assert_array_equal(data.position, log.position)


def standard(values):
    return (values - values.mean()) / values.std()


def curved(X, weights):
    """Steps above 1/2, bumps, and products with the feature before, in turn."""
    shape = [lambda x, _: x > 0.5, lambda x, _: abs(x), lambda x, before: x * before]
    return sum(w * shape[j % 3](X[:, j], X[:, (j - 1) % X.shape[1]]) for j, w in enumerate(weights))


class Recorder:
    """A user who looks at everything, clicks nothing, and notes what was shown."""

    def __init__(self):
        self.lists, self.numbers = [], []

    def read(self, attraction, rng):
        self.lists.append(attraction)
        self.numbers.append(rng.random())
        return np.ones(attraction.shape, bool), np.zeros(attraction.shape, bool)


@pytest.mark.parametrize("taste", ["linear", "curved"])
def test_tastes_rankers_and_drift_equal_their_formulas(taste):
    n, searches, items = 21, 1, 8
    said = {"n_searches": searches, "n_items": items, "n_features": 5, "list_length": items,
            "taste": taste, "base": 0.3, "strength": 2.0, "random_state": 3}  # fmt: skip
    make, mind, work = (np.random.default_rng([3, part]) for part in range(3))
    X = make.standard_normal((items, 5))
    first, other = (
        standard(X @ w if taste == "linear" else curved(X, w)) for w in mind.standard_normal((2, 5))
    )
    order = np.argsort(-(first + standard(X @ mind.standard_normal(5))), kind="stable")
    for drift in (0.0, 0.25, 1.0):
        user = Recorder()
        log = simulate(n, users=user, drift=drift, **said)
        np.testing.assert_array_equal(log.catalogue.X, X)
        assert log.row.reshape(n, items).tolist() == [order.tolist()] * n
        last = standard((1 - drift) * first + drift * other)
        age = np.repeat(np.arange(n) / (n - 1), items)
        likes = first[log.row] + age * (last - first)[log.row]
        np.testing.assert_allclose(log.attraction, 1 / (1 + np.exp(-0.3 - 2.0 * likes)), rtol=1e-9)
        assert (np.diff(log.catalogue.y[np.argsort(last)]) >= 0).all()
        assert len(user.lists) == 1, "few lists are drawn at once"
    work.random(n)
    work.integers(0, 1, n)
    assert user.numbers == [work.random()], "what is not asked for draws nothing"


def test_lists_are_drawn_one_by_one_if_two_exceed_the_chunk(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 1)
    user = Recorder()
    simulate(5, users=user, n_searches=1, n_items=4, random_state=0)
    assert [len(lists) for lists in user.lists] == [1] * 5


def test_the_second_of_two_sessions_has_the_last_taste():
    log = simulate(2, n_searches=1, n_items=6, list_length=6, drift=1.0, base=0.0, strength=1.0,
                   popularity=None, random_state=2)  # fmt: skip
    likes = np.log(log.attraction / (1 - log.attraction))
    first, last = (likes[log.session == s][np.argsort(log.row[log.session == s])] for s in (0, 1))
    for taste in (first, last):
        assert (taste.mean(), taste.std()) == (pytest.approx(0, abs=1e-9), pytest.approx(1))
    assert abs(first - last).max() > 0.1


@pytest.mark.parametrize("exploration", [0.5, 2.0])
def test_exploration_draws_the_top_by_a_softmax(exploration):
    scores = np.array([0.0, 1.0, 4.0])
    catalogue = Dataset.from_arrays(np.zeros((3, 1)), np.zeros(3))
    log = simulate(20_000, catalogue=catalogue, rankers=scores, taste=np.zeros(3),
                   exploration=exploration, random_state=0)  # fmt: skip
    top = np.bincount(log.row[log.position == 1], minlength=3) / 20_000
    chance = np.exp(standard(scores) / exploration)
    np.testing.assert_allclose(top, chance / chance.sum(), atol=0.01)


def test_the_taste_of_a_shop_contains_noise(monkeypatch):
    """What is left of the taste is skewed to the right, as that of the best of many is."""
    given, plain = {}, module.simulate
    monkeypatch.setattr(
        module, "simulate", lambda *args, **told: given.update(told) or plain(*args, **told)
    )
    shop_log(600)
    left = given["taste"] - given["catalogue"].X @ np.array(list(SHOP.values()))
    assert left.std() == pytest.approx(0.5 * np.pi / np.sqrt(6), rel=0.05)
    assert ((left - left.mean()) ** 3).mean() / left.std() ** 3 == pytest.approx(1.14, abs=0.2)


def test_grades_have_their_shares():
    log = simulate(1, n_searches=5, n_items=20, random_state=0)
    assert np.bincount(log.catalogue.y.astype(int)).tolist() == [50, 20, 15, 10, 5]
    assert log.session.tolist() == [0] * 10, "one session is as old as the log"


def uneven(**more):
    """Searches of 3, 1 and 2 items, in mixed order."""
    return Dataset.from_arrays(
        np.arange(6.0)[:, None], np.zeros(6), ["b", "a", "b", "c", "c", "b"], **more
    )


@pytest.mark.parametrize("chunk", [1, 3, 7, 10_000])
@pytest.mark.parametrize("exploration", [0.0, 0.5])
def test_every_list_is_whole_for_any_chunk_size(monkeypatch, chunk, exploration):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    rankers = {"random": "random", "rising": -np.arange(6.0)}
    log = simulate(60, catalogue=uneven(), rankers=rankers, popularity=None, list_length=9,
                   exploration=exploration, random_state=0)  # fmt: skip
    qid = np.asarray(log.catalogue.qid)
    assert log.ranker_names == ("random", "rising")
    for session in range(60):
        mine = log.session == session
        name = ["b", "a", "c"][session % 3]
        assert set(log.row[mine]) == set(np.flatnonzero(qid == name))
        assert log.position[mine].tolist() == list(range(1, mine.sum() + 1))
        assert len(set(log.ranker[mine])) == 1
        if log.ranker[mine][0] == 1 and exploration == 0:
            assert (np.diff(log.row[mine]) > 0).all()
    orders = {
        tuple(log.row[log.session == s])
        for s in range(0, 60, 3)
        if log.ranker[log.session == s][0] == 0
    }
    assert len(orders) > 2
    assert set(log.ranker) == {0, 1}


def test_purchases_follow_attraction():
    said = {"n_searches": 2, "base": 0.0, "strength": 0.0, "users": PositionBased(0.0)}
    for purchase, share in ((0.0, 0.0), (0.5, 0.25), (1.0, 0.5)):
        log = simulate(3000, purchase=purchase, random_state=0, **said)
        assert log.clicked.mean() == pytest.approx(0.5, abs=0.02)
        assert log.purchased.sum() / log.clicked.sum() == pytest.approx(share, abs=0.02)
    flat = simulate(20, taste=np.ones(6), catalogue=uneven(), base=1.0, random_state=0)
    np.testing.assert_allclose(flat.attraction, 1 / (1 + np.exp(-1.0)))


def test_searches_are_drawn_by_their_rank():
    for power in (0.0, 1.0, 2.0):
        log = simulate(6000, n_searches=3, n_items=1, popularity=power, random_state=0)
        found = np.bincount(log.row, minlength=3) / 6000
        weight = np.array([1.0, 2.0, 3.0]) ** -power
        np.testing.assert_allclose(found, weight / weight.sum(), atol=0.02)


def test_the_truth_is_in_the_log_and_its_tables():
    log = simulate(200, catalogue=uneven(docid=list("uvwxyz"), feature_names=["price"]),
                   popularity=None, random_state=0)  # fmt: skip
    for k in (1, 2, 3):
        at, first = log.position == k, log.position == 1
        share = log.examined[at].mean() / log.examined[first].mean()
        assert log.propensity[k - 1] == pytest.approx(share)
    table = log.to_table(features=True, truth=True).to_pydict()
    names = np.array(list("uvwxyz"))
    assert table["item"] == names[log.row].tolist()
    assert table["search"] == np.asarray(log.catalogue.qid)[log.row].tolist()
    assert table["price"] == log.row.tolist()
    assert table["attraction"] == log.attraction.tolist()
    assert table["examined"] == log.examined.tolist()
    assert table["clicked"] == log.clicked.astype(int).tolist()
    assert set(table["ranker"]) == {"old"}
    assert "attraction" not in log.to_table().column_names
    data = log.to_dataset(purchase=2.0)
    assert data.y.tolist() == (log.clicked + 2.0 * log.purchased).tolist()
    assert data.docid.tolist() == table["item"]
    assert data.feature_names == ("price",)
    assert data.columns["item"].tolist() == log.row.tolist()
    assert data.columns["search"].tolist() == table["search"]
    bare = simulate(5, catalogue=uneven(), random_state=0)
    assert bare.to_table(features=True)["item"].to_pylist() == bare.row.tolist()
    assert bare.to_table(features=True)["x1"].to_pylist() == bare.row.tolist()
    assert bare.to_dataset().docid is None


def test_dependent_clicks_fade_down_the_list():
    looked, clicked = shapes(DependentClick(go_on=0.8, fade=1.0), [1.0, 1.0, 1.0])
    np.testing.assert_allclose(looked, [1, 0.8, 0.32], atol=0.01)
    np.testing.assert_allclose(clicked, looked)


def test_the_shop_log_has_the_documented_features():
    data = shop_log(500, list_length=8)
    assert data.feature_names == tuple(SHOP)
    assert set(data.queries.sizes) == set(range(4, 13))
    assert data.queries.ids.tolist() == list(range(1, 501))
    for query in range(500):
        rows = data.queries.rows_of(query)
        assert data.position[rows].tolist() == list(range(1, len(rows) + 1))
        assert len(set(data.columns["query_text"][rows])) == 1
    assert set(np.unique(data.y)) == {0.0, 1.0, 2.0}
    assert all(10_000 <= int(name.removeprefix("P")) < 99_999 for name in data.docid)
    column = dict(zip(SHOP, data.X.T, strict=True))
    for name, mean, spread in (
        ("title_match", 2 / 5, 0.2), ("description_match", 2 / 6, 0.178), ("price_log", 0, 0.6),
        ("rating", 0.695, 0.19), ("reviews_log", 0.7, 0.495), ("days_since_launch", 0.6, 0.49),
        ("brand_affinity", 0, 0.5), ("delivery_days", 4 / 7, 2 / 7), ("image_count", 0.5, 0.2635),
        ("warehouse_id", 0.4, 0.283), ("colour_code", 0.5, 0.289), ("in_stock", 0.85, 0.357),
        ("sku_parity", 0.5, 0.5), ("discount", 0.09, 0.167),
    ):  # fmt: skip
        assert column[name].mean() == pytest.approx(mean, abs=0.03), name
        assert column[name].std() == pytest.approx(spread, abs=0.02), name
    for name, values in (
        ("delivery_days", np.arange(1, 8) / 7), ("image_count", np.arange(1, 12) / 12),
        ("warehouse_id", np.arange(5) / 5), ("sku_parity", [0, 1]), ("in_stock", [0, 1]),
    ):  # fmt: skip
        assert np.unique(column[name]).tolist() == np.round(values, 5).tolist()
    assert (column["rating"].min(), column["rating"].max()) == (0, 1)
    assert column["discount"].max() <= 0.6
    assert (column["discount"] > 0).mean() == pytest.approx(0.3, abs=0.03)
    top = data.position <= 2
    for name, cells in column.items():
        gap = (cells[top].mean() - cells[~top].mean()) / cells.std()
        assert (gap > 0.2) if name == "title_match" else (abs(gap) < 0.1), name
        clicked = cells[top & (data.y > 0)].mean() - cells[top & (data.y == 0)].mean()
        if abs(SHOP[name]) > 0.8:
            assert np.sign(clicked) == np.sign(SHOP[name]), name


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
        {"drift": -0.1},
        {"purchase": 1.1},
        {"exploration": -1.0},
        {"exploration": np.nan},
        {"list_length": 0},
        {"n_sessions": 0},
        {"random_state": None},
    ],
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ParameterError):
        simulate(**{"n_sessions": 10, **bad})


def test_parameters_at_their_limits():
    log = simulate(1, list_length=1, drift=1.0, purchase=1.0, random_state=np.int64(0))
    assert len(log.row) == 1

    class Fixed:
        def predict(self, X):
            return X[:, 0]

    by_object = simulate(3, rankers=Fixed(), random_state=0)
    by_function = simulate(3, rankers=lambda X: X[:, 0], random_state=0)
    np.testing.assert_array_equal(by_object.row, by_function.row)
    assert by_object.ranker_names == ("ranker",)


def test_simulate_is_a_public_name():
    assert rankine.logs.simulate is simulate
    assert callable(simulate)
