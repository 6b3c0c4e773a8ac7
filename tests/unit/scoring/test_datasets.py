"""Probabilities of all rows of a dataset, at the positions of a column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankine import Dataset, LinearModel
from rankine.core.errors import ParameterError, SchemaError
from rankine.core.specs import OutcomeCalibration
from rankine.scoring.datasets import check_position_column, dataset_probabilities
from rankine.scoring.probability import OutcomeProbabilities

CURVE = OutcomeCalibration(
    outcome="clicked", scores=(0.0, 1.0), logits=(0.0, 1.0), tails=(1.0, 1.0),
    position="pos", examination=(1.0, 0.5),
)  # fmt: skip


def test_every_row_has_the_probability_at_its_position():
    # Rows of a list need not be together.
    data = Dataset.from_arrays(np.zeros((4, 1)), [0, 1, 0, 1], [1, 2, 1, 2])
    data = replace(data, columns={"pos": np.array([1, 2, 2, 1])})
    compute, scores = OutcomeProbabilities(CURVE), np.array([0.5, -1.0, 2.0, 0.0])
    found = dataset_probabilities(compute, data, scores, "pos")
    for rows in ([0, 2], [1, 3]):
        alone = compute(scores[rows], np.array([0, 2]), data.columns["pos"][rows])
        np.testing.assert_array_equal(found[rows], alone)
    assert (dataset_probabilities(compute, data, scores) >= found).all()
    with pytest.raises(SchemaError) as caught:
        dataset_probabilities(compute, data, scores, "place")
    assert caught.value.column == "place"


def test_a_calibration_without_positions_reads_no_column():
    model = LinearModel.from_weights([1.0])
    with_positions = replace(model, calibration=CURVE)
    without = OutcomeCalibration(
        outcome="clicked", scores=CURVE.scores, logits=CURVE.logits, tails=CURVE.tails
    )
    assert check_position_column(with_positions, "pos") == ("pos",)
    assert check_position_column(with_positions, None) == ()
    with pytest.raises(ParameterError) as caught:
        check_position_column(replace(model, calibration=without), "pos")
    assert caught.value.parameter == "position"
