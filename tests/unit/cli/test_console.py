"""Where words go: bars, tables, folders, and a shared option or two."""

from __future__ import annotations

import io
import os
import shlex
import sys
import warnings
from types import SimpleNamespace

import pytest

from error_checks import raises_for
from rankine.cli import _console
from rankine.cli._console import (
    check_output_paths,
    command_line,
    open_text_output,
    print_error,
    print_next_commands,
    print_result,
    print_status,
    print_tables,
    print_values,
    progress_bar,
    training_progress,
)
from rankine.core.errors import ParameterError
from rankine.evaluation.tables import Table
from rankine.kernels.compile import CLOCK


@pytest.fixture
def set_verbosity():
    """Whatever a test sets, the level is normal before and after."""
    _console.set_verbosity(0)
    yield _console.set_verbosity
    _console.set_verbosity(0)


class Terminal(io.StringIO):
    """A terminal that keeps what it was shown."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch, set_verbosity):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_quiet_hides_status_but_not_errors(set_verbosity, capsys):
    for level, told in ((-1, ""), (0, "a\\x1b\n"), (1, "a\\x1b\n")):
        set_verbosity(level)
        print_status("a\x1b")
        print_error("b")
        assert capsys.readouterr().err == told + "rankine: error: b\n"


def test_the_bar_shows_progress_and_compiling(terminal, monkeypatch):
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_bar("fits") as move:
        move(3, 1000, "a long value  " * 20)
        CLOCK.begin()
        move(4, None, "on")
        CLOCK.end()
        assert CLOCK.begin is not None
    assert (CLOCK.begin, CLOCK.end) == (None, None)
    shown = terminal.getvalue()
    assert "4  on" in shown
    assert "compiling, once" in shown
    assert "/" not in shown.partition("4  on")[2].partition("\n")[0]
    with training_progress("training") as (update,):
        update(SimpleNamespace(step=5, total=2000, values={"loss": 0.123456, "gap": 2.0}))
    assert "5/2,000 (0%)  loss 0.1235  gap 2" in terminal.getvalue()


def test_no_bar_without_a_terminal_or_when_quiet(terminal, monkeypatch, set_verbosity):
    monkeypatch.setattr("sys.stderr", terminal)
    set_verbosity(-1)
    with progress_bar("fits") as move, training_progress("x") as callbacks:
        assert (move, callbacks) == (None, [])
    set_verbosity(0)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress_bar("fits") as move, training_progress("x") as callbacks:
        assert (move, callbacks) == (None, [])
    assert terminal.getvalue() == ""


def test_output_paths_that_cannot_be_written_are_rejected(tmp_path, monkeypatch):
    check_output_paths(out=str(tmp_path / "a"), plot=None)
    for path in (tmp_path / "no" / "a", tmp_path):
        with pytest.raises(ParameterError) as caught:
            check_output_paths(first=None, data_out=str(path))
        assert caught.value.parameter == "data_out"
        assert str(tmp_path) in caught.value.reason
    check_output_paths(out="a.xyz")
    with raises_for("plot"):
        check_output_paths(plot="a.xyz")
    monkeypatch.setattr(os, "access", lambda folder, mode: mode != os.W_OK)
    with pytest.raises(ParameterError) as caught:
        check_output_paths(out=str(tmp_path / "a"))
    assert caught.value.parameter == "out"


def test_tables_fit_a_terminal_and_are_whole_elsewhere(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    wide = Table("title", ("name", "value"), [("x" * 90, "y" * 90)], bold=frozenset({(0, 1)}))
    print_tables([wide, wide])
    shown = capsys.readouterr().out
    assert shown.count("x" * 90 + "  " + "y" * 90 + "\n") == 2
    assert "\x1b" not in shown
    monkeypatch.setattr("sys.stdout", Terminal())
    print_tables([wide])
    print_result("word " * 30)
    print_values([("name", "value " * 30)])
    lines = sys.stdout.getvalue().splitlines()
    assert max(map(len, lines)) == 40
    assert "y" * 10 in "".join(lines)
    monkeypatch.undo()
    print_tables([wide, wide], latex=True)
    assert capsys.readouterr().out.count(r"\toprule") == 2
    print_tables([wide], markdown=True)
    assert "| name | value |" in capsys.readouterr().out


def test_next_commands_continue_on_the_next_line(capsys, terminal, monkeypatch, set_verbosity):
    commands = [["rankine", "train", "a b.txt", "--valid", "x" * 30], ["rankine", "--help"]]
    print_next_commands(commands)
    assert f"  rankine train 'a b.txt' --valid {'x' * 30}\n" in capsys.readouterr().err
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr", terminal)
    print_next_commands(commands)
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert shlex.split("".join(line.removesuffix("\\") for line in lines[2:-1])) == commands[0]
    # A line and the sign of continuation may fill the terminal.
    for width, n_lines in ((40, 1), (41, 1), (39, 2)):
        monkeypatch.setenv("COLUMNS", str(width))
        before = len(terminal.getvalue().splitlines())
        print_next_commands([["rankine", "x" * 28]])
        assert len(terminal.getvalue().splitlines()) == before + 2 + n_lines
    # An option stays on the line of its value.
    monkeypatch.setenv("COLUMNS", "22")
    before = len(terminal.getvalue())
    print_next_commands([["rankine", "train", "a", "--out", "m", "--quiet", "--json"]])
    lines = terminal.getvalue()[before:].split("\n")[2:]
    assert lines == [
        "  rankine train a \\",
        "      --out m \\",
        "      --quiet --json",
        "",
    ]
    before = terminal.getvalue()
    set_verbosity(-1)
    print_next_commands(commands)
    assert terminal.getvalue() == before


def test_the_command_line_is_quoted_for_a_shell(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/rankine", "train", "a b.txt", "--json"])
    assert command_line() == "rankine train 'a b.txt' --json"


def test_text_is_written_to_a_file_or_to_stdout(tmp_path, capsys):
    with open_text_output("-") as write:
        write("a")
    assert capsys.readouterr().out == "a"
    with open_text_output(str(tmp_path / "f")) as write:
        write("ü")
        assert not (tmp_path / "f").exists()
    assert (tmp_path / "f").read_text(encoding="utf-8") == "ü"


def test_a_warning_is_one_line_without_a_place_in_python():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
    text = _console.format_warning(caught[0].message, UserWarning, "file.py", 3, None)
    assert text == "rankine: warning: mind the gap\n"
