"""What ``mkdocs build`` does besides turning Markdown into pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.docs.includes import ROOT, include
from tools.docs.mathml import formulas_to_mathml

_PICTURE = re.compile(r'<p><img alt="([^"]*)" src="([^":]*pictures/[^":]+\.svg)"\s*/?></p>')


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Fill in what is written elsewhere."""
    return include(markdown, page.file.src_uri)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Formulas become MathML; drawings stand in the page, so that they follow its colours."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def drawing(found: re.Match[str]) -> str:
        words, source = found.groups()
        svg = (folder / source).resolve().read_text(encoding="utf-8")
        inner = svg.replace("<svg", f'<svg role="img" aria-label="{words}"', 1)
        return f"<div data-search-exclude>{inner}</div>"

    return _PICTURE.sub(drawing, formulas_to_mathml(html))
