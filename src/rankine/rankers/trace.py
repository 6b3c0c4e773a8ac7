"""The trace of a training, small enough to travel inside the model file.

At most 64 records are kept, evenly spaced with the first and the last, six significant digits
each, by column::

    {"iteration": [1, 2, 4], "objective": [0.5, 0.31, 0.3]}

Times are left out: equal trainings give equal files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["packed_trace", "training_story"]

MAX_RECORDS = 64
_TIMES = frozenset({"seconds", "time"})


def training_story(ranker: Any) -> dict[str, Any]:
    """What a fitted ranker recorded: the solver's trace, and the metric on held-out data.

    Where a run reports depends on how a stream is cut, and a model file must not: one-pass
    learning tells its own story, at fixed numbers of lists.
    """
    if "story" in ranker.solution_.extra:
        story = packed_trace(ranker.solution_.extra["story"])
        return {"trace": story} if story else {}
    checks = [{key: row[key] for key in ("step", "value")} for row in getattr(ranker, "evals_", ())]
    records = {"trace": ranker.solution_.trace, "validation": checks}
    return {name: packed_trace(rows) for name, rows in records.items() if rows}


def packed_trace(records: Sequence[Mapping[str, float]]) -> dict[str, list[float | int | None]]:
    """Records by column; None where a record lacks a column or holds no finite number.

    Examples
    --------
    >>> packed_trace([{"step": 1, "objective": 0.123456789}, {"step": 2, "objective": 0.1}])
    {'step': [1, 2], 'objective': [0.123457, 0.1]}
    """
    places = np.linspace(0, len(records) - 1, min(len(records), MAX_RECORDS)).round().astype(int)
    kept = [records[k] for k in dict.fromkeys(places.tolist())]
    names = dict.fromkeys(name for record in kept for name in record if name not in _TIMES)
    return {name: [_short(record.get(name)) for record in kept] for name in names}


def _short(value: float | None) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
