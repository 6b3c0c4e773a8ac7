"""Extreme eigenvalues of A = X^T L X: what sets the step and momentum of heavy-ball descent.

kappa_1 must not be underestimated by more than kappa_n, or the iteration diverges; kappa_n may be
overestimated at the price of speed. All estimates are for A; the spectrum of A + gamma I is the
same, shifted, so one run serves every gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.random import random_unit, stream_seed
from rankine.kernels.shards import add_rows, dot, norm, rows_dot

__all__ = ["Spectrum", "lanczos", "online_power", "power"]

Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]

#: Factor on the largest eigenvalue that blocks of queries suggest.
ONLINE_SAFETY = 2.0
#: Blocks an online estimate cuts the queries into.
N_BLOCKS = 32


@dataclass(frozen=True)
class Spectrum:
    """Bounds on the eigenvalues of A, and how the estimates developed."""

    largest: float
    smallest: float
    products: int
    trace: list[dict[str, float]] = field(default_factory=list)

    def shifted(self, gamma: float) -> tuple[float, float]:
        """kappa_1 and kappa_n of A + gamma I."""
        return self.largest + gamma, max(0.0, self.smallest) + gamma


@jit
def _normal_draws(seed: Any, out: Any) -> None:
    """Box and Muller: two uniform draws give one normal."""
    for k in range(out.shape[0]):
        radius = np.sqrt(-2.0 * np.log1p(-random_unit(seed, 2 * k)))
        out[k] = radius * np.cos(2.0 * np.pi * random_unit(seed, 2 * k + 1))


def random_direction(n: int, seed: int, stream: int = 0) -> NDArray[np.float64]:
    """A uniformly random unit vector, a pure function of the seed."""
    v = np.empty(n)
    _normal_draws(stream_seed(seed, stream), v)
    return v / norm(v)


def lanczos(times: Product, n: int, seed: int, steps: int = 30) -> Spectrum:
    """Lanczos with full reorthogonalisation: largest Ritz value plus its residual; smallest.

    The residual beta_k |s_k| bounds the distance of a Ritz value to the spectrum, so adding it
    makes an estimate from below a safe one.
    """
    steps = min(steps, n)
    basis = np.zeros((steps + 1, n))
    basis[0] = random_direction(n, seed)
    diagonal, off = np.zeros(steps), np.zeros(steps)
    trace: list[dict[str, float]] = []
    for k in range(steps):
        z = times(basis[k])
        diagonal[k] = dot(z, basis[k])
        for _ in range(2):
            z = z - add_rows(basis[: k + 1], rows_dot(basis[: k + 1], z))
        off[k] = norm(z)
        ritz, vectors = _tridiagonal(diagonal[: k + 1], off[:k])
        bound = off[k] * abs(vectors[-1, -1])
        trace.append(
            {
                "step": k + 1,
                "kappa_1": float(ritz[-1]),
                "kappa_n": float(ritz[0]),
                "bound": float(bound),
            }
        )
        if off[k] <= 1e-12 * max(abs(ritz[-1]), abs(ritz[0]), 1e-300):
            break
        basis[k + 1] = z / off[k]
    last = trace[-1]
    largest = (last["kappa_1"] + last["bound"]) * (1.0 + 1e-12)
    return Spectrum(largest, last["kappa_n"] if steps else 0.0, len(trace), trace)


def power(times: Product, n: int, seed: int, steps: int = 20) -> Spectrum:
    """Power iteration, plain and shifted (Tas, Algorithm 1, with centring and the right loop).

    kappa_1 is approached from below and kappa_n from above: cheap, and unsafe on flat spectra.
    """
    v, o = random_direction(n, seed), random_direction(n, seed, 1)
    trace: list[dict[str, float]] = []
    largest = 0.0
    for k in range(steps):
        v, largest = _normalised(times(v))
        o, _ = _normalised(times(o) - largest * o)
        trace.append({"step": k + 1, "kappa_1": largest})
    smallest = float(dot(o, times(o)))
    trace[-1]["kappa_n"] = smallest
    return Spectrum(largest, smallest, 2 * steps + 1, trace)


def online_power(blocks: list[Product], n: int, seed: int, passes: int = 2) -> Spectrum:
    """Power iteration that sees one block of queries at a time (the paper's on-line idea).

    Each block's product stands for the whole by the number of blocks. The largest growth factor of
    the last pass, averaged over the pass, times a safety factor is kappa_1; kappa_n is taken as 0,
    that is gamma once shifted.
    """
    v = random_direction(n, seed)
    trace: list[dict[str, float]] = []
    growth = np.zeros(len(blocks))
    for step in range(passes * len(blocks)):
        block = step % len(blocks)
        moved = len(blocks) * blocks[block](v)
        growth[block] = norm(moved)
        # A block alone may be blind to v; half of the old direction keeps what others saw.
        mixed = moved / growth[block] + v if growth[block] > 0.0 else v
        v, _ = _normalised(mixed)
        seen = growth[: step + 1] if step < len(blocks) else growth
        trace.append({"step": step + 1, "kappa_1": float(seen.mean())})
    return Spectrum(ONLINE_SAFETY * float(growth.mean()), 0.0, passes, trace)


def _normalised(v: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    length = norm(v)
    return (v / length, length) if length > 0.0 else (v, 0.0)


def _tridiagonal(
    diagonal: NDArray[np.float64], off: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric tridiagonal matrix."""
    matrix = np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors
