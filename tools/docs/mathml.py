"""Formulas become MathML while the site is built: no script runs in the reader's browser."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

__all__ = ["formulas_to_mathml"]

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def formulas_to_mathml(page: str) -> str:
    """Replace what ``pymdownx.arithmatex`` marked in a page's HTML."""
    return _FORMULA.sub(_mathml, page)


def _mathml(found: re.Match[str]) -> str:
    element, opening, latex = found.groups()
    display = "block" if opening == "[" else "inline"
    # latex2mathml takes \lVert as an unknown word; the plain bar stretches as well.
    mathml = convert(html.unescape(latex).strip(), display=display)
    return f'<{element} class="formula">{mathml}</{element}>'
