"""``--set name=value``: parameters of a ranker from the command line."""

from __future__ import annotations

from typing import Any

from rankine.core.errors import ParameterError
from rankine.core.words import read_value

__all__ = ["make_ranker", "parse_settings"]


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``["l2=1e-3", "solver=romma"]`` as a mapping; values are JSON where they can be."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"--set {pair!r} is not name=value", fix="Write --set l2=1e-3")
        settings[name.strip()] = read_value(text.strip())
    return settings


def make_ranker(name: str, settings: dict[str, Any]) -> Any:
    """A ranker with parameters; an unknown parameter is an error that lists the known ones."""
    from rankine.rankers.registry import ranker_class

    kind = ranker_class(name)
    known = kind().get_params(deep=False)
    for setting in settings:
        if setting not in known:
            raise ParameterError(
                f"ranker {name!r} has no parameter {setting!r}",
                fix=f"Choose among {', '.join(sorted(known))}",
            )
    # A word such as scale=none is the word where the parameter is a word.
    words = {n: "none" for n, v in settings.items() if v is None and isinstance(known[n], str)}
    return kind(**{**settings, **words})
