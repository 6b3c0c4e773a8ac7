"""The output of every command fits terminals of 60, 80 and 120 columns, and is whole in a pipe."""

from __future__ import annotations

import os
import re
import shutil
import socket
from pathlib import Path

import pytest
from tools.docs.cli_reference import commands

from rankine.core import pipes
from rankine.core.text_table import display_width
from reference.command_lines import MORE_LINES, line_of, run, write_files

pytestmark = [pytest.mark.cli, pytest.mark.timeout(600)]  # the first test compiles kernels
ALL_LINES = [line_of(name) for name in commands()] + [line.split() for line in MORE_LINES]
WIDTHS = (60, 80, 120)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    write_files(folder)
    return folder


@pytest.fixture
def work(files, tmp_path, monkeypatch):
    """A folder with the files, which is the current one."""
    shutil.copytree(files, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")


def shown_lines(text):
    """Return lines without the codes that move the cursor or change the type."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").splitlines()


def check_lines(text, columns):
    for line in shown_lines(text):
        assert display_width(line) <= columns, line
        assert "..." not in line, line
        assert "…" not in line, line
        assert "Traceback" not in line


@pytest.mark.parametrize("arguments", ALL_LINES, ids=" ".join)
def test_output_fits_the_terminal(arguments, work):
    for columns in WIDTHS:
        ended = run(arguments, columns=columns)
        assert ended.error is None
        check_lines(ended.err, columns)
        # JSON and program text keep their lines, since they are for other programs.
        if "--json" not in arguments and arguments[0] != "export":
            check_lines(ended.out, columns)


@pytest.mark.parametrize("arguments", ALL_LINES, ids=" ".join)
def test_piped_output_is_plain_and_whole(arguments, work):
    ended = run(arguments)
    assert ended.code == (2 if arguments[0] == "warmup" else 0), ended
    for text in (ended.out, ended.err):
        assert "\x1b" not in text
        assert "…" not in text
        assert "terminal is too narrow" not in text


def output_of(arguments):
    """Return the file that a command line writes; None for the others."""
    if "--out" in arguments and arguments[0] not in ("demo", "pareto"):  # which write folders
        return Path(arguments[arguments.index("--out") + 1])
    return Path(arguments[-1]) if arguments[0] in ("convert", "sort") else None


OUTPUT_LINES = [line_of(name) for name in commands() if output_of(line_of(name))]


@pytest.mark.skipif(os.name != "posix", reason="pipes and sockets with names are of POSIX")
@pytest.mark.parametrize("arguments", OUTPUT_LINES, ids=" ".join)
@pytest.mark.parametrize("kind", ["folder", "socket", "pipe"])
def test_outputs_that_are_no_files_are_refused(arguments, kind, work, monkeypatch):
    """A command neither hangs, nor leaves a part, nor replaces what is no file."""
    path = output_of(arguments)
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    else:
        os.mkfifo(path)
        monkeypatch.setattr(pipes, "WAIT_SECONDS", 0.01)
    before, status = sorted(Path.cwd().iterdir()), path.stat()
    if arguments[0] == "retrain":  # OUT is often MODEL
        arguments = ["retrain", "additive.rankine", *arguments[2:]]
    ended = run(arguments)
    assert (ended.code, ended.error) == (2, None), ended
    assert "rankine: error: " in ended.err
    if kind != "pipe":  # before anything was computed
        assert f"a {kind}" in ended.err
    assert path.stat().st_mode == status.st_mode
    assert sorted(Path.cwd().iterdir()) == before


@pytest.mark.parametrize("name", sorted(commands()))
def test_help_fits_the_terminal(name):
    for columns in WIDTHS:
        ended = run([*name.split(), "--help"], columns=columns)
        assert ended.code == 0
        for line in shown_lines(ended.out):
            assert display_width(line) <= columns, line
            assert "…" not in line, line


def test_all_numbers_of_a_wide_table_are_in_its_blocks(work):
    """What a narrow terminal shows is the same table, and names what it leaves out."""
    whole = run(["compare", "model.rankine", "additive.rankine", "test.txt"])
    narrow = run(["compare", "model.rankine", "additive.rankine", "test.txt"], columns=60)
    shown = set(narrow.out.split())
    missing = [cell for cell in whole.out.split() if cell not in shown]
    assert "too narrow for" in narrow.out or not missing
