"""``rankine history``: build, apply and show."""

from __future__ import annotations

import json
import tomllib

import pytest
from typer.testing import CliRunner

from rankine.cli.main import app, find_commands
from unit.logs.test_build import SCHEMA, make_days

find_commands()

pytestmark = pytest.mark.cli


def run_command(*words):
    """Run a command that succeeds; return what it prints."""
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


def test_commands_build_apply_and_show(tmp_path):
    _, (monday, tuesday) = make_days(tmp_path)
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
