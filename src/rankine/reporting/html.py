"""The Jinja2 environment of the report, and the macros that render the parts of a page.

All text is escaped (autoescape). On top of that, control and direction characters of every string
are written as visible escapes, and names from outside are isolated (``<bdi>``), so that letters
that run from right to left cannot reorder the text around them. Both rules are implemented in
``rankine.core.safe_text``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rankine.core import safe_text
from rankine.reporting.numbers import count, number, percent, plural, signed

#: Longest string that is printed in full.
MAX_STRING = 10_000


def name(value: Any, limit: int = safe_text.MAX_TEXT) -> Markup:
    """Return a name from outside as escaped text of bounded length, isolated by ``<bdi>``."""
    return Markup(safe_text.name_of(value, limit))  # noqa: S704 - name_of escapes


def names(values: Iterable[Any], limit: int = 8, *, total: int | None = None) -> Markup:
    """Return the first names, separated by commas, and how many follow."""
    return Markup(safe_text.listed(values, limit, total=total))  # noqa: S704 - listed escapes


def text(value: Any, limit: int = MAX_STRING) -> Any:
    """Return a value as escaped text without control characters; markup stays as it is."""
    if value is None:
        return ""
    if hasattr(value, "__html__"):
        return value
    return Markup(safe_text.text(value, limit))  # noqa: S704 - text escapes


environment = Environment(
    loader=PackageLoader("rankine.reporting"),
    autoescape=True,
    finalize=text,  # every {{ expression }} passes through it
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters.update(
    count=count, name=name, names=names, number=number, percent=percent, plural=plural,
    signed=signed, text=text,
)  # fmt: skip
environment.tests["finite"] = math.isfinite

#: Macros: parts of a page, captions, drawings, ranked lists, summaries and remarks.
parts: Any = environment.get_template("parts.html").module
captions: Any = environment.get_template("captions.html").module
drawings: Any = environment.get_template("svg.html").module
lists: Any = environment.get_template("queries.html").module
sentences: Any = environment.get_template("sentences.html").module


def concatenate(pieces: Iterable[Markup | None]) -> Markup:
    """Return rendered pieces one after the other; None is left out."""
    return Markup("").join(piece for piece in pieces if piece is not None)
