"""Ratios to other libraries: of one run, and named where they are missing."""

from __future__ import annotations

import json

import pytest
from benchmarks.instead import real_sets
from benchmarks.peers import ratios as peers


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKINE_BENCH_RESULTS", str(tmp_path))
    return tmp_path


def test_a_ratio_above_one_means_that_rankine_is_faster(folder):
    metrics = {"lists": "10 x 100", "cpu_ms": {"rankine": 2.0, "ranx": 8.0}}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    serving = {"requests_per_second": {"8": {"rankine": 4000.0, "peer": 1000.0}}}
    (folder / "serving_peer.json").write_text(json.dumps(serving))
    rows, unmeasured = peers.ratios(0.0)
    assert [(row["peer"], row["ratio"]) for row in rows] == [
        ("ranx", 4.0),
        ("FastAPI and LightGBM", 4.0),
    ]
    assert "parsing" in unmeasured
    assert "| NDCG of 10 x 100 rows, ms | ranx | 2 | 8 | 4 |" in peers.shown(rows)


def test_results_of_an_earlier_run_do_not_count(folder):
    metrics = {"lists": "10 x 100", "cpu_ms": {"rankine": 2.0, "ranx": 8.0}}
    path = folder / "metrics.json"
    path.write_text(json.dumps(metrics))
    rows, unmeasured = peers.ratios(path.stat().st_mtime + 1)
    assert rows == []
    assert "metrics" in unmeasured


def test_a_peer_that_was_absent_has_no_ratio(folder):
    (folder / "ranksvm.json").write_text(json.dumps({"sizes": [{"rows": 10, "squared_s": 1.0}]}))
    assert "ranksvm" in peers.ratios(0.0)[1]


@pytest.mark.parametrize(
    ("low", "high", "winner"),
    [(0.01, 0.02, "peer"), (-0.02, -0.01, "rankine"), (-0.01, 0.01, "undecided")],
)
def test_the_interval_of_the_preferred_peer_decides(low, high, winner):
    learners = {
        "rankine RankSVM": {"validation": 0.5},
        "EBM": {"validation": 0.3},
        "LightGBM lambdarank": {"validation": 0.4, "against_ours": {"low": low, "high": high}},
    }
    found = {"learners": learners}
    assert real_sets.peer_of(found) == "LightGBM lambdarank"
    assert real_sets.outcome_of(found) == winner
    assert f"a peer wins {int(winner == 'peer')}" in real_sets.headline({"sets": {"x": found}})


def test_a_set_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKINE_DATA", str(tmp_path))
    found = real_sets.measure(["WANDS", "Expedia"], seeds=[1], repetitions=1)
    assert found["sets"] == {}
    assert [name.partition(" ")[0] for name in found["absent"]] == ["WANDS", "Expedia"]


def test_the_additive_ranker_is_compared_in_cost_and_quality(folder):
    cost = {"cpu_seconds": {"median": 1.0}, "peak_mb": {"median": 10.0}, "test": 0.5,
            "us_per_candidate": {"median": 2.0}}  # fmt: skip
    gap = {"mean": -0.01, "low": -0.03, "high": 0.01}
    learners = {"rankine additive": cost, "EBM": {**cost, "test": 0.49, "against_additive": gap}}
    found = {"sets": {"MQ2008": {"learners": learners}}}
    (folder / "instead.real_sets.json").write_text(json.dumps(found))
    rows, _ = peers.ratios(0.0)
    assert [row["task"].rpartition(", ")[2] for row in rows] == [
        "CPU s",
        "peak MB",
        "us a candidate",
        "NDCG@10 on test",
    ]
    assert "| EBM | 0.5 | 0.49 | -0.0100 [-0.0300, +0.0100] |" in peers.shown(rows)


def test_what_no_peer_does_is_a_row_of_rankine_alone(folder):
    (folder / "domination.json").write_text(json.dumps({"rows": 1000, "seconds": 0.5}))
    rows, _ = peers.ratios(0.0)
    assert "| domination, 1,000 rows, gap 1e-3, s |  | 0.5 |  |  |" in peers.shown(rows)
