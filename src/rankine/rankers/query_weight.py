"""Weights of queries, however they were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.data.dataset import check_weight

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["resolve_query_weight"]


def resolve_query_weight(query_weight: Any, data: Dataset) -> NDArray[np.float64]:
    """One weight per query, in the order of ``data.queries.ids``."""
    index = data.queries
    if query_weight is None:
        return np.ones(index.n_queries)
    if isinstance(query_weight, dict):
        missing = [q for q in index.ids.tolist() if q not in query_weight]
        if missing:
            raise SchemaError(
                f"query_weight lacks query {missing[0]!r} (and {len(missing) - 1} more)",
                fix="Give every query a weight",
            )
        query_weight = [query_weight[q] for q in index.ids.tolist()]
    return check_weight(query_weight, index.n_queries)
