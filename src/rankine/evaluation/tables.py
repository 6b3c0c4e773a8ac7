"""Tables of text, shown on a terminal, in Markdown or in LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankine.core.text_table import table_lines, wrap_text

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
        Number of first columns that are text: left-aligned, and wrapped on a terminal. The others
        are numbers.
    further_text
        Names of further columns of text, such as a verdict.
    bold
        (row, column) of the cells in bold type.
    optional
        Names of the columns that a narrow terminal does not show, the first one first.
    marks
        Superscripts of (row, column) in LaTeX: a row's own letter, and behind a figure the letters
        of the rows that are significantly worse.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    bold: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    optional: Sequence[str] = ()
    further_text: Collection[str] = ()
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @property
    def _text_columns(self) -> list[int]:
        return [
            c for c, name in enumerate(self.header) if c < self.left or name in self.further_text
        ]

    def markdown(self) -> str:
        """Format the table in GitHub-flavoured Markdown, title first."""
        text = self._text_columns
        align = [":--" if c in text else "--:" for c in range(len(self.header))]
        lines = []
        if self.title:
            lines += [f"**{_cell(self.title)}**", ""]
        lines += [_row([_cell(h) for h in self.header]), _row(align)]
        lines += [_row(cells) for cells in self._cells(_cell, "**{}**")]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """Format the table as a LaTeX ``table`` environment in the style of booktabs."""
        text = self._text_columns
        align = "".join("l" if c in text else "r" for c in range(len(self.header)))
        rows = self._cells(_tex, r"\textbf{{{}}}")
        caption = self.title
        if self.marks:
            caption += "; a superscript names the methods that are significantly worse"
        for (r, c), mark in self.marks.items():
            rows[r][c] += rf"\textsuperscript{{{_tex(mark)}}}"
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(caption)}}}",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            " & ".join(_tex(h) for h in self.header) + r" \\",
            r"\midrule",
        ]
        lines += [" & ".join(cells) + r" \\" for cells in rows]
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
        return "\n".join(lines) + "\n"

    def _cells(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """Return the cells of all rows, escaped; ``bold`` is the format of those in bold type."""
        rows = [[escape(text) for text in row] for row in self.rows]
        for r, c in self.bold:
            rows[r][c] = bold.format(rows[r][c])
        return rows

    def lines(self, width: int | None = None, *, bold: bool = False) -> list[str]:
        """Format the table as lines of plain text, at most ``width`` characters wide.

        With ``bold``, cells in bold type have terminal codes.
        """

        def style(row: int, column: int, cell: str) -> str:
            return f"\x1b[1m{cell}\x1b[0m" if (row, column) in self.bold else cell

        lines = table_lines(
            self.header,
            self.rows,
            text=self._text_columns,
            optional=self.optional,
            width=width,
            style=style if bold else None,
        )
        if self.title:
            lines = [*wrap_text(self.title, width), *lines]
        return lines

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.text import Text

        width = options.max_width if console.is_terminal else None
        text = Text.from_ansi("\n".join(self.lines(width, bold=True)))
        text.no_wrap, text.overflow = True, "ignore"
        yield text


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _tex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
