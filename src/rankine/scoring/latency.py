"""How long a model takes to score an item, measured."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset


_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
#: Lists scored in one measurement, and measurements of which the fastest counts.
LISTS, REPEATS = 100, 5


def parse_latency(text: str) -> float:
    """Milliseconds of ``"0.009ms"``, ``"9us"`` or ``"0.009"``.

    Examples
    --------
    >>> parse_latency("0.009ms")
    0.009
    """
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(us|ms|s)?\s*", text)
    if found is None or float(found[1]) <= 0:
        raise ParameterError(f"cannot read the latency {text!r}", fix="Write it like 0.009ms")
    return float(found[1]) * _UNITS[found[2] or "ms"]


def scoring_latency(coef: NDArray[np.float64], data: Dataset) -> float:
    """Milliseconds an item, scoring list by list the features that the model needs.

    Features without a weight are left out beforehand, as a server does that fetches only the
    model's columns.
    """
    from rankine.model import LinearModel
    from rankine.scoring import Scorer

    kept = np.flatnonzero(coef)
    if len(kept) == 0:
        kept = np.zeros(1, dtype=np.int64)
    scorer = Scorer(LinearModel.from_weights(coef[kept]))
    lists = [data.X[data.queries.rows_of(q)][:, kept] for q in range(min(data.n_queries, LISTS))]
    lists = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x.tocsr() for x in lists]
    items = sum(x.shape[0] for x in lists)
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        for x in lists:
            scorer.score(x)
        best = min(best, time.perf_counter() - started)
    return best * 1e3 / max(items, 1)
