"""Tuning: ``rankine.tune(data, ranker=...)``, and the Optuna sampler and pruner behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.core.errors import MissingExtraError
from rankine.core.lazy_import import lazy_attributes

if TYPE_CHECKING:
    from rankine.tuning.pruning import GainPruner
    from rankine.tuning.result import TuningResult
    from rankine.tuning.thompson import ThompsonSampler

__all__ = ["GainPruner", "ThompsonSampler", "TuningResult"]

_PUBLIC = {
    "GainPruner": "rankine.tuning.pruning",
    "ThompsonSampler": "rankine.tuning.thompson",
    "TuningResult": "rankine.tuning.result",
}


def import_optuna() -> Any:
    """Return the optuna module; raise an error that names the extra if it is missing."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("tuning needs Optuna", fix="Install rankine[tune]") from error
    return optuna


__getattr__ = lazy_attributes(__name__, _PUBLIC)
