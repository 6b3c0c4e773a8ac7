"""Parameters and traces of a training as JSON types, for the model file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MAX_RECORDS = 64
TIMES = frozenset({"seconds", "compile_seconds", "time"})


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values to JSON types; a value that has none becomes the name of its type."""
    return {name: _plain_value(value) for name, value in values.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, (np.floating, np.integer, np.bool_)):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= 64 else f"array of shape {value.shape}"
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Sequence) and not getattr(value, "contexts", None):
        return [_plain_value(item) for item in value]
    if isinstance(value, dict):
        return plain({str(key): item for key, item in value.items()})
    return f"<{type(value).__name__}>"


def json_parameters(ranker: Any) -> dict[str, Any]:
    """Return the constructor parameters of a ranker as JSON types.

    The number of threads is left out: it changes no bit of a result, so it may change no digest.
    """
    parameters = ranker.get_params(deep=False)
    parameters.pop("n_threads", None)
    return plain(parameters)


def pack_trace(records: Sequence[Mapping[str, float]]) -> dict[str, list[float | int | None]]:
    """Pack records by column, small enough for the model file.

    At most 64 are kept, evenly spaced with the first and the last, six significant digits each;
    None where a record lacks a column or holds no finite number. Times are left out: equal
    trainings give equal files.

    Examples
    --------
    >>> pack_trace([{"step": 1, "objective": 0.123456789}, {"step": 2, "objective": 0.1}])
    {'step': [1, 2], 'objective': [0.123457, 0.1]}
    """
    numbers = np.linspace(0, len(records) - 1, min(len(records), MAX_RECORDS)).round().astype(int)
    thinned = [records[k] for k in dict.fromkeys(numbers.tolist())]
    names = dict.fromkeys(name for record in thinned for name in record if name not in TIMES)
    return {name: [_short(record.get(name)) for record in thinned] for name in names}


def _short(value: float | None) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    # Six digits keep the file small.
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
