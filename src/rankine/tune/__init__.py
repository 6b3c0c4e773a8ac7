"""Tuning: ``rankine.tune(data, ranker=...)``, and the sampler behind it.

The package is also the function: calling it runs ``rankine.tune.run.tune``
(``docs/adr/0009-tune-is-a-callable-package.md``).
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankine.tune.result import TuningResult
    from rankine.tune.thompson import ThompsonSampler

__all__ = ["ThompsonSampler", "TuningResult"]

_PUBLIC = {"ThompsonSampler": "rankine.tune.thompson", "TuningResult": "rankine.tune.result"}


class _CallablePackage(ModuleType):
    """A module that can be called."""

    def __call__(self, *arguments: Any, **options: Any) -> TuningResult:
        """Tune a ranker; see ``rankine.tune.run.tune``."""
        from rankine.tune.run import tune

        return tune(*arguments, **options)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rankine.tune' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


sys.modules[__name__].__class__ = _CallablePackage
