"""Tuning: ``rankine.tune(data, ranker=...)``, and the sampler behind it.

The package is also the function: calling it runs ``rankine.tune.run.tune``
(``docs/adr/0009-tune-is-a-callable-package.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.core.callable_package import make_callable
from rankine.core.errors import MissingExtraError

if TYPE_CHECKING:
    from rankine.tune.pruning import GainPruner
    from rankine.tune.result import TuningResult
    from rankine.tune.thompson import ThompsonSampler

__all__ = ["GainPruner", "ThompsonSampler", "TuningResult"]

_PUBLIC = {
    "GainPruner": "rankine.tune.pruning",
    "ThompsonSampler": "rankine.tune.thompson",
    "TuningResult": "rankine.tune.result",
}


def import_optuna() -> Any:
    """The optuna module, or an error that says what to install."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("tuning needs Optuna", fix="Install rankine[tune]") from error
    return optuna


__getattr__ = make_callable(__name__, "rankine.tune.run:tune", _PUBLIC)
