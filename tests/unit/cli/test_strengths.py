"""``rankine strengths``: a table of items, the strongest first."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rankine.cli.main import app, find_commands
from rankine.core.errors import ParameterError, SchemaError

find_commands()
pytestmark = pytest.mark.cli


def run(*words):
    return CliRunner().invoke(app, ["strengths", *map(str, words)])


@pytest.fixture
def votes(tmp_path):
    """a beats b three times of four, and b beats c likewise."""
    path = tmp_path / "votes.csv"
    pairs = [("a", "b")] * 3 + [("b", "a")] + [("b", "c")] * 3 + [("c", "b")]
    path.write_text("better,worse\n" + "".join(f"{winner},{loser}\n" for winner, loser in pairs))
    return path


def test_items_are_ordered_by_strength(votes):
    done = run(votes, "--pairs", "better,worse", "--n-resamples", 0, "--json")
    assert done.exit_code == 0, done.output
    items = json.loads(done.stdout)["items"]
    assert [item["item"] for item in items] == ["a", "b", "c"]
    assert sum(item["strength"] for item in items) == pytest.approx(0, abs=1e-9)
    assert items[0]["strength"] == pytest.approx(-items[2]["strength"])
    table = run(votes, "--pairs", "better,worse", "--n-resamples", 0, "--markdown")
    assert "| a |" in table.stdout


def test_wrong_input_is_refused(votes):
    both = run(votes, "--pairs", "better,worse", "--json", "--markdown")
    assert isinstance(both.exception, ParameterError)
    assert isinstance(run(votes).exception, SchemaError)
