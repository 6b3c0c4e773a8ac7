"""The value and the costs of a trial, and what a search may stop early."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import rankine
from rankine.core.errors import DivergenceError
from rankine.metrics import parse_metric
from rankine.solvers.base import Progress
from rankine.tuning.folds import make_folds
from rankine.tuning.objective import FIRST_REPORT, CostLimits, Objective
from rankine.tuning.spaces import Space
from unit.tuning.test_run import make_data


def test_costs_are_compared_on_a_logarithm():
    limits = CostLimits(max_nonzero=2, max_latency=0.5)
    found = limits.excess({"weights": 4.0, "latency": 0.25})
    assert found == pytest.approx({"weights": np.log(2), "latency": -np.log(2)})
    assert limits.excess({"weights": 0.0})["weights"] == pytest.approx(np.log(0.5 / 2))
    assert limits.respected({"weights": 2.0, "latency": 0.5})
    assert not limits.respected({"weights": 2.0, "latency": 0.51})
    assert CostLimits().costs(np.ones(4), make_data()) == {}
    assert CostLimits(max_nonzero=1).costs(np.array([1.0, 0, 2, 0]), make_data()) == {"weights": 2}
    assert CostLimits(max_latency=1.0).costs(np.ones(4), make_data())["latency"] > 0


def test_scores_that_are_not_finite_end_a_trial_as_diverged():
    data = make_data()
    folds = make_folds(data, None, 2, None, None, 0)
    objective = Objective(
        folds, Space({"spd": rankine.SPDRanker()}), parse_metric("ndcg@10"), CostLimits()
    )
    trial = SimpleNamespace(study=SimpleNamespace(pruner=None))
    monitor = objective._monitor(trial, 0, rankine.SPDRanker(), [])
    weights = np.full(data.n_features, np.inf)
    progress = Progress("steps", 1, None, {}, lambda: weights)
    for _ in range(FIRST_REPORT - 1):
        assert not monitor(progress)
    with pytest.raises(DivergenceError):
        monitor(progress)


def test_trials_are_monitored_with_the_scaling_of_their_ranker():
    """Tables scale nothing, and are no weights of columns: they are judged after each fold."""
    data = make_data()
    data = replace(data, X=data.X * np.geomspace(1.0, 1e4, data.n_features))
    folds = make_folds(data, None, 2, None, None, 0)
    rankers = {"additive": rankine.AdditiveRanker(), "spd": rankine.SPDRanker()}
    objective = Objective(folds, Space(rankers), parse_metric("ndcg@10"), CostLimits())
    trial = SimpleNamespace(study=SimpleNamespace(pruner=None))
    for fold, (train, _) in enumerate(folds.pairs):
        for ranker in (*rankers.values(), rankine.SPDRanker(missing="zero")):
            found = objective._monitor(trial, fold, ranker, []).scaling
            wanted = ranker.fit_scaling(train)
            assert (found.kind, found.missing) == (wanted.kind, wanted.missing)
            np.testing.assert_array_equal(found.factors, wanted.factors)
