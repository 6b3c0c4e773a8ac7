"""Metrics of probabilities against their definitions."""

import numpy as np
import pytest

from rankine.core.errors import ParameterError
from rankine.metrics import evaluate, needs_probabilities, parse_metric, random_expectation

pytestmark = pytest.mark.kernels
RNG = np.random.default_rng(4)
P = RNG.random(600)
Y = (RNG.random(600) < P).astype(float)
QID = RNG.integers(0, 40, 600)


def test_values_follow_their_definitions():
    assert evaluate("brier", Y, P, QID) == pytest.approx(np.mean((P - Y) ** 2))
    happened = np.where(Y > 0, P, 1 - P)
    assert evaluate("log-loss", Y, P, QID) == pytest.approx(-np.log(happened).mean())
    order = np.argsort(P)
    parts = np.array_split(order, 20)
    ece = sum(abs((P[part] - Y[part]).sum()) for part in parts) / len(P)
    assert evaluate("ece", Y, P, QID) == pytest.approx(ece)
    assert evaluate("ece", Y, P) == pytest.approx(ece)


def test_a_query_counts_by_its_rows():
    values = evaluate("brier", Y, P, QID, per_query=True)
    by_query = evaluate("brier:mean=queries", Y, P, QID)
    assert by_query == pytest.approx(values.mean())
    assert evaluate("brier:threshold=2", 2 * Y, P, QID) == evaluate("brier", Y, P, QID)
    label = {"bought": Y}
    assert evaluate("brier:label=bought", 1 - Y, P, QID, columns=label) == pytest.approx(
        evaluate("brier", Y, P, QID)
    )


def test_certainty_and_ties_have_finite_values():
    assert evaluate("log-loss", [1, 0], [0.0, 1.0]) == pytest.approx(708.4, abs=0.1)
    assert evaluate("log-loss", [1, 0], [1.0, 0.0]) == 0.0
    # Equal probabilities are in one bin, whatever their order.
    assert evaluate("ece", [0, 1] * 50, [0.5] * 100) == 0.0
    assert random_expectation("ece", Y) == pytest.approx(0.0, abs=1e-12)
    assert random_expectation("brier", Y) == pytest.approx(Y.mean() * (1 - Y.mean()))


@pytest.mark.parametrize("metric", ["ece", "log-loss", "brier"])
def test_scores_that_are_no_probabilities_are_refused(metric):
    assert needs_probabilities(metric)
    assert not parse_metric(metric).larger_is_better
    with pytest.raises(ParameterError) as caught:
        evaluate(metric, [0, 1], [0.5, 1.5])
    assert caught.value.parameter == "metric"
    assert "calibrate" in caught.value.fix
