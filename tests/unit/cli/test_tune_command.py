"""``rankine tune`` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine.cli.main
import rankine.cli.tune  # noqa: F401 - attaches the command
from rankine.cli.main import app
from rankine.cli.tune import read_space
from rankine.core.errors import CheckpointError, ParameterError
from rankine.model import LinearModel

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
    with pytest.raises(CheckpointError, match="space"):
        call(*arguments, "--trials", "4", "--space", "l2=1e-3..1")
    with pytest.raises(CheckpointError, match="validation"):
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
    with pytest.raises(ParameterError, match="name=range"):
        read_space(["l2"])
    with pytest.raises(ParameterError, match="latency"):
        call("train.txt", "--max-latency", "soon")
    with pytest.raises(ParameterError, match="'nope'"):
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
def test_what_could_not_be_written_is_refused_before_the_search(files, options, named):
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
