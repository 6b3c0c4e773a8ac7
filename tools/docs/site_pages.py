"""Write the pages of the site as plain Markdown: ``python -m tools.docs.site_pages``.

The folder ``build/site-pages`` then holds copies of the pages in which formulas are MathML and
drawings are part of the page, so that they follow its colours, and of CHANGELOG, CONTRIBUTING and
CODE_OF_CONDUCT. Any program that builds sites from Markdown can read it (seen: MkDocs, Zensical).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from papers.page import pages as result_pages

from tools.docs.includes import ROOT, include
from tools.docs.mathml import formulas_to_mathml

__all__ = ["write_site_pages"]

FOLDER = ROOT / "build" / "site-pages"
#: Pages that are files of the repository's root.
_ROOT_PAGES = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "code-of-conduct.md": "CODE_OF_CONDUCT.md",
}
_DRAWING = re.compile(r"^!\[([^\]]*)\]\(([^):]*pictures/[^):]+\.svg)\)$", re.MULTILINE)


def write_site_pages(folder: Path = FOLDER) -> None:
    """Write all pages and the files that they show into an empty ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    for page, source in _ROOT_PAGES.items():
        (folder / page).write_text(include(f"<!-- include {source} -->", page), encoding="utf-8")
    # Results older than their code are marked as of now, not as of the last `make results`.
    for page, text in result_pages().items():
        (folder / page).write_text(text, encoding="utf-8")
    for path in folder.rglob("*.md"):
        path.write_text(_site_page(path, folder), encoding="utf-8")


def _site_page(path: Path, folder: Path) -> str:
    """Return the text of a page with formulas, drawings and links as the site needs them."""
    text = formulas_to_mathml(path.read_text(encoding="utf-8"))
    text = _DRAWING.sub(lambda match: _drawing(match, path), text)
    to_root = "../" * len(path.relative_to(folder).parts)
    for page, source in _ROOT_PAGES.items():
        text = text.replace(f"]({to_root}{source})", f"]({to_root.removeprefix('../')}{page})")
    return text


def _drawing(match: re.Match[str], page: Path) -> str:
    """Return the drawing as an element of the page, labelled for readers who do not see it."""
    label, source = match.groups()
    svg = (page.parent / source).read_text(encoding="utf-8")
    svg = re.sub(r"\n\s*\n", "\n", svg)  # a blank line ends an HTML block of Markdown
    svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    return f"<div data-search-exclude>{svg.strip()}</div>"


if __name__ == "__main__":
    write_site_pages()
