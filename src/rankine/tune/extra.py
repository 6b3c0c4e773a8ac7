"""The optional dependency of tuning."""

from __future__ import annotations

from typing import Any

from rankine.core.errors import MissingExtraError

__all__ = ["import_optuna"]


def import_optuna() -> Any:
    """The optuna module, or an error that says what to install."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("tuning needs Optuna", fix="Install rankine[tune]") from error
    return optuna
