"""Calibration recovers known probabilities, keeps orders, and refuses training lists."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from rankine import LeastSquaresRanker, LinearModel
from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.data import Dataset
from rankine.evaluation.calibration import OutcomeRows, calibrate, check_held_out
from rankine.metrics.probability import calibration_error
from rankine.scoring import Scorer

pytestmark = pytest.mark.kernels
EXAMINED = np.array([1.0, 0.6, 0.4, 0.3, 0.2])
MODEL = LinearModel.from_weights([1.0, 0.0])


def click_log(n_lists=4000, seed=0, shift=0.0):
    """Lists of five rows in a random order; the click probabilities are known."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5 * n_lists, 2)) + shift * rng.normal(size=n_lists).repeat(5)[:, None]
    position = np.tile(np.arange(1, 6), n_lists)
    lists = X[:, 0].reshape(-1, 5)
    centred = (lists - lists.mean(axis=1, keepdims=True)).ravel()
    truth = EXAMINED[position - 1] / (1 + np.exp(1 - 1.5 * centred))
    clicked = (rng.random(len(truth)) < truth).astype(float)
    columns = {"clicked": clicked, "position": position}
    qid = 7 * np.repeat(np.arange(n_lists), 5) + 3
    return Dataset.from_arrays(X, clicked, qid, columns=columns), truth


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_known_probabilities_are_recovered(shift):
    data, truth = click_log(shift=shift)
    model = calibrate(MODEL, data, outcome="clicked", position="position")
    np.testing.assert_allclose(model.calibration.examination, EXAMINED, atol=0.05)
    sizes = np.full(data.n_queries, 5)
    found = Scorer(model).probability(data.X, data.columns["position"], group=sizes)
    assert np.abs(found - truth).mean() < 0.012
    outcomes, held_out = OutcomeRows.read(
        MODEL, data, "clicked", "position"
    ).held_out_probabilities()
    assert calibration_error(outcomes, held_out) < 0.012


def test_without_positions_the_probability_depends_on_the_score_alone():
    data, _ = click_log(500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = calibrate(MODEL, data, outcome="clicked")
    assert model.calibration.examination == ()
    scores = data.X[:5]
    assert Scorer(model).probability(scores, [1, 2, 3, 4, 5]).tolist() == (
        Scorer(model).probability(scores).tolist()
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_a_list_stays_that_of_its_scores(seed):
    data, _ = click_log(300, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = calibrate(MODEL, data, outcome="clicked", position="position")
    rows = np.random.default_rng(seed).normal(scale=4, size=(200, 2))
    scorer = Scorer(model)
    order = np.argsort(-scorer.probability(rows), kind="stable")
    assert order.tolist() == scorer.rank(rows).indices.tolist()


def test_scores_that_say_nothing_still_keep_their_order():
    data, _ = click_log(400)
    reverse = LinearModel.from_weights([-1.0, 0.0])
    with pytest.warns(UserWarning, match="does not rise"):
        model = calibrate(reverse, data, outcome="clicked")
    rate = data.columns["clicked"].mean()
    probability = Scorer(model).probability(data.X[:5])
    np.testing.assert_allclose(probability, rate, rtol=0.05)
    assert np.array_equal(np.argsort(-probability), Scorer(model).rank(data.X[:5]).indices)


def test_training_lists_are_refused_and_held_out_lists_are_not():
    data, _ = click_log(200)
    model = LeastSquaresRanker().fit(data).to_model()
    with pytest.raises(ParameterError) as caught:
        calibrate(model, data, outcome="clicked")
    assert caught.value.parameter == "log"
    assert caught.value.fix
    other = replace(data, qid=data.qid + 1, query_index=None)
    assert calibrate(model, other, outcome="clicked").calibration is not None
    # Ids that are numbered anew in every file say nothing; the same file is suspicious.
    unknown = replace(model, provenance={"training": {"sources": ["a.txt"]}})
    with pytest.warns(UserWarning, match="same file"):
        check_held_out(unknown, replace(data, sources=("a.txt",)))


@pytest.mark.parametrize(
    ("changes", "arguments", "error", "parameter"),
    [
        ({}, ("bought", None), SchemaError, "outcome"),
        ({}, ("position", None), SchemaError, "outcome"),
        ({}, ("clicked", "place"), SchemaError, "position"),
        ({"position": np.zeros(1000)}, ("clicked", "position"), SchemaError, "position"),
        ({"clicked": np.zeros(1000)}, ("clicked", None), NoPairsError, None),
    ],
)
def test_bad_columns_name_the_parameter_and_a_remedy(changes, arguments, error, parameter):
    data, _ = click_log(200)
    data = replace(data, columns={**data.columns, **changes})
    with pytest.raises(error) as caught:
        calibrate(MODEL, data, outcome=arguments[0], position=arguments[1])
    assert caught.value.parameter == parameter
    assert caught.value.fix


def test_few_outcomes_are_warned_about():
    data, _ = click_log(20)
    with pytest.warns(UserWarning, match="outcomes"):
        calibrate(MODEL, data, outcome="clicked")


def test_few_rows_without_the_outcome_are_warned_about():
    data, _ = click_log(400)
    mostly = np.ones(data.n_rows)
    mostly[:7] = 0
    data = replace(data, columns={**data.columns, "clicked": mostly})
    with pytest.warns(UserWarning, match="only 7 rows without"):
        calibrate(MODEL, data, outcome="clicked")
