"""The repository as strangers meet it: what the checkers say, and that the files agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import rankine

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BIN = Path(sys.executable).parent


def test_scientific_python_s_review_finds_nothing():
    repo_review = pytest.importorskip("repo_review.processor")
    pytest.importorskip("sp_repo_review")
    results = repo_review.process(ROOT).results
    assert len(results) > 30
    assert [f"{one.name}: {one.err_msg}" for one in results if one.result is False] == []


def test_workflows_have_no_known_weakness():
    zizmor = BIN / "zizmor"
    if not zizmor.exists():
        pytest.skip("zizmor is not installed")
    done = subprocess.run(
        [zizmor, "--offline", "--quiet", "--persona", "pedantic", ROOT / ".github"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_version_everywhere():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", cited, re.MULTILINE)[1] == rankine.__version__
    recipe = (ROOT / "recipe.yaml").read_text(encoding="utf-8")
    assert f"version: {rankine.__version__}\n" in recipe


def test_the_recipe_asks_for_what_the_package_asks_for():
    recipe = (ROOT / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    asked = {line.strip("- ").replace(" ", "") for line in run.splitlines()} - {
        "python>=${{python_min}}"
    }
    assert asked == set(PROJECT["dependencies"])


def test_hooks_run_the_versions_that_are_installed():
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lint = makefile.split("\nlint:")[1].split("\n\n")[0]
    for tool in ("ruff", "codespell", "rumdl", "zizmor"):
        assert f"$(BIN)/{tool}" in lint
        assert tool in text


@pytest.mark.packaging
def test_wheel_and_source_archive_are_the_same_bytes_twice(tmp_path):
    built = []
    for name in ("first", "second"):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / name]
        subprocess.run([*command, ROOT], check=True, capture_output=True)
        built.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert len(built[0]) == 2
    assert built[0] == built[1]
    archive = next((tmp_path / "first").glob("*.tar.gz"))
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    # It can test itself: make test needs these.
    for needed in ("Makefile", "pyproject.toml", "tests/run.py", "tests/conftest.py", "mkdocs.yml"):
        assert needed in names
    for folder in ("tests", "docs", "benchmarks", "papers", "tools", "examples"):
        tracked = {
            p.relative_to(ROOT).as_posix()
            for p in (ROOT / folder).rglob("*.py")
            if "__pycache__" not in p.parts
        }
        assert tracked <= names, sorted(tracked - names)[:5]
