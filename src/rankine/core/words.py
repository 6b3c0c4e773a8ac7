"""Values that users type: JSON where it can be, numbers, words."""

from __future__ import annotations

from typing import Any

__all__ = ["read_value"]

_WORDS = {"none": None, "true": True, "false": False, "inf": float("inf")}


def read_value(text: str) -> Any:
    """A number, list, truth value, None or text.

    Examples
    --------
    >>> read_value("1e-3"), read_value("[1, 2]"), read_value("none"), read_value("romma")
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
