"""One stochastic step on one pair, for each learner of Sculley (2009), section 3.2.

x = x_a - x_b with a preferred, z = <w, x> before the step; t = 1, or 0 for a tied pair whose
target is z = 0. Step numbers i count from 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import inlined_question
from rankine.kernels.rows import row_diff_norm2
from rankine.losses.pair import pair_loss
from rankine.solvers.scaled_vector import NORM2, add, dot, scale

__all__ = ["GradientStep", "PassiveAggressiveStep", "PerceptronStep", "RommaStep", "pair_step"]


@inlined_question
def pair_step(learner: Any, w: Any, rows: Any, a: int, b: int, t: float, i: int) -> None:
    """Learn from one pair."""


class GradientStep(NamedTuple):
    """Stochastic (sub)gradient of lam/2 |w|^2 + loss(z), optionally projected.

    eta = 1 / (lam i), or c / (c + i) when ``inverse`` = c > 0. The shrink w *= 1 - eta lam happens
    on *every* step (the paper's sentence read literally leaves the optimum by a factor of
    hundreds); then w -= eta loss'(z) x; then, with ``project``, w *= min(1, 1 / (sqrt(lam) |w|))
    (Pegasos). A tied pair has the loss |z| of its target 0.
    """

    loss: Any
    lam: float
    project: bool
    inverse: float


class PassiveAggressiveStep(NamedTuple):
    """PA-I: w += min(C, loss / |x|^2) x with the hinge loss 1 - z (|z| for a tied pair)."""

    C: float


class RommaStep(NamedTuple):
    """Aggressive ROMMA: the shortest u with <u, w> >= |w|^2 and <u, x> >= 1.

    With W = |w|^2, X = |x|^2, D = X W - z^2: if w = 0, z >= X W or D ~ 0 only the new constraint
    binds and u = x / X; else u = ((X W - z) w + W (1 - z) x) / D. |w| never falls, so on data that
    cannot be separated it grows without bound: ``max_norm2`` (1 / lam, or infinity for the paper's
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
    eta = 1.0 / (learner.lam * i)
    shrink = 1.0 - 1.0 / i
    if learner.inverse > 0.0:
        eta = learner.inverse / (learner.inverse + i)
        shrink = max(0.0, 1.0 - eta * learner.lam)
    z = dot(w, rows, a, b)
    slope = pair_loss(learner.loss, z)[1] if t > 0.0 else np.sign(z)
    scale(w, shrink)
    if slope != 0.0:
        add(w, rows, a, b, -eta * slope)
    if learner.project:
        _project(w, 1.0 / learner.lam)


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
