"""Warnings that point at the caller's line."""

from __future__ import annotations

import inspect
import warnings

from rankine.core.safe_text import mask_secrets


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside the package that led here, however deep the call is."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("rankine."):
        level, frame = level + 1, frame.f_back
    warnings.warn(mask_secrets(message), category, stacklevel=level)
