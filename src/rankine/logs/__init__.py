"""Raw logs: what users saw, clicked and bought, and how rankers learn from it.

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Public name -> module that holds it.
_PUBLIC = {
    "LogScan": "rankine.logs.scan",
    "estimate_propensity": "rankine.logs.propensity",
    "log_spec": "rankine.logs.scan",
    "read_for": "rankine.logs.scan",
    "scan_log": "rankine.logs.scan",
    "train_from_log": "rankine.logs.training",
}

__all__ = [
    "LogScan",
    "estimate_propensity",
    "log_spec",
    "read_for",
    "scan_log",
    "train_from_log",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rankine.logs' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
