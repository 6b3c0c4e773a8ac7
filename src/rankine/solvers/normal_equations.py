"""(X^T L X + gamma I) w = X^T L y, by products alone.

X is never centred and never copied. A partition whose queries are all short reads each query's
rows once per product, for both directions, while they are in the processor's cache.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.shards import cut_by_weight, dot, map_shards, tree_sum
from rankine.solvers.pair_laplacian import PairLaplacian, normal_times
from rankine.solvers.summed_oracle import Partition, SummedOracle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankine.kernels.rows import Rows

__all__ = ["NormalEquations", "QuadraticPartition"]


@jit
def _normal_range(rows: Any, lap: Any, first: int, last: int, v: Any, out: Any) -> None:
    none = np.zeros(0)
    for q in range(first, last):
        normal_times(rows, lap, q, v, none, 1.0, out)


class QuadraticPartition(Partition):
    """Some rows, their labels, and the pair Laplacian of the queries they form."""

    def __init__(
        self,
        rows: Rows,
        n_features: int,
        y: NDArray[np.float64],
        laplacian: PairLaplacian,
        threads: int | None = None,
    ) -> None:
        super().__init__(rows, n_features, laplacian, threads)
        self.rows = rows
        self.y = y
        self.laplacian = laplacian
        self.threads = threads
        sums = len(self.products.sum_cuts) - 1
        self.query_cuts = cut_by_weight(laplacian.queries.starts, sums)
        sizes = np.diff(laplacian.queries.starts)
        # Shards of whole queries must share the work, or one long query would keep one thread.
        self.short = bool(len(sizes)) and int(sizes.max()) * 4 * sums <= int(sizes.sum())

    def target(self) -> NDArray[np.float64]:
        """X^T L y."""
        return self.transpose_times(self.laplacian.times(self.y))

    def spread(self, scores: NDArray[np.float64]) -> float:
        """(p - y)^T L (p - y)."""
        residual = scores - self.y
        return float(dot(residual, self.laplacian.times(residual)))

    def normal_times(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """X^T L X v."""
        if not self.short:
            return self.transpose_times(self.laplacian.times(self.scores(v)))
        shards = map_shards(
            lambda first, last: self.range_times(first, last, v), self.query_cuts, self.threads
        )
        total: NDArray[np.float64] = tree_sum(shards)
        return total

    def range_times(self, first: int, last: int, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """X^T L X v over queries ``first`` to ``last`` alone."""
        out = np.zeros(self.n_features)
        _normal_range(self.rows, self.laplacian.lap, first, last, v, out)
        return out

    def blocks(self, count: int) -> list[Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
        """Products with at most ``count`` blocks of queries, which add up to the whole."""
        cuts = cut_by_weight(self.laplacian.queries.starts, count).tolist()
        return [partial(self.range_times, a, b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


class NormalEquations(SummedOracle):
    """Products with A = X^T L X and the right-hand side b = X^T L y, summed over partitions."""

    def __init__(self, partitions: Sequence[Any]) -> None:
        super().__init__(partitions)
        self.b: NDArray[np.float64] = tree_sum(self.each("target"))
        self.products = 0

    def times(self, v: NDArray[np.float64], gamma: float = 0.0) -> NDArray[np.float64]:
        """(A + gamma I) v."""
        self.products += 1
        total: NDArray[np.float64] = tree_sum(self.each("normal_times", self.same(v)))
        return total + gamma * v if gamma else total

    def objective(self, w: NDArray[np.float64], gamma: float) -> float:
        """(Xw - y)^T L (Xw - y) + gamma |w|^2."""
        return float(tree_sum(self.each("spread", self.scores(w))) + gamma * dot(w, w))
