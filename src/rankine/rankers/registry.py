"""The rankers by the names users type: the one list that the command line and tuning read."""

from __future__ import annotations

import importlib
from typing import Any

from rankine.core.errors import ParameterError

__all__ = ["RANKERS", "ranker_class"]

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
    """The estimator class of a ranker name."""
    if name not in RANKERS:
        raise ParameterError(
            f"no ranker is called {name!r}", fix=f"Choose one of {', '.join(RANKERS)}"
        )
    module, attribute = RANKERS[name]
    return getattr(importlib.import_module(module), attribute)
