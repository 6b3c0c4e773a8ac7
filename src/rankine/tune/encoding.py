"""Parameters as points of a unit cube, for Gaussian processes.

Numbers go to [0, 1] on their own or their logarithmic axis; one of n categories to a corner of a
simplex whose corners are 1 apart (one-hot / sqrt 2), so that a category weighs as much as the
whole range of a number. A parameter that a setting does not read stands at the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Encoding"]

Setting = Mapping[str, Any]
#: Names of the parameters that a setting reads.
Active = Callable[[Setting], Collection[str]]

#: Standard deviation of a step near the incumbent, as a share of the range.
LOCAL_STEP = 0.1
#: Probability that a category is drawn again near the incumbent.
LOCAL_REDRAW = 0.2


class Encoding:
    """Draws, perturbs and encodes settings of a search space.

    Parameters
    ----------
    space
        Optuna distributions by name.
    active
        Function from a setting to the names it reads; None: all.
    """

    def __init__(self, space: Mapping[str, BaseDistribution], active: Active | None = None) -> None:
        self.space = dict(space)
        self._active = active
        widths = [self._width(dist) for dist in self.space.values()]
        self.groups = np.repeat(np.arange(len(widths)), widths)

    def random(self, rng: np.random.Generator) -> dict[str, Any]:
        """A uniform setting (uniform on the logarithm where the axis is logarithmic)."""
        return {name: self._draw(dist, rng) for name, dist in self.space.items()}

    def near(self, setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
        """A setting close to another one; what that one does not read is drawn afresh."""
        moved = {}
        for name, dist in self.space.items():
            known = name in setting
            if not known or (_choices(dist) is not None and rng.random() < LOCAL_REDRAW):
                moved[name] = self._draw(dist, rng)
            elif _choices(dist) is not None:
                moved[name] = setting[name]
            else:
                place = _to_unit(dist, setting[name]) + LOCAL_STEP * rng.standard_normal()
                moved[name] = _from_unit(dist, float(np.clip(place, 0.0, 1.0)))
        return moved

    def points(self, settings: Sequence[Setting]) -> NDArray[np.float64]:
        """One row per setting."""
        return np.array([self._point(setting) for setting in settings], dtype=np.float64).reshape(
            len(settings), len(self.groups)
        )

    def _point(self, setting: Setting) -> NDArray[np.float64]:
        read = self.space if self._active is None else self._active(setting)
        parts = []
        for name, dist in self.space.items():
            options = _choices(dist)
            here = name in setting and name in read
            if options is None:
                parts.append([_to_unit(dist, setting[name]) if here else 0.5])
            else:
                hot = np.zeros(len(options))
                if here and setting[name] in options:
                    hot[options.index(setting[name])] = np.sqrt(0.5)
                parts.append(list(hot))
        return np.concatenate(parts)

    @staticmethod
    def _width(dist: Any) -> int:
        options = _choices(dist)
        return 1 if options is None else len(options)

    @staticmethod
    def _draw(dist: Any, rng: np.random.Generator) -> Any:
        options = _choices(dist)
        if options is not None:
            return options[int(rng.integers(len(options)))]
        return _from_unit(dist, float(rng.random()))


def _choices(dist: Any) -> tuple[Any, ...] | None:
    return getattr(dist, "choices", None)


def _axis(dist: Any) -> tuple[float, float]:
    """Ends of the axis; a whole number owns the half unit on either side."""
    whole = _is_integer(dist)
    pad = 0.5 * (dist.step or 1) if whole else 0.0
    low, high = dist.low - pad, dist.high + pad
    return (float(np.log(low)), float(np.log(high))) if dist.log else (low, high)


def _is_integer(dist: Any) -> bool:
    return isinstance(dist.low, int)


def _to_unit(dist: Any, value: float) -> float:
    low, high = _axis(dist)
    place = float(np.log(value)) if dist.log else float(value)
    return 0.5 if high <= low else (place - low) / (high - low)


def _from_unit(dist: Any, place: float) -> Any:
    low, high = _axis(dist)
    value = low + place * (high - low)
    value = float(np.exp(value)) if dist.log else value
    if dist.step is not None:
        value = dist.low + round((value - dist.low) / dist.step) * dist.step
    value = min(max(value, dist.low), dist.high)
    return round(value) if _is_integer(dist) else float(value)
