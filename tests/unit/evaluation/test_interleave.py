"""Interleaving: fair drafts, fair tests, credit rules, plans and the two commands."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from typer.testing import CliRunner

from rankine import Dataset, LinearModel
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError, SchemaError
from rankine.data.query_index import QueryIndex
from rankine.evaluation.interleave import (
    _draft,
    _preferences,
    analyse_interleaving,
    bootstrap_p,
    interleave,
    power,
    sessions_needed,
    sign_test,
    team_draft,
)


@pytest.mark.kernels
def test_a_team_without_items_left_is_skipped():
    """Team 0 ranks items 0 to 5, team 1 only item 0: every other pick is team 0's."""
    orders = np.array([[0, 1, 2, 3, 4, 5], [0, -1, -1, -1, -1, -1]])
    first = set()
    for seed in range(20):
        picked, team = np.full(8, -1), np.full(8, -1)
        assert _draft(orders, 6, np.uint64(seed), picked, team) == 6
        assert sorted(picked[:6]) == list(range(6))
        assert picked[6:].tolist() == team[6:].tolist() == [-1, -1]
        own = picked[:6][team[:6] == 0]
        assert own.tolist() == sorted(own.tolist())
        first.add((int(team[0]), int(picked[0]), len(own)))
        few = np.full(3, -1), np.full(3, -1)
        assert _draft(orders, 6, np.uint64(seed), *few) == 3
        assert few[0].tolist() == picked[:3].tolist()
    assert first == {(0, 0, 6), (1, 0, 5)}


@pytest.mark.kernels
def test_three_teams_draw_every_order_of_turns():
    orders = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    seen = Counter()
    for seed in range(600):
        picked, team = np.empty(9, dtype=np.int64), np.empty(9, dtype=np.int64)
        _draft(orders, 9, np.uint64(seed), picked, team)
        for first in (0, 3, 6):
            assert (picked[first : first + 3] == 3 * team[first : first + 3] + first // 3).all()
            seen[tuple(team[first : first + 3])] += 1
    assert len(seen) == 6
    assert min(seen.values()) > 230


def test_teams_pick_in_turns():
    seen = Counter()
    for key in range(4000):
        items, teams = team_draft([["a", "b", "c"], ["b", "c", "d"]], 2, key=key)
        seen[tuple(items), tuple(teams)] += 1
        assert sorted(teams) == [0, 1]
    assert set(seen) == {(("a", "b"), (0, 1)), (("b", "a"), (1, 0))}
    assert abs(seen[("a", "b"), (0, 1)] - 2000) < 150


@pytest.mark.kernels
@pytest.mark.parametrize("teams", [2, 3])
def test_every_round_gives_each_team_its_best_item_left(teams):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 60)
    queries = QueryIndex.from_group(sizes, sizes.sum())
    scores = rng.normal(size=(teams, sizes.sum()))
    rows, position, team = interleave(scores, queries, 5, random_state=3)
    start = 0
    for query, size in enumerate(sizes):
        shown = rows[start : start + min(size, 5)]
        picks = team[start : start + min(size, 5)]
        assert position[start : start + len(shown)].tolist() == list(range(1, len(shown) + 1))
        start += len(shown)
        left = set(queries.rows_of(query).tolist())
        for row, who in zip(shown.tolist(), picks.tolist(), strict=True):
            assert row == max(left, key=lambda r, who=who: scores[who, r])
            left.remove(row)
        for first in range(0, len(picks) - teams + 1, teams):
            assert sorted(picks[first : first + teams]) == list(range(teams))
    again = interleave(scores, queries, 5, random_state=3)
    assert all(np.array_equal(a, b) for a, b in zip(again, (rows, position, team), strict=True))


def test_rankings_may_run_out_and_must_not_repeat():
    assert sorted(team_draft([["a"], ["a", "b"]], 9, key=1)[0]) == ["a", "b"]
    with pytest.raises(ParameterError) as caught:
        team_draft([["a", "a"], ["b"]], 2, key=1)
    assert caught.value.parameter == "rankings"
    for rankings, length, parameter in (
        ([["a"]], 2, "rankings"), ([["a"], ["b"]], 0, "length"), ([["a"], ["b"]], 10**20, "length")
    ):  # fmt: skip
        with pytest.raises(ParameterError) as caught:
            team_draft(rankings, length, key=1)
        assert caught.value.parameter == parameter
    assert len(team_draft([["a"], ["b"]], 1, key=1)[0]) == 1
    assert len(team_draft([["a"], ["b"]], 2**53, key=1)[0]) == 2
    assert team_draft([[], ["b", "c", "d"]], 5, key=1) == (["b", "c", "d"], [1, 1, 1])
    queries = QueryIndex.from_group([3], 3)
    with pytest.raises(ParameterError) as caught:
        interleave(np.zeros((2, 3)), queries, 0)
    assert caught.value.parameter == "length"
    for scores in (np.zeros(3), np.zeros((2, 4)), [[1.0, 2.0, np.nan], [1.0, 2.0, 3.0]]):
        with pytest.raises(SchemaError):
            interleave(scores, queries, 2)
    rows, *_ = interleave(np.zeros((2, 3)), queries, 3)
    assert rows.tolist() == [0, 1, 2]  # equal scores keep the order of the data
    assert len(interleave(np.zeros((2, 3)), queries, 1)[0]) == 1


def shared_log(seed, sessions, preference=0.0, length=4, **more):
    """Two teams in turn; team b's items are clicked more often by ``preference``."""
    rng = np.random.default_rng(seed)
    team = np.where(rng.random((sessions, 1)) < 0.5, [0, 1, 0, 1], [1, 0, 1, 0])
    place = np.arange(1, length + 1)
    clicked = rng.random((sessions, length)) < (0.3 + preference * team) / place
    return {
        "session": np.repeat(np.arange(sessions), length),
        "position": np.tile(place, sessions),
        "team": np.array(["a", "b"])[team.ravel()],
        "clicked": clicked.ravel().astype(int),
        **more,
    }


def pair(found):
    """The only pair, as b against a."""
    (only,) = found.pairs
    return only


def test_equal_rankers_rarely_get_a_verdict():
    """A short form of the 10,000 simulations in benchmarks/clicks.py."""
    exact, bootstrap = [], []
    for seed in range(300):
        found = pair(analyse_interleaving(shared_log(seed, 200), n_resamples=400))
        exact.append(found.exact < 0.05)
        bootstrap.append(found.bootstrap < 0.05)
    assert np.mean(exact) < 0.08
    assert 0.01 < np.mean(bootstrap) < 0.09


def test_a_better_ranker_is_found_and_the_numbers_agree():
    log = shared_log(0, 800, preference=0.15)
    found = analyse_interleaving(log, n_resamples=1000)
    only = pair(found)
    assert only.verdict == ("better" if only.b == "b" else "worse")
    assert only.wins + only.ties + only.losses == found.n_units == 800
    by_team = {
        name: [log["clicked"][4 * s : 4 * s + 4][log["team"][4 * s : 4 * s + 4] == name].sum()
               for s in range(800)]
        for name in ("a", "b")
    }  # fmt: skip
    gap = np.array(by_team[only.b]) - by_team[only.a]
    assert only.difference == pytest.approx(gap.mean())
    assert (only.wins, only.losses) == ((gap > 0).sum(), (gap < 0).sum())
    assert only.preference == pytest.approx((gap > 0).sum() / (gap != 0).sum())
    assert found.shown == (1600, 1600)
    points, pairs = found.tables()
    assert [row[3] for row in points.rows] == [f"{p / sum(found.points):.1%}" for p in found.points]
    assert pairs.bold == {(0, 7)}
    assert only.exact == pytest.approx(stats.binomtest((gap > 0).sum(), (gap != 0).sum()).pvalue)
    assert only.low < only.difference < only.high
    assert sum(found.points) == log["clicked"].sum()
    assert "| b " in found.markdown()


@pytest.mark.parametrize(
    ("credit", "expected"),
    [("clicks", (3.0, 1.0)), ("any", (1.0, 1.0)), ("first", (0.0, 1.0)), ("last", (1.0, 0.0))],
)
def test_each_credit_rule_gives_the_expected_points(credit, expected):
    log = {
        "session": [0] * 4,
        "position": [4, 3, 2, 1],
        "team": ["a", "a", "a", "b"],
        "clicked": [1, 1, 1, 1],
    }
    assert analyse_interleaving(log, credit=credit, n_resamples=100).points == expected


@pytest.mark.parametrize("credit", ["clicks", "any", "first", "last"])
@pytest.mark.parametrize("search", [None, "search"])
def test_points_equal_a_loop_over_rows(credit, search):
    rng = np.random.default_rng(4)
    log = {
        "session": rng.permutation(np.repeat(np.arange(30), 5)),
        "team": rng.choice(["a", "b", "c"], 150),
        "clicked": rng.choice([0, 0, 1, 2], 150),
    }
    log["position"] = np.array([sum(log["session"][:i] == s) for i, s in enumerate(log["session"])])
    log["position"] = 9 - log["position"]
    log["search"] = log["session"] % 7
    units = {}
    for session in range(30):
        rows = [i for i in range(150) if log["session"][i] == session and log["clicked"][i]]
        rows.sort(key=lambda i: log["position"][i])
        won = Counter()
        if credit == "clicks":
            for i in rows:
                won[log["team"][i]] += log["clicked"][i]
        elif credit == "any":
            won.update({log["team"][i] for i in rows})
        else:
            won.update(log["team"][i] for i in (rows[:1] if credit == "first" else rows[-1:]))
        units.setdefault(session if search is None else session % 7, Counter()).update(won)
    found = analyse_interleaving(log, credit=credit, search=search, n_resamples=100)
    assert (found.n_units, found.lists) == (len(units), 30)
    for name, points in zip(found.teams, found.points, strict=True):
        assert points == sum(won[name] for won in units.values())
    for one in found.pairs:
        gaps = np.array([won[one.b] - won[one.a] for won in units.values()])
        assert (one.wins, one.ties, one.losses) == tuple((gaps > 0, gaps == 0, gaps < 0)[k].sum()
                                                         for k in range(3))  # fmt: skip
        assert one.difference == pytest.approx(gaps.mean())


def test_p_values_equal_values_computed_by_hand():
    assert sign_test(1, 3) == pytest.approx(2 * 5 / 16)
    assert sign_test(3, 1) == sign_test(1, 3)
    assert sign_test(2, 2) == 1.0
    assert bootstrap_p(np.array([-1.0, 0.0, 1.0, 2.0])) == pytest.approx(2 * (1.5 + 0.5) / 5)
    assert bootstrap_p(np.array([-1.0, -3.0, 1.0, -2.0])) == pytest.approx(2 * (1.0 + 0.5) / 5)
    assert bootstrap_p(np.array([-1.0, 1.0])) == 1.0


def test_teams_without_a_click_are_undecided():
    log = {"session": [0, 0, 1, 1], "team": ["a", "b", "a", "b"], "clicked": [0, 0, 0, 0]}
    found = analyse_interleaving(log, position=None, n_resamples=100, confidence=0.01)
    assert (pair(found).preference, pair(found).verdict) == (0.5, "undecided")
    assert found.tables()[0].rows[0][3] == "0.0%"
    assert not found.tables()[1].bold
    # p = 0.5 is not below 1 - confidence
    log["clicked"] = [0, 1, 0, 1]
    even = analyse_interleaving(log, position=None, n_resamples=100, confidence=0.5)
    assert (pair(even).exact, pair(even).verdict) == (0.5, "undecided")


def test_lists_of_one_search_are_one_unit():
    log = shared_log(0, 100, search=np.repeat(np.arange(20), 20))
    found = analyse_interleaving(log, search="search", n_resamples=100)
    assert (found.unit, found.n_units, found.lists) == ("search", 20, 100)
    assert analyse_interleaving(log, n_resamples=100).unit == "query"


def test_p_values_of_three_teams_are_adjusted():
    rng = np.random.default_rng(1)
    log = {
        "session": np.repeat(np.arange(200), 3),
        "team": np.tile(["a", "b", "c"], 200),
        "clicked": (rng.random(600) < np.tile([0.2, 0.2, 0.6], 200)).astype(int),
    }
    found = analyse_interleaving(log, position=None, n_resamples=200)
    verdicts = {(p.a, p.b): p.verdict for p in found.pairs}
    assert verdicts == {("a", "b"): "undecided", ("a", "c"): "better", ("b", "c"): "better"}
    assert all(p.exact_holm >= p.exact for p in found.pairs)


def test_power_equals_the_share_of_simulated_rejections():
    rng = np.random.default_rng(0)
    wins = rng.binomial(200, 0.6, 4000)
    rejected = [stats.binomtest(int(w), 200).pvalue < 0.05 for w in wins]
    assert power(200, 0.6) == pytest.approx(np.mean(rejected), abs=0.03)
    needed = sessions_needed(0.6, chance=0.9)
    assert sessions_needed(0.6, chance=0.9, decided=0.5) == 2 * needed
    assert sessions_needed(0.4, chance=0.9) == needed
    with pytest.raises(ParameterError) as caught:
        sessions_needed(0.5)
    assert caught.value.parameter == "preference"
    for chance in (0.0, 1.0):
        with pytest.raises(ParameterError) as caught:
            sessions_needed(0.6, chance=chance)
        assert caught.value.parameter == "chance"
    for bad in ({"preference": 1.5}, {"preference": -0.1}, {"decided": 0.0}, {"decided": 1.5},
                {"level": 0.0}, {"level": 1.0}):  # fmt: skip
        with pytest.raises(ParameterError, match="share"):
            power(100, **{"preference": 0.6, **bad})
    assert power(100, 1.0) == power(100, 0.0) == 1.0
    assert power([0, 1], 0.6).tolist() == [0.0, 0.0]
    assert power(200, 0.6, decided=0.5) == power(100, 0.6)


@pytest.mark.parametrize("n", [1, 7, 8, 20])
@pytest.mark.parametrize("level", [0.05, 0.3])
def test_power_sums_the_probability_of_all_rejected_counts(n, level):
    rejected = [w for w in range(n + 1) if stats.binomtest(w, n).pvalue <= level]
    exact = sum(stats.binom.pmf(w, n, 0.7) for w in rejected)
    assert power(n, 0.7, level=level) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("preference", [0.55, 0.4, 0.7, 0.95])
@pytest.mark.parametrize(("chance", "level"), [(0.8, 0.05), (0.3, 0.2), (0.95, 0.01)])
def test_sessions_needed_is_the_smallest_sufficient_number(preference, chance, level):
    needed = sessions_needed(preference, chance=chance, level=level)
    later = power(np.arange(needed, 2 * needed + 300), preference, level=level)
    assert (later >= chance).all()
    assert power(needed - 1, preference, level=level) < chance


def test_invalid_options_and_logs_are_refused():
    log = shared_log(0, 10)
    with pytest.raises(ParameterError) as caught:
        analyse_interleaving(log, credit="luck")
    assert caught.value.parameter == "credit"
    for bad in ({"confidence": 1.0}, {"confidence": 0.0}, {"n_resamples": 99}):
        with pytest.raises(ParameterError) as caught:
            analyse_interleaving(log, **bad)
        assert {caught.value.parameter} == set(bad)
    with pytest.raises(SchemaError):
        analyse_interleaving({**log, "team": ["a"] * 40})
    with pytest.raises(SchemaError):
        interleave(np.zeros((1, 3)), QueryIndex.from_group([3], 3), 2)


def test_commands_interleave_and_analyse(tmp_path):
    find_commands()
    rng = np.random.default_rng(0)
    data = Dataset.from_arrays(rng.normal(size=(400, 2)), np.zeros(400), np.repeat(range(40), 10))
    data.save(tmp_path / "lists.txt")
    for name, weights in (("a", [1.0, 0.0]), ("b", [0.0, 1.0])):
        LinearModel.from_weights(weights).save(tmp_path / f"{name}.rankine")
    names = [str(tmp_path / name) for name in ("a.rankine", "b.rankine", "lists.txt")]
    out = str(tmp_path / "shared.parquet")
    run = CliRunner().invoke(
        app, ["interleave", "plan", *names, "--length", "4", "--out", out, "--json"]
    )
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["lists"] == 40
    table = pq.read_table(out)
    assert table.num_rows == 160
    own = np.array(table["team"].to_pylist()) == names[1]
    clicked = pa.array((rng.random(160) < 0.2 + 0.6 * own).astype(int))
    pq.write_table(table.append_column("clicked", clicked), out)
    page = tmp_path / "page.html"
    run = CliRunner().invoke(app, ["interleave", "analyse", out, "--json", "--report", str(page)])
    assert run.exit_code == 0, run.output
    assert "Who is preferred" in page.read_text()
    found = json.loads(run.stdout)["pairs"][0]
    assert found["verdict"] == ("better" if found["b"] == names[1] else "worse")
    assert "preference" in CliRunner().invoke(app, ["interleave", "analyse", out]).stdout
    text = CliRunner().invoke(app, ["interleave", "plan", "--detect", "0.6"]).stdout
    assert f"{sessions_needed(0.6):,} sessions" in text
    with pytest.raises(ParameterError, match="--out"):
        CliRunner().invoke(app, ["interleave", "plan", *names], catch_exceptions=False)


def test_a_p_value_at_the_level_is_no_verdict():
    points = np.column_stack([np.zeros(6), np.ones(6)])  # the p-value of 6 wins is exactly 1/32
    for confidence, verdict in ((1 - 1 / 32, "undecided"), (0.96, "better")):
        (preference,) = _preferences(("a", "b"), points, confidence, 100, 0)
        assert preference.exact_holm == 1 / 32
        assert preference.verdict == verdict


def test_power_counts_whole_decided_sessions():
    assert power(7, 0.6, decided=0.5) == power(3, 0.6, decided=1.0)
    assert power(100, 0.9, decided=0.29) == power(28, 0.9, decided=1.0)  # 28.999...
