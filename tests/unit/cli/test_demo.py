"""``rankine demo``: what is counted and shown, without a training."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine
from rankine import shop_log
from rankine.cli import demo
from rankine.cli.demo import DemoResult, _print_ranking, run_demo
from rankine.cli.main import app, find_commands
from rankine.metrics import evaluate_on, random_expectation
from rankine.model import LinearModel

pytestmark = pytest.mark.cli
find_commands()
METRICS = ("ndcg@10", "map", "mrr")


@pytest.fixture
def result(monkeypatch):
    """A demo of 12 queries, nine of them to train on."""
    log = shop_log(12, random_state=3, list_length=20)
    train, test = log.take_queries(np.arange(9)), log.take_queries(np.arange(9, 12))
    w = np.random.default_rng(0).normal(size=log.n_features)
    model = LinearModel.from_weights(w, log.feature_names)
    table = {"map": {"model": 0.5, "as_shown": 0.25, "random": 0.125}}
    files = {name: f"out/{name}" for name in ("train", "test", "features", "model", "report")}
    files["curves"] = "out/curves"
    made = DemoResult(train, test, model, test.X @ w, table, files, {"training": 1.0})
    monkeypatch.setattr(demo, "run_demo", lambda *asked: asked == ("shop", 9, 2) and made)
    return made


def test_the_demo_says_what_it_made(result, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    words = ["demo", "--out", "shop", "--n-queries", "9", "--seed", "2"]
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    rows = result.train.n_rows + result.test.n_rows
    assert (found["rows"], found["queries"]) == (rows, 12)
    assert (found["digest"], found["metrics"]) == (result.model.digest, result.metrics)
    shown = CliRunner().invoke(app, words).output
    assert f"{rows:,} products shown for 12 queries, {result.train.n_features} features" in shown
    assert "Trained on 9 queries in 1.00 s" in shown
    assert "evaluated on 3 others" in shown
    assert re.search(r"map\s+0\.5000\s+0\.2500\s+0\.1250", shown)
    assert "rankine evaluate out/model out/test --feature-names out/features" in shown
    assert "--out out/ranksvm.rankine" in shown


def test_the_query_with_most_purchases_is_shown_best_first(result, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _print_ranking(result)
    shown = capsys.readouterr().out
    test = result.test
    bought = [np.sum(test.y[test.queries.rows_of(q)] >= 2) for q in range(3)]
    rows = test.queries.rows_of(int(np.argmax(bought)))
    order = rows[np.argsort(-result.scores[rows], kind="stable")]
    assert repr(str(test.columns["query_text"][rows[0]])) in shown
    lines = [line.split() for line in shown.splitlines() if re.match(r"\s*\d+ ", line)][:8]
    assert [int(line[0]) for line in lines] == list(range(1, 9))[: len(rows)]
    assert len(rows) > 8
    for line, row in zip(lines, order, strict=False):
        assert str(test.docid[row]).split() == line[1 : -2 - (test.y[row] > 0)]
        assert int(line[-1]) == test.position[row]
        assert (line[-2] if test.y[row] else "") == ["", "clicked", "bought"][int(test.y[row])]
        assert f"{result.scores[row]:+.3f}" in line
    first, second = (test.docid[row] for row in order[:2])
    assert f"Why {first} ranks above {second}:" in shown
    pair = result.model.explain_pair(test.X[order[0]], test.X[order[1]])
    assert pair.text(limit=6) in shown


def test_the_demo_writes_what_it_learnt_from(monkeypatch, tmp_path):
    made = {}

    class Ranker:
        def __init__(self, **options):
            made[len(made)] = options
            self.training_ = {"seconds": 1.0}

        def fit(self, data, intervals=False):
            self.data = data
            return self

        def to_model(self):
            assert self.training_["fingerprint"] == self.data.fingerprint
            weights = np.random.default_rng(0).normal(size=self.data.n_features)
            return LinearModel.from_weights(weights, self.data.feature_names)

    def report(subject, data, **options):
        pages.append((data.n_queries, options.get("command")))
        return SimpleNamespace(save=lambda file: Path(file).touch())

    pages = []
    monkeypatch.setattr("rankine.SPDRanker", Ranker)
    monkeypatch.setattr("rankine.AdditiveRanker", Ranker)
    monkeypatch.setattr("rankine.report", report)
    clock = iter(np.arange(100) * 1.005)
    monkeypatch.setattr(demo, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    result = run_demo(str(tmp_path / "new" / "shop"), 20, 5)
    log = shop_log(20, random_state=5)
    assert (result.train.n_queries, result.test.n_queries) == (16, 4)
    names = list(log.feature_names)
    for name, part in (("train", result.train), ("test", result.test)):
        written = rankine.load(result.files[name], feature_names=names)
        np.testing.assert_allclose(written.X, part.X)
        assert written.y.tolist() == part.y.tolist()
    assert Path(result.files["features"]).read_text().splitlines() == names
    assert all(Path(file).exists() for file in result.files.values())
    shown = {m: evaluate_on(result.test, scores=-result.test.position, metric=m) for m in METRICS}
    assert {metric: row["as_shown"] for metric, row in result.metrics.items()} == shown
    scored = evaluate_on(result.test, scores=result.scores, metric="map")
    assert result.metrics["map"]["model"] == scored
    assert result.metrics["map"]["random"] == random_expectation(
        "map", result.test.y, result.test.queries
    )
    assert made[0]["random_state"] == 5
    assert made[1]["pairs"] == 1, "a map of two columns"
    assert pages == [(4, "rankine demo --seed 5"), (20, None)]
    assert list(result.seconds) == ["log", "training", "evaluation", "front", "report", "curves"]
    assert set(result.seconds.values()) <= {1.0, 1.01}
