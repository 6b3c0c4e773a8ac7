"""Commands shown to readers exist, with their options; the start page prints what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tools.docs.cli_reference import cli_reference, commands
from typer.testing import CliRunner

from rankine.cli.main import app

pytestmark = pytest.mark.docs
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def command_lines(text):
    """Lines of shell blocks that call rankine, continued lines joined, comments dropped."""
    for kind, block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines() if kind in {"", "sh"} else ():
            for part in re.split(r"\s\|\s|&&|;\s", line):
                if part.strip().startswith("rankine "):
                    yield part.split(" # ")[0].split(" < ")[0].split(" > ")[0].strip()


def shown():
    for page in PAGES:
        for line in command_lines(page.read_text(encoding="utf-8")):
            yield page.relative_to(ROOT).as_posix(), line
    for line in command_lines(cli_reference()):
        yield "command line reference", line


LINES = sorted(set(shown()))


def test_commands_are_found_on_many_pages():
    assert len({page for page, _ in LINES}) > 10


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_shown_command_has_its_options(page, line):
    words = shlex.split(line)[1:]
    known = commands()
    name = next((word for word in words if not word.startswith("-")), None)
    name = next((each for each in known if each.split() == words[:2]), name)
    if name is None or name.isupper():
        return  # rankine --help, rankine COMMAND
    assert name in known, line
    options = {option for p in known[name].params for option in (*p.opts, *p.secondary_opts)}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in options | {"--help"}, f"{page}: {word} in {line}"


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_has_an_example(name):
    reference = cli_reference()
    start = reference.index(f"## rankine {name} ")
    section = reference[start : reference.find("\n## ", start)]
    assert f"rankine {name}" in section.split("```sh")[1]


def test_blocks_that_do_not_run_say_why():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"^```py\n", text, re.MULTILINE):
            before = text[: found.start()].splitlines()[-1]
            assert re.fullmatch(r"<!-- not run: .+ -->", before), f"{page.name}: {before}"


def test_the_start_page_prints_what_it_shows(tmp_path, monkeypatch):
    """Every command of the page, in order, in an empty folder; answers are compared."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    text = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    compared, printed = 0, ""
    for kind, block in BLOCK.findall(text):
        if kind == "text" and printed:
            lines = [line.rstrip() for line in printed.strip().splitlines()]
            assert lines == block.strip().splitlines()
            compared, printed = compared + 1, ""
        for line in block.splitlines() if kind == "sh" else ():
            words = shlex.split(line)
            if words[0] == "cd":
                monkeypatch.chdir(Path.cwd() / words[1])
            elif words[0] == "rankine" and words[1] != "serve":
                done = CliRunner().invoke(app, words[1:])
                assert done.exit_code == 0, f"{line}: {done.output} {done.exception}"
                printed = done.stdout
            if words[:2] == ["rankine", "demo"]:
                printed = ""
    assert compared == 3
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"start.md block {number}", "exec"), {})  # noqa: S102
