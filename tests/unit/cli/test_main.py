"""Errors on the command line speak its options; what is hardly used is imported late."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli import _console, main
from rankine.cli.main import as_options, find_commands, import_later, run
from rankine.core.errors import ParameterError


@pytest.mark.parametrize(
    ("python", "command", "wanted"),
    [
        ("Pass missing='zero'", "train", "Pass --missing zero"),
        ('or pass missing="zero"', "tune", "or pass --missing zero"),
        ("Read the data with n_features=46, or", "train", "Read the data with --n-features 46, or"),
        ("Use sampling='query'", "train", "Use --set sampling=query"),
        ("Use sampling='query'", "predict", "Use sampling='query'"),
        ("Train with missing='zero' or 'mean'", "export", "Train with --missing zero or mean"),
        ("a == b, eta0=nan", "train", "a == b, eta0=nan"),
        ("(scale='none', 'query' or 'auto')", "train", "(--scale none, query or auto)"),
        ("or use AdditiveRanker", "train", "or use --ranker additive"),
        ("or use AdditiveRanker", "predict", "or use AdditiveRanker"),
        ("with features=[...] and columns=[...]", "train", "with --numeric ... and --columns ..."),
        ("named by query= (one_hot=, x=)", "train", "named by --query (--one-hot, x=)"),
    ],
)
def test_python_becomes_options(
    python: str, command: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_commands()
    monkeypatch.setattr("sys.argv", ["rankine", "-q", command, "file"])
    assert as_options(python) == wanted


def test_a_missing_value_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.txt"
    file.write_text("1 qid:1 1:NaN\n0 qid:1 1:1\n")
    monkeypatch.setattr("sys.argv", ["rankine", "train", str(file), "-o", str(tmp_path / "m.rank")])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    assert "--missing zero" in capsys.readouterr().err


def test_a_module_that_is_put_off_is_itself_once_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "put_off").mkdir()
    (tmp_path / "put_off" / "__init__.py").write_text("ran = True\n")
    (tmp_path / "put_off" / "part.py").write_text("from put_off import ran as seen\n")
    monkeypatch.syspath_prepend(tmp_path)
    asked: list[str] = []
    first = SimpleNamespace(find_spec=lambda name, path=None, target=None: asked.append(name))
    monkeypatch.setattr(sys, "meta_path", [first, *sys.meta_path])
    import_later(("put_off", "no_such_module"))
    put_off = importlib.import_module("put_off")
    assert importlib.import_module("put_off") is put_off
    assert "ran" not in vars(put_off)
    assert "put_off" not in asked, "no other finder comes first"
    assert put_off.ran
    assert vars(sys.modules["put_off"])["ran"]
    assert importlib.import_module("put_off.part").seen
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module")
    with pytest.raises(AttributeError):
        _ = put_off.nothing


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Runs the command line, whose application ends with an error."""

    def call(error: BaseException) -> None:
        def fail() -> None:
            raise error

        monkeypatch.setattr(main, "app", fail)
        monkeypatch.setattr(main, "import_later", lambda: None)
        monkeypatch.setattr(main, "find_commands", list)
        monkeypatch.setattr(main, "as_options", lambda text: text.upper())
        run()

    return call


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ParameterError("no", fix="Do"), 2, "rankine: error: NO [parameter]. DO\n"),
        (KeyboardInterrupt(), 130, "rankine: error: interrupted\n"),
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
    told: str,
) -> None:
    _console.set_verbosity(0)
    with pytest.raises(SystemExit) as ended:
        command_line(error)
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith(told)
    if code == 2:
        _console.set_verbosity(1)
        with pytest.raises(type(error)):
            command_line(error)
        _console.set_verbosity(0)


def test_a_reader_that_goes_away_is_no_error(
    command_line: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = []
    quiet = SimpleNamespace(
        devnull="null",
        O_WRONLY=1,
        open=lambda name, mode: (name, mode),
        dup2=lambda *pair: turned.append(pair),
    )
    monkeypatch.setattr(main, "os", quiet)
    monkeypatch.setattr("sys.stdout", SimpleNamespace(fileno=lambda: 7))
    with pytest.raises(SystemExit) as ended:
        command_line(BrokenPipeError())
    assert ended.value.code == 0
    assert turned == [(("null", 1), 7)]


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
    assert main.about()["packages"] == {}
    done = call(main.app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"rankine {rankine.__version__}\n")
    assert call(main.app, ["--version", "inspect", "nothing"]).exit_code == 0
    done = call(main.app, ["--json", "inspect", "nothing"])
    assert done.exit_code == 2
    assert "stands after the command" in done.output
    for words in ([], ["-q"]):
        done = call(main.app, words)
        assert done.exit_code == 0 or words == []
        assert "Usage" in done.output
        assert "evaluate" in done.output


def test_loudness_is_that_of_the_command() -> None:
    seen = []
    commands = main.Commands()

    @commands.command()
    def told() -> None:
        seen.append(_console.verbosity())

    for words in ([], ["-q"], ["-v"]):
        _console.set_verbosity(0)
        assert CliRunner().invoke(commands, words).exit_code == 0
    _console.set_verbosity(0)
    assert seen == [0, -1, 1]
