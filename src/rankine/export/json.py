"""Export to plain JSON: all that a program in any language needs to score, at full precision."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rankine.core.specs import encode_transforms
from rankine.export.registry import Export, ExportOptions, register
from rankine.model import LinearModel


@register("json")
def export_json(model: LinearModel, options: ExportOptions) -> Export:
    """Write a JSON document with names or indices, weights, transforms, metric and digest."""
    return Export(
        json.dumps(build_document(model, options), indent=1, allow_nan=False).encode() + b"\n"
    )


def build_document(model: LinearModel, options: ExportOptions) -> dict[str, Any]:
    """Return all that scoring needs, as JSON data."""
    names = None
    if model.names is not None:
        names = list(model.weight_names)
    document: dict[str, Any] = {
        "format": "rankine-linear",
        "version": 1,
        "name": options.versioned(model),
        "digest": model.digest,
        "n_features": model.n_features,
        "base": model.base,
        "metric": model.metric,
        "transforms": encode_transforms(model.transforms),
        "indices": model.indices.tolist(),
        "names": names,
        "weights": model.values.tolist(),
    }
    if model.calibration is not None:
        document["calibration"] = msgspec.to_builtins(model.calibration)
    if model.missing is not None and model.feature_names is not None:
        # A missing value of a feature without a weight adds to the score too.
        document["missing_names"] = [model.feature_names[j] for j in model.missing.columns]
    return document
