"""Tables of text, shown on a terminal, in Markdown or in LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# One character at a time: replacing the backslash first would escape the escapes.
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
        lines = []
        if self.title:
            lines += [f"**{_cell(self.title)}**", ""]
        lines += [_row([_cell(h) for h in self.header]), _row(align)]
        lines += [_row(cells) for cells in self._cells(_cell, "**{}**")]
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
        lines += [" & ".join(cells) + r" \\" for cells in self._cells(_tex, r"\textbf{{{}}}")]
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
        return "\n".join(lines) + "\n"

    def _cells(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """Return the cells of all rows, escaped; ``bold`` is the format of those in bold type."""
        rows = [[escape(text) for text in row] for row in self.rows]
        for r, c in self.bold:
            rows[r][c] = bold.format(rows[r][c])
        return rows

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
        rows = [[Text(text) for text in row] for row in self.rows]
        for r, c in self.bold:
            rows[r][c].style = "bold"
        for cells in rows:
            table.add_row(*cells)
        return Group(Text(self.title, style="italic"), table)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _tex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
