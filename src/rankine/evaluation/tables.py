"""Tables of text, shown on a terminal, in Markdown or in LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of text.

    Attributes
    ----------
    left
        Number of columns that are left-aligned (names); the others are right-aligned (numbers).
    bold
        (row, column) of the cells in bold type.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    bold: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    def markdown(self) -> str:
        """Format the table in GitHub-flavoured Markdown, title first."""
        align = [":--" if c < self.left else "--:" for c in range(len(self.header))]
        lines = [f"**{_cell(self.title)}**", ""] if self.title else []
        lines += [_row([_cell(h) for h in self.header]), _row(align)]
        for r, row in enumerate(self.rows):
            cells = [
                f"**{_cell(text)}**" if (r, c) in self.bold else _cell(text)
                for c, text in enumerate(row)
            ]
            lines.append(_row(cells))
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """Format the table as a LaTeX ``table`` environment in the style of booktabs."""
        align = "l" * self.left + "r" * (len(self.header) - self.left)
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(self.title)}}}",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            " & ".join(_tex(h) for h in self.header) + r" \\",
            r"\midrule",
        ]
        for r, row in enumerate(self.rows):
            cells = [
                rf"\textbf{{{_tex(text)}}}" if (r, c) in self.bold else _tex(text)
                for c, text in enumerate(row)
            ]
            lines.append(" & ".join(cells) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
        return "\n".join(lines) + "\n"

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=None, pad_edge=False)
        for c, name in enumerate(self.header):
            is_name = c < self.left
            # Numbers are never wrapped, long names are.
            table.add_column(
                Text(name),
                justify="left" if is_name else "right",
                overflow="fold",
                no_wrap=not is_name,
            )
        for r, row in enumerate(self.rows):
            styles = ["bold" if (r, c) in self.bold else "" for c in range(len(row))]
            table.add_row(*(Text(text, style=x) for text, x in zip(row, styles, strict=True)))
        return Group(Text(self.title, style="italic"), table)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _tex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
