"""Parameters and findings as plain data, for model files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["plain", "plain_parameters"]


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON-able form of parameters; what cannot be written is named, not dropped."""
    return {name: _plain_value(value) for name, value in values.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, (np.floating, np.integer, np.bool_)):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= 64 else f"array of shape {value.shape}"
    if isinstance(value, (list, tuple)):
        return [_plain_value(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return plain({str(key): item for key, item in value.items()})
    return f"<{type(value).__name__}>"


def plain_parameters(ranker: Any) -> dict[str, Any]:
    """Constructor parameters of a ranker in JSON-able form.

    The number of threads is left out: it changes no bit of a result, so it may change no digest.
    """
    chosen = ranker.get_params(deep=False)
    return plain({name: value for name, value in chosen.items() if name != "n_threads"})
