"""Where one-pass learning ended, stored in a model so that a warm start continues it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ModelFormatError
from rankine.model.weights import read_only


@dataclass(frozen=True, eq=False)
class TrainingState:
    """The numbers that an update keeps for every weight, and for all weights together.

    Attributes
    ----------
    rows
        Positions of the weights that had a gradient, strictly increasing. After the features follow
        the indicators of missing values, the offsets of positions and the constant term.
    values
        Numbers of each of these weights, one weight after the other.
    factors
        What the columns of these weights were multiplied by in training.
    clock
        Numbers of all weights together, such as the number of steps.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    factors: NDArray[np.float64]
    clock: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Check the arrays, which may come from a damaged or hostile file."""
        object.__setattr__(self, "rows", read_only(self.rows, np.int64))
        for name in ("values", "factors", "clock"):
            array = read_only(getattr(self, name), np.float64)
            object.__setattr__(self, name, array)
            if not np.isfinite(array).all():
                raise ModelFormatError(f"the state of the training has {name} that are not finite")
        n_rows = len(self.rows)
        if n_rows and (self.rows[0] < 0 or not (self.rows[1:] > self.rows[:-1]).all()):
            raise ModelFormatError("positions of the training's state are not strictly increasing")
        if n_rows:
            is_divisible = len(self.values) % n_rows == 0
        else:
            is_divisible = len(self.values) == 0
        if len(self.factors) != n_rows or not is_divisible:
            raise ModelFormatError("the state of the training has arrays of different lengths")
