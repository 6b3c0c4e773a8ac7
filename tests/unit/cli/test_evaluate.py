"""``rankine evaluate``: metrics of models and runs."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError
from rankine.metrics import evaluate_on, random_expectation
from reference.trec_files import write_run

pytestmark = pytest.mark.cli
find_commands()


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, rankine.core.errors.RankineError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def files(tmp_path):
    """Two models and three lists, the last of them without a relevant row."""
    lines = ["2 qid:7 1:3 2:0", "0 qid:7 1:2 2:1", "1 qid:7 1:1 2:2", "0 qid:8 1:1 2:0"]
    lines += ["1 qid:8 1:0 2:1", "0 qid:9 1:1 2:1", "0 qid:9 1:2 2:0"]
    (tmp_path / "d.txt").write_text("".join(f"{line}\n" for line in lines))
    rankine.LinearModel.from_weights([1.0, 0.0], metric="map").save(tmp_path / "m.rankine")
    rankine.LinearModel.from_weights([1.0, 0.0]).save(tmp_path / "bare.rankine")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        (["--run", "r"], "--qrels"),
        (["--qrels", "q"], "--run"),
        (["m", "d", "--qrels", "q"], "--run"),
        ([], None),
        (["m"], None),
        (["m", "--run", "r", "--qrels", "q"], "--run"),
        (["m", "d", "--relative-to", "chance"], "--relative-to"),
        (["m", "d", "--counterfactual", "-m", "map"], "--metric"),
        (["m", "d", "--counterfactual", "--per-query"], "--per-query"),
        (["m", "d", "--counterfactual", "--relative-to", "random"], "--relative-to"),
        (["--run", "r", "--qrels", "q", "--counterfactual"], "--run"),
    ],
)
def test_options_that_exclude_each_other_are_rejected(words, parameter):
    with pytest.raises(ParameterError) as caught:
        call("evaluate", *words)
    assert caught.value.parameter == parameter


def test_the_gain_over_a_random_order(files):
    words = ["evaluate", files / "m.rankine", files / "d.txt", "--relative-to", "random"]
    data = rankine.load(files / "d.txt")
    entry = json.loads(call(*words, "--json").stdout)["metrics"]["map"]
    value = evaluate_on(data, scores=data.X[:, 0], metric="map")
    chance = random_expectation("map", data.y, data.queries)
    assert (entry["value"], entry["random"]) == (value, chance)
    assert entry["gain_percent"] == pytest.approx(100 * (value - chance) / chance)
    assert "per_query" not in entry
    shown = call(*words).stdout
    assert f"{chance:.4f}" in shown
    assert f"{entry['gain_percent']:+.1f} %" in shown
    (files / "zero.txt").write_text("0 qid:1 1:1 2:2\n0 qid:1 1:2 2:2\n")
    words[2] = files / "zero.txt"
    assert json.loads(call(*words, "--json").stdout)["metrics"]["map"]["gain_percent"] is None
    assert "n/a" in call(*words).stdout
    plain = call("evaluate", files / "m.rankine", files / "d.txt")
    assert "gain" not in plain.stdout
    assert "random" not in json.loads(call(*words[:3], "--json").stdout)["metrics"]["map"]


def test_the_default_metric_is_that_of_the_model(files):
    for model, words, metrics in (
        ("m", [], ["map"]),
        ("bare", [], ["ndcg@10"]),
        ("m", ["-m", "mrr", "-m", "ndcg@5"], ["mrr", "ndcg@5"]),
    ):
        done = call("evaluate", files / f"{model}.rankine", files / "d.txt", *words, "--json")
        found = json.loads(done.stdout)
        assert list(found["metrics"]) == metrics
        assert (found["rows"], found["queries"]) == (7, 3)


def test_values_by_query(files):
    words = ["evaluate", files / "m.rankine", files / "d.txt", "--per-query"]
    words += ["-m", "map:no_relevant=skip"]
    ((_, entry),) = json.loads(call(*words, "--json").stdout)["metrics"].items()
    assert entry["per_query"] == {"7": pytest.approx((1 + 2 / 3) / 2), "8": 0.5, "9": None}
    shown = call(*words)
    assert re.search(r"^9\s+-\s*$", shown.stdout, re.MULTILINE)
    assert re.search(r"^8\s+0\.5000\s*$", shown.stdout, re.MULTILINE)
    assert "1 of 3 queries have no relevant document and are skipped" in shown.stderr
    every = call(*words[:-1], "recall@1:no_relevant=1")
    assert "1 of 3 queries have no relevant document and count 1" in every.stderr
    (files / "judged.txt").write_text("1 qid:1 1:1 2:2\n0 qid:1 1:2 2:2\n")
    assert "no relevant document" not in call("evaluate", words[1], files / "judged.txt").stderr
    assert "query" not in call("evaluate", words[1], files / "judged.txt").stdout


def test_a_run_has_default_metrics(files):
    write_run(files / "a.run", [7, 7], ["x", "y"], [2.0, 1.0])
    (files / "qrels").write_text("7 0 x 1\n7 0 y 0\n")
    words = ["evaluate", "--run", files / "a.run", "--qrels", files / "qrels", "--json"]
    found = json.loads(call(*words).stdout)
    entry = {"value": 1.0, "ties": "docid"}
    assert found["metrics"] == {"ndcg@10": entry, "map": entry}
    assert found["queries"] == 1
    assert list(json.loads(call(*words, "-m", "mrr").stdout)["metrics"]) == ["mrr"]


def test_rules_are_compared_with_no_rules(files):
    model = rankine.LinearModel.from_weights([1.0, 0.0], ["x", "y"])
    model.save(files / "named.rankine")
    lines = ["label,qid,x,y", "1,1,3,0", "0,1,2,1", "1,1,1,1", "1,2,1,1", "0,2,0,1"]
    (files / "d.csv").write_text("\n".join(lines))
    (files / "rules.toml").write_text(
        "[[filter]]\nname = 'f'\nwhere = 'y == 0'\n[[spread]]\ncolumn = 'qid'\nfirst = 1\n"
    )
    arguments = ["evaluate", files / "named.rankine", files / "d.csv", "-m", "recall@1"]
    arguments += ["--rules", files / "rules.toml"]
    results = json.loads(call(*arguments, "--json").stdout)
    assert results["metrics"]["recall@1"]["value"] == 0.5
    assert results["metrics"]["recall@1"]["without_rules"] == 0.75
    assert results["rules"][0] == {"rule": "f", "lists": 1, "items": 1, "conflicts": 0}
    output = call(*arguments)
    assert "-0.2500" in output.stdout
    assert "spread 1" in output.stderr
