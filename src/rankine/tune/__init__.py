"""Tuning: ``rankine.tune(data, ranker=...)``, and the sampler behind it.

The package is also the function: calling it runs ``rankine.tune.run.tune``
(``docs/adr/0009-tune-is-a-callable-package.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.core.callable_package import make_callable

if TYPE_CHECKING:
    from rankine.tune.gain_pruner import GainPruner
    from rankine.tune.result import TuningResult
    from rankine.tune.thompson import ThompsonSampler

__all__ = ["GainPruner", "ThompsonSampler", "TuningResult"]

_PUBLIC = {
    "GainPruner": "rankine.tune.gain_pruner",
    "ThompsonSampler": "rankine.tune.thompson",
    "TuningResult": "rankine.tune.result",
}

__getattr__ = make_callable(__name__, "rankine.tune.run:tune", _PUBLIC)
