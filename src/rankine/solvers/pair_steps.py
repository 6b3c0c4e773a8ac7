"""One stochastic step on one pair, for each learner of Sculley (2009), section 3.2.

x = x_a - x_b with a preferred, z = <w, x> before the step; t = 1, or 0 for a tied pair whose
target is z = 0. Step numbers i count from 1.

Weights are stored as w = s v; |w|^2 and the sum of iterates are updated in O(non-zeros of a step).
Shrinking multiplies the scalar s. The sum of iterates is ``al v + u``: adding D to v subtracts
``al D`` from u, and each counted iterate adds s to ``al``. When s leaves its window it is *folded*:
``al v`` is added to u, and v is multiplied by s. (Dividing al by s instead of folding it is
algebraically correct and numerically disastrous.)

An *eager* fold updates all weights and costs O(features). A run whose eager folds take a noticeable
share of the time switches to *lazy* folds: a weight is updated when a row touches it.
Weights that have missed the same folds share one entry of a history with the effect of these folds:
the factor on v, and the multiple of v that is added to u.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import generic, inlined_generic
from rankine.kernels.rows import (
    CsrRows,
    Rows,
    row_add_diff,
    row_add_tracked,
    row_diff_norm2,
    row_dot_diff,
    row_size,
)
from rankine.losses.base import pair_loss

#: Slots of ``ScaledVector.c``.
S, NORM2, AL, COUNT, ADDS, FOLDS, OLDEST, ROWS_STALE, ADDS_AT_FOLD, FOLD_COST, LAZY = range(11)
#: Columns of ``ScaledVector.history``.
FACTOR, MULTIPLE, ZERO_BELOW = range(3)

#: Window of s; al is proportional to it, which keeps the sum of iterates accurate.
_LOW, _HIGH = 1e-3, 1e3
#: A weight that has shrunk to this fraction is 0. With lazy folds and without averaging, this is
#: also the lower end of the window of s.
_NEGLIGIBLE = 1e-18
#: Largest number of folds that weights may have missed.
_HISTORY = 1 << 14
#: Folding up to 64 weights per addition is cheap. Beyond that, the folded weights are added to
#: c[FOLD_COST], and above _MAX_FOLD_COST folds become lazy.
_WEIGHTS_PER_ADD, _MAX_FOLD_COST = 64, 1 << 24
#: A step longer than this many radii of the ball that it is projected on is rescaled.
_LONG = 1e6
#: |w|^2 is recomputed if a rescaled step cancels down to this share of the squared radius.
_CLOSE = 1e-6
#: |w|^2 is recomputed after this many additions.
_REFRESH = 1 << 20


class ScaledVector(NamedTuple):
    """w = c[S] v; sum of iterates = c[AL] v + u; c[NORM2] = |w|^2; ``scratch`` is all zeros.

    This holds for weights that are up to date with all c[FOLDS] lazy folds; ``folds`` is the number
    of folds that each weight has had. Entry k of ``history`` applies to weights that have missed
    the folds from k on: the factor on v (``FACTOR``), the multiple of v that is added to u
    (``MULTIPLE``), and the factor below which the weight is 0 (``ZERO_BELOW``). Entries before
    c[OLDEST] have factor 0.

    The other entries of ``c`` are ``COUNT``, the number of iterates in the sum; ``ADDS``, the
    additions since |w|^2 was recomputed, and ``ADDS_AT_FOLD``, those before the last fold;
    ``FOLD_COST``, the weights that eager folds updated beyond what is cheap; ``LAZY``, 1 once folds
    are lazy; and ``ROWS_STALE``, 1 if a fold happened after the weights of the step's rows were
    brought up to date.
    """

    v: NDArray[np.float64]
    u: NDArray[np.float64]
    c: NDArray[np.float64]
    scratch: NDArray[np.float64]
    folds: NDArray[np.int16]
    history: NDArray[np.float64]

    def for_kernel(self, rows: Rows) -> ScaledVector | EagerVector:
        """Return the arrays for compiled code; their type selects eager or lazy folds."""
        lazy = self.c[LAZY] and isinstance(rows, CsrRows)
        return self if lazy else EagerVector(self.v, self.u, self.c, self.scratch)


class EagerVector(NamedTuple):
    """A ``ScaledVector`` with eager folds: all weights are always up to date."""

    v: NDArray[np.float64]
    u: NDArray[np.float64]
    c: NDArray[np.float64]
    scratch: NDArray[np.float64]


def new_vector(coef: NDArray[np.float64]) -> ScaledVector:
    """Create a vector from initial weights; no iterate is averaged yet."""
    c = np.zeros(LAZY + 1)
    c[S] = 1.0
    c[NORM2] = _sum_of_squares(coef)
    n = len(coef)
    v, folds, history = np.array(coef, np.float64), np.zeros(n, np.int16), np.zeros((_HISTORY, 3))
    return ScaledVector(v, np.zeros(n), c, np.zeros(n), folds, history)


def average_iterate(w: ScaledVector) -> NDArray[np.float64]:
    """Return the mean of the counted iterates, or the last one if none were counted."""
    if w.c[COUNT] == 0:
        return last_iterate(w)
    return _up_to_date(w, w.c[AL], 1.0) / w.c[COUNT]


def last_iterate(w: ScaledVector) -> NDArray[np.float64]:
    """Return the last iterate."""
    return _up_to_date(w, w.c[S], 0.0)


@jit
def _up_to_date(w: ScaledVector, first: float, second: float) -> Any:
    """Return first v + second u after all folds, without changing the state."""
    v, u, folds, history, n_folds = w.v, w.u, w.folds, w.history, int(w.c[FOLDS])
    out = np.empty(v.shape[0])
    for j in range(v.shape[0]):
        value, total, first_missed = v[j], u[j], folds[j]
        if first_missed != n_folds:
            total += history[first_missed, MULTIPLE] * value
            value *= history[first_missed, FACTOR]
        out[j] = first * value + second * total
    return out


@jit(fastmath=REDUCE)
def _sum_of_squares(v: Any) -> float:
    total = 0.0
    for value in v:
        total += value * value
    return total


@jit
def _apply_folds(w: ScaledVector, indices: Any, start: int, stop: int) -> None:
    """Apply the folds that the weights ``indices[start:stop]`` have missed."""
    v, u, folds, history, n_folds = w.v, w.u, w.folds, w.history, int(w.c[FOLDS])
    for k in range(np.uint64(start), np.uint64(stop)):
        j = indices[k]
        first_missed = folds[j]
        if first_missed != n_folds:
            gain = history[first_missed, MULTIPLE] * v[j]
            if gain != 0.0:
                u[j] += gain
            v[j] *= history[first_missed, FACTOR]
            folds[j] = n_folds


@jit
def _apply_all_folds(w: ScaledVector) -> None:
    """Apply the folds that weights have missed, and clear the history."""
    _apply_folds(w, np.arange(w.v.shape[0]), 0, w.v.shape[0])
    w.folds[:] = 0
    w.c[FOLDS] = w.c[OLDEST] = 0.0


@inlined_generic
def apply_missed_folds(w: Any, rows: Any, a: int, b: int) -> None:
    """Apply the folds that the weights of two rows have missed."""


@apply_missed_folds.implementation(EagerVector)
def _none_missed(w: Any, rows: Any, a: Any, b: Any) -> Any:
    pass


@apply_missed_folds.implementation(ScaledVector)
def _apply_folds_to_rows(w: Any, rows: Any, a: Any, b: Any) -> Any:
    if w.c[FOLDS] != 0.0:
        for i in (a, b):
            _apply_folds(w, rows.indices, rows.indptr[i], rows.indptr[i + 1])
    w.c[ROWS_STALE] = 0.0


@generic
def sum_norm(w: Any) -> None:
    """Recompute |w|^2."""


@sum_norm.implementation(EagerVector)
def _eager_norm(w: Any) -> Any:
    w.c[NORM2] = w.c[S] * w.c[S] * _sum_of_squares(w.v)


@sum_norm.implementation(ScaledVector)
def _norm_after_folds(w: Any) -> Any:
    _apply_all_folds(w)
    w.c[NORM2] = w.c[S] * w.c[S] * _sum_of_squares(w.v)


@generic
def fold(w: Any) -> None:
    """Fold s into v, and al v into u first."""


@fold.implementation(EagerVector)
def _fold_at_once(w: Any) -> Any:
    for j in range(w.v.shape[0]):
        w.u[j] += w.c[AL] * w.v[j]
        w.v[j] *= w.c[S]
    w.c[AL], w.c[S] = 0.0, 1.0
    sum_norm(w)
    excess_cost = w.v.shape[0] - _WEIGHTS_PER_ADD * (w.c[ADDS] - w.c[ADDS_AT_FOLD])
    w.c[ADDS_AT_FOLD] = w.c[ADDS]
    w.c[FOLD_COST] = max(0.0, w.c[FOLD_COST] + excess_cost)
    if w.c[FOLD_COST] > _MAX_FOLD_COST:
        w.c[LAZY] = 1.0


@fold.implementation(ScaledVector)
def _fold_later(w: Any) -> Any:
    if w.c[AL] == 0.0 and _NEGLIGIBLE <= abs(w.c[S]) <= _HIGH:
        return
    s, n_folds, oldest = w.c[S], int(w.c[FOLDS]), int(w.c[OLDEST])
    for k in range(oldest, n_folds):
        w.history[k, MULTIPLE] += w.history[k, FACTOR] * w.c[AL]
        w.history[k, FACTOR] *= s
        if abs(w.history[k, FACTOR]) <= w.history[k, ZERO_BELOW]:
            w.history[k, FACTOR] = 0.0
    w.history[n_folds, FACTOR], w.history[n_folds, MULTIPLE] = s, w.c[AL]
    # This fold includes shrinking from before the weight was touched; ZERO_BELOW is relative to it.
    w.history[n_folds, ZERO_BELOW] = _NEGLIGIBLE * abs(s)
    while oldest <= n_folds and w.history[oldest, FACTOR] == 0.0:
        oldest += 1
    w.c[OLDEST] = oldest
    w.c[FOLDS] += 1.0
    w.c[AL], w.c[S], w.c[ROWS_STALE] = 0.0, 1.0, 1.0
    folds_are_rare = _WEIGHTS_PER_ADD * (w.c[ADDS] - w.c[ADDS_AT_FOLD]) >= w.v.shape[0]
    w.c[ADDS_AT_FOLD] = w.c[ADDS]
    if folds_are_rare or w.c[FOLDS] == _HISTORY:
        sum_norm(w)


@jit(inline=True)
def scale(w: Any, factor: float) -> None:
    """Set w *= factor."""
    if w.c[NORM2] == 0.0:
        return
    w.c[S] *= factor
    w.c[NORM2] *= factor * factor
    s = abs(w.c[S])
    if s < _LOW or s > _HIGH:
        fold(w)


@jit(inline=True)
def dot(w: Any, rows: Rows, a: int, b: int) -> float:
    """Return <w, x_a - x_b>."""
    apply_missed_folds(w, rows, a, b)
    return w.c[S] * row_dot_diff(rows, a, b, w.v)


@jit(inline=True)
def add(w: Any, rows: Rows, a: int, b: int, step: float) -> None:
    """Set w += step (x_a - x_b)."""
    if w.c[ROWS_STALE] != 0.0:
        apply_missed_folds(w, rows, a, b)
    s = w.c[S]
    scaled_step = step / s
    if w.c[AL] != 0.0:
        row_add_diff(rows, a, b, -w.c[AL] * scaled_step, w.u)
    change = row_add_tracked(rows, a, scaled_step, w.v)
    change += row_add_tracked(rows, b, -scaled_step, w.v)
    w.c[NORM2] = np.maximum(0.0, w.c[NORM2] + s * s * change)  # NaN stays NaN
    w.c[ADDS] += 1.0
    if w.c[ADDS] >= _REFRESH:
        w.c[ADDS] = w.c[ADDS_AT_FOLD] = 0.0
        sum_norm(w)


@inlined_generic
def pair_step(learner: Any, w: Any, rows: Any, a: int, b: int, t: float, i: int) -> None:
    """Take step i of a learner, on the pair of rows a and b."""


class GradientStep(NamedTuple):
    """Stochastic (sub)gradient step on l2/2 |w|^2 + loss(z), optionally projected (Pegasos).

    w *= 1 - eta l2 on *every* step, then w -= eta loss'(z) x, then w is projected on
    |w|^2 <= ``max_norm2`` (infinity: no projection), see ``gradient_step``. eta = 1 / (l2 i), or
    c / (c + i) if ``inverse`` = c > 0. A tied pair has the loss |z|. (Shrinking only on some steps,
    as the paper's sentence can be read, ends hundreds of times further from the optimum.)
    """

    loss: Any
    l2: float
    max_norm2: float
    inverse: float


def gradient_step(loss: Any, l2: float, *, project: bool, inverse: float = 0.0) -> GradientStep:
    """Create the step of a pair loss; ``project`` keeps w in a ball that contains the optimum.

    J(0) = loss(0) bounds l2/2 |w|^2 at the optimum; for the hinge strong duality halves that
    (Shalev-Shwartz et al. 2007): |w|^2 <= 1 / l2.
    """
    value, slope, curvature = pair_loss(loss, 0.0)
    if not project:
        return GradientStep(loss, l2, np.inf, inverse)
    max_norm2 = 2.0 * float(value) / l2
    is_hinge = curvature == 0.0 and slope == -1.0 and value == 1.0
    if is_hinge:
        max_norm2 = 1.0 / l2
    return GradientStep(loss, l2, max_norm2, inverse)


class PassiveAggressiveStep(NamedTuple):
    """PA-I: w += min(C, loss / |x|^2) x; the loss is max(0, 1 - z), or |z| for a tied pair."""

    C: float


class RommaStep(NamedTuple):
    """Aggressive ROMMA: w becomes the shortest u with <u, w> >= |w|^2 and <u, x> >= 1.

    With W = |w|^2, X = |x|^2, D = X W - z^2: if w = 0, z >= X W or D ~ 0, only the new constraint
    is active and u = x / X; else u = ((X W - z) w + W (1 - z) x) / D. |w| never decreases, so on
    data that cannot be separated it grows without bound unless it is projected on
    |w|^2 <= ``max_norm2`` (1 / l2; infinity for the paper's form).
    """

    max_norm2: float


class PerceptronStep(NamedTuple):
    """w += x when z <= margin (0: the perceptron; above: with margins)."""

    margin: float


@jit(inline=True)
def _finite(w: Any, number: float) -> float:
    """Return ``number``; if it has overflowed, set all weights to NaN."""
    if number == np.inf:
        w.c[S] = np.nan
    return number


@jit(inline=True)
def _project(w: Any, max_norm2: float) -> None:
    if w.c[NORM2] > max_norm2:
        scale(w, np.sqrt(max_norm2 / w.c[NORM2]))


@jit(inline=True)
def _add_projected(w: Any, rows: Rows, a: int, b: int, step: float, max_norm2: float) -> None:
    """Set w += step (x_a - x_b), then project."""
    if max_norm2 < np.inf:
        unit = abs(step) * (row_size(rows, a) + row_size(rows, b)) / np.sqrt(max_norm2)
        if unit > _LONG:
            _add_long(w, rows, a, b, step / unit, unit, max_norm2)
            return
    add(w, rows, a, b, step)
    _project(w, max_norm2)


@jit
def _add_long(
    w: Any, rows: Rows, a: int, b: int, step: float, unit: float, max_norm2: float
) -> None:
    """Set w += unit step (x_a - x_b) and project, with w divided by ``unit`` in between.

    Otherwise the sum of iterates would add and subtract the long step and lose all digits.
    """
    if row_diff_norm2(rows, a, b, w.scratch) == 0.0:
        _project(w, max_norm2)
        return
    scale(w, 1.0 / unit)
    add(w, rows, a, b, step)
    if w.c[NORM2] < _CLOSE * max_norm2:
        sum_norm(w)
    length, radius = np.sqrt(w.c[NORM2]), np.sqrt(max_norm2)
    scale(w, unit if unit * length <= radius else radius / length)
    _finite(w, unit)


@pair_step.implementation(GradientStep)
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
        _add_projected(w, rows, a, b, -eta * slope, learner.max_norm2)
    else:
        _project(w, learner.max_norm2)


@pair_step.implementation(PassiveAggressiveStep)
def _passive_aggressive_step(
    learner: Any, w: Any, rows: Any, a: Any, b: Any, t: Any, i: Any
) -> Any:
    z = dot(w, rows, a, b)
    loss = 1.0 - z if t > 0.0 else abs(z)
    if loss > 0.0:
        norm2 = _finite(w, row_diff_norm2(rows, a, b, w.scratch))
        if norm2 > 0.0:
            step = min(learner.C, loss / norm2)
            add(w, rows, a, b, step if t > 0.0 or z < 0.0 else -step)


@pair_step.implementation(RommaStep)
def _romma_step(learner: Any, w: Any, rows: Any, a: Any, b: Any, t: Any, i: Any) -> Any:
    z = dot(w, rows, a, b)
    if z < 1.0:
        x2 = _finite(w, row_diff_norm2(rows, a, b, w.scratch))
        w2 = w.c[NORM2]
        if x2 > 0.0:
            area = x2 * w2 - z * z
            if w2 == 0.0 or z >= x2 * w2 or area <= 1e-12 * x2 * w2:
                scale(w, 0.0)
                step = 1.0 / x2
            else:
                scale(w, (x2 * w2 - z) / area)
                step = w2 * (1.0 - z) / area
            _add_projected(w, rows, a, b, step, learner.max_norm2)


@pair_step.implementation(PerceptronStep)
def _perceptron_step(learner: Any, w: Any, rows: Any, a: Any, b: Any, t: Any, i: Any) -> Any:
    if t > 0.0 and dot(w, rows, a, b) <= learner.margin:
        add(w, rows, a, b, 1.0)
