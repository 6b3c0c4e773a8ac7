"""Show untrusted names and URLs safely on a terminal, in HTML and in files.

Names of features, queries, documents and files are untrusted. Control characters and characters
that change the text direction are written as escapes. Text that is not marked as HTML is escaped
when it is inserted into HTML, and a name is isolated (``<bdi>``), so that a right-to-left name
cannot reorder the text around it. Passwords and tokens in URLs are masked in errors, logs, pages
and model files.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

#: User and password of a URL. A password may contain a slash, and host:8080/a@b has none.
_USER = re.compile(r"(://)[^\s:/@'\"\[]+:(?!\d+(?:/|$))[^\s@'\"]*@")
#: A token in place of the user; other stores have the name of a container there.
_TOKEN_AS_USER = re.compile(r"(https?://)[^\s:/?#@'\"]+@", re.IGNORECASE)
#: Parameters of a query that carry a secret, such as ``X-Amz-Signature`` and ``sig``.
_SECRET_PARAMETER = re.compile(
    r"([?&#;][^\s=&#'\"]*(?:sig|token|key|secret|pass|pwd|auth|cred|session|jwt)[^\s=&#'\"]*=)"
    # A message may go on behind the URL.
    r"[^\s&#'\"]*[^\s&#'\":.,;)\]]",
    re.IGNORECASE,
)
_MASK = "***"


def mask_secrets(text: str) -> str:
    """Mask passwords, tokens and signatures of the URLs in a text.

    Examples
    --------
    >>> mask_secrets("https://me:word@host/log.parquet?v=2&sig=a%2Fb")
    'https://***@host/log.parquet?v=2&sig=***'
    """
    if "://" in text:
        text = _USER.sub(rf"\1{_MASK}@", text)
        text = _TOKEN_AS_USER.sub(rf"\1{_MASK}@", text)
    # Messages of HTTP clients also name paths without the host.
    if "=" in text:
        text = _SECRET_PARAMETER.sub(rf"\1{_MASK}", text)
    return text


def printable(text: str, limit: int = 120) -> str:
    r"""Write every control, format and unassigned character of a text as an escape.

    An escape sequence in a name from a file must not reach the terminal, nor a line break destroy a
    table.

    Examples
    --------
    >>> print(printable("price\x1b[31m"))
    price\x1b[31m
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isprintable():
        return text
    return "".join(map(_escape_unprintable, text))


def _escape_unprintable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


#: Elements without content and end tag.
_VOID = frozenset({"meta", "br", "link", "hr", "img"})
_NO_BREAK = "\N{NO-BREAK SPACE}"
#: Untrusted text is cut to this length.
MAX_TEXT = 120


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def text(value: Any, limit: int = MAX_TEXT) -> Html:
    r"""Escape any value for HTML and cut it to a bounded length.

    Examples
    --------
    >>> text("<b>&\x1b")
    '&lt;b&gt;&amp;\\x1b'
    """
    if isinstance(value, Html):
        return value
    # A no-break space is a space, not a control character.
    parts = (printable(part, limit) for part in str(value)[:limit].split(_NO_BREAK))
    safe = _NO_BREAK.join(parts)
    if len(str(value)) > limit:
        safe = safe[: limit - 1] + "…"
    return Html(html.escape(safe, quote=True))


def name_of(value: Any, limit: int = MAX_TEXT) -> Html:
    """Escape an untrusted name and isolate it from the text around it."""
    return tag("bdi", text(value, limit))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Create an element.

    A trailing underscore of an attribute is dropped (``class_``, ``for_``), and others become
    hyphens (``aria_label``). None and False omit the attribute; True writes it without a value.

    Examples
    --------
    >>> tag("p", "a < b", tag("br"), class_="note")
    '<p class="note">a &lt; b<br></p>'
    """
    start = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{start}>")
    return Html(f"<{start}>{join(children)}</{name}>")


def join(children: Iterable[Any]) -> Html:
    """Concatenate children: None is skipped, lists are flattened, text is escaped."""
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, (list, tuple)):
            parts.append(join(child))
        elif isinstance(child, Html):
            parts.append(child)
        else:
            parts.append(text(child, 10_000))  # untrusted until it is marked as HTML
    return Html("".join(parts))


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{text(value, 10_000)}"'


def html_table(caption: str, rows: Iterable[tuple[Any, Any]]) -> Html:
    """Create a small table of names and values for notebooks, which have their own style."""
    style = "text-align:left"
    body = [
        tag("tr", tag("th", name, style=style), tag("td", value, style=style))
        for name, value in rows
    ]
    return tag("table", tag("caption", caption), tag("tbody", body))


def listed(names: Iterable[Any], limit: int = 8, *, total: int | None = None) -> Html:
    """List the first names, separated by commas, and the number of the others."""
    listed_names = list(names)
    parts: list[Any] = []
    for name in listed_names[:limit]:
        if parts:
            parts.append(", ")
        parts.append(name_of(name, 60))
    count = len(listed_names) if total is None else total
    if count > limit:
        parts.append(f" and {count - limit:,} more")
    return join(parts)


def small_bar(share: float, colour: str = "#4878a8") -> Html:
    """Create a bar of up to 120 pixels for a cell of a notebook's table."""
    width = max(1.0, 120 * share)
    style = f"display:inline-block;height:.7em;background:{colour};width:{width:.0f}px"
    return tag("span", style=style)
