"""Build normal equations with a dense matrix."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from rankine.solvers.base import ResumePoint


class DenseSystem:
    """(A + shift I) w = b; ``rounded`` products have the precision of another type."""

    def __init__(self, A, b, rounded=np.float64):
        self.A, self.b, self.rounded = np.array(A, float), np.array(b, float), rounded
        self.n_features, self.products = len(self.b), 0
        self.problem = SimpleNamespace(resume_point=lambda _solver: ResumePoint())

    def times(self, v, shift=0.0):
        self.products += 1
        return (self.A @ v + shift * v).astype(self.rounded).astype(np.float64)

    def objective(self, w, shift):
        return float(w @ self.A @ w - 2 * self.b @ w + shift * w @ w)


def random_system(seed=0, n=6):
    """Return a positive definite system with eigenvalues from 0.1 to 10."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return DenseSystem(turn * np.geomspace(0.1, 10.0, n) @ turn.T, rng.normal(size=n))
