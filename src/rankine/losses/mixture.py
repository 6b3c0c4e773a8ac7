"""Mixtures of risks of the same rows: R(p) = sum_k b_k R_k(p), for several goals.

Every R_k is a function of the scores, so a mixture needs one product with X for all goals.
``mix_risks`` returns R_k itself where only b_k > 0: the fit to a mixture with one goal is the fit
to this goal, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.data.query_index import QueryIndex
from rankine.kernels.products import Products

Vector = NDArray[np.float64]


class QueryRows(NamedTuple):
    """Rows of every query, for column variances: query q has rows[starts[q]:starts[q + 1]]."""

    rows: NDArray[np.uint32]
    starts: NDArray[np.int64]


def mix_risks(risks: Sequence[Any], weights: Vector, queries: QueryIndex) -> Any:
    """Return sum_k b_k R_k; ``queries`` are those of all rows."""
    used = [k for k in range(len(risks)) if weights[k] > 0.0]
    if len(used) == 1 and weights[used[0]] == 1.0:
        return risks[used[0]]
    rows = QueryRows(queries.rows_at(np.arange(queries.n_rows)).astype(np.uint32), queries.starts)
    return MixedRisk([risks[k] for k in used], [float(weights[k]) for k in used], rows)


class MixedRisk:
    """sum_k b_k R_k as a function of the scores.

    It has the methods that all of its risks have: values and slopes; curvatures and smoothing for
    Newton's method; the normal operator for least squares.
    """

    def __init__(self, risks: Sequence[Any], weights: Sequence[float], queries: QueryRows) -> None:
        self.risks = risks
        self.weights = weights
        self.queries = queries

    @property
    def at_zero(self) -> float:
        """The risk at scores of 0."""
        return self._sum(lambda risk: risk.at_zero)

    def _sum(self, part: Callable[[Any], Any]) -> Any:
        """Return sum_k b_k part(R_k)."""
        total = self.weights[0] * part(self.risks[0])
        for weight, risk in zip(self.weights[1:], self.risks[1:], strict=True):
            total = total + weight * part(risk)
        return total

    def evaluate(self, scores: Vector) -> tuple[float, Vector]:
        """Return R and dR/dp."""
        value, slopes = 0.0, np.zeros(len(scores))
        for weight, risk in zip(self.weights, self.risks, strict=True):
            part_value, part_slopes = risk.evaluate(scores)
            value += weight * part_value
            slopes += weight * part_slopes
        return value, slopes

    def evaluate_with_curvature(self, scores: Vector) -> tuple[float, Vector, MixedCurvature]:
        """Return R, dR/dp and d2R/dp2."""
        value, slopes, curvatures = 0.0, np.zeros(len(scores)), []
        for weight, risk in zip(self.weights, self.risks, strict=True):
            part_value, part_slopes, curvature = risk.evaluate_with_curvature(scores)
            value += weight * part_value
            slopes += weight * part_slopes
            curvatures.append(curvature)
        return value, slopes, MixedCurvature(curvatures, self.weights)

    def smoothed(self, width: float) -> MixedRisk:
        """Return the mixture of the smoothed risks."""
        return MixedRisk([risk.smoothed(width) for risk in self.risks], self.weights, self.queries)

    def right_hand_side(self) -> Any:
        """Return L y of the quadratic risk."""
        return self._sum(lambda risk: risk.right_hand_side())

    def normal_product(self, products: Products, v: Vector) -> Vector:
        """Return X^T L X v of the quadratic risk."""
        return self._sum(lambda risk: risk.normal_product(products, v))

    def value(self, scores: Vector) -> float:
        """Return the quadratic risk."""
        return float(self._sum(lambda risk: risk.value(scores)))


@dataclass(frozen=True, eq=False)
class MixedCurvature:
    """d2R/dp2 of a mixture at fixed scores."""

    curvatures: Sequence[Any]
    weights: Sequence[float]

    def times(self, values: Vector) -> Vector:
        """Return the product with a vector in row order."""
        return self._sum(lambda curvature: curvature.times(values))

    def diagonal(self) -> Vector:
        """Return the diagonal, in row order."""
        return self._sum(lambda curvature: curvature.diagonal())

    def _sum(self, part: Callable[[Any], Vector]) -> Vector:
        total = self.weights[0] * part(self.curvatures[0])
        for weight, curvature in zip(self.weights[1:], self.curvatures[1:], strict=True):
            total += weight * part(curvature)
        return total
