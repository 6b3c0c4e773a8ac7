"""Propensities: the truth of simulated logs is found, and where it cannot be, it is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, logit
from typer.testing import CliRunner

import rankine
from error_checks import raises_for
from rankine import ElasticRanker
from rankine.cli.main import app, find_commands
from rankine.core.errors import DivergenceError, OverlapError, ParameterError, SchemaError
from rankine.logs import propensity as module
from rankine.logs.clicks import coec, read_clicks
from rankine.logs.propensity import Propensity, estimate_propensity
from rankine.logs.simulation import PositionBased, simulate

PAIRS = {"item": "item", "search": "search", "n_resamples": 0}
FEATURES = [f"x{j + 1}" for j in range(10)]


@pytest.fixture(scope="module")
def moving():
    """A log whose items change places."""
    return simulate(40_000, exploration=0.5, random_state=1)


@pytest.fixture(scope="module")
def shuffled():
    """A log in random order."""
    return simulate(30_000, rankers="random", random_state=1)


def error(found, log):
    return np.abs(found.values - log.propensity[: len(found)]).mean()


def test_harvesting_recovers_the_true_propensities(moving):
    found = estimate_propensity(moving, **PAIRS)
    assert found.method == "harvest"
    assert found.pairs > 1000
    assert error(found, moving) < 0.02
    raw = moving.clicked[moving.position == 5].mean() / moving.clicked[moving.position == 1].mean()
    assert abs(raw - moving.propensity[4]) > 3 * abs(found[4] - moving.propensity[4])


def test_harvesting_recovers_the_propensities_from_two_rankers():
    log = simulate(40_000, rankers={"a": lambda X: X[:, 0], "b": lambda X: X[:, 1]}, random_state=3)
    assert error(estimate_propensity(log, **PAIRS), log) < 0.02


def test_harvesting_maximises_its_likelihood(moving):
    log = read_clicks(moving, item="item", search="search")
    found = estimate_propensity(moving, falling=False, **PAIRS)
    shown, clicked = (np.zeros((log.pair.max() + 1, 10)) for _ in range(2))
    np.add.at(shown, (log.pair, log.position - 1), 1)
    np.add.at(clicked, (log.pair, log.position - 1), log.clicked)

    def likelihood(theta):
        live = clicked.sum(axis=1) > 0
        mass = clicked.sum(axis=1)[live] @ np.log((shown @ theta)[live])
        return (clicked @ np.log(theta)).sum() - mass

    best = likelihood(found.values)
    for k in range(1, 10):
        for factor in (0.99, 1.01):
            other = found.values.copy()
            other[k] *= factor
            assert likelihood(other) < best


def test_regression_em_needs_no_change_of_rank():
    log = simulate(40_000, n_searches=2000, random_state=2)
    found = estimate_propensity(
        log.to_table(features=True), method="em", features=FEATURES, n_resamples=0
    )
    assert error(found, log) < 0.02
    with raises_for("method", OverlapError):
        estimate_propensity(log, **PAIRS)


def test_regression_em_recovers_the_propensities_with_a_number_per_item(shuffled):
    found = estimate_propensity(shuffled, method="em", item="item", n_resamples=0)
    assert error(found, shuffled) < 0.02


def test_click_rates_of_randomised_lists_recover_the_propensities(shuffled):
    found = estimate_propensity(shuffled, method="randomised", falling=False, n_resamples=0)
    rate = [shuffled.clicked[shuffled.position == k].mean() for k in range(1, 11)]
    np.testing.assert_allclose(found, np.array(rate) / rate[0], rtol=1e-12)
    blocks = list(shuffled.to_dataset().blocks(max_rows=10_000))
    by_block = estimate_propensity(blocks, method="randomised", falling=False, n_resamples=0)
    np.testing.assert_array_equal(by_block, found)


def test_intervals_cover_the_truth(moving):
    found = estimate_propensity(moving, **PAIRS | {"n_resamples": 60})
    truth = PositionBased().examination_probabilities(10)
    assert (found.low[1:] < found.high[1:]).all()
    assert ((found.low <= truth) & (truth <= found.high))[1:].mean() > 0.6
    again = estimate_propensity(moving, **PAIRS | {"n_resamples": 60})
    np.testing.assert_array_equal(found.low, again.low)
    assert found.unit == "search"
    assert found.n_units == 200


def test_a_context_gives_an_estimate_for_each_of_its_values():
    phone = simulate(20_000, users=PositionBased(1.5), exploration=0.5, random_state=1).to_table()
    desk = simulate(20_000, users=PositionBased(0.5), exploration=0.5, random_state=2).to_table()
    columns = {
        name: np.r_[phone[name].to_numpy(), desk[name].to_numpy()]
        for name in ("search", "item", "position", "clicked")
    }
    columns["session"] = np.r_[phone["session"].to_numpy(), desk["session"].to_numpy() + 20_000]
    columns["device"] = np.repeat(["phone", "desk"], [len(phone), len(desk)])
    found = estimate_propensity(columns, context="device", **PAIRS)
    assert set(found.contexts) == {"phone", "desk"}
    for name, eta in (("phone", 1.5), ("desk", 0.5)):
        truth = PositionBased(eta).examination_probabilities(10)
        assert np.abs(found.contexts[name].values - truth).mean() < 0.04


def test_unconnected_positions_are_named():
    """Items of positions 1 and 2 change places, and those of 3 and 4, never across."""
    session = np.repeat(np.arange(400), 4)
    item = np.tile([[0, 1, 2, 3], [1, 0, 3, 2]], (200, 1)).ravel()
    log = {
        "session": session,
        "item": item,
        "position": np.tile([1, 2, 3, 4], 400),
        "clicked": (np.random.default_rng(0).random(1600) < 0.5).astype(int),
    }
    with pytest.raises(OverlapError, match=r"positions 1, 2 and at positions 3, 4"):
        estimate_propensity(log, item="item", n_resamples=0)
    log["clicked"][log["position"] == 2] = 0
    with pytest.raises(OverlapError, match="position 2 has 0"):
        estimate_propensity(log, item="item", max_position=2, n_resamples=0)


def test_never_rising_and_short_positions(moving):
    found = estimate_propensity(moving, **PAIRS)
    assert found[0] == 1.0
    assert (np.diff(found.values) <= 0).all()
    log = moving.to_table()
    few = log.filter(np.asarray(log["position"]) * 40 < np.asarray(log["session"]))
    assert len(estimate_propensity(few, max_position=4, **PAIRS)) == 4
    all_positions = estimate_propensity(moving, max_position=10**20, **PAIRS)
    assert all_positions.values.tobytes() == found.values.tobytes()
    kept = (moving.position < 6) | (moving.session < 20)
    assert len(estimate_propensity(log.filter(kept), **PAIRS)) == 5


def test_estimates_are_saved_loaded_and_printed_by_the_command(moving, tmp_path):
    find_commands()
    pq.write_table(moving.to_table(), tmp_path / "log.parquet")
    names = ["--query", "session", "--item", "item", "--search", "search", "--n-resamples", "5"]
    out, picture = tmp_path / "looks.json", tmp_path / "looks.svg"
    command = ["clicks", "propensity", str(tmp_path / "log.parquet"), *names]
    files = ["--out", str(out), "--plot", str(picture)]
    run = CliRunner().invoke(app, [*command, "--json", *files])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    expected = estimate_propensity(moving, **PAIRS | {"n_resamples": 5})
    np.testing.assert_allclose(found["propensity"], expected, rtol=1e-12)
    assert Propensity.load(out).to_dict() == found
    assert picture.read_text().lstrip().startswith("<?xml")
    out.write_text('{"propensity": [1.0, 0.5]}')
    assert list(Propensity.load(out)) == [1.0, 0.5]
    assert "harvest" in CliRunner().invoke(app, command).stdout
    out.write_text('{"propensity": [1.0, -0.5]}')
    with pytest.raises(SchemaError):
        Propensity.load(out)
    out.write_text("{}")
    with pytest.raises(SchemaError):
        Propensity.load(out)


def test_rows_without_a_value_are_refused(moving):
    table = moving.to_table().slice(0, 2000)
    for name in ("session", "item", "position", "clicked"):
        values = table[name].to_pylist()
        values[7] = None
        place = table.column_names.index(name)
        holes = table.set_column(place, name, pa.array(values))
        with pytest.raises(SchemaError, match=f"{name}: 1 rows have no value"):
            read_clicks(holes, item="item", search="search")
    far = table.to_pandas().assign(position=2_000_000_000)
    with pytest.raises(SchemaError, match="from 1"):
        read_clicks(far)


def test_invalid_parameters_are_refused(moving, shuffled):
    with pytest.raises(ParameterError) as caught:
        estimate_propensity(shuffled)
    assert caught.value.parameter == "method"
    with pytest.raises(ParameterError) as caught:
        estimate_propensity(shuffled, method="guess")
    assert caught.value.parameter == "method"
    with pytest.raises(ParameterError) as caught:
        estimate_propensity(moving, max_position=0, **PAIRS)
    assert caught.value.parameter == "max_position"
    with pytest.raises(SchemaError, match="no column 'where'"):
        estimate_propensity(moving, position="where", **PAIRS)
    with raises_for("min_rows", OverlapError):
        estimate_propensity(simulate(5), **PAIRS)


def test_clicks_over_expected_clicks(moving):
    log = read_clicks(moving, item="item", search="search")
    truth = moving.attraction
    corrected = coec(log, moving.propensity)
    rate = np.bincount(log.pair, weights=log.clicked) / np.bincount(log.pair)
    assert np.corrcoef(corrected, truth)[0, 1] > np.corrcoef(rate[log.pair], truth)[0, 1]
    np.testing.assert_allclose(coec(log, shrinkage=1e9), 1.0, atol=1e-3)
    with raises_for("shrinkage"):
        coec(log, shrinkage=0.0)


def test_weighted_clicks_recover_the_ranking_that_unweighted_clicks_miss():
    """Users want feature 2; the shop sorts by feature 1, which says nothing."""
    options = {"taste": lambda X: X[:, 1], "base": -3.5, "strength": 2.0, "n_features": 3}
    options |= {"n_items": 8, "list_length": 8, "popularity": None}
    log = simulate(6000, n_searches=6000, rankers=lambda X: X[:, 0], random_state=0, **options)
    random_lists = simulate(6000, n_searches=6000, rankers="random", random_state=1, **options)
    propensity = estimate_propensity(random_lists, method="randomised", n_resamples=0)
    fit = {"objective": "pairwise", "l1": 0.0, "eta0": 0.1, "random_state": 0}
    biased = ElasticRanker(**fit).fit(log.to_dataset()).coef_
    fair = ElasticRanker(propensity=propensity, **fit).fit(log.to_dataset()).coef_
    assert biased[0] / biased[1] > 0.4
    assert abs(fair[0] / fair[1]) < 0.15


def test_missing_positions_and_bad_weights_are_refused():
    data = simulate(50, random_state=0).to_dataset()
    with raises_for("position", SchemaError):
        ElasticRanker(propensity=[1.0]).fit(replace(data, position=None))
    with pytest.raises(SchemaError, match="from 1"):
        estimate_propensity(replace(data, position=data.position - 1), method="randomised")
    with raises_for("max_weight"):
        ElasticRanker(propensity=[1.0], max_weight=0.5).fit(data)
    assert rankine.estimate_propensity is estimate_propensity


# ------------------------------------------------------------------ small logs, by hand
def small(n=600, seed=0, positions=3, items=4):
    """A log of short lists in random order, with a feature of each item and a device."""
    rng = np.random.default_rng(seed)
    item = np.concatenate([rng.permutation(items)[:positions] for _ in range(n)])
    position = np.tile(np.arange(1, positions + 1), n)
    chance = (0.3 + 0.15 * item) / position**0.7
    return {
        "session": np.repeat(np.arange(n), positions),
        "search": np.repeat(rng.integers(0, 5, n), positions),
        "position": position,
        "item": item,
        "x": item / items,
        "clicked": (rng.random(n * positions) < chance).astype(int),
    }


def rates(log, most, times=None):
    """Click rates by position relative to the first; positions beyond the last count as it."""
    place = np.minimum(log["position"], most)
    times = np.ones(len(place)) if times is None else times
    rate = [
        (times * log["clicked"])[place == k].sum() / times[place == k].sum()
        for k in range(1, most + 1)
    ]
    return np.array(rate) / rate[0]


RANDOM = {"method": "randomised", "falling": False, "n_resamples": 0, "min_rows": 1}


def test_random_lists_are_counted_up_to_a_position():
    log = small()
    for most in (1, 2, 3):
        found = estimate_propensity(log, **RANDOM, max_position=most)
        np.testing.assert_allclose(found.values, rates(log, most), rtol=1e-12)
        place = np.minimum(log["position"], most) - 1
        assert found.rows.tolist() == np.bincount(place).tolist()
        assert found.clicks.tolist() == np.bincount(place, log["clicked"]).astype(int).tolist()
        assert (found.pairs, found.n_units, found.unit) == (600, 600, "query")
        np.testing.assert_array_equal(found.low, found.values)


def test_exactly_min_rows_rows_are_enough():
    log = small()
    kept = (log["position"] < 3) | (log["session"] < 40)
    log = {name: values[kept] for name, values in log.items()}
    for least, length in ((40, 3), (41, 2), (600, 2)):
        found = estimate_propensity(log, **RANDOM | {"min_rows": least})
        assert len(found) == length
        assert found.rows.tolist() == np.bincount(log["position"])[1 : length + 1].tolist()
    with pytest.raises(OverlapError, match="position 1 has only 600 rows, and 601 are required"):
        estimate_propensity(log, **RANDOM | {"min_rows": 601})


def test_rates_that_rise_are_pooled_by_their_clicks():
    """Rates 0.5, 0.2 and 0.4 at positions of 50, 20 and 80 clicks."""
    n = {1: (100, 50), 2: (100, 20), 3: (200, 80)}
    log = {"session": np.arange(400), "position": np.repeat([1, 2, 3], [100, 100, 200])}
    log["clicked"] = np.concatenate([np.arange(shown) < hits for shown, hits in n.values()]) * 1
    found = estimate_propensity(log, **RANDOM | {"falling": True})
    pooled = (20 * 0.2 + 80 * 0.4) / 100
    np.testing.assert_allclose(found.values, [1.0, pooled / 0.5, pooled / 0.5], rtol=1e-12)
    np.testing.assert_allclose(estimate_propensity(log, **RANDOM).values, [1.0, 0.4, 0.8])
    log["clicked"][101:120] = 0
    found = estimate_propensity(log, **RANDOM | {"falling": True})
    pooled = (1 * 0.01 + 80 * 0.4) / 81
    np.testing.assert_allclose(found.values, [1.0, pooled / 0.5, pooled / 0.5], rtol=1e-12)


def shown(*rows):
    """A log of (item, position, clicked), one list each."""
    item, position, clicked = zip(*rows, strict=True)
    return {"session": np.arange(len(rows)), "item": item, "position": position,
            "clicked": clicked}  # fmt: skip


ONCE = {"item": "item", "min_rows": 1, "n_resamples": 0, "falling": False}


def test_one_click_connects_two_positions():
    log = shown(("a", 1, 1), ("a", 2, 0), ("b", 1, 0), ("b", 1, 0), ("b", 2, 1), ("c", 1, 1),
                ("d", 1, 0), ("d", 2, 0))  # fmt: skip
    found = estimate_propensity(log, **ONCE)
    # a: theta / (1 + theta) of its click at 2; b: theta / (2 + theta); together they are one click
    np.testing.assert_allclose(found.values, [1.0, np.sqrt(2)], rtol=1e-7)
    assert (found.pairs, found.rows.tolist(), found.clicks.tolist()) == (2, [3, 2], [1, 1])
    by_item = estimate_propensity(log, **ONCE, method="em")
    assert (by_item.pairs, by_item.rows.tolist()) == (4, [5, 3])
    once = estimate_propensity(shown(("a", 1, 1), ("a", 2, 1)), **RANDOM)
    np.testing.assert_allclose(once.values, [1.0, 1.0])


@pytest.mark.parametrize(
    ("apart", "words"),
    [
        ((1, 2, 2), "position 1 and at positions 2, 3"),
        ((1, 1, 2), "positions 1, 2 and at position 3"),
        ((1, 2, 1), "positions 1, 3 and at position 2"),
    ],
)
def test_positions_without_a_common_item_are_an_error(apart, words):
    rows = [(item, k + 1, 1) for item in (1, 2) for k in range(3) if apart[k] == item]
    for said in ({"method": "em"}, {}):
        with pytest.raises(OverlapError, match=f"shown both at {words}"):
            estimate_propensity(shown(*rows), **ONCE, **said)


def test_equal_rows_of_features_are_one_group():
    grid = np.array([[2.0**a, 2.0**b, 3.0 * 2.0**c] for a in range(8) for b in range(8)
                     for c in range(4)])  # fmt: skip
    group, first = module._equal_rows(np.vstack([grid, grid[::-1]]))
    assert group.tolist() == [*range(256), *reversed(range(256))]
    assert first.tolist() == list(range(256))
    log = small(60)
    assert estimate_propensity(log, method="em", features=["x"], **RANDOM_LESS).pairs == 4


RANDOM_LESS = {"n_resamples": 0, "min_rows": 1}


@pytest.mark.parametrize("search", [None, "search"])
def test_intervals_are_quantiles_of_resamples(search):
    log = small(200)
    found = estimate_propensity(
        log, **RANDOM | {"n_resamples": 40}, search=search, confidence=0.8, random_state=6
    )
    unit = log["session" if search is None else "search"]
    unit = np.unique(unit, return_inverse=True)[1]
    first = np.unique(unit, return_index=True)[1]
    number = np.argsort(np.argsort(first))[unit]  # in order of appearance
    size = number.max() + 1
    draws = []
    for b in range(40):
        drawn = np.random.default_rng([6, b]).integers(0, size, size)
        draws.append(rates(log, 3, np.bincount(drawn, minlength=size)[number].astype(float)))
    low, high = np.quantile(draws, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(found.low, low, rtol=1e-12)
    np.testing.assert_allclose(found.high, high, rtol=1e-12)
    assert (found.unit, found.n_units) == ("query" if search is None else "search", size)
    assert (found.confidence, found.n_resamples) == (0.8, 40)


def solver(log, method, **names):
    """What ``estimate_propensity`` solves: theta as a function of weights of the lists."""
    clicks = read_clicks(log, **names, columns=["x"])
    features = ("x",) if method == "features" else ()
    method = "em" if method == "features" else method
    group, table = module._groups(clicks, method, features)
    cells = module._count(clicks, group, clicks.position - 1, int(clicks.position.max()))
    return module._prepare(cells, method, table)[1]


@pytest.mark.parametrize("method", ["harvest", "em", "features"])
def test_a_list_of_weight_two_counts_twice(method):
    log = small(150, seed=1)
    weight = np.arange(150) % 3
    again = np.repeat(np.arange(150), weight)
    rows = np.concatenate([np.flatnonzero(log["session"] == s) for s in again])
    repeated = {name: values[rows] for name, values in log.items()}
    repeated["session"] = np.repeat(np.arange(len(again)), 3)
    one, two = (solver(part, method, item="item") for part in (log, repeated))
    start = one(None, None)
    found = one(weight.astype(float), start)
    np.testing.assert_allclose(found, two(None, None), rtol=1e-5)
    assert abs(found - start).max() > 1e-3


def likelihood(x, log, features):
    """The penalised loss of the click model, from its definition."""
    theta = np.r_[1.0, expit(x[:2])]
    if features:
        values = np.unique(log["x"])
        scaled = (log["x"] - values.mean()) / values.std()
        gamma, penalty = expit(x[2] + x[3] * scaled), 1e-3 * x[3] ** 2 / 2
    else:
        gamma, penalty = expit(x[2] + x[3:][log["item"]]), 0.1 * x[3:] @ x[3:] / 2
    chance = theta[log["position"] - 1] * gamma
    return penalty - np.log(np.where(log["clicked"] == 1, chance, 1 - chance)).sum()


@pytest.mark.parametrize("features", [True, False])
def test_regression_em_converges_in_few_steps(monkeypatch, features):
    log = small(400, seed=2)
    steps = []
    arrow_solve = module._arrow_solve
    monkeypatch.setattr(module, "_arrow_solve", lambda *a: steps.append(1) or arrow_solve(*a))
    found = solver(log, "features" if features else "em", item="item")(None, None)
    best = minimize(likelihood, np.zeros(4 if features else 7), (log, features), tol=1e-12)
    np.testing.assert_allclose(found, np.r_[1.0, expit(best.x[:2])], atol=2e-4)
    assert len(steps) <= 8


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("start", [None, [1.0, 0.3, 0.99]])
def test_regression_em_starts_at_the_click_rates_or_the_given_start(monkeypatch, features, start):
    log = small(400, seed=2)
    log["clicked"] = np.where(log["position"] == 2, 1 - log["clicked"], log["clicked"])
    slopes, arrow_solve = [], module._arrow_solve
    monkeypatch.setattr(
        module, "_arrow_solve", lambda *given: slopes.append(given[-1]) or arrow_solve(*given)
    )
    climb = solver(log, "features" if features else "em", item="item")
    climb(np.ones(400), None if start is None else np.array(start))
    rate = np.array([log["clicked"][log["position"] == k].mean() for k in (1, 2, 3)])
    theta = (rate / rate.max() if start is None else np.array(start))[1:]
    first = np.r_[logit(np.clip(theta, 0.01, 0.95)), logit(rate[0]), np.zeros(1 if features else 4)]
    slope = approx_fprime(first, likelihood, 1e-6, log, features)
    for part in (slice(3), slice(3, None)):  # items are numbered as they appear
        found, wanted = np.sort(slopes[0][part]), np.sort(slope[part])
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-2)


def test_harvesting_converges_in_few_steps(monkeypatch):
    log = small(400, seed=3)
    steps = []
    solve = np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda *a: steps.append(1) or solve(*a))
    theta = solver(log, "harvest", item="item")(None, None)
    assert theta[0] == 1.0
    assert len(steps) <= 6
    shown, clicked = (np.zeros((4, 3)) for _ in range(2))
    np.add.at(shown, (log["item"], log["position"] - 1), 1)
    np.add.at(clicked, (log["item"], log["position"] - 1), log["clicked"])
    expected = shown * theta / (shown * theta).sum(axis=1, keepdims=True)
    balance = (clicked - clicked.sum(axis=1, keepdims=True) * expected).sum(axis=0)
    np.testing.assert_allclose(balance, 0, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "starts"),
    [("harvest", ([1.0, 1e-4, 1e4], [1.0, 1e4, 1e-4])),
     ("em", ([1.0, 0.3, 0.8], [1.0, 0.01, 0.01], [1.0, 0.01, 0.99], [1.0, 1.0, 0.01])),
     ("features", ([1.0, 0.3, 0.8], [1.0, 0.01, 0.01], [1.0, 0.01, 0.99], [1.0, 1.0, 0.01]))],
)  # fmt: skip
def test_the_maximum_is_found_from_another_start(method, starts):
    climb = solver(small(200, seed=4), method, item="item")
    top = climb(None, None)
    for start in starts:
        np.testing.assert_allclose(climb(np.ones(200), np.array(start)), top, rtol=1e-4)


@pytest.mark.parametrize("seed", range(40, 50))
def test_click_rates_that_mislead_do_not_end_at_a_chance_of_one(seed):
    """Items seldom change places, so that rates of clicks tell of items as much as of positions."""
    rng = np.random.default_rng(seed)
    theta = np.r_[1.0, np.sort(rng.uniform(0.1, 0.98, 2))[::-1]]
    wanted = 10 ** rng.uniform(-2.5, -0.02, 3)
    order = np.tile(np.arange(3), (6000, 1))
    mixed = rng.random(6000) < rng.choice([0.05, 0.2, 0.5])
    order[mixed] = [rng.permutation(3) for _ in range(mixed.sum())]
    item, position = order.ravel(), np.tile([1, 2, 3], 6000)
    log = {
        "session": np.repeat(np.arange(6000), 3),
        "position": position,
        "item": item,
        "clicked": (rng.random(18_000) < wanted[item] * theta[position - 1]).astype(int),
    }
    found = estimate_propensity(log, method="em", item="item", falling=False, n_resamples=0)
    best = minimize(likelihood, np.zeros(6), (log, False), tol=1e-12)
    np.testing.assert_allclose(found.values, np.r_[1.0, expit(best.x[:2])], atol=1e-3)


@pytest.mark.parametrize("start", [[1.0, 0.9, 0.9], [1.0, 1e-4, 1e4]])
def test_harvesting_takes_as_many_steps_for_weights_of_any_size(monkeypatch, start):
    climb = solver(small(400, seed=3), "harvest", item="item")
    top = climb(None, None)
    steps, solve = [], np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda *a: steps.append(1) or solve(*a))
    counts = []
    for size in (1e-9, 1e-3, 1.0, 1e6):
        found = climb(np.full(400, size), np.array(start))
        np.testing.assert_allclose(found, top, rtol=1e-9)
        counts.append(len(steps))
        steps.clear()
    assert len(set(counts)) == 1
    assert counts[0] <= 20


@pytest.mark.parametrize("method", ["harvest", "em", "features"])
def test_a_position_that_a_resample_does_not_show_stays_where_it_starts(method):
    log = small(200, seed=1)
    kept = (log["position"] < 3) | (log["session"] >= 100)
    log = {name: values[kept] for name, values in log.items()}
    short = {name: values[log["session"] < 100] for name, values in log.items()}
    weight = (np.arange(200) < 100).astype(float)
    found = solver(log, method, item="item")(weight, np.array([1.0, 0.5, 0.25]))
    np.testing.assert_allclose(found[:2], solver(short, method, item="item")(None, None), rtol=1e-4)
    assert found[2] == pytest.approx(0.25)


@pytest.mark.parametrize(("factor", "shift"), [(1e-4, 0.0), (1e4, 0.0), (1.0, 1e3), (-5.0, 30.0)])
def test_features_are_standardised(factor, shift):
    log = small(300, seed=5)
    told = {"method": "em", "n_resamples": 0, "falling": False}
    wanted = estimate_propensity(log, features=["x"], **told)
    log["z"], log["same"] = factor * log["x"] + shift, np.full(len(log["x"]), 7.0)
    for features in (["z"], ["z", "same"]):
        found = estimate_propensity(log, features=features, **told)
        np.testing.assert_allclose(found.values, wanted.values, rtol=1e-9)
        assert found.pairs == 4


def test_a_position_that_is_always_clicked_has_a_finite_estimate():
    """The chance of a click there is 1, up to the last bit."""
    log = small(300, seed=6)
    log["clicked"] = np.where(log["position"] == 1, 1, log["clicked"])
    told = {"method": "em", "features": ["x"], "n_resamples": 0, "falling": False}
    np.testing.assert_allclose(estimate_propensity(log, **told).values, rates(log, 3), rtol=1e-6)


def test_a_resample_without_clicks_stays_where_it_starts():
    climb = solver(small(50), "harvest", item="item")
    start = np.array([1.0, 0.5, 0.25])
    np.testing.assert_allclose(climb(np.zeros(50), start), start, rtol=1e-12)


@pytest.mark.parametrize("own_parameters", [True, False])
def test_the_block_solution_equals_that_of_the_whole_matrix(own_parameters):
    from scipy import sparse

    rng = np.random.default_rng(0)
    groups, count = 6, 3
    design, own = np.ones((groups, 1)), rng.random(groups) + 1
    cross = rng.random((count - 1, groups)) * 0.1
    dense = np.eye(count) * 9 + 0.1
    ridge = np.full(groups if own_parameters else 0, 0.1)
    gradient = rng.normal(size=count + len(ridge))
    found = module._arrow_solve(dense, sparse.csr_array(cross), own, design, ridge, gradient)
    whole = dense
    if own_parameters:
        edge = np.vstack([cross, (own[:, None] * design).T])
        whole = np.block([[dense, edge], [edge.T, np.diag(own + ridge)]])
    np.testing.assert_allclose(whole @ found, gradient, atol=1e-7)
    flat = module._regularise(np.zeros((2, 2)) + 4.0)
    np.testing.assert_allclose(flat - 4.0, np.eye(2) * 4e-10, rtol=1e-3)


def test_equal_rows_are_grouped_and_rows_of_equal_hash_are_not(monkeypatch):
    X = np.array([[1.0, 0.0], [1.0, -0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    group, first = module._equal_rows(X)
    assert (group.tolist(), first.tolist()) == ([0, 0, 1, 0, 2], [0, 2, 4])
    monkeypatch.setattr(module, "encode", lambda values: (np.zeros(len(values), int), None))
    group, first = module._equal_rows(X)
    assert group.tolist() == first.tolist() == [0, 1, 2, 3, 4]


# ------------------------------------------------------------------ what cannot be estimated
def test_clicks_that_connect_no_positions_are_an_error():
    log = small(300)
    alone = {**log, "item": log["position"]}
    with raises_for("method", OverlapError):
        estimate_propensity(alone, item="item", n_resamples=0)
    with pytest.raises(OverlapError, match="no item with a click was shown both at position 1 and"):
        estimate_propensity(alone, item="item", method="em", n_resamples=0)
    silent = {**log, "clicked": np.where(log["position"] == 3, 0, log["clicked"])}
    for said in ({"method": "randomised"}, {"method": "em", "features": ["x"]}):
        with pytest.raises(OverlapError, match="position 3 has 0 clicks"):
            estimate_propensity(silent, **said, n_resamples=0)
    for said in ({}, {"method": "em"}):
        with pytest.raises(OverlapError, match=r"too few to connect .*position 3 has 0 on a"):
            estimate_propensity(silent, item="item", **said, n_resamples=0)
    with pytest.raises(ParameterError) as caught:
        estimate_propensity(log, method="em", n_resamples=0)
    assert caught.value.parameter == "method"
    with pytest.raises(ParameterError) as caught:
        estimate_propensity(log, method="randomised", item="item", n_resamples=0)
    assert caught.value.parameter == "item"
    with pytest.raises(ParameterError) as caught:
        estimate_propensity(log, method="harvest", n_resamples=0)
    assert caught.value.parameter == "item"
    with raises_for("features", SchemaError):
        estimate_propensity({**log, "x": np.where(log["item"] == 1, np.nan, 1.0)}, method="em",
                            features=["x"], n_resamples=0)  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [{"max_position": 0}, {"min_rows": 0}, {"n_resamples": -1}, {"confidence": 0.0},
     {"confidence": 1.0}],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ParameterError) as caught:
        estimate_propensity(small(5), **RANDOM | bad)
    assert caught.value.parameter == next(iter(bad))


def test_a_context_that_fails_is_named():
    log = small(300)
    log["device"] = np.where(log["session"] < 290, "phone", "tv")
    with pytest.raises(OverlapError, match="device = tv: position 1 has only 10 rows"):
        estimate_propensity(log, **RANDOM | {"min_rows": 11}, context="device")
    found = estimate_propensity(log, **RANDOM | {"min_rows": 10}, context="device")
    assert (found.context, list(found.contexts)) == ("device", ["phone", "tv"])
    for name, part in found.contexts.items():
        mine = {key: values[log["device"] == name] for key, values in log.items()}
        np.testing.assert_allclose(part.values, rates(mine, 3), rtol=1e-12)


def test_many_positions_are_shortened_in_a_message():
    assert module._list_positions([4]) == "position 4"
    assert module._list_positions([1, 2, 3, 4, 5, 6]) == "positions 1, 2, 3, 4, 5, 6"
    assert module._list_positions([1, 2, 3, 4, 5, 6, 7]) == "positions 1, 2, 3, 4, 5, 6, ..."


def test_propensities_behave_as_a_list_and_are_read_back_from_files(tmp_path):
    log = small(300)
    log["device"] = np.where(log["session"] < 100, "phone", "tv")
    found = estimate_propensity(log, **RANDOM | {"n_resamples": 9}, context="device")
    assert (len(found), found[1], list(found)) == (3, found.values[1], found.values.tolist())
    assert np.asarray(found).tolist() == found.values.tolist()
    assert repr(found).startswith("Propensity([1.000, 0.")
    found.save(tmp_path / "looks.json")
    again = Propensity.load(tmp_path / "looks.json")
    assert again.to_dict() == found.to_dict()
    assert again.contexts["tv"].rows.tolist() == found.contexts["tv"].rows.tolist()
    assert again.low.tolist() == found.low.tolist() != found.values.tolist()
    assert again.rows.dtype == np.int64
    plain = replace(found, context="", contexts={}).to_dict()
    assert "context" not in plain
    assert "contexts" not in plain
    for text in ('{"propensity": []}', '{"propensity": [1.0, 0.0]}'):
        (tmp_path / "looks.json").write_text(text)
        with raises_for("propensity", SchemaError):
            Propensity.load(tmp_path / "looks.json")
    (tmp_path / "looks.json").write_text('{"propensity": [1.0, 0.5]}')
    by_hand = Propensity.load(tmp_path / "looks.json")
    assert by_hand.high.tolist() == [1.0, 0.5]
    assert (by_hand.method, by_hand.pairs, by_hand.rows.tolist()) == ("given", 0, [])
    assert (by_hand.n_units, by_hand.n_resamples, by_hand.contexts) == (0, 0, {})


def test_an_estimate_that_does_not_converge_is_an_error(monkeypatch):
    log = small(100)
    monkeypatch.setattr(module, "range", lambda *_: [], raising=False)
    for method, words in (("harvest", "did not converge"), ("em", "did not converge")):
        climb = solver(log, method, item="item")
        with pytest.raises(DivergenceError, match=words):
            climb(None, None)
        assert np.isfinite(climb(np.ones(100), np.array([1.0, 0.5, 0.25]))).all()
