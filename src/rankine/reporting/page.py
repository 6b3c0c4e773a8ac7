"""What all pages share: numbers as people read them, tables, tiles, and the page itself."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from rankine._version import __version__
from rankine.core.safe_text import Html, join, name_of, tag, text
from rankine.evaluation.tables import Table

#: Columns of a table up to which its rows become small lists on a phone.
STACKED = 6
MINUS, NONE = "\N{MINUS SIGN}", "\N{EN DASH}"


def number(value: float | None, digits: int = 4) -> str:
    """A metric or weight: fixed digits near 1, significant digits elsewhere; a dash for none."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0 or 0.001 <= abs(value) < 1000:
        return f"{value:.{digits}f}" if abs(value) < 10 else f"{value:.{digits - 2}f}"
    return f"{value:.3g}"


def signed(value: float | None, digits: int = 4) -> str:
    """The same with its sign, a true minus."""
    found = number(None if value is None else abs(value), digits)
    if value is None or found == NONE:
        return found
    return (MINUS if value < 0 else "+") + found


def count(value: float) -> str:
    """A whole number with separators."""
    return f"{int(value):,}"


def percent(share: float | None, digits: int = 0) -> str:
    """A share of 1."""
    return (
        NONE
        if share is None or not math.isfinite(share)
        else f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"
    )


def plural(n: int, word: str, words: str | None = None) -> str:
    """``1 query``, ``2 queries``."""
    return f"{count(n)} {word if n == 1 else (words or word + 's')}"


def shown(value: Any) -> str:
    """A parameter as it is written on the command line."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


@dataclass(frozen=True)
class Section:
    """A part of the page: what the contents call it, its heading, a sentence, its body."""

    id: str
    short: str
    title: str
    lead: Any
    body: Any


@dataclass(frozen=True, eq=False)
class Report:
    """A finished report.

    Attributes
    ----------
    title
        Of the page.
    html
        The whole page: no script, no network, a content security policy that forbids both.
    figures
        The numbers behind every picture, as plain data.
    """

    title: str
    html: str
    figures: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "figures", msgspec.to_builtins(self.figures))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, atomically."""
        from rankine.core.atomic import atomic_file

        with atomic_file(path) as file:
            file.write(self.html.encode())

    def to_dict(self) -> dict[str, Any]:
        """The figures, as ``--json`` prints them."""
        return dict(self.figures)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks."""
        return tag(
            "iframe",
            srcdoc=Html(self.html.replace("&", "&amp;").replace('"', "&quot;")),
            sandbox="",
            width="100%",
            height="720",
            title=self.title,
        )

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.html) / 1000:,.0f} kB)"


def make_report(
    title: str,
    kicker: str,
    summary: Sequence[Any],
    tiles: Sequence[Html],
    sections: Sequence[Section | None],
    numbers: Mapping[str, Any],
) -> Report:
    """The page and its numbers; sections that are None are left out."""
    kept = [section for section in sections if section is not None]
    return Report(
        title, _page(title, kicker, join(summary), tiles, kept), {"title": title, **numbers}
    )


def _page(
    title: str, kicker: str, summary: Html, tiles: Sequence[Html], sections: Sequence[Section]
) -> str:
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"rankine {__version__}"),
        tag("title", text(title, 200)),
        tag("style", Html(style)),
    )
    contents = tag(
        "ol", [tag("li", tag("a", text(s.short, 40), href=f"#{s.id}")) for s in sections]
    )
    body = tag(
        "div",
        tag(
            "header",
            tag("p", kicker, class_="kicker"),
            tag("h1", name_of(title, 200)),
            tag("p", summary, class_="summary"),
            tag("div", tiles, class_="tiles") if tiles else None,
        ),
        tag(
            "div",
            tag("nav", contents, aria_label="Contents"),
            tag("main", [_section(section) for section in sections], _footer()),
            class_="body",
        ),
        class_="page",
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', body), lang='en')}\n"


def _section(section: Section) -> Html:
    return tag(
        "section",
        tag("h2", text(section.title), id=f"{section.id}-title"),
        tag("p", section.lead, class_="lead") if section.lead else None,
        section.body,
        id=section.id,
        aria_labelledby=f"{section.id}-title",
    )


def _footer() -> Html:
    return tag(
        "footer",
        f"Made by rankine {__version__}. This page is one file: it runs no script and loads "
        "nothing.",
    )


@cache
def _style() -> str:
    text = files("rankine.reporting").joinpath("style.css").read_text(encoding="utf-8")
    return "\n".join(line.strip() for line in text.splitlines())


def tile(what: Any, value: str, more: Any = None) -> Html:
    """A figure of the headline."""
    return tag(
        "div",
        tag("p", what, class_="what"),
        tag("p", value, class_="value"),
        tag("p", more, class_="more") if more else None,
        class_="tile",
    )


def note(*words: Any) -> Html:
    """A remark that the reader should not miss."""
    return tag("div", tag("p", *words), class_="note")


def card(*parts: Any) -> Html:
    """A sheet of its own."""
    return tag("div", *parts, class_="card")


def facts(rows: Iterable[tuple[Any, Any]]) -> Html:
    """A list of names and values."""
    return tag("dl", [part for k, v in rows for part in (tag("dt", text(k)), tag("dd", v))])


def figures(*parts: Html | None) -> Html:
    """Figures side by side where there is room."""
    shown = [part for part in parts if part is not None]
    return tag("div", shown, class_="figures") if shown else join([])


def table(header: Sequence[Any], rows: Sequence[Sequence[Any]], **options: Any) -> Html:
    """A table whose first column names its rows; cells may be elements already.

    On a phone the cells of a narrow table stand below each other, a wide one can be pushed.
    ``left`` columns are text, the others numbers; ``bold`` holds (row, column) of best cells.
    """
    left = int(options.get("left", 1))
    bold = options.get("bold", frozenset())
    narrow = len(header) <= STACKED
    names = [_bare(h) if narrow else None for h in header]

    def kind(c: int) -> str | None:
        return None if c < left else "n"

    head = tag("tr", [tag("th", h, class_=kind(c), scope="col") for c, h in enumerate(header)])
    body = []
    for r, row in enumerate(rows):
        cells = [tag("th", row[0], scope="row")]
        for c, cell in enumerate(row[1:], 1):
            classes = [name for name in (kind(c), "best" if (r, c) in bold else None) if name]
            cells.append(tag("td", cell, class_=" ".join(classes) or None, data_of=names[c]))
        body.append(tag("tr", cells))
    parts = (tag("thead", head), tag("tbody", body))
    title = options.get("caption")
    if narrow:
        caption = tag("caption", title) if title else None
        return tag("div", tag("table", caption, *parts), class_="stack")
    # a caption would be pushed aside with its table
    words = tag("p", title, class_="caption") if title else None
    made = tag("table", *parts, aria_label=title)
    return join([words, tag("div", made, class_="scroll", tabindex="0")])


def _bare(cell: Any) -> Html:
    """The words of a cell, for an attribute."""
    return Html(re.sub("<[^>]*>", "", cell)) if isinstance(cell, Html) else text(cell)


def from_table(found: Table) -> Html:
    """A table of results as the terminal shows it."""
    rows = [[name_of(cell, 200) for cell in row] for row in found.rows]
    header = [name_of(cell, 60) for cell in found.header]
    return table(header, rows, left=found.left, bold=found.bold, caption=found.title)
