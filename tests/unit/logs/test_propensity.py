"""Propensities: the truth of simulated logs is found, and where it cannot be, it is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from rankine import ElasticRanker
from rankine.cli.main import app, find_commands
from rankine.core.errors import OverlapError, ParameterError, SchemaError
from rankine.logs.clicks import coec, read_clicks
from rankine.logs.propensity import Propensity, estimate_propensity
from rankine.logs.simulate import PositionBased, simulate

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


def test_harvesting_finds_the_truth(moving):
    found = estimate_propensity(moving, **PAIRS)
    assert found.method == "harvest"
    assert found.pairs > 1000
    assert error(found, moving) < 0.02
    raw = moving.clicked[moving.position == 5].mean() / moving.clicked[moving.position == 1].mean()
    assert abs(raw - moving.propensity[4]) > 3 * abs(found[4] - moving.propensity[4])


def test_harvesting_from_two_rankers():
    log = simulate(40_000, rankers={"a": lambda X: X[:, 0], "b": lambda X: X[:, 1]}, random_state=3)
    assert error(estimate_propensity(log, **PAIRS), log) < 0.02


def test_harvesting_is_the_top_of_its_likelihood(moving):
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
    with pytest.raises(OverlapError, match="no search-item pair was shown at two positions"):
        estimate_propensity(log, **PAIRS)


def test_regression_em_by_item(shuffled):
    found = estimate_propensity(shuffled, method="em", item="item", n_resamples=0)
    assert error(found, shuffled) < 0.02


def test_randomised_lists(shuffled):
    found = estimate_propensity(shuffled, method="randomised", falling=False, n_resamples=0)
    rate = [shuffled.clicked[shuffled.position == k].mean() for k in range(1, 11)]
    np.testing.assert_allclose(found, np.array(rate) / rate[0], rtol=1e-12)
    blocks = list(shuffled.to_dataset().blocks(max_rows=10_000))
    by_block = estimate_propensity(blocks, method="randomised", falling=False, n_resamples=0)
    np.testing.assert_array_equal(by_block, found)


def test_intervals_cover_the_truth(moving):
    found = estimate_propensity(moving, **PAIRS | {"n_resamples": 60})
    truth = PositionBased().chances(10)
    assert (found.low[1:] < found.high[1:]).all()
    assert ((found.low <= truth) & (truth <= found.high))[1:].mean() > 0.6
    again = estimate_propensity(moving, **PAIRS | {"n_resamples": 60})
    np.testing.assert_array_equal(found.low, again.low)
    assert found.unit == "search"
    assert found.n_units == 200


def test_one_estimate_per_context():
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
        truth = PositionBased(eta).chances(10)
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
    kept = (moving.position < 6) | (moving.session < 20)
    assert len(estimate_propensity(log.filter(kept), **PAIRS)) == 5


def test_files_and_the_command(moving, tmp_path):
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
    with pytest.raises(SchemaError, match=r"looks\.json"):
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


def test_parameters_that_mean_nothing(moving, shuffled):
    with pytest.raises(ParameterError, match="no method"):
        estimate_propensity(shuffled)
    with pytest.raises(ParameterError, match="unknown"):
        estimate_propensity(shuffled, method="guess")
    with pytest.raises(ParameterError, match="max_position"):
        estimate_propensity(moving, max_position=0, **PAIRS)
    with pytest.raises(SchemaError, match="no column 'where'"):
        estimate_propensity(moving, position="where", **PAIRS)
    with pytest.raises(OverlapError, match="min_rows"):
        estimate_propensity(simulate(5), **PAIRS)


def test_clicks_over_expected_clicks(moving):
    log = read_clicks(moving, item="item", search="search")
    truth = moving.attraction
    corrected = coec(log, moving.propensity)
    rate = np.bincount(log.pair, weights=log.clicked) / np.bincount(log.pair)
    assert np.corrcoef(corrected, truth)[0, 1] > np.corrcoef(rate[log.pair], truth)[0, 1]
    np.testing.assert_allclose(coec(log, shrinkage=1e9), 1.0, atol=1e-3)
    with pytest.raises(ParameterError, match="shrinkage"):
        coec(log, shrinkage=0.0)


def test_weighted_clicks_find_what_unweighted_ones_miss():
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


def test_missing_positions():
    data = simulate(50, random_state=0).to_dataset()
    with pytest.raises(SchemaError, match="position"):
        ElasticRanker(propensity=[1.0]).fit(replace(data, position=None))
    with pytest.raises(SchemaError, match="from 1"):
        estimate_propensity(replace(data, position=data.position - 1), method="randomised")
    with pytest.raises(ParameterError, match="max_weight"):
        ElasticRanker(propensity=[1.0], max_weight=0.5).fit(data)
    assert rankine.estimate_propensity is estimate_propensity
