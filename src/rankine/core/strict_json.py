"""Values as text: JSON without surprises, and what users type.

One canonical text per value, and nothing lenient on the way in.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np


def canonical_json(value: Any) -> str:
    """The one text of a value: sorted keys, no spaces, ASCII only, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def parse_json_strictly(text: str | bytes) -> Any:
    """Parse JSON; ValueError for duplicate keys, NaN, infinity, bad Unicode.

    Nesting beyond the interpreter's limit is a RecursionError, never a crash.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    value = json.loads(
        text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
    )
    if "\\ud" in text.lower():  # escapes of surrogates, which must come in pairs
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def to_json_value(value: Any) -> Any:
    """A value as JSON can hold it: numpy scalars unwrapped, tuples listed, the rest described."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {to_json_value(str(key)): to_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(item) for item in value]
    if isinstance(value, np.ndarray):
        return (
            to_json_value(value.tolist()) if value.size <= 64 else f"array of shape {value.shape}"
        )
    return f"<{type(value).__name__}>"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate keys")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number {text[:20]} overflows")
    return value


_WORDS = {"none": None, "true": True, "false": False, "inf": float("inf")}


def parse_value(text: str) -> Any:
    """A number, list, truth value, None or text.

    Examples
    --------
    >>> parse_value("1e-3"), parse_value("[1, 2]"), parse_value("none"), parse_value("romma")
    (0.001, [1, 2], None, 'romma')
    """
    import msgspec

    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        pass
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        return text
