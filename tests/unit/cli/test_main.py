"""Errors on the command line speak its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankine.cli.main import as_options, find_commands, run


@pytest.mark.parametrize(
    ("python", "command", "wanted"),
    [
        ("Pass missing='zero'", "train", "Pass --missing zero"),
        ('or pass missing="zero"', "tune", "or pass --missing zero"),
        ("Read the data with n_features=46, or", "train", "Read the data with --n-features 46, or"),
        ("Use sampling='query'", "train", "Use --set sampling=query"),
        ("Use sampling='query'", "predict", "Use sampling='query'"),
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
