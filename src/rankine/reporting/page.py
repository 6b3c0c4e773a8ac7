"""The report page: its sections, its tables, and the ``Report`` that users get."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup

from rankine._version import __version__
from rankine.evaluation.tables import Table
from rankine.reporting.html import environment, name, parts

#: Largest number of columns whose cells are stacked below each other on a phone.
MAX_STACKED = 6


@dataclass(frozen=True)
class Section:
    """A section of the page: its id, its entry in the contents, heading, introduction and body."""

    id: str
    short: str
    title: str
    lead: Any
    body: Markup


@dataclass(frozen=True, eq=False)
class Report:
    """A finished report.

    Attributes
    ----------
    title
        Title of the page.
    html
        The whole page: no script, no network, a content security policy that forbids both.
    figures
        The numbers behind every picture, as plain data.
    """

    title: str
    html: str
    figures: Mapping[str, Any]

    def __post_init__(self) -> None:
        # Plain data, so that a report can be stored and compared without the classes behind it.
        object.__setattr__(self, "figures", msgspec.to_builtins(self.figures))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page atomically."""
        from rankine.core.atomic import atomic_file

        with atomic_file(path) as file:
            file.write(self.html.encode())

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, as ``--json`` prints them."""
        return dict(self.figures)

    def _repr_html_(self) -> str:
        """Return the page in a sandboxed frame, for notebooks."""
        return str(parts.frame(self.title, self.html))

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.html) / 1000:,.0f} kB)"


def make_report(
    title: str,
    kicker: str,
    summary: Markup | str,
    tiles: Sequence[Markup],
    sections: Sequence[Section | None],
    numbers: Mapping[str, Any],
) -> Report:
    """Render the page and store its numbers.

    ``kicker`` is the small line above the title, ``tiles`` are the most important numbers, and
    ``numbers`` are all that the pictures show. None among the sections is left out.
    """
    style = _style()
    # The policy allows this one style sheet, identified by its hash, and nothing else.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    html = environment.get_template("page.html").render(
        title=title,
        kicker=kicker,
        summary=summary,
        tiles=tiles,
        sections=[section for section in sections if section is not None],
        policy=policy,
        style=Markup(style),  # noqa: S704 - a file of this package
        version=__version__,
    )
    return Report(title, html, {"title": title, **numbers})


@cache
def _style() -> str:
    sheet = files("rankine.reporting").joinpath("templates/style.css").read_text(encoding="utf-8")
    return "\n".join(line.strip() for line in sheet.splitlines())


def figures(*figures: Markup | None) -> Markup:
    """Render figures side by side where there is room; None is left out."""
    drawn = [figure for figure in figures if figure is not None]
    if not drawn:
        return Markup("")
    return parts.figures(drawn)


def table(
    header: Sequence[Any],
    rows: Sequence[Sequence[Any]],
    *,
    left: int = 1,
    bold: frozenset[tuple[int, int]] = frozenset(),
    caption: str | None = None,
) -> Markup:
    """Render a table whose first ``left`` columns are text and whose others are numbers.

    ``bold`` holds the (row, column) of the best cells.
    """
    return parts.table(header, rows, left, bold, caption, len(header) <= MAX_STACKED)


def result_table(result: Table) -> Markup:
    """Render a table of results with the layout that the terminal uses."""
    rows = [[name(cell, 200) for cell in row] for row in result.rows]
    header = [name(cell, 60) for cell in result.header]
    return table(header, rows, left=result.left, bold=result.bold, caption=result.title)
