"""The output of every command fits terminals of 60, 80 and 120 columns, and is whole in a pipe."""

from __future__ import annotations

import re
import shutil

import pytest
from tools.docs.cli_reference import commands

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
