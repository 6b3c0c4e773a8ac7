"""Measure how long a model takes to score an item."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset


_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
#: Number of lists scored in one measurement.
LISTS = 100
#: Number of measurements, of which the fastest counts: others measure the machine's other work.
REPEATS = 5


def parse_latency(text: str) -> float:
    """Parse a time such as ``"0.009ms"``, ``"9us"`` or ``"0.009"``; return milliseconds.

    Examples
    --------
    >>> parse_latency("0.009ms")
    0.009
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(us|ms|s)?\s*", text)
    if match is None or float(match[1]) <= 0:
        raise ParameterError(
            f"cannot read the latency {text!r}",
            fix="Write it like 0.009ms",
            parameter="max_latency",
        )
    return float(match[1]) * _MILLISECONDS[match[2] or "ms"]


def scoring_latency(coef: NDArray[np.float64], data: Dataset) -> float:
    """Measure the milliseconds per item of scoring list by list.

    Features without a weight are removed beforehand, as a server fetches only the model's columns.
    """
    from rankine.model import LinearModel
    from rankine.scoring import Scorer

    features = np.flatnonzero(coef)
    if len(features) == 0:
        features = np.zeros(1, dtype=np.int64)
    scorer = Scorer(LinearModel.from_weights(coef[features]))
    lists = []
    for q in range(min(data.n_queries, LISTS)):
        rows = data.X[data.queries.rows_of(q)][:, features]
        lists.append(np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows.tocsr())
    n_items = sum(x.shape[0] for x in lists)
    fastest = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        for x in lists:
            scorer.score(x)
        fastest = min(fastest, time.perf_counter() - started)
    return fastest * 1e3 / max(n_items, 1)
