"""One stochastic step on one pair, for each learner of Sculley (2009), section 3.2.

x = x_a - x_b with a preferred, z = <w, x> before the step; t = 1, or 0 for a tied pair whose
target is z = 0. Step numbers i count from 1.

Weights are kept as w = s v, with |w|^2 and the running sum of iterates in O(non-zeros of a step).
Shrinking multiplies the scalar s. The sum of iterates is ``al v + u``: an addition of D to v
subtracts ``al D`` from u, and every counted iterate adds s to ``al``. Before s is folded into v,
``al v`` is folded into u; dividing al by s instead is algebraically right and numerically fatal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import inlined_question
from rankine.kernels.rows import Rows, row_add_diff, row_add_tracked, row_diff_norm2, row_dot_diff
from rankine.losses.base import pair_loss

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


@inlined_question
def pair_step(learner: Any, w: Any, rows: Any, a: int, b: int, t: float, i: int) -> None:
    """Learn from one pair."""


class GradientStep(NamedTuple):
    """Stochastic (sub)gradient of l2/2 |w|^2 + loss(z), optionally projected.

    eta = 1 / (l2 i), or c / (c + i) when ``inverse`` = c > 0. The shrink w *= 1 - eta l2 happens
    on *every* step (the paper's sentence read literally leaves the optimum by a factor of
    hundreds); then w -= eta loss'(z) x; then |w|^2 is projected on at most ``max_norm2`` (Pegasos;
    infinity: never), see ``gradient_step``. A tied pair has the loss |z| of its target 0.
    """

    loss: Any
    l2: float
    max_norm2: float
    inverse: float


def gradient_step(loss: Any, l2: float, *, project: bool, inverse: float = 0.0) -> GradientStep:
    """The step of a pair loss; ``project`` keeps w in the ball that holds the optimum.

    J(0) = loss(0) bounds l2/2 |w|^2 at the optimum; for the hinge strong duality halves that
    (Shalev-Shwartz et al. 2007): |w|^2 <= 1 / l2.
    """
    value, slope, bend = pair_loss(loss, 0.0)
    piecewise = bend == 0.0 and slope == -1.0 and value == 1.0
    largest = 1.0 / l2 if piecewise else 2.0 * float(value) / l2
    return GradientStep(loss, l2, largest if project else np.inf, inverse)


class PassiveAggressiveStep(NamedTuple):
    """PA-I: w += min(C, loss / |x|^2) x with the hinge loss 1 - z (|z| for a tied pair)."""

    C: float


class RommaStep(NamedTuple):
    """Aggressive ROMMA: the shortest u with <u, w> >= |w|^2 and <u, x> >= 1.

    With W = |w|^2, X = |x|^2, D = X W - z^2: if w = 0, z >= X W or D ~ 0 only the new constraint
    binds and u = x / X; else u = ((X W - z) w + W (1 - z) x) / D. |w| never falls, so on data that
    cannot be separated it grows without bound: ``max_norm2`` (1 / l2, or infinity for the paper's
    form) projects it back.
    """

    max_norm2: float


class PerceptronStep(NamedTuple):
    """w += x when z <= margin (0: the perceptron; above: with margins)."""

    margin: float


@jit(inline=True)
def _project(w: Any, max_norm2: float) -> None:
    if w.c[NORM2] > max_norm2:
        scale(w, np.sqrt(max_norm2 / w.c[NORM2]))


@pair_step.answer(GradientStep)
def _gradient_step(learner: Any, w: Any, rows: Any, a: Any, b: Any, t: Any, i: Any) -> Any:
    eta = 1.0 / (learner.l2 * i)
    shrink = 1.0 - 1.0 / i
    if learner.inverse > 0.0:
        eta = learner.inverse / (learner.inverse + i)
        shrink = max(0.0, 1.0 - eta * learner.l2)
    z = dot(w, rows, a, b)
    slope = pair_loss(learner.loss, z)[1] if t > 0.0 else np.sign(z)
    scale(w, shrink)
    if slope != 0.0:
        add(w, rows, a, b, -eta * slope)
    _project(w, learner.max_norm2)


@pair_step.answer(PassiveAggressiveStep)
def _passive_aggressive_step(
    learner: Any, w: Any, rows: Any, a: Any, b: Any, t: Any, i: Any
) -> Any:
    z = dot(w, rows, a, b)
    loss = 1.0 - z if t > 0.0 else abs(z)
    if loss > 0.0:
        norm2 = row_diff_norm2(rows, a, b, w.scratch)
        if norm2 > 0.0:
            step = min(learner.C, loss / norm2)
            add(w, rows, a, b, step if t > 0.0 or z < 0.0 else -step)


@pair_step.answer(RommaStep)
def _romma_step(learner: Any, w: Any, rows: Any, a: Any, b: Any, t: Any, i: Any) -> Any:
    z = dot(w, rows, a, b)
    if z < 1.0:
        x2 = row_diff_norm2(rows, a, b, w.scratch)
        w2 = w.c[NORM2]
        if x2 > 0.0:
            area = x2 * w2 - z * z
            if w2 == 0.0 or z >= x2 * w2 or area <= 1e-12 * x2 * w2:
                scale(w, 0.0)
                add(w, rows, a, b, 1.0 / x2)
            else:
                scale(w, (x2 * w2 - z) / area)
                add(w, rows, a, b, w2 * (1.0 - z) / area)
            _project(w, learner.max_norm2)


@pair_step.answer(PerceptronStep)
def _perceptron_step(learner: Any, w: Any, rows: Any, a: Any, b: Any, t: Any, i: Any) -> Any:
    if t > 0.0 and dot(w, rows, a, b) <= learner.margin:
        add(w, rows, a, b, 1.0)
