"""Why a row has its score, and why one row stands above another: exactly.

A linear score is a sum, so its explanation is the sum's terms::

    f(x)         = sum_j w_j x_j
    f(a) - f(b)  = sum_j w_j (a_j - b_j)

Each term is the float64 product of the stored weight with the value (or with the difference of the
two values), and the total is ``math.fsum`` of the terms: the correctly rounded sum, the same for
any order of the terms. A scorer adds the same products in another order, so that its score may
differ in the last digits.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rankine.core.errors import ModelError, SchemaError
from rankine.model.linear import LinearModel
from rankine.model.rows import row_values

__all__ = ["Contribution", "Explanation", "contributions_at", "explain", "explain_pair"]


@dataclass(frozen=True, slots=True)
class Contribution:
    """One term: ``contribution = weight * value``, or ``weight * (value - other)`` in a pair."""

    name: str
    index: int
    weight: float
    value: float
    other: float | None
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """Terms of a score or of a difference of scores.

    Attributes
    ----------
    total
        ``math.fsum`` of the contributions: the score, or score of a minus score of b.
    contributions
        Non-zero terms, largest magnitude first; equal magnitudes in feature order.
    pair
        Whether this compares two rows.
    """

    total: float
    contributions: tuple[Contribution, ...]
    pair: bool = False

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Plain data for JSON; ``rest`` is the sum of the contributions beyond ``limit``."""
        shown = self.contributions[:limit]
        rest = self.contributions[len(shown) :]
        terms = [asdict(term) for term in shown]
        if not self.pair:
            for term in terms:
                del term["other"]
        return {
            "total": self.total,
            "pair": self.pair,
            "contributions": terms,
            "rest": math.fsum(term.contribution for term in rest),
            "rest_count": len(rest),
        }

    def text(self, limit: int | None = 10) -> str:
        """Plain table, safe to print whatever the features are called."""
        from rankine.model.render import explanation_text

        return explanation_text(self, limit)

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> Any:
        from rankine.model.render import explanation_table

        return explanation_table(self)


def explain(model: LinearModel, x: Any, *, transformed: bool = False) -> Explanation:
    """Contributions w_j x_j to the score of one row.

    Parameters
    ----------
    x
        Dense row, sparse row, or dictionary of named features.
    transformed
        The row has already gone through the model's transforms. A model that scales each list
        cannot explain a row without its list: ``Scorer.explain`` does that.
    """
    _check_plain(model, transformed)
    values = row_values(model, x)
    return contributions_at(model, values, None)


def explain_pair(model: LinearModel, a: Any, b: Any, *, transformed: bool = False) -> Explanation:
    """Contributions w_j (a_j - b_j) to the difference of two scores: why a stands above b."""
    _check_plain(model, transformed)
    return contributions_at(model, row_values(model, a), row_values(model, b))


def contributions_at(model: LinearModel, values: Any, others: Any) -> Explanation:
    """Explain values that already stand at the positions of the weights."""
    with np.errstate(over="ignore"):
        gap = values if others is None else values - others
        terms = model.values * gap
    if not np.isfinite(terms).all():
        raise SchemaError(
            "a contribution is beyond the floating-point numbers", fix="Scale the features"
        )
    kept = np.flatnonzero(terms)
    kept = kept[np.argsort(-np.abs(terms[kept]), kind="stable")]
    contributions = tuple(
        Contribution(
            model.weight_names[k],
            int(model.indices[k]),
            float(model.values[k]),
            float(values[k]),
            None if others is None else float(others[k]),
            float(terms[k]),
        )
        for k in kept.tolist()
    )
    total = math.fsum(term.contribution for term in contributions)
    return Explanation(total, contributions, others is not None)


def _check_plain(model: LinearModel, transformed: bool) -> None:
    if model.transforms and not transformed:
        kinds = ", ".join(type(spec).__name__ for spec in model.transforms)
        raise ModelError(
            f"this model transforms rows before its weights ({kinds})",
            fix="Use Scorer(model).explain(rows, i), which runs the transforms on the whole list",
        )
