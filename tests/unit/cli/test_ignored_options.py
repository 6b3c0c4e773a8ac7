"""An option that a command would ignore is refused by its name, and nothing is written."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankine import LinearModel, RankSVM, logs
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError
from rankine.core.specs import ListRange
from rankine.export import ExportOptions, export

pytestmark = pytest.mark.cli
find_commands()


def call(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Lists as text, a model and runs of them, judgements, a raw log and a model of it."""
    monkeypatch.chdir(tmp_path)
    rows = ["1 qid:1 1:1 2:0 # a", "0 qid:1 1:0 2:1 # b", "0 qid:2 1:0 # a", "1 qid:2 1:1 # b"]
    (tmp_path / "d.txt").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "narrow.txt").write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    (tmp_path / "r.run").write_text("1 Q0 a 1 2.0 x\n1 Q0 b 2 1.0 x\n2 Q0 b 1 2.0 x\n")
    (tmp_path / "q.txt").write_text("1 0 a 1\n1 0 b 0\n2 0 a 0\n2 0 b 1\n")
    LinearModel.from_weights([1.0, -1.0]).save("m.rankine")
    columns = {"session": [1, 1, 2, 2], "clicked": [1, 0, 0, 1], "price": [1.0, None, 3.0, 0.0]}
    columns |= {"brand": ["a", "b", None, "b"], "item": ["i", "j", "i", "k"]}
    columns |= {"position": [1, 2, 1, 2]}
    pq.write_table(pa.table(columns), "log.parquet")
    log = logs.scan("log.parquet", query="session", label="clicked", one_hot=["brand"])
    RankSVM().fit(log).to_model().save("raw.rankine")
    return tmp_path


EXPLAIN = ["explain", "m.rankine", "d.txt", "--qid", "1"]
EVALUATE = ["evaluate", "m.rankine", "d.txt"]
JUDGE = ["evaluate", "--run", "r.run", "--qrels", "q.txt"]
COMPARE = ["compare", "r.run", "r.run", "q.txt", "--n-resamples", "100"]
TRAIN = ["train", "d.txt", "--out", "x.rankine", "--set", "n_steps=10"]
RAW = ["train", "log.parquet", "--out", "x.rankine", "--query", "session", "--label", "clicked"]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["predict", "m.rankine", "d.txt", "--out", "x", "--tag", "a"], "--tag"),
        (["predict", "m.rankine", "d.txt", "--out", "x", "-k", "2"], "-k"),
        (["predict", "m.rankine", "d.txt", "--out", "x", "--hash-bits", "4"], "--hash-bits"),
        ([*EXPLAIN, "--docs", "1", "2", "-k", "1"], "-k"),
        ([*JUDGE, "--relative-to", "random"], "--relative-to"),
        ([*JUDGE, "--base", "1"], "--base"),
        ([*JUDGE, "--schema", "s.toml"], "--schema"),
        ([*JUDGE, "--item", "item"], "--item"),
        ([*EVALUATE, "--propensity", "looks.json"], "--propensity"),
        ([*EVALUATE, "--position", "position"], "--position"),
        ([*EVALUATE, "--min-overlap", "0.1"], "--min-overlap"),
        ([*EVALUATE, "--bins", "8"], "--bins"),
        ([*COMPARE, "--per-query"], "--per-query"),
        ([*COMPARE, "--base", "1"], "--base"),
        ([*COMPARE, "--json", "--latex"], "--json, --latex"),
        (["inspect", "raw.rankine", "--schema", "--top", "3"], "--top"),
        (["inspect", "raw.rankine", "--schema", "--save", "x"], "--save"),
        (["convert", "d.txt", "x.parquet", "--hash-bits", "4"], "--hash-bits"),
        (["convert", "d.txt", "x.parquet", "--time", "day"], "--time"),
        (["convert", "d.txt", "x.parquet", "--cuts", "{}"], "--cuts"),
        (["convert", "d.txt", "x.parquet", "--pairs", "a,b"], "--pairs"),
        (["convert", "--features", "l", "--judgments", "q.txt", "x", "--base", "0"], "--base"),
        (["interleave", "plan", "--length", "5"], "--length"),
        (["interleave", "plan", "--base", "1"], "--base"),
        (["interleave", "analyse", "log.parquet", "--json", "--markdown"], "--json, --markdown"),
        ([*TRAIN, "--metric", "map", "--set", "metric=map"], "--metric"),
        ([*TRAIN, "--seed", "3", "--set", "random_state=3"], "--seed"),
        ([*TRAIN, "--pairs", "winner,loser", "--label", "y"], "--label"),
        ([*RAW, "--one-hot", "brand", "--hash-bits", "4"], "--hash-bits"),
        ([*RAW, "--one-hot", "brand", "--bins", "4"], "--bins"),
        (["path", "d.txt", "--bins", "4"], "--bins"),
        (
            ["clicks", "propensity", "log.parquet", "--item", "item", "--features", "price"],
            "has no use for features",
        ),
    ],
)
def test_an_option_that_would_be_ignored_is_refused_by_name(folder, words, option):
    with pytest.raises(ParameterError, match=f"^[^.]*{option}\\b"):
        call(*words)
    assert not list(folder.glob("x*"))


def test_the_same_commands_work_without_it(folder):
    for words in (EXPLAIN, EVALUATE, JUDGE, COMPARE, TRAIN, [*RAW, "--one-hot", "brand"]):
        assert call(*words).exit_code == 0
    with_trec = call("predict", "m.rankine", "d.txt", "--trec", "-k", "1", "--tag", "a")
    assert with_trec.stdout.splitlines() == ["1 Q0 a 1 1.0 a", "2 Q0 b 1 1.0 a"]
    assert call("predict", "m.rankine", "d.txt", "--trec", "-k", "0").exit_code == 2


@pytest.mark.parametrize(
    ("to", "option"),
    [
        ("json", {"store": "shop"}),
        ("python", {"form": "tensor"}),
        ("sql", {"dtype": "float64"}),
        ("vespa", {"feature_set": "shop"}),
        ("vespa", {"query": "session"}),
        ("sql", {"query": "session"}),
    ],
)
def test_an_export_refuses_what_its_target_does_not_read(to, option):
    model = LinearModel.from_weights([1.0], ["price"])
    (name,) = option
    with pytest.raises(ParameterError) as caught:
        export(model, to, ExportOptions(**option))
    assert caught.value.parameter == name
    assert export(model, to).content
    scaled = LinearModel.from_weights([1.0], ["price"], transforms=(ListRange(),))
    if (to, name) == ("sql", "query"):
        assert b"PARTITION BY" in export(scaled, to, ExportOptions(**option)).content


@pytest.mark.parametrize(
    "more",
    [
        ["--ranker", "additive"],
        ["--ranker", "ranksvm", "--missing", "zero"],
        ["--ranker", "ranksvm", "--missing", "zero", "--dask", "here"],
        ["--ranker", "elastic", "--missing", "zero", "--stream"],
        ["--ranker", "ranksvm", "--missing", "zero", "--label", "coec", "--item", "item"],
    ],
    ids=["tables", "memory", "partitions", "stream", "coec"],
)
def test_missing_values_of_a_log_are_counted_however_it_is_read(folder, more):
    done = call(*RAW, "--numeric", "price", "--one-hot", "brand", *more, "--json")
    assert json.loads(done.stdout)["nulls"] == 2


def test_a_narrower_file_is_told_of_in_streams_too(folder):
    for stream in ([], ["--stream"]):
        done = call("predict", "m.rankine", "narrow.txt", *stream)
        assert "1 of 1 files hold fewer features than the model's 2" in done.stderr
        assert "fewer features" not in call("predict", "m.rankine", "d.txt", *stream).stderr


def test_a_log_is_no_pipe(folder):
    with pytest.raises(Exception, match="<stdin>: a raw log is read from files, not from a pipe"):
        call("train", "-", *RAW[2:], "--one-hot", "brand")
