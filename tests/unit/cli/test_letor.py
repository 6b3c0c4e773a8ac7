"""``rankine letor``: rankers, baselines, output formats and progress."""

from __future__ import annotations

import os
import time

import pytest
from typer.testing import CliRunner

from rankine.cli import letor
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError

pytestmark = pytest.mark.cli
find_commands()


class CapturedError(Exception):
    """Ends a command after its arguments were captured."""


@pytest.fixture
def asked(monkeypatch):
    found = {}

    def ask(*given, **options):
        found.update(options, given=given)
        raise CapturedError

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
        with pytest.raises(CapturedError):
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
    with pytest.raises(CapturedError):
        call("letor", "DATA", "-r", "ranksvm")
    assert asked["given"][1]["ranksvm"].missing != "mean"


def test_one_output_format_and_each_ranker_once(asked):
    for words in (["--json", "--csv"], ["--latex", "--markdown"], ["--json", "--latex", "--csv"]):
        with pytest.raises(ParameterError, match="only one output format"):
            call("letor", "DATA", "-r", "spd", *words)
    with pytest.raises(ParameterError) as caught:
        call("letor", "DATA", "-r", "spd", "-r", "spd")
    assert caught.value.parameter == "--ranker"
    with pytest.raises(CapturedError):
        call("letor", "DATA", "-r", "spd", "--csv")


def test_all_rankers_run_with_their_defaults():
    from rankine.rankers.registry import RANKERS

    rankers, grids = letor.parse_rankers(["all", "spd:l2=0.1"])
    assert list(rankers) == [*RANKERS, "spd:l2=0.1"]
    assert grids["additive"]
    with pytest.raises(ParameterError) as caught:
        letor.parse_rankers(["elastic", "all"])
    assert caught.value.parameter == "ranker"


def test_baselines_apply_to_one_folder_or_to_all(monkeypatch):
    monkeypatch.setattr("rankine.evaluation.letor_tables.read_baselines", lambda file: f"<{file}>")
    found = letor.read_baseline_files(["a.toml", "MQ=b.csv", "x=y=c"])
    assert found == [(None, "<a.toml>"), ("MQ", "<b.csv>"), ("x=y", "<c>")]


def test_progress_lines_are_printed_at_intervals(monkeypatch, capsys):
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
