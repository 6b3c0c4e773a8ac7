"""Python blocks of the README and the docs run; doctests of the package hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import rankine

pytestmark = pytest.mark.docs
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_BLOCKS = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    """Blocks of a page share their names, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__docs__"}
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1):
        exec(compile(block, f"{page.name} block {number}", "exec"), names)  # noqa: S102
    assert len(names) > 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def modules_with_examples():
    found = []
    for module in pkgutil.walk_packages(rankine.__path__, "rankine."):
        path = Path(module.module_finder.path) / f"{module.name.rpartition('.')[2]}.py"
        if path.exists() and ">>> " in path.read_text(encoding="utf-8"):
            found.append(module.name)
    return found


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
