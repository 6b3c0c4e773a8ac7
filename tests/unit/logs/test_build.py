"""History features as columns of a file, and states that follow the log from day to day."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.core.errors import FileKindError, ParameterError, QueryOrderError
from rankine.history.state import load_state
from rankine.logs.schema import LogSchema
from reference.history import DECLARATIONS, brute_force, history_of, random_log

find_commands()
SCHEMA = LogSchema.make({
    "query": "session", "label": "clicked", "numeric": ["weight"], "time": "ts",
    "outcome_time": "outcome_ts", "position": "position", "forget": 150,
    "history": DECLARATIONS, "propensity": [1.0, 0.5, 0.25],
})  # fmt: skip


def run_command(*words):
    """Run a command that succeeds; return what it prints."""
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def days(tmp_path):
    """A log, and its files of two days."""
    frame = random_log(np.random.default_rng(4), n_lists=100)
    starts = frame.groupby("session").ts.transform("min")
    is_later = starts > starts.median()
    files = [tmp_path / "monday.parquet", tmp_path / "tuesday.parquet"]
    for file, rows in zip(files, (~is_later, is_later), strict=True):
        frame[rows].to_parquet(file)
    return frame, files


def test_built_columns_are_the_features(days, tmp_path):
    frame, files = days
    out = tmp_path / "features.parquet"
    report = rankine.logs.build_history(files, out, SCHEMA, state=tmp_path / "state", block_rows=9)
    assert report == (report.__class__)(len(frame), 100, tuple(DECLARATIONS))
    built = pd.read_parquet(out)
    pd.testing.assert_frame_equal(built[list(frame)].reset_index(drop=True), frame)
    expected = brute_force(frame, history_of())
    np.testing.assert_allclose(built[list(DECLARATIONS)], expected, rtol=1e-12, atol=1e-12)
    log = rankine.logs.scan(out, schema=SCHEMA.without_history())
    assert log.schema.numeric == ("weight", *DECLARATIONS)
    assert load_state(tmp_path / "state").counts.lists == 100


def test_a_state_goes_from_day_to_day(days, tmp_path):
    _, (monday, tuesday) = days
    out, state = tmp_path / "features.arrow", tmp_path / "state"
    rankine.logs.build_history(monday, out, SCHEMA, state=state)
    rankine.logs.apply_history(state, tuesday)
    at_once = rankine.logs.scan([monday, tuesday], schema=SCHEMA).history_state()
    at_once.save(tmp_path / "at_once")
    assert (state / "history.safetensors").read_bytes() == (tmp_path / "at_once").read_bytes()
    for again in (monday, tuesday):
        with pytest.raises(QueryOrderError, match="applied before"):
            rankine.logs.apply_history(state, again)


def test_wrong_calls_name_the_reason(days, tmp_path):
    _, (monday, _) = days
    with pytest.raises(ParameterError) as caught:
        rankine.logs.build_history(monday, tmp_path / "f.parquet", SCHEMA.without_history())
    assert caught.value.parameter == "schema"
    with pytest.raises(FileKindError):
        rankine.logs.build_history(monday, tmp_path / "f.npz", SCHEMA)
    with pytest.raises(Exception, match=r"history\.safetensors"):
        rankine.logs.apply_history(tmp_path / "none", monday)
    assert not (tmp_path / "none").exists()


@pytest.mark.cli
def test_commands_build_apply_and_show(days, tmp_path):
    _, (monday, tuesday) = days
    schema, out, state = tmp_path / "shop.toml", tmp_path / "f.parquet", tmp_path / "state"
    schema.write_text(SCHEMA.to_toml())
    output = run_command(
        "history", "build", monday, "--schema", schema, "--out", out, "--state", state
    )
    assert "12 history features" in output
    assert "history" not in tomllib.loads((tmp_path / "f.toml").read_text())
    summary = json.loads(run_command("history", "apply", tuesday, "--state", state, "--json"))
    assert summary["lists"] == 100
    output = run_command("history", "show", "--state", state)
    assert "rate of clicked" in output
    assert "the last one read at 1970-01-01T00:0" in output
    output = run_command("history", "show", "--state", state, "--by", "item=a")
    assert "times the overall rate" in output
    values = json.loads(
        run_command("history", "show", "--state", state, "--by", "item=never", "--json")
    )
    assert values["features"]["rate"] == values["overall"]["rate"]
    assert values["features"]["age"] is None
