"""The generated purchase log: seeded, in the order of time, drifting, scaled within lists."""

from __future__ import annotations

import numpy as np
import pytest
from papers.freno.figure2 import arranged
from papers.freno.figure3 import near_best, roughness
from papers.freno.log import Log, numbers_between_0_and_1
from papers.freno.methods import LEAST, METHODS, Chooser, expected, neighbours

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


def test_lists_are_cut_and_repeated_in_a_row():
    X, y = np.arange(12.0)[:, None], np.tile([0.0, 1.0, 2.0], 4)
    data = Dataset.from_arrays(X, y, np.repeat([1, 2], 6))
    (block,) = arranged(data, seed=0, parts=2, repeats=3)
    assert block.n_queries == 2 * 2 * 3
    assert sorted(block.X.ravel()) == sorted(np.repeat(X.ravel(), 3))
    lists = block.X.ravel().reshape(4, 3, 3)
    assert (lists == lists[:, :1]).all()


def test_ladders_of_settings_have_no_ends():
    chosen = {"eta0": None, "l2": None, "loss": ("logistic", "hinge")}
    found = list(neighbours({"eta0": 1e4, "l2": 0.0, "loss": "hinge"}, chosen))
    assert [one["eta0"] for one in found] == [32_000.0, 3200.0, 1e4, 1e4]
    assert found[2]["l2"] == LEAST["l2"]
    assert found[3]["loss"] == "logistic"
    below = list(neighbours({"l2": LEAST["l2"]}, {"l2": None}))
    assert [one["l2"] for one in below] == [3.2e-6, 0.0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [5, 24])
def test_no_method_tries_more_than_its_budget(method, budget):
    chooser, values = Chooser.__new__(Chooser), []

    def value(setting):
        """The best step is far from where every method starts."""
        values.append(-abs(np.log(setting["eta0"] / 500)))
        return values[-1]

    chooser.value = value
    best, settled = chooser.choose(method, budget)
    assert settled == (len(values) < budget)
    assert len(values) <= budget
    assert max(values) == value(best)
