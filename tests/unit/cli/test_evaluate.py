"""``rankine evaluate``, ``compare``, ``sort``, ``convert``: what is refused, and what is said."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError
from rankine.data.sort import SortReport
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


def test_the_metric_is_the_models_unless_named(files):
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


def test_a_run_has_metrics_of_its_own(files):
    write_run(files / "a.run", [7, 7], ["x", "y"], [2.0, 1.0])
    (files / "qrels").write_text("7 0 x 1\n7 0 y 0\n")
    words = ["evaluate", "--run", files / "a.run", "--qrels", files / "qrels", "--json"]
    found = json.loads(call(*words).stdout)
    assert found["metrics"] == {"ndcg@10": {"value": 1.0}, "map": {"value": 1.0}}
    assert found["queries"] == 1
    assert list(json.loads(call(*words, "-m", "mrr").stdout)["metrics"]) == ["mrr"]


@pytest.fixture(scope="module")
def rivals(tmp_path_factory):
    """A model that knows the labels, one that does not, and one in between."""
    root = tmp_path_factory.mktemp("rivals")
    rng = np.random.default_rng(3)
    y, qid = rng.integers(0, 3, 160), np.repeat(np.arange(20), 8)
    X = np.column_stack([y + rng.normal(0, 0.3, 160), rng.normal(size=160)])
    rankine.Dataset.from_arrays(X, y, qid).save(root / "d.txt")
    for name, w in (("good", [1.0, 0.0]), ("middle", [1.0, 0.01]), ("bad", [0.0, 1.0])):
        rankine.LinearModel.from_weights(w).save(root / f"{name}.rankine")
    return root


@pytest.mark.parametrize(
    ("systems", "code"),
    [
        (["good", "bad"], 3),
        (["bad", "good"], 0),
        (["good", "middle"], 0),
        (["good", "bad", "middle"], 0),
        (["good", "middle", "bad"], 3),
    ],
)
def test_a_last_model_that_is_worse_fails_the_command(rivals, systems, code):
    paths = [rivals / f"{name}.rankine" for name in systems]
    words = ["compare", *paths, rivals / "d.txt", "--n-resamples", "300"]
    call(*words, "--fail-if-worse", "-m", "ndcg@10", "-m", "map", code=code)
    found = json.loads(call(*words, "--json").stdout)["comparisons"]
    assert [one["metric"] for one in found] == ["ndcg@10"]
    assert "per_query" not in found[0]


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (SortReport(1234, 5, 1, 0), "1,234 rows of 5 queries\n"),
        (SortReport(2, 1, 2, 0), "2 rows of 1 queries from 2 runs\n"),
        (SortReport(2, 1, 1, 1), "2 rows of 1 queries, 1 bad rows skipped\n"),
    ],
)
def test_sorting_says_what_it_did(monkeypatch, report, told):
    asked = {}

    def sort_file(source, target, **options):
        asked.update(options, source=source, target=target)
        return report

    monkeypatch.setattr("rankine.data.sort.sort_file", sort_file)
    done = call("sort", "a.txt", "b.txt", "out.txt", "--memory", "9", "--query", "s")
    assert done.stderr == told
    assert done.stdout == ""
    assert (asked["source"], asked["target"]) == (["a.txt", "b.txt"], "out.txt")
    assert (asked["max_memory"], asked["query"]) == (9 * 2**20, "s")
    done = call("sort", "a.txt", "out.txt", "--json")
    assert (json.loads(done.stdout)["rows"], done.stderr) == (report.rows, "")
    assert asked["max_memory"] == 768 * 2**20


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        (["sort", "out.txt"], None),
        (["sort", "a.txt", "-", "--json"], "--json"),
        (["convert", "out.txt"], None),
        (["convert", "a.txt", "-", "--json"], "--json"),
        (["convert", "a.txt", "b.txt", "--split", "time:0.5,0.5"], "--split"),
        (["convert", "b.txt", "--judgments", "j"], "--judgments"),
        (["convert", "a.txt", "b.txt", "--judgments", "j", "--features", "l"], "--judgments"),
    ],
)
def test_files_and_options_that_exclude_each_other_are_rejected(words, parameter):
    with pytest.raises(ParameterError) as caught:
        call(*words)
    assert caught.value.parameter == parameter


def test_converting_says_what_was_left_out(files):
    (files / "bad.txt").write_text("1 qid:1 1:1\n0 qid:1 1:NaN\nx qid:1\n")
    out = files / "out.parquet"
    told = call("convert", files / "bad.txt", out, "--on-bad-row", "skip").stderr
    assert "2 rows x 1 features of 1 queries in" in told
    assert told.endswith("s, 1 bad rows skipped, 1 missing values\n")
    told = call("convert", files / "d.txt", out).stderr
    assert "7 rows x 2 features of 3 queries in" in told
    assert told.endswith(" s\n")
    said = json.loads(call("convert", files / "d.txt", out, "--json").stdout)
    assert (said["skipped_rows"], said["missing_values"]) == (0, 0)
    assert 0 <= said["seconds"] < 60


def test_joined_logs_name_what_did_not_match(files):
    def features(k):
        return {"_source": {}, "_id": f"d{k}", "fields": {"_ltrlog": [
            {"main": [{"name": "bm25", "value": float(k)}]}]}}  # fmt: skip

    responses = {"hits": {"hits": [features(k) for k in range(15)]}}
    (files / "log.jsonl").write_text(json.dumps({"qid": "q1", "response": responses}) + "\n")
    lines = ["q1,d0,1", "q1,d1,0", *(f"q1,x{k},1" for k in range(10))]
    (files / "judged.csv").write_text("\n".join(["query,document,grade", *lines]) + "\n")
    words = ["convert", "--features", files / "log.jsonl", "--judgments", files / "judged.csv"]
    names = files / "names.txt"
    done = call(*words, files / "out.parquet", "--names-out", names)
    assert names.read_text() == "bm25\n"
    first, unjudged, unlogged = done.stderr.splitlines()
    assert first.endswith("out.parquet: 2 rows x 1 features of 1 queries")
    assert unjudged.startswith("13 documents have no judgement: q1/")
    assert unjudged.endswith(", ...")
    assert unjudged.count("q1/") == 10
    assert unlogged.startswith("10 documents have no log: q1/")
    assert unlogged.count("q1/") == 10
    assert not unlogged.endswith("...")
    said = json.loads(call(*words, files / "out.data", "--to", "parquet", "--json").stdout)
    assert (said["rows"], said["queries"], said["features"]) == (2, 1, 1)
    assert (said["logged_without_judgment"], said["judged_without_log"]) == (13, 10)
    assert rankine.load(files / "out.data").n_rows == 2
