"""The generated purchase log: seeded, in the order of time, drifting, scaled within lists."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.freno.figure2 import arranged
from benchmarks.freno.figure3 import near_best, roughness
from benchmarks.freno.log import Log, numbers_between_0_and_1
from benchmarks.freno.methods import METHODS, Chooser, expected, neighbours
from benchmarks.freno.table1 import interval

from rankine import Dataset


@pytest.fixture(scope="module")
def log():
    return Log(seed=3, lists=40, days=3)


def test_days_are_the_same_whatever_order_they_are_asked_for(log):
    other = Log(seed=3, lists=40, days=3)
    later = other.day(3)
    assert (later.X != log.day(3).X).nnz == 0
    assert (later.y == log.day(3).y).all()
    assert (other.day(1).y == log.day(1).y).all()


def test_every_list_has_one_purchase_and_a_number_of_its_own(log):
    together = log.between(1, 3).together()
    assert together.n_queries == 3 * 40
    assert (np.add.reduceat(together.y, together.queries.starts[:-1]) == 1).all()


def test_every_value_is_between_0_and_1(log):
    values = log.day(2).X.data
    assert values.min() >= 0
    assert values.max() <= 1


def test_numbers_are_scaled_within_their_list():
    scaled = numbers_between_0_and_1(
        np.array([0, 0, 0, 1, 1]), np.array([[1.0, 7], [3, 7], [2, 7], [5, 0], [9, 4]])
    )
    np.testing.assert_allclose(scaled, [[0, 0], [1, 0], [0.5, 0], [0, 0], [1, 1]])


def test_weights_drift_but_not_at_once():
    days = [value for _, _, value in Log(seed=1, lists=1, days=30)._weights]
    near, far = (np.corrcoef(days[0], days[k])[0, 1] for k in (1, 29))
    assert near == pytest.approx(0.97, abs=0.01)
    assert far == pytest.approx(0.97**29, abs=0.03)
    assert np.std(days[29]) == pytest.approx(np.std(days[0]), rel=0.02)


def test_chance_is_the_mean_over_all_orders(log):
    data = log.day(1)
    sizes = np.diff(data.queries.starts)
    assert expected(data, ["recall@1"])["recall@1"] == pytest.approx(np.mean(1 / sizes))


POINTS = [
    {"weights": w, "recall@1": r} for w, r in ((1, 0.1), (5, 0.3), (9, 0.2), (20, 0.5), (90, 0.4))
]


def test_fewest_weights_near_the_best():
    assert near_best(POINTS, 0.5, "recall@1") == 20
    assert near_best(POINTS, 0.3, "recall@1") == 5
    assert near_best(POINTS, 0.9, "recall@1") == 0


def test_roughness_is_what_falls_on_the_way_up():
    assert roughness(POINTS, "recall@1") == pytest.approx(100 * 0.1 / 0.4)
    assert roughness(POINTS[:2], "recall@1") == 0


class Peak(Chooser):
    """Chooses by a function instead of by passes: best at a step of 9 and an l2 of 1e-5."""

    def __init__(self):
        self.tried = 0

    def value(self, setting):
        self.tried += 1
        penalty = np.log10(setting["l2"]) + 5 if setting["l2"] else 3.0
        return -abs(np.log10(setting["eta0"] / 9)) - abs(penalty)


@pytest.mark.parametrize("method", ["LR", "RankSVM", "RDA"])
def test_a_choice_leaves_its_start_behind_and_ends_where_no_neighbour_is_better(method):
    chooser = Peak()
    setting, settled = chooser.choose(method, budget=60)
    assert settled
    assert setting["eta0"] == pytest.approx(9, rel=0.2)
    assert setting["l2"] == pytest.approx(1e-5, rel=0.2)
    own = chooser.value(setting)
    assert all(chooser.value(n) <= own for n in neighbours(setting, METHODS[method][1]))


def test_no_method_spends_more_than_the_budget():
    for method in METHODS:
        chooser = Peak()
        setting, settled = chooser.choose(method, budget=5)
        assert chooser.tried <= 5
        assert settled <= (chooser.tried < 5)
        assert set(setting) == set(METHODS[method][0])


def test_ladders_reach_zero_and_come_back():
    start = {"l1": 1e-6}
    assert {"l1": 0.0} in list(neighbours(start, {"l1": None}))
    assert list(neighbours({"l1": 0.0}, {"l1": None})) == [start]


def test_lists_are_cut_and_repeated_in_a_row():
    X, y = np.arange(12.0)[:, None], np.tile([0.0, 1.0, 2.0], 4)
    data = Dataset.from_arrays(X, y, np.repeat([1, 2], 6))
    (block,) = arranged(data, seed=0, parts=2, repeats=3)
    assert block.n_queries == 2 * 2 * 3
    assert sorted(block.X.ravel()) == sorted(np.repeat(X.ravel(), 3))
    lists = block.X.ravel().reshape(4, 3, 3)
    assert (lists == lists[:, :1]).all()


def test_an_interval_over_logs_holds_the_mean_and_narrows_with_agreement():
    def results(gaps):
        return {"logs": [{"methods": {"a": {"over_random": [g]}, "b": {"over_random": [0.0]}}}
                         for g in gaps]}  # fmt: skip

    low, high = interval(results([1.0, 2.0, 3.0]), "a", "b", 0)
    assert low < 0
    assert high > 4
    low, high = interval(results([2.0, 2.0, 2.0]), "a", "b", 0)
    assert (low, high) == (2.0, 2.0)
