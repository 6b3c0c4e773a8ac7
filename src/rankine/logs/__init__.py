"""Raw logs: what users saw, clicked and bought, and how rankers learn from it.

Names are imported on first use.
"""

from __future__ import annotations

from rankine.core.lazy_import import lazy_attributes

#: Public name -> module that defines it.
_PUBLIC = {
    "LogScan": "rankine.logs.source",
    "LogSchema": "rankine.logs.schema",
    "apply_history": "rankine.logs.build",
    "build_history": "rankine.logs.build",
    "coec": "rankine.logs.clicks",
    "estimate_propensity": "rankine.logs.propensity",
    "propose_schema": "rankine.logs.schema",
    "read_clicks": "rankine.logs.clicks",
    "read_for": "rankine.logs.source",
    "read_schema": "rankine.logs.schema",
    "scan": "rankine.logs.source",
    "schema_of": "rankine.logs.schema",
    "simulate": "rankine.logs.simulation",
}

__all__ = [
    "LogScan",
    "LogSchema",
    "apply_history",
    "build_history",
    "coec",
    "estimate_propensity",
    "propose_schema",
    "read_clicks",
    "read_for",
    "read_schema",
    "scan",
    "schema_of",
    "simulate",
]

__getattr__ = lazy_attributes(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return list(__all__)
