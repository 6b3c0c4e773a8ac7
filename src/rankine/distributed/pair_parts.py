"""Partitions of the pairwise risks and of pairwise least squares, as functions of the weights.

The local solvers hand scores and curvatures back to the partition they came from. A task has no
memory, so here every question carries the weights, and the scores are computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.distributed.answer import Answer
from rankine.distributed.token import token_of
from rankine.solvers.normal_equations import QuadraticPartition
from rankine.solvers.pair_laplacian import LaplacianTotals, PairLaplacian
from rankine.solvers.pair_queries import PairQueries, PairTotals, pair_scale
from rankine.solvers.pair_risk import LOSSES
from rankine.solvers.summed_oracle import Partition

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.transforms.scaling import Scaling

__all__ = ["RiskRecipe", "SquaresRecipe", "scaling_token"]


def scaling_token(scaling: Scaling) -> str:
    """Digest of a scaling."""
    return token_of(scaling.kind, scaling.factors)


class RiskRecipe(NamedTuple):
    """Pairs of the queries of a partition, weighted as in the whole of ``totals``."""

    loss: str
    normalization: str
    oracle: str
    totals: PairTotals
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("risk", *self[:4], scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> RiskPart:  # noqa: ARG002
        """The partition."""
        return RiskPart(self.scaling.apply(data), self, threads)


class RiskPart:
    """Risk, gradient and curvature of the queries of a partition, at given weights."""

    def __init__(self, data: Dataset, recipe: RiskRecipe, threads: int | None) -> None:
        queries = PairQueries.build(data)
        omega = pair_scale(recipe.normalization, recipe.totals, queries)
        risk = LOSSES[recipe.loss](queries, omega, recipe.oracle, threads)
        self.partition = Partition(data.rows, data.n_features, risk, threads)
        self._last: tuple[NDArray[np.float64], Any] | None = None

    def risk(self, w: NDArray[np.float64]) -> Answer:
        """R and its gradient."""
        value, slope = self.partition.evaluate(self.partition.scores(w))
        return Answer((value, self.partition.transpose_times(slope)))

    def curved_risk(self, w: NDArray[np.float64]) -> Answer:
        """R and its gradient; the active pairs are kept for the products that usually follow."""
        value, slope, curvature = self.partition.evaluate_curved(self.partition.scores(w))
        self._last = w, curvature
        return Answer((value, self.partition.transpose_times(slope)))

    def curvature_times(self, w: NDArray[np.float64], v: NDArray[np.float64]) -> Answer:
        """X^T d2R/dp2 X v at the weights w."""
        scores = self.partition.scores(v)
        return Answer((self.partition.curvature_times(self._curvature(w), scores),))

    def curvature_scale(self, w: NDArray[np.float64]) -> Answer:
        """About the diagonal of X^T d2R/dp2 X at the weights w."""
        return Answer((self.partition.curvature_scale(self._curvature(w)),))

    def _curvature(self, w: NDArray[np.float64]) -> Any:
        last = self._last
        if last is not None and np.array_equal(last[0], w):
            return last[1]
        curvature = self.partition.evaluate_curved(self.partition.scores(w))[2]
        self._last = w, curvature
        return curvature


class SquaresRecipe(NamedTuple):
    """Pairwise least squares over the queries of a partition, weighted as in ``totals``."""

    normalization: str
    pairs: str
    totals: LaplacianTotals
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("squares", *self[:3], scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> SquaresPart:  # noqa: ARG002
        """The partition."""
        return SquaresPart(self.scaling.apply(data), self, threads)


class SquaresPart:
    """Products with X^T L X of a partition."""

    def __init__(self, data: Dataset, recipe: SquaresRecipe, threads: int | None) -> None:
        laplacian = PairLaplacian(PairQueries.build(data), recipe.pairs, threads)
        laplacian.normalise(recipe.normalization, recipe.totals)
        self.partition = QuadraticPartition(data.rows, data.n_features, data.y, laplacian, threads)

    def target(self) -> Answer:
        """X^T L y."""
        return Answer((self.partition.target(),))

    def normal_times(self, v: NDArray[np.float64]) -> Answer:
        """X^T L X v."""
        return Answer((self.partition.normal_times(v),))

    def spread(self, w: NDArray[np.float64]) -> Answer:
        """(Xw - y)^T L (Xw - y)."""
        return Answer((self.partition.spread(self.partition.scores(w)),))
