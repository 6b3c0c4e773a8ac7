"""Groups become options; options without effect are rejected by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from rankine import LinearModel, RankSVM, logs
from rankine.cli._groups import expand_groups
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError
from rankine.core.specs import ListRange
from rankine.export import ExportOptions, export

find_commands()

pytestmark = pytest.mark.cli


@dataclass(frozen=True)
class Size:
    """Two options."""

    width: Annotated[int, typer.Option("--width", help="How wide.")] = 3
    tall: Annotated[bool, typer.Option("--tall", help="Twice as high.")] = False


def make_app(seen: list[object]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @expand_groups
    def draw(
        name: Annotated[str, typer.Argument()],
        colour: Annotated[str, typer.Option()] = "red",
        *,
        size: Size,
    ) -> None:
        """Draw."""
        seen.append((name, colour, size))

    return app


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a"], ("a", "red", Size())),
        (["a", "--width", "7", "--tall"], ("a", "red", Size(7, tall=True))),
        (["b", "--colour", "blue", "--width", "1"], ("b", "blue", Size(1))),
    ],
)
def test_options_are_gathered_in_their_group(words, expected):
    seen = []
    result = CliRunner().invoke(make_app(seen), words)
    assert result.exit_code == 0, result.output
    assert seen == [expected]


def test_help_shows_the_options_and_not_the_group():
    text = CliRunner().invoke(make_app([]), ["--help"], env={"COLUMNS": "200"}).output
    assert "--width" in text
    assert "How wide." in text
    assert "--size" not in text


def test_values_of_a_wrong_type_are_rejected():
    result = CliRunner().invoke(make_app([]), ["a", "--width", "x"])
    assert result.exit_code == 2


def test_parameters_outside_groups_stay_options():
    seen = []
    app = typer.Typer()

    @app.command()
    @expand_groups
    def draw(name: str, times: int = 2) -> None:
        seen.append((name, times))

    for words in (["a"], ["b", "--times", "3"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert seen == [("a", 2), ("b", 3)]


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
            "--features",
        ),
    ],
)
def test_an_option_without_effect_is_rejected_by_name(folder, words, option):
    with pytest.raises(ParameterError, match=f"^[^.]*{option}\\b"):
        call(*words)
    assert not list(folder.glob("x*"))


def test_an_error_names_set_where_an_option_has_the_name_of_a_parameter(folder):
    words = [*RAW, "--numeric", "price", "--ranker", "additive", "--set", "pairs=price-brand"]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ParameterError)
    assert result.exception.parameter == "--set pairs"


def test_the_same_commands_work_without_the_option(folder):
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
def test_an_export_rejects_options_of_other_targets(to, option):
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
def test_missing_values_of_a_log_are_counted_in_every_way_of_reading(folder, more):
    done = call(*RAW, "--numeric", "price", "--one-hot", "brand", *more, "--json")
    assert json.loads(done.stdout)["nulls"] == 2


def test_narrower_files_are_reported_for_streams_too(folder):
    for stream in ([], ["--stream"]):
        done = call("predict", "m.rankine", "narrow.txt", *stream)
        assert "1 of 1 files have fewer features than the model (2)" in done.stderr
        assert "fewer features" not in call("predict", "m.rankine", "d.txt", *stream).stderr


def test_a_log_cannot_be_read_from_a_pipe(folder):
    with pytest.raises(Exception, match=r"<stdin>: .* only once"):
        call("train", "-", *RAW[2:], "--one-hot", "brand")
