"""A digest of plain values and arrays: equal recipes have equal tokens in every process."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

__all__ = ["token_of"]


def token_of(*values: Any) -> str:
    """Digest of numbers, texts, arrays, None, and lists, tuples and mappings of these."""
    digest = hashlib.sha256()
    for value in values:
        _update(digest, value)
    return digest.hexdigest()


def _update(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, dict):
        digest.update(b"{")
        for key in sorted(value, key=str):
            _update(digest, key)
            _update(digest, value[key])
        digest.update(b"}")
    elif isinstance(value, (list, tuple)):
        digest.update(b"(")
        for item in value:
            _update(digest, item)
        digest.update(b")")
    else:
        digest.update(f"{type(value).__name__} {value!r};".encode())
