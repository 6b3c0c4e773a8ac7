"""Judge a model on clicks that favour what was shown on top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from rankine.core.errors import RankineError
from rankine.evaluation.counterfactual import Estimate, counterfactual
from rankine.logs.propensity import estimate_propensity
from rankine.reporting.evaluated import EvaluatedModel
from rankine.reporting.headline import Headline
from rankine.reporting.html import parts, sentences


@dataclass(frozen=True)
class PositionBias:
    """The model against the order as shown, corrected for positions where that is possible.

    Attributes
    ----------
    shown, model
        Reward of a list as shown, and its estimate for the model; None without propensities.
    source
        Where the propensities come from: ``"model"`` or ``"log"``; None if there are none.
    clicks
        Whether all labels are 0 or 1.
    reason
        Why there are no propensities, else "".
    """

    shown: Estimate | None
    model: Estimate | None
    source: str | None
    clicks: bool
    reason: str = ""


def position_bias(evaluated: EvaluatedModel) -> PositionBias | None:
    """Estimate the reward of the model's order; None for data without positions."""
    shown, data = evaluated.opponent("shown"), evaluated.data
    if shown is None:
        return None
    clicks = bool(np.isin(data.y, (0.0, 1.0)).all())
    schema = getattr(data.encoding, "schema", None)
    item, search = (getattr(schema, name, None) for name in ("item", "search"))
    log = {"qid": data.qid, "y": data.y, "position": data.position}
    log |= {name: data.columns[name] for name in (item, search) if name is not None}
    names: dict[str, Any] = {"query": "qid", "label": "y", "item": item, "search": search}
    propensity, source = evaluated.model.parameters.get("propensity"), "model"
    try:
        # Propensities by context have no single value for a position.
        if not isinstance(propensity, list):
            propensity, source = estimate_propensity(log, n_resamples=0, **names), "log"
        result = counterfactual(log, evaluated.scores, propensity=propensity, **names)
    except RankineError as error:
        return PositionBias(None, None, None, clicks, error.reason)
    return PositionBias(result.old, result.estimates[-1], source, clicks)


def position_note(bias: PositionBias | None, head: Headline) -> Markup | None:
    """Warn that clicks favour the order as shown where the model seems worse than it."""
    gain = 0.0
    for pair in head.pairs:
        if pair.a == "order as shown":
            gain = pair.difference if head.larger_is_better else -pair.difference
    if bias is None or gain >= 0:
        return None
    return parts.note(sentences.position_bias(bias))
