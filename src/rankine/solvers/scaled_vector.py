"""Weights as w = s v, with |w|^2 and the running sum of iterates kept in O(non-zeros of a step).

Shrinking multiplies the scalar s. The sum of iterates is ``al v + u``: an addition of D to v
subtracts ``al D`` from u, and every counted iterate adds s to ``al``. Before s is folded into v,
``al v`` is folded into u; dividing al by s instead is algebraically right and numerically fatal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.rows import Rows, row_add_diff, row_add_tracked, row_dot_diff

__all__ = [
    "AL",
    "COUNT",
    "NORM2",
    "S",
    "ScaledVector",
    "add",
    "average_of",
    "dot",
    "new_vector",
    "scale",
]

#: Slots of ``ScaledVector.c``.
S, NORM2, AL, COUNT, ADDS = 0, 1, 2, 3, 4

#: s stays in this window; al in proportion, which keeps the sum of iterates accurate.
_LOW, _HIGH = 1e-3, 1e3
#: |w|^2 is summed afresh after so many additions.
_REFRESH = 1 << 20


class ScaledVector(NamedTuple):
    """w = c[S] v; sum of iterates = c[AL] v + u; c[NORM2] = |w|^2; ``scratch`` is all zeros."""

    v: NDArray[np.float64]
    u: NDArray[np.float64]
    c: NDArray[np.float64]
    scratch: NDArray[np.float64]


def new_vector(coef: NDArray[np.float64]) -> ScaledVector:
    """Start from given weights, nothing averaged yet."""
    c = np.zeros(5)
    c[S] = 1.0
    c[NORM2] = _sum_of_squares(coef)
    n = len(coef)
    return ScaledVector(np.array(coef, dtype=np.float64), np.zeros(n), c, np.zeros(n))


def average_of(w: ScaledVector) -> NDArray[np.float64]:
    """Mean of the counted iterates, or the last one when none were counted."""
    if w.c[COUNT] == 0:
        return w.c[S] * w.v
    return (w.c[AL] * w.v + w.u) / w.c[COUNT]


@jit(fastmath=REDUCE)
def _sum_of_squares(v: Any) -> float:
    total = 0.0
    for value in v:
        total += value * value
    return total


@jit
def _rebase(w: ScaledVector) -> None:
    """Fold s into v (and al v into u first); O(n), rare."""
    al, s = w.c[AL], w.c[S]
    if al != 0.0:
        for j in range(w.v.shape[0]):
            w.u[j] += al * w.v[j]
        w.c[AL] = 0.0
    for j in range(w.v.shape[0]):
        w.v[j] *= s
    w.c[S] = 1.0
    w.c[NORM2] = _sum_of_squares(w.v)


@jit(inline=True)
def scale(w: ScaledVector, factor: float) -> None:
    """w *= factor."""
    if w.c[NORM2] == 0.0:
        return
    w.c[S] *= factor
    w.c[NORM2] *= factor * factor
    s = abs(w.c[S])
    if s < _LOW or s > _HIGH:
        _rebase(w)


@jit(inline=True)
def dot(w: ScaledVector, rows: Rows, a: int, b: int) -> float:
    """<w, x_a - x_b>."""
    return w.c[S] * row_dot_diff(rows, a, b, w.v)


@jit(inline=True)
def add(w: ScaledVector, rows: Rows, a: int, b: int, step: float) -> None:
    """w += step (x_a - x_b)."""
    s = w.c[S]
    part = step / s
    if w.c[AL] != 0.0:
        row_add_diff(rows, a, b, -w.c[AL] * part, w.u)
    change = row_add_tracked(rows, a, part, w.v)
    change += row_add_tracked(rows, b, -part, w.v)
    w.c[NORM2] = max(0.0, w.c[NORM2] + s * s * change)
    w.c[ADDS] += 1.0
    if w.c[ADDS] >= _REFRESH:
        w.c[ADDS] = 0.0
        w.c[NORM2] = s * s * _sum_of_squares(w.v)
