"""Names from outside, safe to show on a terminal and in HTML.

Names of features, queries, documents and files come from outside. Control and direction
characters in them are written as escapes. HTML is safe by construction: what is not marked as HTML
is escaped when it enters some, and a name is isolated (``<bdi>``) so that letters that run from
right to left cannot reorder the text around it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any


def printable(text: str, limit: int = 120) -> str:
    r"""Text with every control, format and unassigned character written as an escape.

    Feature names, query ids and docids come from files: an escape sequence in one must not reach
    the terminal, nor a line break tear a table.

    Examples
    --------
    >>> print(printable("price\x1b[31m"))
    price\x1b[31m
    """
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    if shown.isprintable():
        return shown
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in shown
    )


#: Elements that have no content and no end tag.
_VOID = frozenset({"meta", "br", "link", "hr", "img"})
_NO_BREAK = "\N{NO-BREAK SPACE}"
#: Longest piece of text from outside that is shown.
MAX_TEXT = 120


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: Any, limit: int = MAX_TEXT) -> Html:
    r"""Anything as inert text of bounded length.

    Examples
    --------
    >>> text("<b>&\x1b")
    '&lt;b&gt;&amp;\\x1b'
    """
    if isinstance(value, Html):
        return value
    # A no-break space is a space, not a control character.
    parts = (printable(part, limit) for part in str(value)[:limit].split(_NO_BREAK))
    found = _NO_BREAK.join(parts)
    if len(str(value)) > limit:
        found = found[: limit - 1] + "…"
    return Html(html.escape(found, quote=True))


def name_of(value: Any, limit: int = MAX_TEXT) -> Html:
    """A name from outside, isolated from the text around it."""
    return tag("bdi", text(value, limit))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """An element.

    ``class_`` and ``for_`` stand for the words that Python keeps, ``aria_label`` for
    ``aria-label``. Attributes that are None are left out; True gives an attribute without value.

    Examples
    --------
    >>> tag("p", "a < b", tag("br"), class_="note")
    '<p class="note">a &lt; b<br></p>'
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[Any]) -> Html:
    """Children one after the other: None is nothing, lists are flattened, text is escaped."""
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, (list, tuple)):
            parts.append(join(child))
        else:
            parts.append(child if isinstance(child, Html) else text(child, 10_000))
    return Html("".join(parts))


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(value, 10_000)}"'


def html_table(caption: str, rows: Iterable[tuple[Any, Any]]) -> Html:
    """Names and values as a small table for notebooks, which bring their own style."""
    left = "text-align:left"
    body = [
        tag("tr", tag("th", name, style=left), tag("td", value, style=left)) for name, value in rows
    ]
    return tag("table", tag("caption", caption), tag("tbody", body))


def listed(names: Iterable[Any], limit: int = 8, *, total: int | None = None) -> Html:
    """The first names, isolated and with commas between them, and how many more there are."""
    every = list(names)
    shown = [[", " if k else None, name_of(name, 60)] for k, name in enumerate(every[:limit])]
    count = len(every) if total is None else total
    more = f" and {count - limit:,} more" if count > limit else None
    return join([shown, more])


def small_bar(share: float, colour: str = "#4878a8") -> Html:
    """A bar of up to 120 pixels for a cell of such a table."""
    width = max(1.0, 120 * share)
    style = f"display:inline-block;height:.7em;background:{colour};width:{width:.0f}px"
    return tag("span", style=style)
