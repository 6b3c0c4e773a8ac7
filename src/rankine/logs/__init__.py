"""Raw logs: what users saw, clicked and bought, and how rankers learn from it.

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Public name -> module that holds it (``simulate`` is a module that can be called).
_PUBLIC = {
    "coec": "rankine.logs.clicks",
    "estimate_propensity": "rankine.logs.propensity",
    "read_clicks": "rankine.logs.clicks",
    "simulate": "rankine.logs.simulate",
}

__all__ = [
    "coec",
    "estimate_propensity",
    "read_clicks",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rankine.logs' has no attribute {name!r}")
    module = importlib.import_module(_PUBLIC[name])
    return module if _PUBLIC[name] == f"rankine.logs.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return list(__all__)
