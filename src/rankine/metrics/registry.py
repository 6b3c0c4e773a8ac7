"""The metrics by name: each file registers its own definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.metrics.metric import Metric

__all__ = ["DEFINITIONS", "Definition", "definition", "register"]

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Definition:
    """What a metric is.

    Attributes
    ----------
    name, title, aliases
        Canonical name, the name papers print, other names users type.
    family
        ``"ranks"``: a function of gains in ranked order (``metrics.ranks``); ``"pairs"``: a
        function of labels and scores (``metrics.pairs``).
    items
        What stands in a ranked list: ``"gain"`` (of the label) or ``"relevance"`` (0 or 1).
    cutoff
        ``"optional"``, ``"required"`` or ``"none"``.
    spec
        Makes the spec that the kernels dispatch on, from the metric and the longest list.
    defaults
        Options the metric has, with their defaults; ``choices`` restricts their values.
    """

    name: str
    title: str
    family: Literal["ranks", "pairs"]
    spec: Callable[[Metric, int], Any]
    aliases: tuple[str, ...] = ()
    items: Literal["gain", "relevance"] = "relevance"
    cutoff: Literal["optional", "required", "none"] = "optional"
    larger_is_better: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _EMPTY)
    tie_aliases: Mapping[str, str] = field(default_factory=lambda: _EMPTY)


DEFINITIONS: dict[str, Definition] = {}
"""Canonical name -> definition, in order of registration."""
_BY_NAME: dict[str, Definition] = {}

#: Tie rules and their defaults of metrics of ranked lists.
RANK_TIES = ("file", "docid", "expected", "worst")


def register(known: Definition) -> Definition:
    """Add a metric; its name and aliases must be new."""
    for name in (known.name, *known.aliases):
        if name in _BY_NAME:
            raise ParameterError(f"a metric called {name!r} exists", fix="Choose another name")
    if known.family == "ranks":
        known = _with_rank_ties(known)
    DEFINITIONS[known.name] = known
    for name in (known.name, *known.aliases):
        _BY_NAME[name] = known
    return known


def _with_rank_ties(known: Definition) -> Definition:
    return replace(
        known,
        defaults={**known.defaults, "ties": "file", "no_relevant": "0"},
        choices={**known.choices, "ties": RANK_TIES},
    )


def definition(name: str) -> Definition:
    """The definition of a name or alias."""
    key = name.lower().replace("_", "-")
    if key not in _BY_NAME:
        raise ParameterError(
            f"no metric is called {name!r}", fix=f"Choose one of {', '.join(sorted(DEFINITIONS))}"
        )
    return _BY_NAME[key]
