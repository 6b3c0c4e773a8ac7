"""What the targets share: which models they can express, and weights as they write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rankine.core.errors import ExportError
from rankine.core.specs import ListRange

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__ = ["WeightTerm", "float32_terms", "named_terms", "require_features", "require_plain"]


class WeightTerm(NamedTuple):
    """A feature's name and its weight as text, shortest that reads back as the same number."""

    name: str
    weight: str


def require_features(model: LinearModel, target: str) -> None:
    """Refuse a model that reads raw columns: no engine runs its encoders."""
    for spec in model.transforms:
        if not isinstance(spec, ListRange):
            raise ExportError(
                f"{target} cannot run the transform {type(spec).__name__}, which makes this "
                "model's features from raw columns",
                fix="Serve the model with rankine serve, or train on features that the engine has",
            )


def require_plain(model: LinearModel, target: str) -> None:
    """Refuse what a weighted sum of stored features cannot express."""
    require_features(model, target)
    if model.transforms:
        raise ExportError(
            f"{target} scores one document at a time and cannot scale features within each list",
            fix="Train with scale='standard' or 'maxabs', which fold into the weights; or use "
            "rankine serve, or the python or json export",
        )


def named_terms(model: LinearModel, target: str) -> list[WeightTerm]:
    """Name and float64 weight of every non-zero weight."""
    if model.names is None:
        raise ExportError(
            f"{target} knows features by name and this model's have none",
            fix="Pass --feature-names FILE, one name a line",
        )
    return [
        WeightTerm(name, repr(weight))
        for name, weight in zip(model.weight_names, model.values.tolist(), strict=True)
    ]


def float32_terms(model: LinearModel, target: str) -> list[WeightTerm]:
    """Name and float32 weight of every weight that is not zero in float32."""
    terms = []
    with np.errstate(over="ignore"):
        narrow = model.values.astype(np.float32)
    for term, weight in zip(named_terms(model, target), narrow, strict=True):
        if not np.isfinite(weight):
            raise ExportError(
                f"{target} computes in float32, where the weight {term.weight} overflows",
                fix="Train on scaled features",
            )
        if weight != 0:
            terms.append(WeightTerm(term.name, _shortest(weight)))
    return terms


def _shortest(weight: np.float32) -> str:
    """Fewest digits that give the same float32, also when an engine parses them as float64."""
    text = str(weight)
    return text if np.float32(float(text)) == weight else repr(float(weight))
