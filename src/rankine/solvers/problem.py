"""One problem for rows in memory and for partitions: what solvers ask.

    minimise  R(X w) + l1 |w|_1 + l2/2 |w|^2

R is the risk of all queries, already scaled (a mean or a sum, as the risk says); ``at_zero`` is
R(0), which gaps are measured by. A solver holds *scores*, *slopes* and *curvatures* without looking
into them and passes them back:

* rows in memory keep the scores p = Xw themselves, so a trial along a line costs no product with X;
* partitions keep nothing between questions, and their scores are left where the rows are: what
  stands for the scores of w is w, and for slopes the gradient. Everything a solver does with scores
  is linear, so it can be done with weights: a(Xv) + b(Xw) = X(av + bw), <u, Xd> = <X^T u, d>.

A partition is a ``RowsProblem`` as well; ``Problem`` adds what all of them answer.
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

Vector = NDArray[np.float64]

#: ``coarsen`` keeps one in so many queries or rows.
STRIDE = 8
#: Below this many rows the whole problem is cheap enough.
MIN_ROWS = 32_000
#: Queries needed to sample whole queries rather than rows within them.
MIN_QUERIES = 64 * STRIDE


@dataclass(frozen=True)
class Penalty:
    """l1 |w|_1 + l2/2 |w|^2."""

    l1: float
    l2: float

    def value(self, w: Vector) -> float:
        """Value at w.

        Not ``w @ w``: BLAS threads long vectors, so its bits depend on the number of cores, and
        on a busy machine its threads wait for each other for longer than a sweep takes.
        """
        return float(self.l1 * np.abs(w).sum() + 0.5 * self.l2 * np.square(w).sum())

    def lower_bound(self, dual: Callable[[float], float], slopes: Vector) -> float:
        """The best of two dual points: slopes as they are (needs l2), and shrunk until l1 holds.

        ``dual(kappa)`` is the dual of the risk at kappa times the slopes, without the penalties.
        """
        largest = float(np.abs(slopes).max(initial=0.0))
        kappa = 1.0 if largest <= self.l1 else self.l1 / largest
        best = dual(kappa)
        if self.l2 > 0.0 and kappa < 1.0:
            excess = np.maximum(np.abs(slopes) - self.l1, 0.0)
            with np.errstate(over="ignore"):  # no bound at all
                pull = float(np.square(excess).sum())
            best = max(best, dual(1.0) - pull / (2.0 * self.l2))
        return best


def no_resume(_solver: str) -> ResumePoint:
    """A resume point that keeps nothing: rows in memory are soon asked again."""
    return ResumePoint()


class Problem:
    """A risk whose rows lie in partitions; weights stand for scores and gradients for slopes.

    ``total(question, *arguments)`` is a tuple: the sums of what every partition's ``RowsProblem``
    answers. Which of ``gradient_with_curvature``, ``curvature_product``, ``curvature_diagonal``,
    ``smoothed`` (Newton), ``right_hand_side``, ``normal_product``, ``quadratic_risk`` (least squares) and ``dual``
    (coordinate and quasi-Newton methods) have an answer depends on the risk. ``resume_point(solver)``
    keeps where the loop of a solver stands, and knows where an interrupted run stood.
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
        """R(Xw) and its (sub)gradient by w."""
        value, gradient = self._total("value_and_gradient", w)
        return float(value), gradient

    def gradient_with_curvature(self, w: Vector) -> tuple[float, Vector]:
        """The same where products with the curvature at w will be asked for next."""
        value, gradient = self._total("gradient_with_curvature", w)
        return float(value), gradient

    def curvature_product(self, w: Vector, v: Vector) -> Vector:
        """X^T d2R/dp2 X v at the weights w."""
        return self._total("curvature_product", w, v)[0]

    def curvature_diagonal(self, w: Vector) -> Vector:
        """About the diagonal of X^T d2R/dp2 X at the weights w (see ``column_variances``)."""
        return self._total("curvature_diagonal", w)[0]

    def smoothed(self, width: float) -> Problem:
        """A problem with a smooth risk R_s, R - width/2 at_zero <= R_s <= R."""
        total = partial(self._total, "call_smoothed", width)
        return Problem(total, self.n_features, self.at_zero, self.resume_point)

    def right_hand_side(self) -> Vector:
        """b of the quadratic risk w^T A w - 2 b^T w + constant."""
        return self._total("right_hand_side")[0]

    def normal_product(self, v: Vector) -> Vector:
        """A v of the quadratic risk."""
        return self._total("normal_product", v)[0]

    def quadratic_risk(self, w: Vector) -> float:
        """The quadratic risk at w."""
        return float(self._total("quadratic_risk", w)[0])

    def dual(self, w: Vector, kappa: float) -> float:
        """The dual at kappa times the slopes of w."""
        return float(self._total("dual", w, kappa)[0])

    # ------------------------------------------------------- what solvers pass around unseen
    def scores(self, w: Vector) -> Vector:
        """What stands for X w."""
        return w

    def blend(self, a: float, p: Vector, b: float, q: Vector) -> Vector:
        """a p + b q."""
        return a * p + b * q

    def along(self, slopes: Vector, p: Vector) -> float:
        """Slope of R in the direction whose scores are p."""
        return float(dot(slopes, p))

    def evaluate(self, scores: Vector) -> tuple[float, Vector]:
        """R and its slopes."""
        return self.value_and_gradient(scores)

    def evaluate_with_curvature(self, scores: Vector) -> tuple[float, Vector, Any]:
        """R, its slopes and its curvature."""
        value, slopes = self.gradient_with_curvature(scores)
        return value, slopes, scores

    def gradient(self, slopes: Vector) -> Vector:
        """X^T u."""
        return slopes

    def curvature_times(self, curvature: Any, scores: Vector) -> Vector:
        """X^T d2R/dp2 p."""
        return self.curvature_product(curvature, scores)

    def curvature_scale(self, curvature: Any) -> Vector:
        """About the diagonal of X^T d2R/dp2 X."""
        return self.curvature_diagonal(curvature)


class RowsProblem(Problem):
    """Rows in memory, or of one partition.

    ``risk`` is R as a function of scores: ``evaluate(scores)`` gives value and slopes by row;
    further answers (``curved``, ``dual`` ...) as its solvers need. Results do not depend on the
    number of threads; None takes what the machine offers.
    """

    def __init__(self, rows: Rows, n_features: int, risk: Any, threads: int | None = None) -> None:
        self.n_features = n_features
        self.at_zero = float(getattr(risk, "at_zero", 1.0))
        self.products = Products(rows, n_features, threads)
        self.risk = risk
        self._last: tuple[Vector, Any] | None = None
        self._smooth: tuple[float, RowsProblem] | None = None

    @classmethod
    def from_dataset(cls, data: Dataset, risk: Any, threads: int | None = None) -> RowsProblem:
        """The problem of a dataset and a risk that was made from it."""
        return cls(data.rows, data.n_features, risk, threads)

    def scores(self, w: Vector) -> Vector:
        """X w."""
        return self.products.scores(w)

    def gradient(self, slopes: Vector) -> Vector:
        """X^T u."""
        return self.products.transpose_times(slopes)

    def evaluate(self, scores: Vector) -> tuple[float, Vector]:
        """R and dR/dp."""
        return self.risk.evaluate(scores)

    def evaluate_with_curvature(self, scores: Vector) -> tuple[float, Vector, Any]:
        """R, dR/dp and d2R/dp2."""
        return self.risk.evaluate_with_curvature(scores)

    def curvature_times(self, curvature: Any, scores: Vector) -> Vector:
        """X^T d2R/dp2 p."""
        return self.gradient(curvature.times(scores))

    def curvature_scale(self, curvature: Any) -> Vector:
        """About the diagonal of X^T d2R/dp2 X."""
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
        """The same rows with a smooth risk."""
        if self._smooth is None or self._smooth[0] != width:
            products = self.products
            problem = RowsProblem(
                products.rows, self.n_features, self.risk.smoothed(width), products.threads
            )
            self._smooth = width, problem
        return self._smooth[1]

    # ------------------------------------------------------------- by weights, for partitions
    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """R and its gradient."""
        value, slopes = self.evaluate(self.scores(w))
        return value, self.gradient(slopes)

    def gradient_with_curvature(self, w: Vector) -> tuple[float, Vector]:
        """R and its gradient; the curvature is kept for the products that usually follow."""
        value, slopes, curvature = self.evaluate_with_curvature(self.scores(w))
        self._last = w, curvature
        return value, self.gradient(slopes)

    def curvature_product(self, w: Vector, v: Vector) -> Vector:
        """X^T d2R/dp2 X v at the weights w."""
        return self.curvature_times(self._curvature(w), self.scores(v))

    def curvature_diagonal(self, w: Vector) -> Vector:
        """About the diagonal of X^T d2R/dp2 X at the weights w."""
        return self.curvature_scale(self._curvature(w))

    def call_smoothed(self, width: float, question: str, *weights: Vector) -> Any:
        """What the smoothed problem answers."""
        return getattr(self.smoothed(width), question)(*weights)

    def _curvature(self, w: Vector) -> Any:
        last = self._last
        if last is not None and np.array_equal(last[0], w):
            return last[1]
        curvature = self.evaluate_with_curvature(self.scores(w))[2]
        self._last = w, curvature
        return curvature

    def right_hand_side(self) -> Vector:
        """b of the quadratic risk."""
        return self.gradient(self.risk.right_hand_side())

    def normal_product(self, v: Vector) -> Vector:
        """A v of the quadratic risk."""
        return self.risk.normal_product(self.products, v)

    def quadratic_risk(self, w: Vector) -> float:
        """The quadratic risk."""
        return float(self.risk.value(self.scores(w)))

    def dual(self, w: Vector, kappa: float) -> float:
        """The dual at kappa times the slopes of w."""
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
        """(A + shift I) v."""
        self.products += 1
        total = self.problem.normal_product(v)
        return total + shift * v if shift else total

    def objective(self, w: Vector, shift: float) -> float:
        """Risk + shift |w|^2."""
        return float(self.problem.quadratic_risk(w) + shift * dot(w, w))


def coarsen(data: Dataset, query_weight: Vector) -> tuple[Dataset, Vector] | None:
    """A sample of the data with its query weights, or None when the data is small.

    Training on every eighth query (or, where queries are few, on every eighth row of each) costs
    an eighth a pass and lands near the optimum; the exact solver then needs a few steps on all
    rows. The sample is a fixed stride, so nothing is random, and the result is exact whatever the
    start.
    """
    if data.n_rows < MIN_ROWS:
        return None
    index, usable = data.queries, data.labels.queries_with_pairs
    if len(usable) >= MIN_QUERIES:
        kept = usable[::STRIDE]
        return data.take_queries(kept), query_weight[kept]
    within = np.arange(index.n_rows) - np.repeat(index.starts[:-1], index.sizes)
    positions = np.flatnonzero(within % STRIDE == 0)
    rows = positions if index.rows is None else index.rows[positions]
    return data.take(rows), query_weight
