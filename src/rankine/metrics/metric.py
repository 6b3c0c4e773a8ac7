"""One object that says everything about a metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rankine.core.errors import ParameterError
from rankine.metrics.modes import mode_defaults
from rankine.metrics.registry import definition

__all__ = ["OPTIONS", "Metric"]

#: Fields that a text form may set with ``:name=value``, in the order they are written.
OPTIONS = (
    "gain",
    "discount",
    "threshold",
    "max_label",
    "persistence",
    "ties",
    "no_relevant",
    "short",
    "mean",
    "displayed",
    "retrieved",
)

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
