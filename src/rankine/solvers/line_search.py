"""Minimise Lam/2 |w + k d|^2 + R along a line, for a piecewise linear risk.

Scores are affine along the line, so a trial costs one count pass and no product with X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Trial", "minimise_along"]


@dataclass(frozen=True)
class Trial:
    """The objective at one step: J, R, its slope along the line, and the subgradient there."""

    step: float
    objective: float
    risk: float
    risk_slope: float
    slopes: Any


def minimise_along(
    ask: Callable[[float], tuple[float, float, Any]],
    start: Trial,
    line: tuple[float, float],
    *,
    rtol: float = 0.1,
    max_trials: int = 6,
    max_step: float = float("inf"),
) -> Trial:
    """Best trial, the start included.

    Parameters
    ----------
    ask
        Risk, its slope along the line and its subgradient at a step.
    start
        The trial at step 0.
    line
        A0 = Lam <w, d> and A1 = Lam |d|^2, so that J(k) = J(0) - R(0) + A0 k + A1 k^2 / 2 + R(k).
    rtol
        Stop when the slope of J has shrunk to this fraction of the one at 0.
    """
    linear, bend = line
    rest = start.objective - start.risk
    steepest = -(linear + start.risk_slope)
    best, low = start, start
    high: Trial | None = None
    if steepest <= 0.0 or bend <= 0.0:
        return best
    step = min(1.0, max_step)
    for _ in range(max_trials):
        risk, risk_slope, slopes = ask(step)
        objective = rest + linear * step + 0.5 * bend * step * step + risk
        trial = Trial(step, objective, risk, risk_slope, slopes)
        if objective < best.objective:
            best = trial
        slope = linear + bend * step + risk_slope
        if abs(slope) <= rtol * steepest:
            break
        low, high = (low, trial) if slope > 0.0 else (trial, high)
        if high is None:
            if step >= max_step:
                break
            step = min(2.0 * step, max_step)
        else:
            step = _between(low, high, linear, bend)
            if not low.step < step < high.step:
                break
    return best


def _between(low: Trial, high: Trial, linear: float, bend: float) -> float:
    """Minimiser of the quadratic plus the larger of the two bracketing linear pieces of R."""
    turn = high.risk_slope - low.risk_slope
    width = high.step - low.step
    if turn > 0.0:
        left = low.risk - low.risk_slope * low.step
        right = high.risk - high.risk_slope * high.step
        kink = (left - right) / turn
    else:
        kink = 0.5 * (low.step + high.step)
    on_low, on_high = -(linear + low.risk_slope) / bend, -(linear + high.risk_slope) / bend
    if low.step < on_low <= kink:
        step = on_low
    elif kink <= on_high < high.step:
        step = on_high
    else:
        step = kink
    if not low.step + 0.02 * width <= step <= high.step - 0.02 * width:
        step = min(max(step, low.step + 0.1 * width), high.step - 0.1 * width)
    return step
