"""Metric definitions by name, a metric with its conventions, and its text form.

Each metric's module registers a ``Definition``. ``parse_metric`` reads the text form
``[mode:]name[@cutoff][:option=value ...]``.

Modes follow the evaluation scripts of LETOR 3.0, LETOR 4.0 and MSLR. All three use gain
2^label - 1 from a table and discount 1 at ranks 1 and 2 and 1/log2(r) below; NDCG@n is 0 for lists
shorter than n; a query without relevant documents counts 0; ties keep the order of the file. They
differ in P@n of a list shorter than n (0 in LETOR 3.0, divided by n in the others) and in their
labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from rankine.core.errors import ParameterError
from rankine.data.expressions import parse_expression
from rankine.metrics.gains import gain_formula

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Definition:
    """Name, family and options of a metric.

    Attributes
    ----------
    name, title
        Canonical name, and the name printed in papers.
    family
        ``"ranks"``: a function of the gains in ranked order; ``"pairs"``: a function of labels and
        scores; ``"rows"``: a mean over rows of a function of labels and probabilities.
    spec
        Function of the metric and the size of the longest list; it returns the spec on whose type
        the kernels dispatch.
    summary
        One line for help texts.
    aliases
        Other accepted names.
    items
        What a ranked list holds: ``"gain"`` (of the label), ``"relevance"`` (1 for labels from
        the option ``threshold`` on, 1 by default, else 0), ``"group"``
        (number of the item's value in column ``by``, from 1; 0 without a value) or ``"relevant
        group"`` (the same for relevant items, each without a value in its own group; else 0).
    cutoff
        ``"optional"``, ``"required"`` or ``"none"``.
    larger_is_better
        False for errors.
    defaults
        The metric's options and their defaults.
    choices
        Allowed values by option.
    tie_aliases
        Other accepted values of the option ``ties``.
    """

    name: str
    title: str
    family: Literal["ranks", "pairs", "rows"]
    spec: Callable[[Metric, int], Any]
    summary: str = ""
    aliases: tuple[str, ...] = ()
    items: Literal["gain", "relevance", "group", "relevant group"] = "relevance"
    cutoff: Literal["optional", "required", "none"] = "optional"
    larger_is_better: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _EMPTY)
    tie_aliases: Mapping[str, str] = field(default_factory=lambda: _EMPTY)


#: Canonical name -> definition, in order of registration.
DEFINITIONS: dict[str, Definition] = {}
_BY_NAME: dict[str, Definition] = {}  # also aliases

#: Tie rules of metrics of ranked lists.
RANK_TIES = ("file", "docid", "expected", "worst")


def register(*definitions: Definition) -> None:
    """Add metrics. Their names and aliases must not be registered yet.

    A metric of the family "ranks" also implements ``list_value`` and ``list_expected``, one of
    "pairs" ``pair_value``, for its spec (``rankine.metrics.families``).
    """
    for definition in definitions:
        names = (definition.name, *definition.aliases)
        for name in names:
            if name in _BY_NAME:
                raise ParameterError(
                    f"a metric called {name!r} exists already", fix="Choose another name"
                )
        complete = definition
        # Every metric of ranked lists has these options.
        if definition.family == "ranks":
            defaults = {"no_relevant": "0", **definition.defaults, "ties": "expected"}
            if definition.items in ("relevance", "relevant group"):
                defaults.setdefault("threshold", 1.0)
            complete = replace(
                definition,
                defaults=defaults,
                choices={"ties": RANK_TIES, **definition.choices},
            )
        DEFINITIONS[definition.name] = complete
        for name in names:
            _BY_NAME[name] = complete


def find_definition(name: str) -> Definition:
    """Return the definition of a name or alias."""
    key = name.lower().replace("_", "-")
    if key not in _BY_NAME:
        raise ParameterError(
            f"no metric is called {name!r}",
            fix=f"Choose one of {', '.join(sorted(DEFINITIONS))}",
            parameter="metric",
        )
    return _BY_NAME[key]


def describe_metrics() -> dict[str, str]:
    """Return the name of every metric with one line of description, sorted by name."""
    return {name: DEFINITIONS[name].summary for name in sorted(DEFINITIONS)}


_FILE = {"ties": "file"}
_LETOR_MEAN_NDCG = {"gain": "0,1,3", "discount": "letor", **_FILE}
_LETOR_NDCG = {**_LETOR_MEAN_NDCG, "short": "zero"}
_MSLR_MEAN_NDCG = {"gain": "0,1,3,7,15", "discount": "letor", **_FILE}
_MSLR_NDCG = {**_MSLR_MEAN_NDCG, "short": "zero"}

#: Mode -> metric -> options that differ from the metric's own defaults.
MODES: dict[str, dict[str, dict[str, Any]]] = {
    "letor3": {"ndcg": _LETOR_NDCG, "map": _FILE, "p": {"short": "zero", **_FILE}},
    "letor4": {"ndcg": _LETOR_NDCG, "mean-ndcg": _LETOR_MEAN_NDCG, "map": _FILE, "p": _FILE},
    "mslr": {"ndcg": _MSLR_NDCG, "mean-ndcg": _MSLR_MEAN_NDCG, "map": _FILE, "p": _FILE},
}


def mode_defaults(mode: str | None, name: str) -> dict[str, Any]:
    """Return the options of a metric that a mode changes."""
    if mode is None:
        return {}
    if mode not in MODES:
        raise ParameterError(
            f"no evaluation script is called {mode!r}",
            fix=f"Choose one of {', '.join(MODES)}",
            parameter="metric",
        )
    if name not in MODES[mode]:
        raise ParameterError(
            f"the {mode} script does not compute {name}",
            fix=f"Choose one of its metrics: {', '.join(MODES[mode])}",
            parameter="metric",
        )
    return MODES[mode][name]


_CHOICES: dict[str, tuple[str, ...]] = {
    "discount": ("std", "paper", "letor", "none"),
    "no_relevant": ("skip", "0", "1"),
    "short": ("fill", "zero"),
}


@dataclass(frozen=True)
class Metric:
    """A metric with all its conventions. Fields left at None take the metric's own default.

    Attributes
    ----------
    name
        Canonical name, such as ``"ndcg"``.
    cutoff
        Number of ranks that count, the name of a column with that number per query, or None (all
        ranks).
    mode
        Evaluation script whose conventions are used: ``"letor3"``, ``"letor4"`` or ``"mslr"``.
    gain
        ``"exp"`` (2^label - 1), ``"linear"`` (label), a table such as ``"0,1,3"`` (gain of labels
        0, 1, 2) or a formula over columns, such as ``"margin"`` (``"given"``: column ``gain``).
    discount
        ``"std"`` 1/log2(r + 1), ``"paper"`` 1/(log2(r) + 1) (Freno et al., eq. 1), ``"letor"``
        1/max(1, log2 r), ``"none"`` 1 at every rank: the sum of gains, such as money.
    threshold
        Smallest relevant label.
    max_label
        Highest possible label (ERR).
    persistence
        Probability of continuing to the next rank (RBP).
    ties
        ``"expected"`` (mean over all orders of tied items), ``"file"`` (row order; the default of
        modes), ``"docid"`` (descending, as trec_eval; the default on TREC runs), ``"worst"``; pair
        metrics: ``"half"``, ``"strict"`` or ``"errors"``.
    no_relevant
        Value of a query without relevant documents: ``"0"``, ``"1"`` or ``"skip"``.
    short
        Value of a list shorter than the cutoff: ``"fill"`` (missing ranks gain nothing) or
        ``"zero"``.
    mean
        Average over ``"queries"``, or over all ``"pairs"`` (``"items"``) of all queries.
    displayed
        Column that is 0 for items that were not displayed: they are ranked, but are neither
        positives nor negatives. ``"none"`` ignores the column.
    retrieved
        Column that is 0 for items that were judged but not retrieved: they have no rank, but count
        among the relevant items in recall and in the ideal order.
    label
        Formula over columns that replaces the labels, such as ``"clicked"``.
    by
        Column of the groups of items (brand, category) that diversity and exposure are about.
    alpha
        Probability that an item of a group makes another one of the group redundant (alpha-NDCG).
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
    label: str | None = None
    by: str | None = None
    alpha: float | None = None
    #: Whether ``ties`` was passed; if not, TREC runs are evaluated with ``docid``.
    states_ties: bool = field(default=False, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        definition = find_definition(self.name)
        object.__setattr__(self, "name", definition.name)
        self._check_cutoff(definition.cutoff)
        defaults = self._defaults()
        object.__setattr__(self, "states_ties", self.ties is not None)
        for option in OPTIONS:
            value = getattr(self, option)
            # object.__setattr__, because the class is frozen.
            if value is None:
                object.__setattr__(self, option, defaults.get(option))
            elif option not in defaults:
                raise ParameterError(
                    f"{self.name} has no option {option!r}",
                    fix=f"Choose one of its options: {', '.join(defaults)}",
                    parameter="metric",
                )
            else:
                object.__setattr__(self, option, self._check_option(option, value))
        if self.by is None and "by" in defaults:
            raise ParameterError(
                f"{self.name} needs a column of groups",
                fix=f"Write {self.name}:by=brand, for example",
                parameter="metric",
            )

    def _defaults(self) -> dict[str, Any]:
        return {
            **find_definition(self.name).defaults,
            "displayed": "displayed",
            "retrieved": "retrieved",
            "label": None,
            **mode_defaults(self.mode, self.name),
        }

    def _check_cutoff(self, allowed: str) -> None:
        if self.cutoff is None:
            if allowed == "required":
                raise ParameterError(
                    f"{self.name} needs a cutoff",
                    fix=f"Write {self.name}@10, for example",
                    parameter="metric",
                )
            return
        if allowed == "none":
            raise ParameterError(
                f"{self.name} has no cutoff", fix=f"Write {self.name}", parameter="metric"
            )
        # True is an int in Python, and would pass for rank 1.
        if isinstance(self.cutoff, bool) or (isinstance(self.cutoff, int) and self.cutoff < 1):
            raise ParameterError(
                f"the cutoff {self.cutoff} is not positive",
                fix="Use a cutoff of 1 or more",
                parameter="metric",
            )

    def _check_option(self, option: str, value: Any) -> Any:
        definition = find_definition(self.name)
        choices = _CHOICES.get(option, definition.choices.get(option))
        if option == "ties":
            # Some tools use other words for the same rule.
            value = definition.tie_aliases.get(value, value)
        if option == "no_relevant":
            value = {0: "0", 1: "1"}.get(value, value)
        if choices is not None and value not in choices:
            raise ParameterError(
                f"{self.name} cannot have {option}={value}",
                fix=f"Choose one of {', '.join(choices)}",
                parameter="metric",
            )
        if option in {"alpha", "persistence"} and not 0 < float(value) < 1:
            raise ParameterError(
                f"{option}={value} is not a probability",
                fix="Use a number between 0 and 1",
                parameter="metric",
            )
        if option in {"threshold", "persistence", "alpha"}:
            return float(value)
        if option in {"gain", "label"}:
            self._check_formula(option, value)
        if option == "max_label":
            return int(value)
        return value

    def _check_formula(self, option: str, text: str) -> None:
        try:
            if option == "gain":
                gain_formula(text)
            else:
                parse_expression(text)
        except ParameterError as error:
            reason = f"{option} of {self.name}: {error.reason}"
            raise ParameterError(reason, fix=error.fix, parameter="metric") from None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the data must have for this metric."""
        names: list[str] = []
        if isinstance(self.cutoff, str):
            names.append(self.cutoff)
        formulas = [gain_formula(self.gain)]
        if self.label is not None:
            formulas.append(parse_expression(self.label))
        names += [name for formula in formulas if formula is not None for name in formula.columns]
        if self.by is not None:
            names.append(self.by)
        return tuple(dict.fromkeys(names))

    @property
    def larger_is_better(self) -> bool:
        """False for errors."""
        return find_definition(self.name).larger_is_better

    @property
    def sign(self) -> float:
        """1 if larger values are better, else -1: the best value times it is the largest."""
        return 1.0 if self.larger_is_better else -1.0

    @property
    def title(self) -> str:
        """Name as printed in papers, such as ``NDCG@10``."""
        title = find_definition(self.name).title
        if self.cutoff is None:
            return title
        return f"{title}@{self.cutoff}"

    def at(self, cutoff: int | str | None) -> Metric:
        """Return the same metric at another cutoff."""
        return self.with_options(cutoff=cutoff)

    def with_options(self, **options: Any) -> Metric:
        """Return the same metric with other options."""
        if not self.states_ties:
            options = {"ties": None, **options}
        return replace(self, **options)

    def __str__(self) -> str:
        text = self.name
        if self.mode is not None:
            text = f"{self.mode}:{text}"
        if self.cutoff is not None:
            text += f"@{self.cutoff}"
        defaults = self._defaults()
        for option in OPTIONS:
            value = getattr(self, option)
            stated = option == "ties" and self.states_ties
            if value is None or (value == defaults.get(option) and not stated):
                continue
            # ``threshold=2``, not ``threshold=2.0``, as users write it.
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            text += f":{option}={value}"
        return text


#: Fields that a text form sets with ``:name=value``, in the order in which they are written.
OPTIONS = tuple(
    f.name for f in fields(Metric) if f.init and f.name not in ("name", "cutoff", "mode")
)

_HEAD = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?:@(?P<cutoff>[^\s@:=]+))?")
# Options with numeric values; the others are text.
_NUMBERS: dict[str, Any] = {
    "threshold": float,
    "max_label": int,
    "persistence": float,
    "alpha": float,
}


def parse_metric(text: str | Metric) -> Metric:
    """Parse a metric's text form; return a ``Metric`` unchanged.

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
    # A mode is a prefix; a metric of the same name is not followed by a colon.
    mode = None
    if parts[0] in MODES and len(parts) > 1:
        mode = parts.pop(0)
    head = _HEAD.fullmatch(parts[0])
    if head is None:
        raise ParameterError(
            f"cannot read the metric {text!r}",
            fix='Write it like "ndcg@10", "map", "letor3:ndcg@10" or "ndcg@10:gain=linear"',
            parameter="metric",
        )
    cutoff = head["cutoff"]
    if cutoff is not None and re.fullmatch(r"[+-]?\d+", cutoff):
        cutoff = int(cutoff)
    options = dict(_parse_option(part, str(text)) for part in parts[1:])
    return Metric(head["name"], cutoff, mode, **options)


def needs_probabilities(metric: str | Metric) -> bool:
    """Return whether a metric is one of probabilities, which only calibrated models have."""
    return find_definition(parse_metric(metric).name).family == "rows"


def metric_columns(metrics: Iterable[str | Metric | None]) -> tuple[str, ...]:
    """Return the columns that the data must have for metrics, so that readers keep them.

    Examples
    --------
    >>> metric_columns(["ndcg@10", "recall@shown", "dcg@10:label=purchased*margin"])
    ('shown', 'purchased', 'margin')
    """
    names = [name for text in metrics if text is not None for name in parse_metric(text).columns]
    return tuple(dict.fromkeys(names))


def _parse_option(part: str, text: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in OPTIONS:
        raise ParameterError(
            f"cannot read {part!r} in the metric {text!r}",
            fix=f"Options are {', '.join(f'{option}=...' for option in OPTIONS)}",
            parameter="metric",
        )
    try:
        return name, _NUMBERS.get(name, str)(value.strip())
    except ValueError:
        raise ParameterError(
            f"{name}={value} in the metric {text!r} is not a number",
            fix="Write a number",
            parameter="metric",
        ) from None
