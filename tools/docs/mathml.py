"""Replace formulas by MathML, so that no script runs in the reader's browser."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

__all__ = ["formulas_to_mathml"]

#: Code, in which a dollar sign is a dollar sign; formulas of their own lines; formulas in a line.
#: An opening dollar is before a character, a closing one after a character: "$5 and $7" is text.
_TOKEN = re.compile(
    r"^ *```.*?^ *```$|`[^`\n]+`"
    r"|\$\$(?P<block>.+?)\$\$"
    r"|(?<![\w$\\])\$(?=[^\s$])(?P<inline>[^$]*?[^\s$])\$(?![\w$])",
    re.MULTILINE | re.DOTALL,
)


def formulas_to_mathml(markdown: str) -> str:
    r"""Replace ``$...$`` and ``$$...$$`` outside code by MathML elements."""
    return _TOKEN.sub(_to_mathml, markdown)


def _to_mathml(token: re.Match[str]) -> str:
    if token["block"]:
        return f'\n<div class="formula">{_mathml(token["block"], "block")}</div>\n'
    if token["inline"]:
        return f'<span class="formula">{_mathml(token["inline"], "inline")}</span>'
    return token[0]


def _mathml(latex: str, display: str) -> str:
    return convert(" ".join(latex.split()), display=display)
