"""A model at a glance, for notebooks. Every name from outside is escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.html import Html, facts_table, join, listed, name_of, small_bar, tag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rankine.model.bundle import ModelBundle
    from rankine.model.linear import LinearModel

__all__ = ["bundle_html", "model_html", "weights_html"]

TOP = 8
_PLUS, _MINUS = "#2f6fab", "#c2570c"


def model_html(model: LinearModel) -> str:
    """Size, metric, ranker, digest and the heaviest weights."""
    rows: list[tuple[Any, Any]] = [
        ("weights", f"{model.nnz:,} of {model.n_features:,} features"),
        ("trained by", name_of(model.parameters.get("ranker") or "unknown", 60)),
        ("metric", name_of(model.metric or "unknown", 60)),
        ("transforms", ", ".join(type(spec).__name__ for spec in model.transforms) or "none"),
        ("heaviest weights", weights_html(model.weight_names, model.values)),
        ("digest", model.digest[:16]),
    ]
    return facts_table("rankine.LinearModel", rows)


def bundle_html(bundle: ModelBundle) -> str:
    """Number of models, shared features, the first topics."""
    rows: list[tuple[Any, Any]] = [
        ("models", f"{len(bundle):,}"),
        ("weights", f"{bundle.nnz:,} over {bundle.n_features:,} features"),
        ("topics", listed(bundle, TOP)),
        ("digest", bundle.digest[:16]),
    ]
    return facts_table("rankine.ModelBundle", rows)


def weights_html(names: Any, values: NDArray[np.float64], top: int = TOP) -> Html:
    """The heaviest of some weights, a bar each."""
    order = np.argsort(-np.abs(values), kind="stable")[:top].tolist()
    if not order:
        return join(["none"])
    largest = abs(float(values[order[0]]))
    lines = [
        [
            tag("br") if k else None,
            name_of(names[j], 40),
            f" {values[j]:+.4g} ",
            small_bar(abs(float(values[j])) / largest, _PLUS if values[j] > 0 else _MINUS),
        ]
        for k, j in enumerate(order)
    ]
    more = [tag("br"), f"and {len(values) - top:,} more"] if len(values) > top else None
    return join([lines, more])
