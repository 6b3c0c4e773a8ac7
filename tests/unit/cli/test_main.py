"""Errors are one line that names the option; the application knows its version and commands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli import _console, main
from rankine.cli.main import find_commands, run
from rankine.core.errors import ParameterError


def error_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> str:
    """Run a command that must fail with exit code 2; return what it prints on stderr."""
    monkeypatch.setattr("sys.argv", ["rankine", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.txt"
    file.write_text("1 qid:1 1:2\n0 qid:1 1:1\n")
    return file


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--n-passes", "0"], "--n-passes: "),
        (["--set", "n_steps=0"], "--set n_steps: "),
        (["--set", "l2"], "--set: 'l2' is not name=value"),
        (["--bins", "4"], "--bins: "),
        (["--ranker", "tree"], "tree"),
    ],
)
def test_an_error_of_a_parameter_names_its_option(
    options: list[str],
    shown: str,
    rows: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = error_line(monkeypatch, capsys, "train", rows, "-o", tmp_path / "m.rankine", *options)
    assert line.startswith("rankine: error: ")
    assert shown in line


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["train", "rows.txt"], "--out: a value is required"),
        (["train", "rows.txt", "-o", "m", "--seed", "x"], "--seed: "),
        (["train", "-o", "m"], "DATA: a value is required"),
        (["train", "rows.txt", "--no-such-option"], "--no-such-option"),
        (["trian"], "trian"),
        (["clicks"], "See rankine clicks --help"),
        (["--json"], "--json"),
    ],
)
def test_errors_of_typer_look_like_those_of_rankine(
    words: list[str],
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = error_line(monkeypatch, capsys, *words)
    assert line.startswith("rankine: error: ")
    assert "[parameter]. See rankine" in line
    assert shown in line


def test_a_missing_value_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.txt"
    file.write_text("1 qid:1 1:NaN\n0 qid:1 1:1\n")
    line = error_line(monkeypatch, capsys, "train", file, "-o", tmp_path / "m.rankine")
    assert "--missing: " in line
    assert "missing=" not in line, "an option, not Python"


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Runs the command line, whose application ends with an error."""

    def call(error: BaseException) -> None:
        def fail(**options: object) -> None:
            raise error

        monkeypatch.setattr(main, "app", fail)
        monkeypatch.setattr(main, "find_commands", list)
        run()

    return call


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (ParameterError("no", fix="Do"), 2, "rankine: error: no [parameter]. Do\n"),
        (KeyboardInterrupt(), 130, "rankine: interrupted: no output file was written\n"),
        (FileNotFoundError(2, "gone", "a\tb"), 2, "rankine: error: a\\tb: gone\n"),
        (OSError("strange"), 2, "rankine: error: strange\n"),
        (MemoryError(), 2, "rankine: error: out of memory: use float32"),
    ],
)
def test_an_error_is_one_line(
    command_line: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    shown: str,
) -> None:
    _console.set_verbosity(0)
    with pytest.raises(SystemExit) as ended:
        command_line(error)
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith(shown)
    if code == 2:
        _console.set_verbosity(1)
        with pytest.raises(type(error)):
            command_line(error)
        _console.set_verbosity(0)


def test_a_closed_pipe_is_not_an_error(
    command_line: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    duplicated = []
    quiet = SimpleNamespace(
        devnull="null",
        O_WRONLY=1,
        open=lambda name, mode: (name, mode),
        dup2=lambda *pair: duplicated.append(pair),
    )
    monkeypatch.setattr(main, "os", quiet)
    monkeypatch.setattr("sys.stdout", SimpleNamespace(fileno=lambda: 7))
    with pytest.raises(SystemExit) as ended:
        command_line(BrokenPipeError())
    assert ended.value.code == 0
    assert duplicated == [(("null", 1), 7)]


def test_the_version_alone_and_with_all_that_a_report_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find_commands()
    wanted = ["numpy>=1.26", "rankine[plot]; extra == 'all'", "no-such-thing>=1", "(odd)", "typer"]
    monkeypatch.setattr(metadata, "requires", lambda name: wanted if name == "rankine" else None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2, 3} if pid == 0 else set())
    call = CliRunner().invoke
    done = call(main.app, ["--version", "--json"])
    found = json.loads(done.stdout)
    assert list(found["packages"]) == ["no-such-thing", "numpy", "typer"]
    assert found["packages"]["no-such-thing"] is None
    assert found["packages"]["numpy"] == np.__version__
    assert found["rankine"] == rankine.__version__
    assert found["threads"] == 3
    monkeypatch.setattr(metadata, "requires", lambda _: None)
    assert main.installation_report()["packages"] == {}
    done = call(main.app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"rankine {rankine.__version__}\n")
    assert call(main.app, ["--version", "inspect", "nothing"]).exit_code == 0
    done = call(main.app, ["--json", "inspect", "nothing"])
    assert done.exit_code == 2
    assert "after the name of a command" in done.output
    for words in ([], ["-q"]):
        done = call(main.app, words)
        assert done.exit_code == 0 or words == []
        assert "Usage" in done.output
        assert "evaluate" in done.output


def test_verbosity_is_that_of_the_command() -> None:
    seen = []
    commands = main.Commands()

    @commands.command()
    def show_verbosity() -> None:
        seen.append(_console.verbosity())

    for words in ([], ["-q"], ["-v"]):
        _console.set_verbosity(0)
        assert CliRunner().invoke(commands, words).exit_code == 0
    _console.set_verbosity(0)
    assert seen == [0, -1, 1]
