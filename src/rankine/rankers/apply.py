"""Data as a saved model reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.core.specs import LogColumns

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__ = ["read_for"]


def read_for(model: LinearModel, path: Any, *, stream: bool = False, **options: Any) -> Any:
    """Data as a model reads it: a ``Dataset``, or a stream of them.

    A model of a raw log reads its own columns, encoded as in training; its query column and label
    formula stand in for the defaults ``query="qid"`` and ``label="label"``. Other models read
    files as ``rankine.load`` and ``rankine.scan`` do, with the width and index base of the model.
    """
    spec = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if spec is None:
        from rankine.data.open import load, scan

        options = {"base": model.base, **options}
        if model.column_names is None:
            options = {"n_features": model.n_columns, **options}
        return scan(path, **options) if stream else load(path, **options)
    from rankine.rankers.log_data import scan_log_of

    log = scan_log_of(model.parameters.get("log", {}), spec, path, **options)
    return log if stream else log.load()
