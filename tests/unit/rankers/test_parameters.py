"""What the parameters of a ranker mean together, before any data is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankine import AdditiveRanker, DominationRanker, ElasticRanker, LeastSquaresRanker, SPDRanker
from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset
from rankine.rankers.base import BaseRanker

DATA = Dataset.from_arrays([[0.0, 1.0], [30.0, 1.0], [10.0, 0.0]], [0, 1, 2])


@pytest.mark.parametrize(
    ("ranker", "parameter"),
    [
        (SPDRanker("perceptron", l2=0.5), "l2"),
        (SPDRanker("perceptron", l2=0.5, record_at=[]), "l2"),
        (SPDRanker("pegasos", aggressiveness=0.5), "aggressiveness"),
        (SPDRanker(max_weight=5.0), "max_weight"),
        (ElasticRanker(loss="logistic", margin=2.0), "margin"),
        (AdditiveRanker(pairs=0, pair_smooth=3.0), "pair_smooth"),
    ],
)
def test_a_parameter_without_effect_is_refused(ranker: BaseRanker, parameter: str) -> None:
    with pytest.raises(ParameterError) as caught:
        ranker._check_effects()
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    "ranker",
    [
        SPDRanker("perceptron"),
        SPDRanker("perceptron", l2=0.0),
        SPDRanker("perceptron", l2=0.5, record_at=[10]),
        SPDRanker("perceptron", l2=0.5, record_at=np.array([10, 20])),
        SPDRanker(max_weight=5.0, propensity=[1.0, 0.5]),
        AdditiveRanker(pairs=[("a", "b")], pair_smooth=3.0),
    ],
)
def test_defaults_zeros_and_parameters_with_an_effect_are_taken(ranker: BaseRanker) -> None:
    ranker._check_effects()


def test_what_depends_on_a_parameter_of_several_values_may_have_an_effect() -> None:
    ranker = ElasticRanker(solver="psgd", l1=0.1)
    ranker._check_effects(varied=("solver",))
    with pytest.raises(ParameterError) as caught:
        ranker._check_effects()
    assert caught.value.parameter == "l1"


@pytest.mark.parametrize(
    ("ranker", "kind"),
    [
        (LeastSquaresRanker(scale="standard"), "standard"),
        (LeastSquaresRanker(scale=None), "none"),
        (DominationRanker(scale="query"), "query"),
        (AdditiveRanker(), "none"),
    ],
)
def test_the_scaling_is_that_of_a_fit(ranker: Any, kind: str) -> None:
    scaling = ranker.fit_scaling(DATA)
    assert scaling.kind == kind
    if kind == "standard":
        np.testing.assert_allclose(1.0 / scaling.factors, np.asarray(DATA.X).std(axis=0))


def test_a_rule_for_missing_values_that_tables_do_not_need_is_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        AdditiveRanker(missing="zero").fit_scaling(DATA)
    assert caught.value.parameter == "missing"
