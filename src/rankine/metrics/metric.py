"""What a metric is: definitions by name, one object with all conventions, and its text form.

Each metric's file registers its own definition; ``[mode:]name[@cutoff][:option=value ...]`` is read
by ``parse_metric``. Modes are the conventions of the evaluation scripts that came with LETOR 3.0,
LETOR 4.0 and MSLR. All three: gain 2^label - 1 from a table, discount 1 at ranks 1 and 2 and
1/log2(r) below, NDCG@n is 0 when the list is shorter than n, a query without relevant documents
counts 0, ties keep the order of the file. They differ in P@n of a short list (LETOR 3.0 adds
nothing at all, the others divide by n) and in the labels they know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from rankine.core.errors import ParameterError

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


def register(*metrics: Definition) -> None:
    """Add metrics; their names and aliases must be new."""
    for known in metrics:
        for name in (known.name, *known.aliases):
            if name in _BY_NAME:
                raise ParameterError(f"a metric called {name!r} exists", fix="Choose another name")
        whole = known
        if known.family == "ranks":
            whole = replace(
                known,
                defaults={**known.defaults, "ties": "file", "no_relevant": "0"},
                choices={**known.choices, "ties": RANK_TIES},
            )
        DEFINITIONS[known.name] = whole
        for name in (known.name, *known.aliases):
            _BY_NAME[name] = whole


def definition(name: str) -> Definition:
    """The definition of a name or alias."""
    key = name.lower().replace("_", "-")
    if key not in _BY_NAME:
        raise ParameterError(
            f"no metric is called {name!r}", fix=f"Choose one of {', '.join(sorted(DEFINITIONS))}"
        )
    return _BY_NAME[key]


_LETOR_NDCG = {"gain": "0,1,3", "discount": "letor", "short": "zero"}
_MSLR_NDCG = {**_LETOR_NDCG, "gain": "0,1,3,7,15"}


def _mean(ndcg: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in ndcg.items() if name != "short"}


#: Mode -> metric -> options that differ from the metric's own defaults.
MODES: dict[str, dict[str, dict[str, Any]]] = {
    "letor3": {"ndcg": _LETOR_NDCG, "map": {}, "p": {"short": "zero"}},
    "letor4": {"ndcg": _LETOR_NDCG, "mean-ndcg": _mean(_LETOR_NDCG), "map": {}, "p": {}},
    "mslr": {"ndcg": _MSLR_NDCG, "mean-ndcg": _mean(_MSLR_NDCG), "map": {}, "p": {}},
}


def mode_defaults(mode: str | None, name: str) -> dict[str, Any]:
    """Options that a mode changes for a metric."""
    if mode is None:
        return {}
    if mode not in MODES:
        raise ParameterError(
            f"no evaluation script is called {mode!r}", fix=f"Choose one of {', '.join(MODES)}"
        )
    if name not in MODES[mode]:
        raise ParameterError(
            f"the {mode} script does not compute {name}",
            fix=f"It computes {', '.join(MODES[mode])}",
        )
    return MODES[mode][name]


_CHOICES: dict[str, tuple[str, ...]] = {
    "discount": ("std", "paper", "letor"),
    "no_relevant": ("skip", "0", "1"),
    "short": ("fill", "zero"),
}


@dataclass(frozen=True)
class Metric:
    """A metric with all its conventions; fields left at None take the metric's own default.

    Attributes
    ----------
    name
        Canonical name, such as ``"ndcg"``.
    cutoff
        Ranks that count: a number, the name of a column that holds it per query, or None (all).
    mode
        ``"letor3"``, ``"letor4"`` or ``"mslr"``: conventions of that evaluation script.
    gain
        ``"exp"`` (2^label - 1), ``"linear"`` (label), a table such as ``"0,1,3"`` (gain of labels
        0, 1, 2) or the name of a column that holds the gains (``"given"``: column ``gain``).
    discount
        ``"std"`` 1/log2(r + 1), ``"paper"`` 1/(log2(r) + 1) (Freno et al., eq. 1), ``"letor"``
        1/max(1, log2 r).
    threshold
        Labels at or above it are relevant.
    max_label
        Highest possible label (ERR).
    persistence
        Probability of reading on to the next rank (RBP).
    ties
        ``"file"`` (row order), ``"docid"`` (descending, as trec_eval), ``"expected"`` (mean over
        all orders of tied items), ``"worst"``; pair metrics: ``"half"``, ``"strict"`` or
        ``"errors"``.
    no_relevant
        Value of a query without relevant documents: ``"0"``, ``"1"`` or ``"skip"``.
    short
        A list shorter than the cutoff: ``"fill"`` (missing ranks gain nothing) or ``"zero"``.
    mean
        ``"queries"``, or over all ``"pairs"`` (``"items"``) pooled.
    displayed
        Column whose zeros mark items that were not displayed: they are ranked, but are neither
        positives nor negatives. ``"none"`` ignores it.
    retrieved
        Column whose zeros mark items that were judged but not retrieved: they have no rank, but
        they are among the relevant items that recall and the ideal order count.
    """

    name: str
    cutoff: int | str | None = None
    mode: str | None = None
    gain: str | None = None
    discount: str | None = None
    threshold: float | None = None
    max_label: int | None = None
    persistence: float | None = None
    ties: str | None = None
    no_relevant: str | None = None
    short: str | None = None
    mean: str | None = None
    displayed: str | None = None
    retrieved: str | None = None

    def __post_init__(self) -> None:
        known = definition(self.name)
        object.__setattr__(self, "name", known.name)
        self._check_cutoff(known.cutoff)
        defaults = self._defaults()
        for option in OPTIONS:
            value = getattr(self, option)
            if value is None:
                object.__setattr__(self, option, defaults.get(option))
            elif option not in defaults:
                raise ParameterError(
                    f"{self.name} has no option {option!r}",
                    fix=f"Its options are {', '.join(defaults)}",
                )
            else:
                object.__setattr__(self, option, self._check_option(option, value))

    def _defaults(self) -> dict[str, Any]:
        return {
            **definition(self.name).defaults,
            "displayed": "displayed",
            "retrieved": "retrieved",
            **mode_defaults(self.mode, self.name),
        }

    def _check_cutoff(self, allowed: str) -> None:
        k = self.cutoff
        if k is None:
            if allowed == "required":
                raise ParameterError(
                    f"{self.name} needs a cutoff", fix=f"Write {self.name}@10, say"
                )
            return
        if allowed == "none":
            raise ParameterError(f"{self.name} takes no cutoff", fix=f"Write {self.name}")
        if isinstance(k, bool) or (isinstance(k, int) and k < 1):
            raise ParameterError(f"cutoff {k} is not positive", fix="Cut at rank 1 or deeper")

    def _check_option(self, option: str, value: Any) -> Any:
        known = definition(self.name)
        choices = _CHOICES.get(option, known.choices.get(option))
        if option == "ties":
            value = known.tie_aliases.get(value, value)
        if option == "no_relevant":
            value = {0: "0", 1: "1"}.get(value, value)
        if choices is not None and value not in choices:
            raise ParameterError(
                f"{option}={value} is not an option of {self.name}",
                fix=f"Choose one of {', '.join(choices)}",
            )
        if option == "persistence" and not 0 < float(value) < 1:
            raise ParameterError(
                f"persistence={value} is not a probability", fix="Use a number between 0 and 1"
            )
        if option in {"threshold", "persistence"}:
            return float(value)
        if option == "max_label":
            return int(value)
        return value

    @property
    def larger_is_better(self) -> bool:
        """False for errors."""
        return definition(self.name).larger_is_better

    @property
    def title(self) -> str:
        """Name as papers print it, such as ``NDCG@10``."""
        at = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{definition(self.name).title}{at}"

    def at(self, cutoff: int | str | None) -> Metric:
        """The same metric at another cutoff."""
        return replace(self, cutoff=cutoff)

    def with_options(self, **options: Any) -> Metric:
        """The same metric with other options."""
        return replace(self, **options)

    def __str__(self) -> str:
        text = "" if self.mode is None else f"{self.mode}:"
        text += self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"
        defaults = self._defaults()
        for option in OPTIONS:
            value = getattr(self, option)
            if value is not None and value != defaults.get(option):
                shown = int(value) if isinstance(value, float) and value.is_integer() else value
                text += f":{option}={shown}"
        return text


#: Fields that a text form may set with ``:name=value``, in the order they are written.
OPTIONS = tuple(one.name for one in fields(Metric) if one.name not in ("name", "cutoff", "mode"))

_HEAD = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?:@(?P<cutoff>[^\s@:=]+))?")
_NUMBERS: dict[str, Any] = {"threshold": float, "max_label": int, "persistence": float}


def parse_metric(text: str | Metric) -> Metric:
    """Read a metric's text form; a Metric passes through.

    Examples
    --------
    >>> str(parse_metric("NDCG@10"))
    'ndcg@10'
    >>> parse_metric("letor3:ndcg@10").discount
    'letor'
    >>> parse_metric("ndcg@10:gain=linear:ties=expected").gain
    'linear'
    """
    if isinstance(text, Metric):
        return text
    parts = str(text).strip().split(":")
    mode = parts.pop(0) if parts[0] in MODES and len(parts) > 1 else None
    head = _HEAD.fullmatch(parts[0])
    if head is None:
        raise ParameterError(
            f"cannot read the metric {text!r}",
            fix='Write it like "ndcg@10", "map", "letor3:ndcg@10" or "ndcg@10:gain=linear"',
        )
    options = dict(_option(part, str(text)) for part in parts[1:])
    return Metric(head["name"], _cutoff(head["cutoff"]), mode, **options)


def _cutoff(text: str | None) -> int | str | None:
    if text is None:
        return None
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else text


def _option(part: str, text: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in OPTIONS:
        raise ParameterError(
            f"cannot read {part!r} in the metric {text!r}",
            fix=f"Options are {', '.join(f'{option}=...' for option in OPTIONS)}",
        )
    try:
        return name, _NUMBERS.get(name, str)(value.strip())
    except ValueError:
        raise ParameterError(
            f"{name}={value} in the metric {text!r} is not a number", fix="Write a number"
        ) from None
