"""Write JSON in one canonical form, parse it strictly, and parse values that users type."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

#: Levels of nesting that are accepted. Python has a limit too, but since 3.14 it is the size of the
#: stack, so that a small text could take many times its memory.
MAX_NESTING = 200
_TEXT_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)


def canonical_json(value: Any) -> str:
    """Write a value as JSON with sorted keys, no spaces, ASCII only and no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def parse_json_strictly(text: str | bytes) -> Any:
    """Parse JSON; duplicate keys, NaN, infinity, bad Unicode and deep nesting raise ValueError."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    _check_nesting(text)
    value = json.loads(
        text,
        object_pairs_hook=_without_duplicates,
        parse_constant=_reject_constant,
        parse_float=_finite_number,
    )
    # Python accepts the escape of half a surrogate pair, which is no character.
    if "\\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def to_json_value(value: Any) -> Any:
    """Convert a value to JSON types; describe in a few words what JSON cannot represent."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return str(value)
    if isinstance(value, dict):
        return {to_json_value(str(key)): to_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(item) for item in value]
    if isinstance(value, np.ndarray):
        if value.size > 64:
            return f"array of shape {value.shape}"
        return to_json_value(value.tolist())
    return f"<{type(value).__name__}>"


def _check_nesting(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_NESTING:
        return
    depth = 0
    for token in _TEXT_OR_BRACKET.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > MAX_NESTING:
                raise ValueError(f"nested more than {MAX_NESTING} levels deep")
        elif token[0] in "]}":
            depth -= 1


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate keys")
    return result


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number {text[:20]} overflows")
    return value


#: What a list, mapping or quoted text of Python starts with.
_OPENING = ("[", "(", "{", "'", '"')
_CONSTANTS = {"none": None, "true": True, "false": False, "inf": float("inf")}


def parse_value(text: str) -> Any:
    """Parse text that a user typed: a JSON or Python value, or the text itself.

    Examples
    --------
    >>> parse_value("1e-3"), parse_value("[1, 2]"), parse_value("none"), parse_value("romma")
    (0.001, [1, 2], None, 'romma')
    >>> parse_value("[('price', 'brand')]"), parse_value("True")
    ([('price', 'brand')], True)
    """
    import ast

    import msgspec

    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    # JSON covers numbers, lists and quoted text; what is not JSON may be a number such as +7.
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        pass
    try:
        if text.lstrip("+-").isdigit():
            return int(text)
        return float(text)
    except ValueError:
        pass
    if not text.startswith(_OPENING):
        return text
    # Literals only: no name is looked up and nothing is called.
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text
