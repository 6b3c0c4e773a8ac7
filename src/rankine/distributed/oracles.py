"""The oracles of the batch solvers, answered by partitions elsewhere.

Scores never leave their rows: what a solver holds as the scores of a point is the point itself,
and as slopes the gradient. Everything a solver does with scores is linear, so it can be done with
weights: a(Xv) + b(Xw) = X(av + bw), and <u, Xd> = <X^T u, d>.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.shards import dot
from rankine.solvers.normal_equations import NormalEquations
from rankine.solvers.summed_oracle import SummedOracle

if TYPE_CHECKING:
    from rankine.distributed.team import Team
    from rankine.solvers.summed_oracle import Parts

__all__ = ["TeamEquations", "TeamOracle"]


class TeamOracle(SummedOracle):
    """A pairwise risk summed over partitions; one round of tasks a question.

    Lists of parts have one entry: weights for scores and curvatures, a gradient for slopes.
    """

    def __init__(self, team: Team, n_features: int, at_zero: float = 1.0) -> None:
        self.team = team
        self.partitions = []
        self.n_features = n_features
        self.at_zero = at_zero

    def scores(self, w: NDArray[np.float64]) -> Parts:
        """The weights themselves."""
        return [w]

    def blend(self, a: float, p: Parts, b: float, q: Parts) -> Parts:
        """a v + b w."""
        return [a * p[0] + b * q[0]]

    def dot(self, p: Parts, q: Parts) -> float:
        """<X^T u, d> for slopes u and the scores of d."""
        return float(dot(p[0], q[0]))

    def evaluate(self, scores: Parts) -> tuple[float, Parts]:
        """R and its gradient."""
        value, gradient = self.team.total("risk", scores[0])
        return float(value), [gradient]

    def evaluate_curved(self, scores: Parts) -> tuple[float, Parts, Parts]:
        """R, its gradient and where to ask for the curvature."""
        value, gradient = self.team.total("curved_risk", scores[0])
        return float(value), [gradient], [scores[0]]

    def gradient(self, slopes: Parts) -> NDArray[np.float64]:
        """The gradient that came with the value."""
        found: NDArray[np.float64] = slopes[0]
        return found

    def curvature_times(self, curvatures: Parts, scores: Parts) -> NDArray[np.float64]:
        """X^T d2R/dp2 X v."""
        (total,) = self.team.total("curvature_times", curvatures[0], scores[0])
        found: NDArray[np.float64] = total
        return found

    def curvature_scale(self, curvatures: Parts) -> NDArray[np.float64]:
        """About the diagonal of X^T d2R/dp2 X."""
        (total,) = self.team.total("curvature_scale", curvatures[0])
        found: NDArray[np.float64] = total
        return found


class TeamEquations(NormalEquations):
    """(X^T L X + gamma I) w = X^T L y over partitions."""

    def __init__(self, team: Team, n_features: int) -> None:
        self.team = team
        self.partitions = []
        self.n_features = n_features
        self.products = 0
        (self.b,) = team.total("target")

    def times(self, v: NDArray[np.float64], gamma: float = 0.0) -> NDArray[np.float64]:
        """(A + gamma I) v."""
        self.products += 1
        total: NDArray[np.float64]
        (total,) = self.team.total("normal_times", v)
        return total + gamma * v if gamma else total

    def objective(self, w: NDArray[np.float64], gamma: float) -> float:
        """(Xw - y)^T L (Xw - y) + gamma |w|^2."""
        (spread,) = self.team.total("spread", w)
        return float(spread + gamma * dot(w, w))
