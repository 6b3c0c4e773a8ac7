"""What clicks need in training and models do not: weights by position, and offsets of positions.

A click at position k weighs 1 / P(looked at k), which makes the weighted loss unbiased (Joachims,
Swaminathan and Schnabel 2017). An offset is one more weight per position, learnt beside those of
the features and left out when scoring: it takes up what the position explains, so that features
need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import ParameterError, SchemaError
from rankine.data.dataset import Dataset

__all__ = ["ClickCorrection", "check_positions", "inverse_propensity", "position_weights"]

#: A column with a larger number holds no positions.
_LAST = 1_000_000


class ClickCorrection(NamedTuple):
    """How training rows are corrected for the positions they were shown at.

    Attributes
    ----------
    inverse
        Weight of a click by position, the last for all beyond; empty for none.
    offset
        Number of positions with an offset of their own: position 1 is the reference, the last
        stands for all beyond. 0 or 1 for none.
    """

    inverse: tuple[float, ...] = ()
    offset: int = 0

    @classmethod
    def make(
        cls,
        propensity: Sequence[float] | None,
        max_weight: float = 10.0,
        position_offset: int | None = None,
    ) -> ClickCorrection:
        """From the parameters of a ranker."""
        inverse = () if propensity is None else inverse_propensity(propensity, max_weight)
        if position_offset is not None and position_offset < 2:
            raise ParameterError(
                f"position_offset={position_offset} has no position to compare",
                fix="Name how many positions have an offset of their own, such as 10",
            )
        return cls(inverse, position_offset or 0)

    @property
    def n_columns(self) -> int:
        """Columns that ``apply`` adds."""
        return max(self.offset - 1, 0)

    def apply(self, block: Dataset) -> Dataset:
        """Rows with weights, and with a column per offset after the features."""
        if self.inverse:
            weight = position_weights(block, self.inverse)
            block = replace(block, weight=weight if block.weight is None else block.weight * weight)
        if self.n_columns:
            names = block.feature_names
            more = tuple(f"position {k}" for k in range(2, self.offset + 1))
            block = replace(
                block, X=self._wider(block), feature_names=None if names is None else names + more
            )
        return block

    def _wider(self, block: Dataset) -> Any:
        place = np.minimum(row_positions(block), self.offset) - 2
        rows = np.flatnonzero(place >= 0)
        shape = (block.n_rows, self.n_columns)
        if isinstance(block.X, np.ndarray):
            marks = np.zeros(shape, dtype=block.X.dtype)
            marks[rows, place[rows]] = 1
            return np.ascontiguousarray(np.hstack([block.X, marks]))
        ones = np.ones(len(rows), dtype=block.X.dtype)
        marks = sparse.csr_matrix((ones, (rows, place[rows])), shape=shape)
        return sparse.hstack([block.X, marks], format="csr")

    def strip(self, coef: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The weights of the features, and the offsets by position (0 for the first)."""
        kept = len(coef) - self.n_columns
        return coef[:kept], np.r_[0.0, coef[kept:]]


def inverse_propensity(propensity: Sequence[float], max_weight: float) -> tuple[float, ...]:
    """Weight of a click at position 1, 2, ...: 1 / propensity, at most ``max_weight``."""
    values = np.asarray(propensity, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not ((values > 0) & (values <= 1)).all():
        raise ParameterError(
            "propensity must be probabilities in (0, 1], one per position from 1",
            fix="Pass for example [1.0, 0.6, 0.4], or estimate_propensity(...)",
        )
    if not (np.isfinite(max_weight) and max_weight >= 1):
        raise ParameterError(f"max_weight={max_weight!r} is not >= 1", fix="Use 10.0")
    return tuple(np.minimum(1.0 / values, max_weight).tolist())


def position_weights(data: Dataset, inverse: Sequence[float]) -> NDArray[np.float64]:
    """Weight of each row: that of its position where its label is positive, else 1."""
    table = np.asarray(inverse)
    place = np.minimum(row_positions(data), len(table)) - 1
    return np.where(data.y > 0, table[place], 1.0)


def row_positions(data: Dataset) -> NDArray[np.int64]:
    """Where each row was shown, from 1."""
    if data.position is None:
        raise SchemaError(
            "this needs the position that each row was shown at",
            fix="Give a position column (position='position')",
        )
    return check_positions(data.position)


def check_positions(values: Any) -> NDArray[np.int64]:
    """Positions as integers from 1."""
    positions = np.asarray(values)
    if positions.dtype.kind not in "iu" or (positions < 1).any() or (positions > _LAST).any():
        raise SchemaError(
            f"positions must be integers from 1 to {_LAST:,}", fix="Count positions from 1"
        )
    return positions.astype(np.int64)
