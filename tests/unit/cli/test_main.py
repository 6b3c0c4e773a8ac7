"""Errors on the command line speak its options; what is hardly used is imported late."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from rankine.cli.main import as_options, find_commands, import_later, run


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
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    import_later(("put_off", "no_such_module"))
    put_off = importlib.import_module("put_off")
    assert importlib.import_module("put_off") is put_off
    assert "ran" not in vars(put_off)
    assert put_off.ran
    assert vars(sys.modules["put_off"])["ran"]
    assert importlib.import_module("put_off.part").seen
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module")
    with pytest.raises(AttributeError):
        _ = put_off.nothing
