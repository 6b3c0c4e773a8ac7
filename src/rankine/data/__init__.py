"""Data sets, streams, and the readers and writers of their files.

Names are imported on first use, so that formulas can be parsed without SciPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.core.lazy_import import lazy_attributes

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.data.expressions import tiers
    from rankine.data.query_index import LabelIndex, QueryIndex

#: Public name -> module that defines it.
_PUBLIC = {
    "Dataset": "rankine.data.dataset",
    "LabelIndex": "rankine.data.query_index",
    "QueryIndex": "rankine.data.query_index",
    "tiers": "rankine.data.expressions",
}

__all__ = ["Dataset", "LabelIndex", "QueryIndex", "tiers"]

__getattr__ = lazy_attributes(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return list(__all__)
