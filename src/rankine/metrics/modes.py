"""Conventions of the evaluation scripts that came with LETOR 3.0, LETOR 4.0 and MSLR.

All three: gain 2^label - 1 from a table, discount 1 at ranks 1 and 2 and 1/log2(r) below, NDCG@n
is 0 when the list is shorter than n, a query without relevant documents counts 0, ties keep the
order of the file. They differ in P@n of a short list (LETOR 3.0 adds nothing at all, the others
divide by n) and in the labels they know.
"""

from __future__ import annotations

from typing import Any

from rankine.core.errors import ParameterError

__all__ = ["MODES", "mode_defaults"]

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
