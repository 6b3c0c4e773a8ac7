from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from rankine import LinearModel
from rankine.core.errors import ModelError
from rankine.evaluation.weight_changes import compare_weights
from rankine.model.covariance import CovarianceRecord, WeightCovariance


def model(weights, errors, names="abc", degrees=40.0, **parameters):
    record = CovarianceRecord("sandwich", 50, degrees)
    covariance = WeightCovariance(np.arange(len(weights)), np.diag(errors).ravel(), record)
    linear = LinearModel.from_weights(weights, list(names), parameters=parameters)
    return replace(linear, covariance=covariance)


def test_changes_are_those_of_welchs_test_with_holms_correction():
    old, new = model([1.0, 2.0, 3.0], [0.3, 0.3, 0.3]), model([1.1, 2.0, 5.0], [0.4, 0.4, 0.4])
    rows = compare_weights(old, new).to_pylist()
    error = 0.5
    degrees = error**4 / (0.3**4 / 40 + 0.4**4 / 40)
    assert [row["change"] for row in rows] == pytest.approx([0.1, 0.0, 2.0])
    half = t.ppf(0.975, degrees) * error
    assert rows[2]["low"] == pytest.approx(2.0 - half, rel=1e-3)
    assert rows[2]["high"] == pytest.approx(2.0 + half, rel=1e-3)
    assert rows[2]["p"] == pytest.approx(3 * 2 * t.sf(4.0, degrees), rel=0.05)
    assert [row["changed"] for row in rows] == [False, False, True]


def test_weights_that_one_model_lacks_are_left_out():
    old, new = model([1.0, 2.0], [0.1, 0.1], "ab"), model([1.0, 2.0], [0.1, 0.1], "bc")
    assert compare_weights(old, new)["name"].to_pylist() == ["b"]


def test_models_without_a_common_weight_have_no_rows():
    old, new = model([1.0], [0.1], "a"), model([1.0], [0.1], "b")
    assert compare_weights(old, new).num_rows == 0


def test_models_of_different_losses_are_refused():
    with pytest.raises(ModelError):
        compare_weights(model([1.0], [1.0], "a", loss="hinge"), model([1.0], [1.0], "a"))


def test_models_without_intervals_are_refused():
    plain = LinearModel.from_weights([1.0], ["a"])
    with pytest.raises(ModelError):
        compare_weights(plain, plain)
