"""The interface between solvers and data, for rows in memory and for partitions.

    minimise  R(X w) + l1 |w|_1 + l2/2 |w|^2

R is a risk (``rankine.losses``): the sum or mean over all queries, with query and row weights
already in it. ``at_zero`` is R(0), which gaps are measured by. Solvers get *scores*, *slopes* and
*curvatures* from a problem and pass them back without looking into them:

* ``RowsProblem``, rows in memory: scores are p = Xw and slopes are dR/dp. A trial along a line then
  costs no product with X.
* ``Problem``, partitions: scores stay on the workers. The weights w represent the scores Xw, and
  the gradient X^T u represents the slopes u. Solvers only form linear combinations of scores, which
  can be formed from weights as well: a(Xv) + b(Xw) = X(av + bw), <u, Xd> = <X^T u, d>.

How a pair loss reaches Newton's method:

1. a file in ``losses/pairwise`` registers the loss with the class of its exact sum over pairs;
2. ``losses.pair_queries.pair_risk`` creates this sum, the risk, for a dataset and its weights;
3. ``RankSVM._problem`` wraps the risk in a ``RowsProblem`` (for partitions,
   ``distributed.partition_tasks.pair_problem`` builds one per partition and a ``Problem`` of them),
   and ``RankSVM._solver`` selects ``solve_newton`` because the loss is registered as smooth;
4. ``solve_newton`` calls ``evaluate_with_curvature``, ``gradient`` and ``curvature_times``, which
   multiply the slopes and the curvature of the risk by X.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import Dataset
from rankine.kernels.columns import column_variances
from rankine.kernels.products import Products
from rankine.kernels.rows import Rows
from rankine.kernels.shards import dot
from rankine.solvers.base import ResumePoint
from rankine.solvers.query_moments import QueryMoments, measure_queries

Vector = NDArray[np.float64]

#: ``coarsen`` keeps every STRIDE-th query or row.
STRIDE = 8
#: Data with fewer rows is not sampled: solving the whole problem is cheap enough.
MIN_ROWS = 32_000
#: With fewer queries, rows within queries are sampled instead of whole queries.
MIN_QUERIES = 64 * STRIDE


@dataclass(frozen=True)
class Penalty:
    """l1 |w|_1 + l2/2 |w|^2, for the solvers that accept l1."""

    l1: float
    l2: float

    def value(self, w: Vector) -> float:
        """Return the value at w."""
        # Not w @ w: BLAS uses threads for long vectors, so the bits depend on the number of cores,
        # and on a busy machine its threads wait for each other for longer than a sweep takes.
        return float(self.l1 * np.abs(w).sum() + 0.5 * self.l2 * np.square(w).sum())

    def lower_bound(self, dual: Callable[[float], float], slopes: Vector) -> float:
        """Return a lower bound of the optimum, the better one of two dual points.

        One point is the slopes scaled by the largest kappa <= 1 that satisfies the constraint of
        l1; the other is the slopes themselves, which needs l2 > 0. ``dual(kappa)`` is the dual of
        the risk at kappa times the slopes, without the penalties.
        """
        largest = float(np.abs(slopes).max(initial=0.0))
        kappa = 1.0 if largest <= self.l1 else self.l1 / largest
        best = dual(kappa)
        if self.l2 > 0.0 and kappa < 1.0:
            excess = np.maximum(np.abs(slopes) - self.l1, 0.0)
            with np.errstate(over="ignore"):  # infinity only makes this bound useless
                squares = float(np.square(excess).sum())
            best = max(best, dual(1.0) - squares / (2.0 * self.l2))
        return best


def no_resume(_solver: str) -> ResumePoint:
    """Return a resume point that saves nothing, as runs on rows in memory are short."""
    return ResumePoint()


class Problem:
    """The interface that solvers use, implemented here for partitioned rows.

    Weights represent scores, and gradients represent slopes. ``total(method, *arguments)`` calls a
    method of every partition's ``RowsProblem`` and returns the sums of the results, a tuple. The
    risk decides which methods are available:
    ``gradient_with_curvature``, ``curvature_product``, ``curvature_diagonal`` and ``smoothed`` for
    Newton's method, ``right_hand_side``, ``normal_product`` and ``quadratic_risk`` for least
    squares, ``dual`` for coordinate descent and quasi-Newton. ``resume_point(solver)`` returns the
    ``ResumePoint`` of a solver's loop.
    """

    resume_point: Callable[[str], ResumePoint] = staticmethod(no_resume)

    def __init__(
        self,
        total: Callable[..., Any],
        n_features: int,
        at_zero: float = 1.0,
        resume_point: Callable[[str], ResumePoint] = no_resume,
    ) -> None:
        self._total = total
        self.n_features = n_features
        self.at_zero = at_zero
        self.resume_point = resume_point

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Return R(Xw) and its (sub)gradient with respect to w."""
        value, gradient = self._total("value_and_gradient", w)
        return float(value), gradient

    def gradient_with_curvature(self, w: Vector) -> tuple[float, Vector]:
        """Return the same and keep the curvature at w for the products that follow."""
        value, gradient = self._total("gradient_with_curvature", w)
        return float(value), gradient

    def curvature_product(self, w: Vector, v: Vector) -> Vector:
        """Return X^T d2R/dp2 X v at the weights w."""
        return self._total("curvature_product", w, v)[0]

    def curvature_diagonal(self, w: Vector) -> Vector:
        """Return about the diagonal of X^T d2R/dp2 X at the weights w, see ``column_variances``."""
        return self._total("curvature_diagonal", w)[0]

    def smoothed(self, width: float) -> Problem:
        """Return a problem with a smooth risk R_s, R - width/2 at_zero <= R_s <= R."""
        total = partial(self._total, "call_smoothed", width)
        return Problem(total, self.n_features, self.at_zero, self.resume_point)

    def query_moments(self, w: Vector, width: float = 0.0) -> QueryMoments:
        """Return sums over queries for the covariance of the weights, see ``QueryMoments``."""
        return QueryMoments(*self._total("query_moments", w, width))

    def right_hand_side(self) -> Vector:
        """Return b of the quadratic risk w^T A w - 2 b^T w + constant."""
        return self._total("right_hand_side")[0]

    def normal_product(self, v: Vector) -> Vector:
        """Return A v of the quadratic risk."""
        return self._total("normal_product", v)[0]

    def quadratic_risk(self, w: Vector) -> float:
        """Return the quadratic risk at w."""
        return float(self._total("quadratic_risk", w)[0])

    def dual(self, w: Vector, kappa: float) -> float:
        """Return the dual at kappa times the slopes of w."""
        return float(self._total("dual", w, kappa)[0])

    # ------------------------------------------- scores, slopes and curvatures as solvers see them
    def scores(self, w: Vector) -> Vector:
        """Return the scores X w, represented by w."""
        return w

    def combine(self, a: float, p: Vector, b: float, q: Vector) -> Vector:
        """Return the scores a p + b q."""
        return a * p + b * q

    def slope_along(self, slopes: Vector, p: Vector) -> float:
        """Return the derivative of R in the direction whose scores are p."""
        return float(dot(slopes, p))

    def evaluate(self, scores: Vector) -> tuple[float, Vector]:
        """Return R and its slopes."""
        return self.value_and_gradient(scores)

    def evaluate_with_curvature(self, scores: Vector) -> tuple[float, Vector, Any]:
        """Return R, its slopes and its curvature."""
        value, slopes = self.gradient_with_curvature(scores)
        return value, slopes, scores

    def gradient(self, slopes: Vector) -> Vector:
        """Return the gradient X^T u of slopes u."""
        return slopes

    def curvature_times(self, curvature: Any, scores: Vector) -> Vector:
        """Return X^T d2R/dp2 p."""
        return self.curvature_product(curvature, scores)

    def curvature_scale(self, curvature: Any) -> Vector:
        """Return about the diagonal of X^T d2R/dp2 X."""
        return self.curvature_diagonal(curvature)

    def preconditioner(
        self,
        penalty: Any,
        curvature: Any,  # noqa: ARG002 - some problems use more than the diagonal
        scale: Vector,
    ) -> Any:
        """Return an object whose ``solve(b)`` returns about (K + X^T d2R/dp2 X)^-1 b.

        K is the curvature of the penalty, and ``scale`` the ``curvature_scale``.
        """
        return penalty.factor(scale)


class RowsProblem(Problem):
    """A risk of rows in memory: of all rows, or of one partition.

    ``risk`` is R as a function of scores: ``evaluate(scores)`` returns value and slopes by row;
    ``evaluate_with_curvature``, ``dual`` ... if its solvers need them. Results do not depend on the
    number of threads; None uses all that the machine offers. Every method that needs the sums of
    partitions is overridden, so the constructor of ``Problem`` is not called.
    """

    def __init__(self, rows: Rows, n_features: int, risk: Any, threads: int | None = None) -> None:
        self.n_features = n_features
        self.at_zero = float(getattr(risk, "at_zero", 1.0))
        self.products = Products(rows, n_features, threads)
        self.risk = risk
        self._last: tuple[Vector, Any] | None = None
        self._smoothed: tuple[float, RowsProblem] | None = None

    @classmethod
    def from_dataset(cls, data: Dataset, risk: Any, threads: int | None = None) -> RowsProblem:
        """Create the problem of a dataset and a risk of the same dataset."""
        return cls(data.rows, data.n_features, risk, threads)

    def with_risk(self, risk: Any) -> RowsProblem:
        """Return the problem of the same rows with another risk."""
        products = self.products
        return RowsProblem(products.rows, self.n_features, risk, products.threads)

    def scores(self, w: Vector) -> Vector:
        """Return X w."""
        return self.products.scores(w)

    def gradient(self, slopes: Vector) -> Vector:
        """Return X^T u."""
        return self.products.transpose_times(slopes)

    def score_columns(self, W: Vector) -> Vector:
        """Return X W, a column of scores for each column of weights."""
        return np.column_stack([self.scores(np.ascontiguousarray(w)) for w in W.T])

    def gradients(self, slopes: Vector) -> Vector:
        """Return X^T U, a gradient for each column of slopes."""
        return np.column_stack([self.gradient(np.ascontiguousarray(u)) for u in slopes.T])

    def evaluate(self, scores: Vector) -> tuple[float, Vector]:
        """Return R and dR/dp."""
        return self.risk.evaluate(scores)

    def evaluate_with_curvature(self, scores: Vector) -> tuple[float, Vector, Any]:
        """Return R, dR/dp and d2R/dp2."""
        return self.risk.evaluate_with_curvature(scores)

    def curvature_times(self, curvature: Any, scores: Vector) -> Vector:
        """Return X^T d2R/dp2 p."""
        return self.gradient(curvature.times(scores))

    def curvature_scale(self, curvature: Any) -> Vector:
        """Return about the diagonal of X^T d2R/dp2 X.

        ``risk.queries`` holds the rows of each query: the curvature of a risk of pairs is a matrix
        per query.
        """
        queries, products = self.risk.queries, self.products
        return column_variances(
            products.rows,
            queries.rows,
            queries.starts,
            len(products.sum_cuts) - 1,
            curvature.diagonal(),
            self.n_features,
            products.threads,
        )

    def smoothed(self, width: float) -> RowsProblem:
        """Return the problem of the same rows with a smooth risk."""
        # Kept, because every call for a partition names the width again (``call_smoothed``).
        if self._smoothed is None or self._smoothed[0] != width:
            self._smoothed = width, self.with_risk(self.risk.smoothed(width))
        return self._smoothed[1]

    # -------------------------------------- called by ``Problem`` on each partition, with weights
    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Return R and its gradient."""
        value, slopes = self.evaluate(self.scores(w))
        return value, self.gradient(slopes)

    def gradient_with_curvature(self, w: Vector) -> tuple[float, Vector]:
        """Return R and its gradient; keep the curvature for the products that usually follow."""
        value, slopes, curvature = self.evaluate_with_curvature(self.scores(w))
        self._last = w, curvature
        return value, self.gradient(slopes)

    def curvature_product(self, w: Vector, v: Vector) -> Vector:
        """Return X^T d2R/dp2 X v at the weights w."""
        return self.curvature_times(self._curvature(w), self.scores(v))

    def curvature_diagonal(self, w: Vector) -> Vector:
        """Return about the diagonal of X^T d2R/dp2 X at the weights w."""
        return self.curvature_scale(self._curvature(w))

    def call_smoothed(self, width: float, method: str, *weights: Vector) -> Any:
        """Call a method of the smoothed problem."""
        return getattr(self.smoothed(width), method)(*weights)

    def _curvature(self, w: Vector) -> Any:
        """Return d2R/dp2 at the weights w."""
        if self._last is None or not np.array_equal(self._last[0], w):
            self._last = w, self.evaluate_with_curvature(self.scores(w))[2]
        return self._last[1]

    def query_moments(self, w: Vector, width: float = 0.0) -> QueryMoments:
        """Return sums over queries for the covariance of the weights, see ``QueryMoments``."""
        return measure_queries(self.products, self.risk, self.scores(w), width)

    def right_hand_side(self) -> Vector:
        """Return b of the quadratic risk."""
        return self.gradient(self.risk.right_hand_side())

    def normal_product(self, v: Vector) -> Vector:
        """Return A v of the quadratic risk."""
        return self.risk.normal_product(self.products, v)

    def quadratic_risk(self, w: Vector) -> float:
        """Return the quadratic risk."""
        return float(self.risk.value(self.scores(w)))

    def dual(self, w: Vector, kappa: float) -> float:
        """Return the dual at kappa times the slopes of w."""
        return float(self.risk.dual(self.scores(w), kappa))


class NormalEquations:
    """(A + shift I) w = b, the optimum of a quadratic risk + shift |w|^2, by products alone.

    ``shift`` is l2/2: the risk is w^T A w - 2 b^T w + constant, without a factor 1/2.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.n_features = problem.n_features
        self.b = problem.right_hand_side()
        self.products = 0

    def times(self, v: Vector, shift: float = 0.0) -> Vector:
        """Return (A + shift I) v."""
        self.products += 1
        product = self.problem.normal_product(v)
        if shift:
            product = product + shift * v
        return product

    def objective(self, w: Vector, shift: float) -> float:
        """Return the risk + shift |w|^2."""
        return float(self.problem.quadratic_risk(w) + shift * dot(w, w))


def coarsen(data: Dataset, query_weight: Vector) -> tuple[Dataset, Vector] | None:
    """Return a sample of the data with its query weights, or None if the data is small.

    Training on every eighth query (or, if there are few queries, on every eighth row of each) costs
    an eighth per pass and ends near the optimum; from there the exact solver needs a few steps on
    all rows. The sample is a fixed stride, so nothing is random, and the result is exact for any
    start.
    """
    if data.n_rows < MIN_ROWS:
        return None
    index, usable = data.queries, data.labels.queries_with_pairs
    if len(usable) >= MIN_QUERIES:
        sampled = usable[::STRIDE]
        return data.take_queries(sampled), query_weight[sampled]
    within = np.arange(index.n_rows) - np.repeat(index.starts[:-1], index.sizes)
    positions = np.flatnonzero(within % STRIDE == 0)
    return data.take(index.rows_at(positions)), query_weight
