"""What solvers share between mixtures sum_k b_k R_k of the same risks with other weights b.

``GoalCuts`` serves the bundle method: cuts R_k(w) >= <a_k, w> + c_k of every goal at the same
weights, mixed by b, are a cut of the mixture. ``GoalSystems`` serves least squares, where a mixture
is the linear system (sum_k b_k A_k + gamma I) w = sum_k b_k r_k: the products A_k v of every
direction v are kept, and a new mixture starts from its solution in the space of all directions. It
continues as conjugate gradients would, with its residual as the next direction. Neighbouring
mixtures need few new directions or none; the residual is exact either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.products import Products
from rankine.kernels.shards import add_rows, dot, norm, rows_dot
from rankine.solvers.base import Callback, Solution, report_progress, require_finite
from rankine.solvers.bundle import Bundle, solve_factored
from rankine.solvers.problem import Problem

Vector = NDArray[np.float64]

#: Memory limit of the cuts, or of the directions with their products.
MAX_BYTES = 256 * 2**20
#: Most cuts that a new mixture starts from; the dual problem of the bundle is quadratic in them.
MAX_CUTS = 200
#: Most directions; solving in their space is quadratic in them.
MAX_DIRECTIONS = 500
#: A direction that is shorter than this share of the residual it comes from is rounding error.
PARALLEL = 1e-10


class GoalCuts:
    """Cuts of the risk of every goal, taken at the same weights.

    ``risks`` are functions of the scores ``products.scores(w)``.
    """

    def __init__(self, risks: Sequence[Any], products: Products, *, positive: bool) -> None:
        self.risks = risks
        self.products = products
        self.positive = positive
        self._cuts: list[tuple[Vector, Vector, Vector]] = []
        n_cuts = MAX_BYTES // (8 * len(risks) * max(products.n_features, 1))
        self._max_cuts = max(8, min(MAX_CUTS, n_cuts))

    def bundle(self, weights: Vector) -> Bundle:
        """Return a bundle with the last cuts of a mixture; cuts that are added to it are kept.

        The bundle of a single goal starts empty, so that its solution equals the fit to this goal.
        """
        bundle = _MixedBundle(self, weights)
        if not bundle.is_single:
            for cut in self._cuts:
                bundle.add_mixed(*cut)
        return bundle

    def measure(self, w: Vector) -> tuple[Vector, Vector, Vector]:
        """Return slopes, offsets and magnitudes of the cuts of all goals at w, and keep them."""
        scores = self.products.scores(w)
        slopes, offsets, magnitudes = [], [], []
        for risk in self.risks:
            value, row_slopes = risk.evaluate(scores)
            slope = self.products.transpose_times(row_slopes)
            slopes.append(slope)
            offsets.append(value - dot(slope, w))
            magnitudes.append(value + norm(slope) * norm(w))
        cut = (np.array(slopes), np.array(offsets), np.array(magnitudes))
        self._cuts = [*self._cuts[1 - self._max_cuts :], cut]
        return cut


class _MixedBundle(Bundle):
    """Cuts of one mixture."""

    def __init__(self, goals: GoalCuts, weights: Vector) -> None:
        super().__init__(goals.products.n_features, positive=goals.positive)
        self._goals = goals
        self._weights = weights
        self.is_single = bool((weights == 1.0).any())

    def add_mixed(self, slopes: Vector, offsets: Vector, magnitudes: Vector) -> None:
        """Add the mixture of the cuts of all goals at the same weights."""
        weights = self._weights
        self.add(add_rows(slopes, weights), dot(weights, offsets), dot(weights, magnitudes))

    def add_cut(self, problem: Problem, w: Vector, risk: float, slopes: Any) -> None:
        """Add the cut at w, and keep the cuts of all goals for other mixtures."""
        cut = self._goals.measure(w)
        if self.is_single:
            super().add_cut(problem, w, risk, slopes)
        else:
            self.add_mixed(*cut)


class GoalSystems:
    """(sum_k b_k A_k + gamma I) w = sum_k b_k r_k for many b, with the products of all of them.

    Parameters
    ----------
    right_hand_sides
        r_k, one row per goal.
    products
        Returns A_k v of every goal, one row per goal.
    constants
        R_k(0), so that R_k(w) = w^T A_k w - 2 r_k^T w + constant.
    """

    def __init__(
        self,
        right_hand_sides: Vector,
        products: Callable[[Vector], Vector],
        constants: Vector,
    ) -> None:
        self.right_hand_sides = right_hand_sides
        self.products = products
        self.constants = constants
        self.n_products = 0
        n_goals, n = right_hand_sides.shape
        self._basis = np.zeros((0, n))
        #: A_k v of every goal and direction.
        self._images = np.zeros((n_goals, 0, n))
        self._max_directions = min(MAX_DIRECTIONS, MAX_BYTES // (8 * n * (n_goals + 1)))

    def solve(
        self,
        weights: Vector,
        gamma: float,
        *,
        tol: float,
        max_iter: int,
        callbacks: Sequence[Callback] = (),
    ) -> Solution:
        """Solve until the residual is at most ``tol`` times the right-hand side.

        The certified gap is then at most ``tol`` times the objective at 0 as well.
        """
        at_zero = dot(weights, self.constants)
        rhs = add_rows(self.right_hand_sides, weights)
        rhs_norm = norm(rhs)
        system = _ProjectedSystem(gamma, len(rhs))
        self._project(system, weights)
        iteration, reason = 0, "max_iter"
        trace: list[dict[str, float]] = []
        while True:
            coordinates = system.solve(rows_dot(self._basis, rhs))
            w = add_rows(self._basis, coordinates)
            residual = rhs - add_rows(system.images, coordinates) - gamma * w
            require_finite(residual, iteration, "conjugate gradients")
            relative = norm(residual) / (rhs_norm or 1.0)
            # The curvature of the objective is at least 2 gamma: J(w) - J* <= |residual|^2 / gamma.
            gap = norm(residual) ** 2 / gamma
            trace.append({"iteration": float(iteration), "residual": relative})
            if report_progress(callbacks, "cg", iteration, max_iter, {"residual": relative}, w):
                reason = "callback"
                break
            if relative <= tol and gap <= tol * at_zero:
                reason = "converged"
                break
            if iteration == max_iter:
                break
            if len(self._basis) >= self._max_directions:
                # Conjugate gradients that start again: the solution so far is all that is kept.
                self._restart(w, coordinates)
                system = _ProjectedSystem(gamma, len(rhs))
                self._project(system, weights)
            direction = self._orthonormal(residual)
            if direction is None:
                reason = "precision"
                break
            iteration += 1
            self._append(direction, self.products(direction))
            self._project(system, weights)
        objective = dot(weights, self.risks(w)) + gamma * dot(w, w)
        certificate = {
            "residual": relative,
            "products": float(self.n_products),
            "gap": gap,
            "relative_gap": gap / at_zero,
        }
        return Solution(w, objective, certificate, iteration, trace, reason)

    def risks(self, w: Vector) -> Vector:
        """Return R_k(w) of every goal, for a solution w."""
        coordinates = rows_dot(self._basis, w)
        out = self.constants - 2.0 * rows_dot(self.right_hand_sides, w)
        for k, images in enumerate(self._images):
            out[k] += dot(w, add_rows(images, coordinates))
        return out

    def _orthonormal(self, vector: Vector) -> Vector | None:
        """Return the part of a vector outside the space, of length 1; None if it is rounding."""
        out, length = vector, norm(vector)
        for _ in range(2):  # the second time removes what rounding left
            out = out - add_rows(self._basis, rows_dot(self._basis, out))
        if norm(out) <= PARALLEL * length:
            return None
        return out / norm(out)

    def _append(self, direction: Vector, images: Vector) -> None:
        self.n_products += 1
        self._basis = np.vstack([self._basis, direction])
        self._images = np.concatenate([self._images, images[:, None, :]], axis=1)

    def _restart(self, w: Vector, coordinates: Vector) -> None:
        length = norm(w)
        images = np.array([add_rows(images, coordinates) for images in self._images])
        self._basis, self._images = w[None, :] / length, images[:, None, :] / length

    def _project(self, system: _ProjectedSystem, weights: Vector) -> None:
        """Add the directions to a system that it does not have."""
        for m in range(len(system.images), len(self._basis)):
            image = add_rows(np.ascontiguousarray(self._images[:, m]), weights)
            system.append(rows_dot(self._basis[: m + 1], image), image)


class _ProjectedSystem:
    """(V A V^T + gamma I) c = V r for an orthonormal basis V that grows, by a Cholesky factor."""

    def __init__(self, gamma: float, n: int) -> None:
        self.gamma = gamma
        #: A v of every direction.
        self.images = np.zeros((0, n))
        self._factor = np.zeros((0, 0))

    def append(self, row: Vector, image: Vector) -> None:
        """Add a direction: its row of V A V^T and its image."""
        m = len(row)
        self.images = np.vstack([self.images, image])
        factor = np.zeros((m, m))
        factor[:-1, :-1] = self._factor
        factor[-1] = row
        factor[-1, -1] += self.gamma
        _factor_last_row(factor)
        self._factor = factor

    def solve(self, b: Vector) -> Vector:
        """Return c."""
        c = b.copy()
        solve_factored(self._factor, c)
        return c


@jit
def _factor_last_row(factor: Any) -> None:
    """Factor the last row of a matrix (Cholesky); the other rows hold their factors already."""
    # Not LAPACK: its bits depend on the number of threads.
    m = factor.shape[0] - 1
    for j in range(m + 1):
        total = factor[m, j]
        for k in range(j):
            total -= factor[m, k] * factor[j, k]
        factor[m, j] = np.sqrt(max(total, 1e-300)) if j == m else total / factor[j, j]
