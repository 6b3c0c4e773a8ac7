"""The rankers by the names users type, and what may be tuned in them.

A ranker's ``search_space`` maps parameter names to a ``Number`` or a ``Choice``.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankine.core.checks import reject_sets
from rankine.core.errors import ParameterError

# Modules are named and not imported, so that a command imports only the ranker that it uses.
#: Name on the command line -> (module, class).
RANKERS: dict[str, tuple[str, str]] = {
    "spd": ("rankine.rankers.spd", "SPDRanker"),
    "ranksvm": ("rankine.rankers.ranksvm", "RankSVM"),
    "least-squares": ("rankine.rankers.least_squares", "LeastSquaresRanker"),
    "domination": ("rankine.rankers.domination", "DominationRanker"),
    "elastic": ("rankine.rankers.elastic", "ElasticRanker"),
    "additive": ("rankine.rankers.additive", "AdditiveRanker"),
}


def ranker_class(name: str) -> Any:
    """Return the estimator class of a ranker name."""
    if name not in RANKERS:
        raise ParameterError(
            f"no ranker is called {name!r}",
            fix=f"Choose one of {', '.join(RANKERS)}",
            parameter="ranker",
        )
    module, attribute = RANKERS[name]
    return getattr(importlib.import_module(module), attribute)


#: Parameter -> values.
Condition = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Number:
    """A real or whole number between two bounds, both included.

    Attributes
    ----------
    low, high
        Bounds.
    log
        Whether the logarithm is what is searched evenly.
    integer
        Whole numbers only.
    when, unless
        The parameter is read only while another one has one of these values, or none of them.
    """

    low: float
    high: float
    log: bool = False
    integer: bool = False
    when: Condition = field(default_factory=dict)
    unless: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not finite or self.low >= self.high:
            raise ParameterError(
                f"a range from {self.low} to {self.high} holds nothing to search",
                fix="Write low..high with low < high",
            )
        if self.log and self.low <= 0:
            raise ParameterError(
                f"a logarithmic range cannot start at {self.low}", fix="Start above 0"
            )


@dataclass(frozen=True)
class Choice:
    """One of several values.

    Attributes
    ----------
    options
        The values, or a function that gives them when the search begins: what a user has
        registered by then is among them.
    when, unless
        As for ``Number``.
    """

    options: Sequence[Any] | Callable[[], Sequence[Any]]
    when: Condition = field(default_factory=dict)
    unless: Condition = field(default_factory=dict)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, now."""
        options = self.options
        if callable(options):
            options = options()
        reject_sets(options=options)
        return tuple(dict.fromkeys(options))


def _scales() -> Sequence[str]:
    from rankine.transforms.scaling import SCALES

    return SCALES


#: Every scaling.
SCALE = Choice(_scales)
