"""How the model and this page were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rankine.core.safe_text import Html, join, name_of, tag, text
from rankine.report.page import Section
from rankine.report.words import count, shown

if TYPE_CHECKING:
    from rankine.report.figures.origin import Origin

__all__ = ["command_part", "facts", "origin_section"]


def origin_section(found: Origin, command: str | None) -> Section:
    """Parameters, versions, commands."""
    rows: list[tuple[str, Any]] = [("ranker", name_of(found.ranker or "unknown"))]
    if found.trained_with is not None:
        rows.append(("trained with", name_of(f"rankine {found.trained_with}")))
    for key, value in found.training.items():
        if value not in (None, [], ""):
            rows.append((key.replace("_", " "), _value(value)))
    if found.transforms:
        rows.append(("before the weights", name_of(", ".join(found.transforms))))
    rows.append(("model digest", tag("code", found.digest)))
    rows.append(("this page", ", ".join(f"{k} {v}" for k, v in found.versions.items())))
    parts = [
        tag("div", tag("h3", "Where it comes from"), facts(rows), class_="card"),
        tag("div", tag("h3", "Parameters"), facts(_parameters(found)), class_="card"),
    ]
    if found.command is not None:
        words = "It holds what the model file remembers; add the reading options your files need."
        parts.append(command_part("Train it again", found.command, words))
    if command is not None:
        parts.append(command_part("Make this page again", command))
    lead = "What the model file remembers of its making, and the commands that go with it."
    return Section("origin", "How it was made", "How was it made?", lead, join(parts))


def command_part(title: str, command: str, words: str | None = None) -> Html:
    """A command to copy."""
    told = tag("figcaption", words) if words else None
    return tag("div", tag("h3", title), tag("pre", text(command, 4000)), told, class_="card")


def facts(rows: Any) -> Html:
    """A list of names and values."""
    return tag("dl", [part for k, v in rows for part in (tag("dt", text(k)), tag("dd", v))])


def _parameters(found: Origin) -> list[tuple[str, Any]]:
    given = found.parameters.items()
    usual = [key for key, v in given if key in found.defaults and found.defaults[key] == v]
    rows: list[tuple[str, Any]] = [(key, _value(value)) for key, value in given if key not in usual]
    if usual:
        words = ", ".join(f"{key} = {shown(found.parameters[key])}" for key in usual)
        rows.append(("at their defaults", tag("span", name_of(words, 2000), class_="terms")))
    return rows or [("", "none recorded")]


def _value(value: Any) -> Html:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return name_of(shown(value), 400)
    if isinstance(value, int):
        return text(count(value))
    if isinstance(value, list):
        return name_of(", ".join(shown(v) for v in value[:20]), 600)
    if isinstance(value, Mapping):
        return name_of(", ".join(f"{k}: {shown(v)}" for k, v in list(value.items())[:20]), 600)
    return name_of(shown(value), 200)
