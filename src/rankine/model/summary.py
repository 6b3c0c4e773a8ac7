"""What a model is, as plain data for ``rankine inspect`` and the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.specs import encode_transforms

if TYPE_CHECKING:
    from rankine.model.bundle import ModelBundle
    from rankine.model.linear import LinearModel

__all__ = ["bundle_summary", "summary"]


def summary(model: LinearModel, top: int = 20) -> dict[str, Any]:
    """Size, norms, the ``top`` heaviest weights, and how the model was trained."""
    order = np.argsort(-np.abs(model.values), kind="stable")[:top]
    names = model.weight_names
    return {
        "kind": "linear",
        "digest": model.digest,
        "n_features": model.n_features,
        "nnz": model.nnz,
        "zero_percent": round(100 * (1 - model.nnz / max(model.n_features, 1)), 3),
        "l1_norm": float(np.abs(model.values).sum()),
        "l2_norm": float(np.sqrt(np.square(model.values).sum())),
        "named": model.names is not None,
        "base": model.base,
        "metric": model.metric,
        "transforms": encode_transforms(model.transforms),
        "probes": 0 if model.probes is None else len(model.probes.rows),
        "parameters": dict(model.parameters),
        "provenance": dict(model.provenance),
        "top_weights": [
            {"name": names[k], "index": int(model.indices[k]), "weight": float(model.values[k])}
            for k in order.tolist()
        ],
    }


def bundle_summary(bundle: ModelBundle, top: int = 20) -> dict[str, Any]:
    """Size of a bundle and of its first ``top`` topics."""
    sizes = np.diff(bundle.starts).tolist()
    return {
        "kind": "bundle",
        "digest": bundle.digest,
        "n_features": bundle.n_features,
        "n_topics": len(bundle),
        "nnz": bundle.nnz,
        "named": bundle.names is not None,
        "base": bundle.base,
        "metric": bundle.metric,
        "transforms": encode_transforms(bundle.transforms),
        "parameters": dict(bundle.parameters),
        "provenance": dict(bundle.provenance),
        "topics": [
            {"topic": topic, "nnz": nnz}
            for topic, nnz in zip(bundle.topics.strings[:top], sizes[:top], strict=True)
        ],
    }
