"""One step along one weight under l1 |w|_1 + l2/2 |w|^2.

Two functions lie above the loss phi along the weight:

* the parabola g d + beta/2 d^2, whose best regularised step is a soft threshold (the paper's
  lemmas 1 and 2): u = beta w - g; w_new = sign(u) max(|u| - l1, 0) / (beta + l2);
* for a loss with |phi'''| <= R phi'', the exponential g d + (h/R^2)(e^{R|d|} - 1 - R|d|) with the
  true second derivative h, whose best regularised step has a closed form when l2 = 0.

``newton_step`` takes the one that promises more. Far from the optimum the parabola of a loss with
a vanishing second derivative is hopelessly narrow, near it the exponential gives Newton's step.
Both lie above the loss, so the objective cannot rise.
"""

from __future__ import annotations

import numpy as np

from rankine.kernels.compile import jit


@jit
def quadratic_step(g: float, H: float, w: float, l1: float, l2: float) -> float:
    """argmin over d of g d + H/2 d^2 + l1 |w + d| + l2/2 (w + d)^2."""
    u = H * w - g
    if u > l1:
        return (u - l1) / (H + l2) - w
    if u < -l1:
        return (u + l1) / (H + l2) - w
    return -w


@jit
def _stretch(force: float, h: float, R: float, l2: float) -> float:
    """Root t >= 0 of (h/R)(e^{Rt} - 1) + l2 t = force, for force > 0.

    Newton's iteration from above; the function is convex and increasing, so it never crosses.
    """
    t = np.log1p(R * force / h) / R
    if l2 > 0.0:
        t = min(t, force / l2)
        for _ in range(50):
            rise = np.expm1(R * t)
            excess = h / R * rise + l2 * t - force
            change = excess / (h * (rise + 1.0) + l2)
            t -= change
            if change <= 1e-14 * t:
                break
    return max(t, 0.0)


@jit
def exponential_step(g: float, h: float, R: float, w: float, l1: float, l2: float) -> float:
    """argmin over d of g d + (h/R^2)(e^{R|d|} - 1 - R|d|) + l1 |w + d| + l2/2 (w + d)^2, h > 0."""
    if w == 0.0:
        force = abs(g) - l1
        if force <= 0.0:
            return 0.0
        return -np.sign(g) * _stretch(force, h, R, l2)
    side = np.sign(w)
    slope = g + l2 * w + l1 * side
    if slope == 0.0:
        return 0.0
    force = abs(slope)
    away = -np.sign(slope)
    t = _stretch(force, h, R, l2)
    if away == side or t <= abs(w):
        return away * t
    # The step would cross zero, where the pull of l1 turns round.
    if force - 2.0 * l1 <= 0.0:
        return -w
    t = _stretch(force - 2.0 * l1, h, R, l2)
    return away * t if t > abs(w) else -w


@jit
def newton_step(g: float, h: float, R: float, beta: float, w: float, l1: float, l2: float) -> float:
    """The better of the two steps, by what each is sure to gain."""
    plain = quadratic_step(g, beta, w, l1, l2)
    # A curvature lost in rounding cannot carry an exponential.
    if h <= 1e-14 * beta:
        return plain
    bold = exponential_step(g, h, R, w, l1, l2)
    if abs(bold) <= abs(plain):
        return plain
    u = min(R * abs(bold), 600.0)
    bent = h / (R * R) * (np.expm1(u) - u) if u > 1e-4 else 0.5 * h * bold * bold * (1 + u / 3)
    sure_bold = g * bold + bent + l1 * abs(w + bold) + 0.5 * l2 * (w + bold) ** 2
    sure_plain = g * plain + 0.5 * beta * plain * plain
    sure_plain += l1 * abs(w + plain) + 0.5 * l2 * (w + plain) ** 2
    return bold if sure_bold < sure_plain else plain


@jit
def violation(g: float, w: float, l1: float, l2: float) -> float:
    """Magnitude of the smallest subgradient: 0 exactly where the weight is optimal."""
    if w > 0.0:
        return abs(g + l2 * w + l1)
    if w < 0.0:
        return abs(g + l2 * w - l1)
    return max(0.0, abs(g) - l1)
