"""An option group stands for its options, in help and in calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from rankine.cli import _console
from rankine.cli._options import ModelReading, Reading, split_list, spread
from rankine.cli.main import app, find_commands

pytestmark = pytest.mark.cli


@dataclass(frozen=True)
class Size:
    """Two options."""

    width: Annotated[int, typer.Option("--width", help="How wide.")] = 3
    tall: Annotated[bool, typer.Option("--tall", help="Twice as high.")] = False


def make_app(seen: list[object]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @spread
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
def test_values_are_gathered(words, expected):
    seen = []
    result = CliRunner().invoke(make_app(seen), words)
    assert result.exit_code == 0, result.output
    assert seen == [expected]


def test_help_shows_the_options_and_not_the_group():
    text = CliRunner().invoke(make_app([]), ["--help"], env={"COLUMNS": "200"}).output
    assert "--width" in text
    assert "How wide." in text
    assert "--size" not in text


def test_wrong_values_are_refused():
    result = CliRunner().invoke(make_app([]), ["a", "--width", "x"])
    assert result.exit_code == 2


def test_reading_options_leave_out_what_is_not_given():
    given = Reading(columns="day, shop,").options(extra=None)
    assert given["columns"] == ("day", "shop")
    assert given["base"] == 1
    assert "n_features" not in given
    assert "extra" not in given
    assert "base" not in ModelReading().options()


def test_lists_are_split_at_commas():
    assert split_list(None) == ()
    assert split_list(" a, b,,") == ("a", "b")


@pytest.mark.parametrize("words", [["-q", "inspect"], ["inspect", "-q"], ["inspect", "--quiet"]])
def test_quiet_stands_before_and_after_the_command(words, tmp_path):
    from rankine import LinearModel

    LinearModel.from_weights([1.0, 2.0]).save(tmp_path / "m.rankine")
    find_commands()
    result = CliRunner().invoke(app, [*words, str(tmp_path / "m.rankine")])
    assert result.exit_code == 0, result.output
    assert _console.verbosity() == -1
