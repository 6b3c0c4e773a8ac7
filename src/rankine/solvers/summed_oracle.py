"""Risk and gradient as sums over parts of the data.

Batch solvers need no more than "value and (sub)gradient summed over queries". A *partition* holds
some rows and the queries they form; it answers for itself. ``SummedOracle`` asks every partition
and adds the answers by halves in a fixed order. Scores, slopes and curvatures stay where their
rows are: a solver passes them back as opaque lists, one entry per partition, so that a
distributed oracle only has to override ``each`` to ask partitions elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.columns import column_variances
from rankine.kernels.products import Products
from rankine.kernels.shards import cut_by_weight, dot, tree_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.kernels.rows import Rows

__all__ = ["Curvature", "Partition", "ScoreRisk", "SummedOracle"]

#: One entry per partition; what an entry is, only its partition knows.
Parts = list[Any]


class Curvature(Protocol):
    """Second derivative of a risk at some scores."""

    def times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """d2R/dp2 v."""


class ScoreRisk(Protocol):
    """Risk of one partition as a function of its scores."""

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """R and a subgradient dR/dp."""


class CurvedRisk(ScoreRisk, Protocol):
    """A risk that also knows its curvature."""

    def evaluate_curved(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], Curvature]:
        """R, dR/dp and d2R/dp2."""


class Partition:
    """Some rows with the risk of the queries they form."""

    def __init__(self, rows: Rows, n_features: int, risk: Any, threads: int | None = None) -> None:
        self.products = Products(rows, n_features, threads)
        self.n_features = n_features
        self.risk = risk

    def scores(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """p = X w."""
        return self.products.scores(w)

    def transpose_times(self, slope: NDArray[np.float64]) -> NDArray[np.float64]:
        """X^T u."""
        return self.products.transpose_times(slope)

    def blend(
        self, a: float, p: NDArray[np.float64], b: float, q: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """a p + b q."""
        return a * p + b * q

    def dot(self, p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
        """<p, q>."""
        return float(dot(p, q))

    def evaluate(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """R and dR/dp."""
        answer: tuple[float, NDArray[np.float64]] = self.risk.evaluate(scores)
        return answer

    def evaluate_curved(
        self, scores: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], Curvature]:
        """R, dR/dp and d2R/dp2."""
        answer: tuple[float, NDArray[np.float64], Curvature] = self.risk.evaluate_curved(scores)
        return answer

    def curvature_times(self, curvature: Curvature, scores: NDArray[np.float64]) -> Any:
        """X^T d2R/dp2 p."""
        return self.transpose_times(curvature.times(scores))

    def curvature_scale(self, curvature: Any) -> NDArray[np.float64]:
        """About the diagonal of X^T d2R/dp2 X (see ``kernels.moments``)."""
        queries, products = self.risk.queries, self.products
        return column_variances(
            products.rows,
            queries.rows,
            queries.starts,
            cut_by_weight(queries.starts, len(products.sum_cuts) - 1),
            curvature.degrees(),
            self.n_features,
            products.threads,
        )


class SummedOracle:
    """A problem of several partitions, asked as one."""

    def __init__(self, partitions: Sequence[Any], at_zero: float = 1.0) -> None:
        self.partitions = list(partitions)
        self.n_features = int(self.partitions[0].n_features)
        #: R(0), which gaps are measured by.
        self.at_zero = at_zero

    def each(self, method: str, *arguments: Parts) -> Parts:
        """Call a method of every partition with its entries of ``arguments``."""
        return [
            getattr(partition, method)(*own)
            for partition, *own in zip(self.partitions, *arguments, strict=True)
        ]

    def same(self, value: Any) -> Parts:
        """The same argument for every partition."""
        return [value] * len(self.partitions)

    def scores(self, w: NDArray[np.float64]) -> Parts:
        """X w, left with its rows."""
        return self.each("scores", self.same(w))

    def blend(self, a: float, p: Parts, b: float, q: Parts) -> Parts:
        """a p + b q."""
        return self.each("blend", self.same(a), p, self.same(b), q)

    def dot(self, p: Parts, q: Parts) -> float:
        """<p, q> over all rows."""
        return float(tree_sum(self.each("dot", p, q)))

    def evaluate(self, scores: Parts) -> tuple[float, Parts]:
        """R and dR/dp."""
        answers = self.each("evaluate", scores)
        return float(tree_sum([value for value, _ in answers])), [slope for _, slope in answers]

    def evaluate_curved(self, scores: Parts) -> tuple[float, Parts, Parts]:
        """R, dR/dp and the curvature."""
        answers = self.each("evaluate_curved", scores)
        values, slopes, curvatures = zip(*answers, strict=True)
        return float(tree_sum(list(values))), list(slopes), list(curvatures)

    def gradient(self, slopes: Parts) -> NDArray[np.float64]:
        """X^T u summed over all partitions."""
        total: NDArray[np.float64] = tree_sum(self.each("transpose_times", slopes))
        return total

    def curvature_times(self, curvatures: Parts, scores: Parts) -> NDArray[np.float64]:
        """X^T d2R/dp2 p summed over all partitions."""
        total: NDArray[np.float64] = tree_sum(self.each("curvature_times", curvatures, scores))
        return total

    def curvature_scale(self, curvatures: Parts) -> NDArray[np.float64]:
        """About the diagonal of X^T d2R/dp2 X, summed over all partitions."""
        total: NDArray[np.float64] = tree_sum(self.each("curvature_scale", curvatures))
        return total
