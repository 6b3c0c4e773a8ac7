"""What ``rankine letor`` and ``rankine path`` ask of the library."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from rankine.cli import letor
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app, find_commands
from rankine.cli.path import path_table
from rankine.core.errors import ParameterError
from rankine.model import LinearModel

pytestmark = pytest.mark.cli
find_commands()


class AskedError(Exception):
    """What was asked for is known."""


@pytest.fixture
def asked(monkeypatch):
    found = {}

    def ask(*given, **options):
        found.update(options, given=given)
        raise AskedError

    monkeypatch.setattr("rankine.evaluation.letor.run_letor", ask)
    monkeypatch.setattr(ModelReadingOptions, "open", ask)
    return found


def call(*words):
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_rankers_grids_and_workers(asked, monkeypatch):
    words = ["letor", "DATA", "-r", "ranksvm", "-r", "additive", "-r", "spd:solver=romma,l2=0.5"]
    for cores, more, workers in (
        (3, [], 3),
        (None, [], 1),
        (3, ["--workers", "2"], 2),
    ):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        with pytest.raises(AskedError):
            call(*words, *more, "--missing", "mean")
        assert asked["workers"] == workers
    folders, rankers = asked["given"]
    assert (folders, list(rankers)) == (["DATA"], ["ranksvm", "additive", words[-1]])
    assert [rankers[name].get_params().get("missing") for name in rankers] == [
        "mean",
        "auto",
        "mean",
    ]
    assert (rankers[words[-1]].solver, rankers[words[-1]].l2) == ("romma", 0.5)
    assert not {"solver", "l2"} & asked["grids"][words[-1]].keys()
    assert asked["grids"]["ranksvm"]
    assert (asked["metric"], asked["script"], asked["random_state"]) == ("map", None, 0)
    assert callable(asked["report"])
    with pytest.raises(AskedError):
        call("letor", "DATA", "-r", "ranksvm")
    assert asked["given"][1]["ranksvm"].missing != "mean"


def test_one_output_format_and_each_ranker_once(asked):
    for words in (["--json", "--csv"], ["--latex", "--markdown"], ["--json", "--latex", "--csv"]):
        with pytest.raises(ParameterError, match="only one output format"):
            call("letor", "DATA", "-r", "spd", *words)
    with pytest.raises(ParameterError, match="'spd' is named twice"):
        call("letor", "DATA", "-r", "spd", "-r", "spd")
    with pytest.raises(AskedError):
        call("letor", "DATA", "-r", "spd", "--csv")


def test_baselines_belong_to_a_folder_or_to_all(monkeypatch):
    monkeypatch.setattr("rankine.evaluation.letor_tables.read_baselines", lambda file: f"<{file}>")
    found = letor.read_baseline_files(["a.toml", "MQ=b.csv", "x=y=c"])
    assert found == [(None, "<a.toml>"), ("MQ", "<b.csv>"), ("x=y", "<c>")]


def test_a_line_of_progress_now_and_then(monkeypatch, capsys):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    tell = letor.print_progress_lines()
    for seconds, done, told in (
        (119.0, 1, None),
        (120.0, 0, None),
        (120.0, 4, "4 of 10 fits, about 30 s left (spd)"),
        (130.0, 5, None),
        (140.0, 5, "5 of 10 fits, about 40 s left (spd)"),
        (170.0, 10, None),
        (200.0, 1, "1 of 10 fits, about 900 s left (spd)"),
    ):
        clock[0] = seconds
        tell(done, 10, "spd")
        assert capsys.readouterr().err == ("" if told is None else f"{told}\n")


STEP = {"l1": 0.5, "nonzeros": 1234, "map": 0.25, "loss": 1.5, "relative_gap": None, "seconds": 2}


@pytest.mark.parametrize(
    ("more", "heads"),
    [
        ({}, ["", "", "l1", "weights", "map", "gap", "seconds"]),
        ({"smooth": 0.5, "pairs": 3}, ["", "pairs", "smooth", "weights", "map", "gap", "seconds"]),
        (
            {"solver": "rda", "latency_ms": 0.125},
            ["", "solver", "l1", "weights", "map", "ms an item", "seconds"],
        ),
    ],
)
def test_a_star_marks_the_best_step(more, heads):
    for count in (1, 3):
        steps = [{**STEP, **more} for _ in range(count)]
        result = {"metric": "map", "measured": True, "steps": steps, "best": count - 1}
        table = path_table(result)
        assert [str(column.header) for column in table.columns] == heads
        assert list(table.columns[0].cells) == [""] * (count - 1) + ["*"]
        assert set(table.columns[3].cells) == {"1,234"}
        assert set(table.columns[1].cells) == {str(more.get(heads[1], ""))}
    table = path_table({**result, "measured": False})
    assert (table.columns[4].header, next(table.columns[4].cells)) == ("loss", "1.5000")


def test_what_is_asked_of_a_path(monkeypatch, tmp_path):
    found, held = {}, []

    def ask(_self, rows, **options):
        found.clear()
        found.update(options, rows=rows)
        raise AskedError

    monkeypatch.setattr("rankine.DominationRanker.path", ask)
    monkeypatch.setattr(ModelReadingOptions, "open", lambda *_, **__: "rows")
    monkeypatch.setattr(ModelReadingOptions, "open_like", lambda *_: held.append(1) or "held")
    monkeypatch.setattr(ModelReadingOptions, "parts", lambda *_: {"train": "old", "valid": "new"})
    for words, rows, eval_set, steps in (
        ([], "rows", None, {"max_nonzero": None}),
        (["--n-steps", "4"], "rows", None, {"max_nonzero": None, "n_steps": 4}),
        (["--min-ratio", "0.5"], "rows", None, {"max_nonzero": None, "min_ratio": 0.5}),
        (["--max-nonzero", "9", "--valid", "v"], "rows", "held", {"max_nonzero": 9}),
        (["--split", "time:0.5,0.5"], "old", "new", {"max_nonzero": None}),
    ):
        with pytest.raises(AskedError):
            call("path", "rows.txt", *words)
        assert (found.pop("rows"), found.pop("eval_set"), found.pop("callbacks")) == (
            rows, eval_set, [],
        )  # fmt: skip
        assert found == steps
    with pytest.raises(ParameterError) as caught:
        call("path", "rows.txt", "--valid", "v", "--split", "time:0.5,0.5")
    assert caught.value.parameter == "--valid"
    for option in (["--solvers", "rda"], ["--max-latency", "1ms"]):
        with pytest.raises(ParameterError) as caught:
            call("path", "rows.txt", *option)
        assert caught.value.parameter == option[0]
    monkeypatch.setattr("rankine.DominationRanker.path", lambda *_, **__: [])
    with pytest.raises(ParameterError) as caught:
        call("path", "rows.txt")
    assert caught.value.parameter == "--max-nonzero"


def test_what_is_said_of_a_path(monkeypatch, tmp_path):
    class Found(list):
        metric, measured = "map", True

        def best(self):
            return 1

        def records(self):
            return list(self)

        def to_model(self, step):
            return LinearModel.from_weights([float(step)])

    drawn = []
    monkeypatch.setattr("rankine.DominationRanker.path", lambda *_, **__: Found([STEP, STEP]))
    monkeypatch.setattr(ModelReadingOptions, "open", lambda *_, **__: SimpleNamespace(n_features=7))
    monkeypatch.setattr("rankine.plot.path", lambda found: found)
    monkeypatch.setattr("rankine.plot.save_axes", lambda ax, file: drawn.append((len(ax), file)))
    out, plot = str(tmp_path / "m.rankine"), str(tmp_path / "p.svg")
    bare = json.loads(call("path", "rows.txt", "--json").stdout)
    assert bare == {
        "ranker": "DominationRanker", "metric": "map", "measured": True, "n_features": 7,
        "best": 1, "steps": [STEP, STEP],
    }  # fmt: skip
    said = json.loads(call("path", "rows.txt", "--json", "--out", out, "--plot", plot).stdout)
    assert said == {**bare, "plot": plot, "model": out, "digest": LinearModel.load(out).digest}
    assert LinearModel.load(out).values.tolist() == [1.0]
    assert drawn == [(2, plot)]


@pytest.mark.parametrize(
    ("words", "stream"),
    [
        (["--ranker", "elastic"], False),
        (["--ranker", "elastic", "--n-features", "9"], True),
        (["--ranker", "elastic", "--query", "q", "--numeric", "a"], True),
        (["--n-features", "9"], False),
    ],
)
def test_a_path_reads_a_stream_once_where_its_width_is_known(asked, words, stream):
    with pytest.raises(AskedError):
        call("path", "rows.txt", *words)
    assert asked["stream"] is stream
