from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankine import LinearModel
from rankine.core.errors import ModelError, ModelFormatError, ParameterError
from rankine.model.covariance import CovarianceRecord, WeightCovariance

RECORD = CovarianceRecord("sandwich", 100, 90.0)


def covariance(rows=(0, 2), factor=((1.0, 0.0), (0.5, 2.0)), record=RECORD):
    return WeightCovariance(np.array(rows), np.array(factor).ravel(), record)


@pytest.fixture
def model():
    weights = LinearModel.from_weights([1.0, 0.0, -2.0], ["bm25", "age", "spam"])
    return replace(weights, covariance=covariance())


def test_intervals_are_named_and_around_the_weights(model):
    rows = model.intervals(0.9).to_pylist()
    assert [row["name"] for row in rows] == ["bm25", "spam"]
    widths = [row["high"] - row["low"] for row in rows]
    assert widths[1] / widths[0] == pytest.approx(np.sqrt(0.5**2 + 2.0**2))
    assert [(row["low"] + row["high"]) / 2 for row in rows] == pytest.approx([1.0, -2.0])


@pytest.mark.parametrize("level", [0.0, 1.0, 95, float("nan")])
def test_a_level_that_is_no_probability_is_refused(model, level):
    with pytest.raises(ParameterError) as error:
        model.intervals(level)
    assert error.value.parameter == "level"


def test_a_weight_without_a_row_is_certain():
    assert covariance().uncertainty(np.array([1]), np.array([5.0])).standard_error == 0.0
    both = covariance().uncertainty(np.array([0, 1, 2]), np.array([1.0, 5.0, -2.0]))
    assert both.standard_error == pytest.approx(np.hypot(0.0, 4.0))


def test_equal_rows_are_above_each_other_with_probability_one_half():
    certain = covariance().uncertainty(np.array([1]), np.array([5.0]))
    assert [certain.probability_positive(x) for x in (-1.0, 0.0, 1.0)] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "change",
    [
        {"rows": (2, 0)},
        {"rows": (-1, 0)},
        {"rows": (0, 1, 2)},
        {"factor": (np.nan, 1.0)},
        {"record": CovarianceRecord("guess", 100, 90.0)},
        {"record": CovarianceRecord("sandwich", 1, 90.0)},
        {"record": CovarianceRecord("sandwich", 100, float("nan"))},
    ],
)
def test_malformed_covariances_are_refused(change):
    with pytest.raises(ModelFormatError):
        covariance(**change)


def test_positions_beyond_the_weights_are_refused(model):
    with pytest.raises(ModelFormatError):
        replace(model, covariance=covariance(rows=(0, 3)))


def test_a_file_keeps_the_covariance(model):
    loaded = LinearModel.from_bytes(model.to_bytes())
    assert loaded.intervals().equals(model.intervals())
    assert loaded.digest == model.digest
    assert loaded.digest != replace(model, covariance=None).digest


def test_a_compact_model_has_none(model):
    with pytest.raises(ModelError):
        model.compact().intervals()


def test_a_band_over_several_weights_is_wider_than_one_interval():
    part = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0]
    independent = WeightCovariance(np.arange(20), part.ravel(), RECORD)
    equal = WeightCovariance(np.arange(20), np.ones(20), RECORD)
    # Twenty independent weights: the level of each is the twentieth root.
    expected = independent.quantile(0.95 ** (1 / 20))
    assert independent.simultaneous_quantile(slice(0, 20), 0.95) == pytest.approx(
        expected, rel=0.02
    )
    assert equal.simultaneous_quantile(slice(0, 20), 0.95) == pytest.approx(
        equal.quantile(0.95), rel=0.03
    )
