"""Raw logs: what users saw, clicked and bought, and how rankers learn from it.

Names are imported on first use.
"""

from __future__ import annotations

from rankine.core.callable_package import import_on_use

#: Public name -> module that holds it (``simulate`` is a module that can be called).
_PUBLIC = {
    "LogScan": "rankine.logs.scan",
    "coec": "rankine.logs.clicks",
    "estimate_propensity": "rankine.logs.propensity",
    "log_spec": "rankine.logs.scan",
    "read_clicks": "rankine.logs.clicks",
    "read_for": "rankine.logs.scan",
    "scan_log": "rankine.logs.scan",
    "simulate": "rankine.logs.simulate",
    "train_from_log": "rankine.logs.training",
}

__all__ = [
    "LogScan",
    "coec",
    "estimate_propensity",
    "log_spec",
    "read_clicks",
    "read_for",
    "scan_log",
    "simulate",
    "train_from_log",
]

__getattr__ = import_on_use(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return list(__all__)
