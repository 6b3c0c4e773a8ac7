"""Tell the callbacks where a batch solver stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.solvers.base import Callback, Progress, notify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["report"]


def report(
    callbacks: Sequence[Callback],
    stage: str,
    step: int,
    total: int,
    values: Mapping[str, float],
    coef: NDArray[np.float64],
) -> bool:
    """Call every callback with the current weights; True when one of them asks to stop."""

    def current() -> NDArray[np.float64]:
        return coef

    return notify(callbacks, Progress(stage, step, total, values, current))
