"""The reliability diagram: bins, intervals, and when it is left out."""

from dataclasses import replace

import numpy as np
import pytest

from rankine import LinearModel, report
from rankine.core.specs import OutcomeCalibration
from rankine.data import Dataset
from rankine.metrics import evaluate

SPEC = OutcomeCalibration(
    outcome="clicked",
    position="position",
    scores=(-2.0, 2.0),
    logits=(-2.0, 2.0),
    tails=(1.0, 1.0),
    examination=(1.0, 0.5),
)
MODEL = replace(LinearModel.from_weights([1.0]), calibration=SPEC)


def dataset(seed=0):
    rng = np.random.default_rng(seed)
    x, position = rng.normal(size=3000), np.tile([1, 2, 3], 1000)
    clicked = (rng.random(3000) < np.minimum(1 / position, 1) / (1 + np.exp(-x))).astype(float)
    columns = {"clicked": clicked, "position": position}
    return Dataset.from_arrays(x[:, None], clicked, np.repeat(np.arange(1000), 3), columns=columns)


def test_the_report_compares_probabilities_with_outcomes():
    data = dataset()
    page = report(MODEL, data)
    figures = page.to_dict()["reliability"]
    assert sum(part["n"] for part in figures["bins"]) == 3000
    for part in figures["bins"]:
        assert 0 <= part["low"] <= part["share"] <= part["high"] <= 1
    lists = data.X.reshape(-1, 3)
    centred = (lists - lists.mean(axis=1, keepdims=True)).ravel()
    probability = np.array([1.0, 0.5, 0.5] * 1000) / (1 + np.exp(-centred))
    clicked = data.columns["clicked"]
    assert figures["brier"] == pytest.approx(evaluate("brier", clicked, probability))
    assert figures["ece"] == pytest.approx(evaluate("ece", clicked, probability))
    assert "Can its probabilities be trusted?" in page.html


def test_without_outcomes_or_calibration_there_is_no_figure():
    data = dataset()
    for model, columns in ((replace(MODEL, calibration=None), data.columns), (MODEL, {})):
        page = report(model, replace(data, columns=columns))
        assert "reliability" not in page.to_dict()
