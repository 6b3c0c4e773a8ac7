"""Lists of the worst and best queries, side by side with another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.report.words import MINUS, count, number, signed

if TYPE_CHECKING:
    from rankine.report.figures.lists import Item, Ranked

__all__ = ["lists_part"]


def lists_part(groups: Sequence[tuple[str, Sequence[Ranked]]], title: str) -> Html:
    """A heading per group, a folded list per query; the first of each group is open."""
    parts: list[Any] = []
    for heading, queries in groups:
        if not queries:
            continue
        parts.append(tag("h3", heading, class_="lists"))
        parts += [_query(query, title, unfolded=k == 0) for k, query in enumerate(queries)]
    if parts:
        parts.append(
            tag(
                "figcaption",
                "Each row is an item: its label, its score, and what lifts (+) or lowers "
                f"({MINUS}) it most against the average of its list, exactly: weight times (value "
                f"{MINUS} average value). "
                "Read: an item of high label far down is a mistake; its terms say which "
                "features made it.",
            )
        )
    return join(parts)


def _query(query: Ranked, title: str, *, unfolded: bool) -> Html:
    top = max(query.labels)
    head = tag(
        "summary",
        tag("b", "Query ", name_of(query.query, 60)),
        name_of(f"“{query.text}”", 80) if query.text else None,
        tag("span", f"{title} {number(query.value, 3)}"),
        tag("span", f"other {number(query.other_value, 3)}")
        if query.other_value is not None
        else None,
        tag("span", f"{count(query.length)} items"),
    )
    return tag(
        "details",
        head,
        tag(
            "div",
            tag("div", tag("h4", name_of(query.left_name, 60)), _list(query.left, top, terms=True)),
            tag("div", tag("h4", name_of(query.right_name, 60)), _list(query.right, top)),
            class_="sides",
        ),
        open=unfolded,
    )


def _list(items: Sequence[Item], top: float, *, terms: bool = False) -> Html:
    scored = any(item.score is not None for item in items)
    header = ["", "item", "label", *(["score"] if scored else [])]
    rows = []
    for item in items:
        cells = [
            tag("td", str(item.rank)),
            tag("td", name_of(item.name, 48), _terms(item) if terms else None),
            tag("td", _label(item.label, top), class_="n"),
        ]
        if scored:
            cells.append(tag("td", signed(item.score, 3), class_="n"))
        rows.append(tag("tr", cells))
    kinds = [None, None, "n", "n"]
    head = tag("tr", [tag("th", h, class_=kinds[c], scope="col") for c, h in enumerate(header)])
    return tag("table", tag("thead", head), tag("tbody", rows))


def _label(label: float, top: float) -> Html:
    kind = "label high" if label == top and label > 0 else "label some" if label > 0 else "label"
    return tag("span", f"{label:g}", class_=kind)


def _terms(item: Item) -> Html | None:
    if not item.terms:
        return None
    shown = [
        tag(
            "span",
            name_of(name, 32),
            " ",
            tag("b", signed(value, 2)),
            class_="plus" if value > 0 else "minus",
        )
        for name, value in item.terms
    ]
    return tag("div", shown, class_="terms")
