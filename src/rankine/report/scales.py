"""From data to places on a picture: linear and logarithmic scales, and round ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Scale", "linear", "logarithmic"]


@dataclass(frozen=True)
class Scale:
    """Maps ``low..high`` to 0..1, evenly or by logarithms; ``ticks`` are round values inside."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def __call__(self, value: float) -> float:
        """Place between 0 and 1; values outside are put on the edge."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log(max(v, 1e-300)) for v in (value, low, high))
        share = 0.5 if high == low else (value - low) / (high - low)
        return min(max(share, 0.0), 1.0)

    def label(self, tick: float) -> str:
        """Text of a tick."""
        if self.log and (tick < 0.01 or tick >= 1e5):
            return f"1e{round(math.log10(tick))}"
        size = abs(tick)
        if size >= 1e5:
            return f"{tick:.3g}".replace("e+0", "e")
        if size >= 1000:
            return f"{tick:,.0f}"
        return f"{tick:.6g}".replace("-", "\N{MINUS SIGN}")


def linear(values: Sequence[float], *, wanted: int = 5, pad: float = 0.06) -> Scale:
    """A linear scale around values, ending on them where they touch a natural bound (0 or 1)."""
    known = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low - 0.5 * max(abs(low), 0.1), high + 0.5 * max(abs(high), 0.1)
    margin = pad * (high - low)
    unit = min(known) >= 0 and max(known) <= 1
    start = max(low - margin, 0.0) if min(known) >= 0 else low - margin
    stop = min(high + margin, 1.0) if unit else high + margin
    step = _round_step((stop - start) / max(wanted, 1))
    first = math.ceil(start / step - 1e-9)
    last = math.floor(stop / step + 1e-9)
    return Scale(start, stop, tuple(round(k * step, 12) for k in range(first, last + 1)))


def logarithmic(values: Sequence[float]) -> Scale:
    """A logarithmic scale of positive values; ticks at powers of ten, or 1-2-5 for few decades."""
    known = [v for v in values if math.isfinite(v) and v > 0] or [1.0, 10.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low / 2, high * 2
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    few = math.log10(high / low) <= 2.2
    steps = (1, 2, 5) if few else (1,)
    ticks = [s * 10.0**d for d in decades for s in steps]
    inside = [t for t in ticks if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
    every = max(1, -(-len(inside) // 7))
    return Scale(low, high, tuple(inside[::every]), log=True)


def _round_step(size: float) -> float:
    power = 10.0 ** math.floor(math.log10(size))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= size * (1 - 1e-9))
