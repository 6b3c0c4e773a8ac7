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
    analyse_interleaving,
    interleave,
    power,
    sessions_needed,
    team_draft,
)


def test_a_draft_takes_turns():
    seen = Counter()
    for key in range(4000):
        items, teams = team_draft([["a", "b", "c"], ["b", "c", "d"]], 2, key=key)
        seen[tuple(items), tuple(teams)] += 1
        assert sorted(teams) == [0, 1]
    assert set(seen) == {(("a", "b"), (0, 1)), (("b", "a"), (1, 0))}
    assert abs(seen[("a", "b"), (0, 1)] - 2000) < 150


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
    with pytest.raises(ParameterError, match="twice"):
        team_draft([["a", "a"], ["b"]], 2, key=1)
    with pytest.raises(ParameterError, match="two rankings"):
        team_draft([["a"]], 2, key=1)


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


def test_equal_rankers_are_rarely_told_apart():
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
    assert only.exact == pytest.approx(stats.binomtest((gap > 0).sum(), (gap != 0).sum()).pvalue)
    assert only.low < only.difference < only.high
    assert sum(found.points) == log["clicked"].sum()
    assert "| b " in found.markdown()


@pytest.mark.parametrize(
    ("credit", "expected"),
    [("clicks", (3.0, 1.0)), ("any", (1.0, 1.0)), ("first", (0.0, 1.0)), ("last", (1.0, 0.0))],
)
def test_credit_rules(credit, expected):
    log = {
        "session": [0] * 4,
        "position": [4, 3, 2, 1],
        "team": ["a", "a", "a", "b"],
        "clicked": [1, 1, 1, 1],
    }
    assert analyse_interleaving(log, credit=credit, n_resamples=100).points == expected


def test_lists_of_one_search_are_one_unit():
    log = shared_log(0, 100, search=np.repeat(np.arange(20), 20))
    found = analyse_interleaving(log, search="search", n_resamples=100)
    assert (found.unit, found.n_units, found.lists) == ("search", 20, 100)


def test_three_teams_are_adjusted():
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


def test_power_is_that_of_the_test():
    rng = np.random.default_rng(0)
    wins = rng.binomial(200, 0.6, 4000)
    rejected = [stats.binomtest(int(w), 200).pvalue < 0.05 for w in wins]
    assert power(200, 0.6) == pytest.approx(np.mean(rejected), abs=0.03)
    needed = sessions_needed(0.6, chance=0.9)
    assert power(needed, 0.6) >= 0.9 > power(needed - 12, 0.6)
    assert sessions_needed(0.6, chance=0.9, decided=0.5) == 2 * needed
    assert sessions_needed(0.4, chance=0.9) == needed
    with pytest.raises(ParameterError, match="same"):
        sessions_needed(0.5)
    with pytest.raises(ParameterError, match="shares"):
        power(100, 1.5)


def test_bad_logs():
    log = shared_log(0, 10)
    with pytest.raises(ParameterError, match="credit"):
        analyse_interleaving(log, credit="luck")
    with pytest.raises(SchemaError, match="one team"):
        analyse_interleaving({**log, "team": ["a"] * 40})
    with pytest.raises(SchemaError, match="scores"):
        interleave(np.zeros((1, 3)), QueryIndex.from_group([3], 3), 2)


def test_the_commands(tmp_path):
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
