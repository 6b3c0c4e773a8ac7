"""Lay out a table as lines of text that are not wider than a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest

#: Text columns are wrapped, but not to fewer characters than this.
_MIN_TEXT_WIDTH = 16
_GAP = "  "


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: Collection[int] = (0,),
    optional: Sequence[str] = (),
    width: int | None = None,
    style: Callable[[int, int, str], str] | None = None,
) -> list[str]:
    r"""Lay out a table in at most ``width`` characters per line, without cutting a cell.

    If the table is wider, text columns and the header are wrapped. If that is not enough, optional
    columns are left out, and if the table is still too wide, every row becomes a block of lines.

    Parameters
    ----------
    text
        Columns of text: left-aligned and wrapped. The others are numbers: right-aligned, in one
        line.
    optional
        Names of the columns that may be left out, the first one first.
    width
        Largest number of characters in a line; None for no limit.
    style
        Function of row, column and padded cell that returns the cell with terminal codes.

    Examples
    --------
    >>> print("\n".join(table_lines(("name", "value"), [("one", "1"), ("three", "300")])))
    name   value
    one        1
    three    300
    """
    shown = list(range(len(header)))
    droppable = [header.index(name) for name in optional if name in header]
    while True:
        widths = _column_widths(header, rows, shown, text, width)
        if widths is not None:
            break
        if not droppable:
            assert width is not None  # noqa: S101 - every table fits without a limit
            return _blocks(header, rows, width)
        shown.remove(droppable.pop(0))
    lines: list[str] = []
    if any(header):
        lines += _row_lines([header[c] for c in shown], shown, widths, text)
    for r, row in enumerate(rows):
        lines += _row_lines([row[c] for c in shown], shown, widths, text, r, style)
    hidden = [name for c, name in enumerate(header) if c not in shown]
    if hidden:
        lines += wrap_text(f"(this terminal is too narrow for: {', '.join(hidden)})", width)
    return lines


def wrap_text(text: str, width: int | None, indent: str = "") -> list[str]:
    """Break a text at spaces into lines; lines after the first start with ``indent``.

    A word that is longer than a line is broken where the line ends.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        if width is None or display_width(paragraph) <= width:
            lines.append(paragraph)
            continue
        wide_characters = display_width(paragraph) - len(paragraph)
        # textwrap counts characters; halving the width is safe for characters of two cells.
        limit = max(width // 2 if wide_characters else width, len(indent) + 1)
        lines += textwrap.wrap(
            paragraph, limit, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]
    return lines


def display_width(text: str) -> int:
    """Return the number of terminal cells of a text; East Asian wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(character)
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def _column_widths(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    shown: Sequence[int],
    text: Collection[int],
    limit: int | None,
) -> list[int] | None:
    """Return the widths of the shown columns; None if they do not fit."""
    wanted, smallest = [], []
    for c in shown:
        cells = max((display_width(row[c]) for row in rows), default=0)
        longest_word = max(map(display_width, header[c].split()), default=0)
        wanted.append(max(cells, display_width(header[c])))
        if c in text:
            cells = min(cells, _MIN_TEXT_WIDTH)
        smallest.append(max(cells, longest_word))
    if limit is None:
        return wanted
    free = limit - len(_GAP) * (len(shown) - 1) - sum(smallest)
    if free < 0:
        return None
    # Narrow columns get their full width first, so that as few as possible are wrapped.
    widths = list(smallest)
    for k in sorted(range(len(shown)), key=lambda k: wanted[k] - smallest[k]):
        extra = min(free, wanted[k] - smallest[k])
        widths[k] += extra
        free -= extra
    return widths


def _row_lines(
    cells: Sequence[str],
    columns: Sequence[int],
    widths: Sequence[int],
    text: Collection[int],
    row: int = 0,
    style: Callable[[int, int, str], str] | None = None,
) -> Iterator[str]:
    """Yield the lines of one row, or of the header."""
    wrapped = [wrap_text(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for parts in zip_longest(*wrapped, fillvalue=""):
        line = ""
        for c, part, width in zip(columns, parts, widths, strict=True):
            padding = " " * (width - display_width(part))
            cell = part + padding if c in text else padding + part
            if style is not None:
                cell = style(row, c, cell)
            line += cell + _GAP
        yield line.rstrip()


def _blocks(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return every row as its first cell and one line per further cell."""
    label_width = min(max((display_width(name) for name in header[1:]), default=0), width // 3)
    lines = []
    for row in rows:
        lines += wrap_text(row[0], width)
        for name, cell in zip(header[1:], row[1:], strict=True):
            if not cell:
                continue
            labels = wrap_text(name, label_width)
            cells = wrap_text(cell, width - label_width - 2 * len(_GAP))
            for label, part in zip_longest(labels, cells, fillvalue=""):
                padding = " " * (label_width - display_width(label))
                lines.append(f"{_GAP}{label}{padding}{_GAP}{part}".rstrip())
    return lines
