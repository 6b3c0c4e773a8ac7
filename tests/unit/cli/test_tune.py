"""``rankine tune`` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine.cli.main
import rankine.cli.tune  # noqa: F401 - attaches the command
from error_checks import raises_for
from rankine.cli.main import app
from rankine.cli.tune import print_result, read_space
from rankine.core.errors import CheckpointError, ParameterError
from rankine.model import LinearModel

LINEAR = ("spd", "ranksvm", "least-squares", "domination", "elastic")
pytestmark = [pytest.mark.cli, pytest.mark.timeout(600)]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("train.txt", "vali.txt"):
        lines = []
        for q in range(20):
            for x in rng.normal(size=(8, 3)):
                label = int(x[0] - x[1] + 0.3 * rng.normal() > 0.5)
                features = " ".join(f"{j}:{value:.4f}" for j, value in enumerate(x, 1))
                lines.append(f"{label} qid:{q} {features}\n")
        (tmp_path / name).write_text("".join(lines))
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, ["tune", *arguments], catch_exceptions=False)


COMMON = ("--ranker", "least-squares", "--metric", "map", "--study", "s.db")


def test_one_command_gives_a_model_and_goes_on_where_it_stopped(files):
    arguments = ("train.txt", "--valid", "vali.txt", *COMMON)
    first = call(*arguments, "--trials", "3", "--out", "m.rankine", "--plot", "trace.png")
    assert first.exit_code == 0
    assert "best" in first.stdout
    assert "l2" in first.stdout
    assert (files / "trace.png").stat().st_size > 1000
    model = LinearModel.load("m.rankine")
    assert (model.n_features, model.metric) == (3, "map")
    again = json.loads(call(*arguments, "--trials", "4", "--json").stdout)
    assert [t["number"] for t in again["trials"]] == [0, 1, 2, 3]
    assert again["best_value"] == max(t["value"] for t in again["trials"])
    assert again["study"] == "s.db"
    with pytest.raises(CheckpointError):
        call(*arguments, "--trials", "4", "--space", "l2=1e-3..1")
    with pytest.raises(CheckpointError):
        call("train.txt", "--valid", "train.txt", *COMMON)


def test_space_set_folds_and_workers(files):
    found = json.loads(
        call(
            "train.txt", "--ranker", "least-squares", "--folds", "2", "--trials", "4", "--json",
            "--space", "l2=1e-3..1", "--space", "pairs=untied", "--set", "scale=none",
            "--workers", "2", "--max-nonzero", "3",
        ).stdout
    )  # fmt: skip
    assert len(found["trials"]) == 4
    assert set(found["best_params"]) == {"l2"}
    assert all(1e-3 <= t["parameters"]["l2"] <= 1 for t in found["trials"])


def test_unreadable_options_are_refused(files):
    with raises_for("space"):
        read_space(["l2"])
    with raises_for("--max-latency"):
        call("train.txt", "--max-latency", "soon")
    with raises_for("--space"):
        call("train.txt", "--space", "nope=1..2")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--out", "absent/m.rankine"), "--out"),
        (("--plot", "absent/trace.png"), "--plot"),
        (("--study", "absent/s.db"), "--study"),
        (("--out", "."), "folder"),
        (("--plot", "trace.xyz"), "xyz"),
        (("--pruner", "hope"), "halving"),
    ],
)
def test_outputs_that_cannot_be_written_are_rejected_before_the_search(files, options, named):
    with pytest.raises(ParameterError, match=named):
        call("train.txt", "--ranker", "least-squares", "--trials", "9", *options)


def test_a_pruner_by_name(files):
    found = json.loads(
        call(
            "train.txt", "--valid", "vali.txt", "--ranker", "least-squares", "--trials", "3",
            "--pruner", "none", "--json", "--set", "scale=none", "--set", "pairs=all",
        ).stdout
    )  # fmt: skip
    assert [t["state"] for t in found["trials"]] == ["complete"] * 3


def test_two_commands_at_once_complete_one_study(files):
    """Both end well, with the same model; no trial is lost, doubled or left running."""
    code = "import sys; from rankine.cli.main import run; sys.argv[0] = 'rankine'; run()"
    shared = ("tune", "train.txt", "--valid", "vali.txt", *COMMON, "--trials", "9", "--json")
    fixed = ("--set", "scale=none", "--set", "pairs=all")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, *shared, *fixed, "--out", f"{name}.rankine"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("a", "b")
    ]  # fmt: skip
    ended = [process.communicate(timeout=500) for process in running]
    assert [process.returncode for process in running] == [0, 0], ended
    first, second = (json.loads(out) for out, _ in ended)
    assert first["trials"] == second["trials"]
    assert [t["number"] for t in first["trials"]] == list(range(9))
    assert first["best_params"] == second["best_params"]
    assert LinearModel.load("a.rankine").digest == LinearModel.load("b.rankine").digest
    # another process opens the study without anything of rankine's
    look = (
        "import optuna, json\n"
        "study = optuna.load_study(study_name='rankine', storage='sqlite:///s.db')\n"
        "print(json.dumps([[t.state.name for t in study.trials], study.best_value,"
        " study.best_params]))"
    )
    seen = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True
    ).stdout
    states, best, params = json.loads(seen)
    assert len(states) == 9
    assert set(states) <= {"COMPLETE", "PRUNED"}
    assert best == first["best_value"]
    assert params == first["best_params"]


@pytest.mark.parametrize(
    ("ranker", "words", "parameters"),
    [
        ("ranksvm", [], {}),
        ("ranksvm", ["--missing", "mean"], {"missing": "mean"}),
        ("ranksvm", ["--missing", "mean", "--set", "l2=1"], {"l2": 1, "missing": "mean"}),
        ("auto", ["--missing", "zero"], {f"{n}.missing": "zero" for n in LINEAR}),
    ],
)
def test_missing_values_are_a_parameter_of_linear_rankers(
    files, monkeypatch, ranker, words, parameters
):
    class CapturedError(Exception):
        pass

    asked = {}

    def tune(rows, **options):
        asked.update(options)
        raise CapturedError

    monkeypatch.setattr("rankine.tune", tune)
    table = pa.table({"session": [1, 1], "f": [0.5, 1.5], "label": [0, 1], "day": [1, 1]})
    pq.write_table(table, files / "log.parquet")
    pq.write_table(table.rename_columns(["qid", "f", "label", "day"]), files / "rows.parquet")
    with pytest.raises(CapturedError):
        call("train.txt", "--ranker", ranker, *words, "--folds", "3", "--max-latency", "2ms",
             "--space", " l2 = 1..2 ")  # fmt: skip
    assert asked["parameters"] == parameters
    assert (asked["folds"], asked["max_latency"], asked["trials"]) == (3, 2.0, 30)
    assert (asked["space"], asked["valid"], asked["time_column"]) == ({"l2": "1..2"}, None, None)
    assert asked["workers"] == 1
    with pytest.raises(CapturedError):
        call("rows.parquet", "--time", "day")
    assert (asked["time_column"], asked["space"], asked["parameters"]) == ("day", {}, {})
    log = ("--query", "session", "--label", "label", "--numeric", "f")
    with pytest.raises(CapturedError):
        call("log.parquet", *log, "--time", "day")
    assert asked["time_column"] == "day"
    (files / "s.toml").write_text(
        'query = "session"\nlabel = "label"\nnumeric = ["f"]\ntime = "day"\n'
    )
    with pytest.raises(CapturedError):
        call("log.parquet", "--schema", "s.toml")
    assert asked["time_column"] == "day"


def test_a_result_is_a_table_and_the_winner(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    record = SimpleNamespace(
        number=0, value=0.5, best=0.5, parameters={"l2": 0.25}, weights=3, seconds=1.25,
        state="complete", reason=None, feasible=True,
    )  # fmt: skip
    pruned = SimpleNamespace(**{**vars(record), "number": 1, "state": "pruned", "value": None})
    failed = SimpleNamespace(**{**vars(pruned), "number": 2, "reason": "no pairs"})
    large = SimpleNamespace(**{**vars(record), "number": 3, "feasible": False})
    model = LinearModel.from_weights([1.0, 0.0], parameters={"ranker": "ranksvm"})
    found = SimpleNamespace(
        trace=[record, pruned, failed, large], metric="map", best_params={"l2": 0.25, "k": 3},
        best_value=0.5, model=model, test=None, importances={},
    )  # fmt: skip
    print_result(found, None)
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    assert rows[0] == ["trial", "map", "best", "weights", "seconds", "parameters", "remark"]
    assert rows[1] == ["0", "0.5", "0.5", "3", "1.25", "l2=0.25"]
    assert rows[2] == ["1", "-", "0.5", "3", "1.25", "l2=0.25", "pruned"]
    assert rows[3][-2:] == ["no", "pairs"]
    assert rows[4][-3:] == ["above", "a", "limit"]
    assert "ranksvm: l2=0.25, k=3" in shown
    assert "1 of 2 are not zero" in shown
    assert not {"importance", "(test)", model.digest[:12]} & set(shown.split())
    found.test, found.importances = 0.75, {"l2": 0.5}
    print_result(found, "m.rankine")
    shown = capsys.readouterr().out
    for words in ("map (test)", "0.7500", "l2 50%", f"m.rankine  ({model.digest[:12]})"):
        assert words in shown


@pytest.mark.parametrize("pair", ["l2", "=1", "l2=", " = "])
def test_a_range_needs_a_name_and_values(pair):
    with raises_for("space"):
        read_space([pair])
