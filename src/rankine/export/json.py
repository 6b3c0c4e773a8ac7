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
    return Export(json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")
