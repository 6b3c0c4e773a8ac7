"""Mixtures of risks have the sums of values, slopes and curvatures."""

import numpy as np
import pytest

from rankine.data import Dataset
from rankine.losses.mixture import mix_risks
from rankine.losses.pair_queries import pair_risk

RNG = np.random.default_rng(0)
QID = np.repeat(np.arange(6), 5)


def risks_of(loss):
    X = RNG.normal(size=(30, 2))
    # The second goal has no pair in the first query.
    labels = RNG.integers(0, 3, 30), np.where(QID == 0, 1, RNG.integers(0, 2, 30))
    data = [Dataset.from_arrays(X, y, QID) for y in labels]
    return [pair_risk(rows, None, loss) for rows in data], data[0].queries


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_a_mixture_is_the_weighted_sum_of_its_risks(loss):
    risks, queries = risks_of(loss)
    mixed = mix_risks(risks, np.array([0.3, 0.7]), queries)
    scores = RNG.normal(size=30)
    (first, first_slopes), (second, second_slopes) = (risk.evaluate(scores) for risk in risks)
    value, slopes = mixed.evaluate(scores)
    assert value == pytest.approx(0.3 * first + 0.7 * second)
    np.testing.assert_allclose(slopes, 0.3 * first_slopes + 0.7 * second_slopes)
    assert mixed.at_zero == pytest.approx(mixed.evaluate(np.zeros(30))[0])


def test_its_curvature_is_that_of_its_slopes():
    risks, queries = risks_of("logistic")
    mixed = mix_risks(risks, np.array([0.3, 0.7]), queries)
    scores, step = RNG.normal(size=30), RNG.normal(size=30)
    _, slopes, curvature = mixed.evaluate_with_curvature(scores)
    difference = mixed.evaluate(scores + 1e-6 * step)[1] - slopes
    np.testing.assert_allclose(curvature.times(step), difference / 1e-6, atol=1e-5)
    unit = np.eye(30)
    expected = [curvature.times(column)[i] for i, column in enumerate(unit)]
    np.testing.assert_allclose(curvature.diagonal(), expected, atol=1e-12)


def test_smoothing_lowers_the_hinge_by_at_most_half_the_width():
    risks, queries = risks_of("hinge")
    mixed = mix_risks(risks, np.array([0.5, 0.5]), queries)
    scores = RNG.normal(size=30)
    value, smooth = mixed.evaluate(scores)[0], mixed.smoothed(0.1).evaluate(scores)[0]
    assert value - 0.05 * mixed.at_zero <= smooth <= value


def test_one_goal_alone_is_its_risk():
    risks, queries = risks_of("hinge")
    assert mix_risks(risks, np.array([0.0, 1.0]), queries) is risks[1]
