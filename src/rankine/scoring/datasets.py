"""Compute probabilities for all lists of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError, SchemaError
from rankine.scoring.probability import OutcomeProbabilities
from rankine.transforms.clicks import check_positions

if TYPE_CHECKING:
    from rankine.data import Dataset
    from rankine.model import LinearModel


def check_position_column(model: LinearModel, position: str | None) -> tuple[str, ...]:
    """Return the column of positions to read; raise if the calibration has no positions."""
    if position is None:
        return ()
    if model.calibration is not None and model.calibration.position is None:
        raise ParameterError(
            "the probabilities of this model do not depend on the position",
            parameter="position",
            fix="Leave it out, or calibrate again with --position",
        )
    return (position,)


def dataset_probabilities(
    compute: OutcomeProbabilities,
    data: Dataset,
    scores: NDArray[np.float64],
    position: str | None = None,
) -> NDArray[np.float64]:
    """Return the probability of every row, in row order, at the position of a column."""
    index, positions = data.queries, None
    if position is not None:
        if position not in data.columns:
            raise SchemaError(
                f"there is no column {position!r} of displayed positions",
                column=position,
                fix="Add the column to the data, and keep it when reading",
            )
        positions = index.gather(check_positions(data.columns[position]))
    return index.scatter(compute(index.gather(scores), index.starts, positions))
