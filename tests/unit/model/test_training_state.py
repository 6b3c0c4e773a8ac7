"""The state of a training in a model file, which may be damaged."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import ModelFormatError
from rankine.model.training_state import TrainingState


def test_arrays_are_read_only_copies():
    rows = np.array([0, 3])
    state = TrainingState(rows, np.ones(4), np.ones(2), np.array([7.0]))
    rows[0] = 9
    assert state.rows.tolist() == [0, 3]
    assert not any(a.flags.writeable for a in (state.rows, state.values, state.factors))
    TrainingState(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))


@pytest.mark.parametrize(
    ("rows", "values", "factors", "clock"),
    [
        ([3, 0], [1, 1], [1, 1], []),
        ([0, 0], [1, 1], [1, 1], []),
        ([-1, 0], [1, 1], [1, 1], []),
        ([0, 1], [1, 1, 1], [1, 1], []),
        ([0, 1], [1, 1], [1], []),
        ([], [1], [], []),
        ([0], [np.nan], [1], []),
        ([0], [1], [np.inf], []),
        ([0], [1], [1], [np.nan]),
    ],
)
def test_a_damaged_state_is_refused(rows, values, factors, clock):
    with pytest.raises(ModelFormatError):
        TrainingState(*(np.array(array, dtype=float) for array in (rows, values, factors, clock)))
