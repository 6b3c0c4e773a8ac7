"""Trials that cannot win stop training; the others are none the worse for being watched."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

import rankine
from rankine.core.errors import ParameterError
from rankine.rankers.base import BaseRanker
from rankine.rankers.registry import Number
from rankine.solvers.base import Progress, Solution, notify
from rankine.tuning.pruning import GainPruner, make_pruner
from rankine.tuning.thompson import PARTIAL_VALUE

REPORTS = 20


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


class Climber(BaseRanker):
    """Nears its end by half with each report; ``draw`` says where that is, past all guessing."""

    system = "climber"
    search_space: ClassVar = {"draw": Number(0.0, 1.0)}
    reports = 0

    def __init__(
        self, draw=1.0, metric="map", scale="none", early_stopping=None, warm_start=False,
        random_state=None,
    ):  # fmt: skip
        self.draw = draw
        self.metric, self.scale, self.early_stopping = metric, scale, early_stopping
        self.warm_start, self.random_state = warm_start, random_state

    def _check(self):
        pass

    def _solve(self, task):
        return task.run(lambda _, watch: self._climb(watch))

    def _climb(self, watch):
        noise = np.array([0.0, 0.0, 0.0, 1.0])
        truth = np.array([1.0, -0.5, 0.1, 0.0])
        quality = (self.draw * 997) % 1
        for step in range(1, REPORTS + 1):
            share = quality * (1 - 0.5**step)
            coef = share * truth + (1 - share) * noise
            type(self).reports += 1
            told = Progress("climb", step, REPORTS, {}, coef.copy)
            if notify([watch], told) and step < REPORTS:
                return Solution(coef, 0.0, {}, step, [], "callback")
        return Solution(coef, 0.0, {}, REPORTS, [], "max_iter")


def make_data(seed=0, n_queries=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10 * n_queries, 4))
    y = (X @ [1.0, -0.5, 0.1, 0.0] + 0.3 * rng.normal(size=len(X)) > 0.4).astype(int)
    return rankine.Dataset.from_arrays(X, y, np.repeat(np.arange(n_queries), 10))


def tune(**options):
    given = {"ranker": Climber(), "metric": "map", "valid": make_data(1), "trials": 20, **options}
    return rankine.tune(make_data(), **given)


# ---------------------------------------------------------------------- the whole search
@pytest.mark.parametrize("pruner", ["gain", "median", "halving"])
def test_training_stops_when_a_trial_cannot_win(pruner):
    Climber.reports = 0
    found = tune(pruner=pruner)
    watched = Climber.reports
    pruned = [r for r in found.trace if r.state == "pruned"]
    assert pruned
    assert watched <= REPORTS * 21 - 4 * len(pruned)
    assert all(r.value is None and r.weights is not None for r in pruned)
    assert found.best_value == max(r.value for r in found.trace if r.value is not None)


def test_a_pruner_does_not_change_trials_that_finish():
    watched, alone = tune(), tune(pruner="none")
    assert {r.state for r in alone.trace} == {"complete"}
    both = [
        (a.value, b.value)
        for a, b in zip(watched.trace, alone.trace, strict=True)
        if a.parameters == b.parameters and a.value is not None
    ]
    assert len(both) >= 6
    assert all(a == b for a, b in both)


def test_one_worker_gives_the_same_study_again():
    first, second = tune(), tune()
    assert [(r.parameters, r.state, r.value) for r in first.trace] == [
        (r.parameters, r.state, r.value) for r in second.trace
    ]


def test_a_time_split_prunes_too():
    data = make_data(n_queries=60)
    found = rankine.tune(data, ranker=Climber(), metric="map", split="time:0.5,0.5", trials=20)
    assert "pruned" in [r.state for r in found.trace]


def test_folds_prune_within_the_first_and_between_them():
    found = tune(valid=None, folds=3, trials=25)
    pruned = [t for t in found.study.trials if t.state.name == "PRUNED"]
    assert pruned
    assert all(max(t.intermediate_values) < 3 * 64 for t in pruned)
    full = next(t for t in found.study.trials if t.state.name == "COMPLETE")
    assert sorted(full.intermediate_values) == [0, 1, 2, 63, 64, 65, 66, 127, 128, 129, 130]


def test_the_mean_so_far_is_what_is_reported():
    found = tune(valid=None, folds=3, trials=1)
    trial = found.study.trials[0]
    data = make_data()
    by_hand = rankine.cross_validate(
        Climber(**trial.params), data, cv=3, metric="map", random_state=0
    )
    folds = by_hand.fold_means
    assert trial.intermediate_values[63] == pytest.approx(folds[0], abs=1e-12)
    assert trial.intermediate_values[127] == pytest.approx(np.mean(folds[:2]), abs=1e-12)


@pytest.mark.parametrize("scale", ["none", "standard", "maxabs", "query"])
def test_reports_evaluate_the_weights_that_the_ranker_would_return(scale):
    """The fourth report of 20, step 80 of 400, is a run that ends there, whatever the scaling."""
    ranker = rankine.SPDRanker(n_steps=400, scale=scale)
    space = {"l2": (1e-4, 1e-2)}
    found = rankine.tune(
        make_data(), ranker=ranker, valid=make_data(1), metric="map", trials=1, space=space,
        parameters={"solver": "pegasos", "sampling": "query", "scale": scale},
    )  # fmt: skip
    trial = found.study.trials[0]
    stopped = rankine.SPDRanker(
        n_steps=400, scale=scale, random_state=0, l2=trial.params["l2"], metric="map"
    ).fit(make_data(), callbacks=[lambda progress: progress.step >= 80])
    assert trial.intermediate_values[0] == pytest.approx(stopped.score(make_data(1)), abs=1e-12)


FIXED = {
    "spd": {"solver": "pegasos", "sampling": "query", "n_steps": 500},
    "ranksvm": {"loss": "squared_hinge", "scale": "standard"},
    "least-squares": {"pairs": "all"},
    "domination": {"l2": 0.1, "margin_scale": 1.0},
    "elastic": {"solver": "rda", "loss": "logistic", "objective": "ndcg", "scale": "none"},
}


@pytest.mark.parametrize("name", FIXED)
def test_monitoring_changes_no_weight(name):
    options = {"ranker": name, "valid": make_data(1), "metric": "map", "trials": 2}
    models = [
        rankine.tune(make_data(), parameters=FIXED[name], pruner=pruner, **options)
        for pruner in ("gain", "none")
    ]
    assert [r.value for r in models[0].trace] == [r.value for r in models[1].trace]
    np.testing.assert_array_equal(models[0].model.to_dense(), models[1].model.to_dense())
    assert any(t.intermediate_values for t in models[0].study.trials)
    assert not any(t.intermediate_values for t in models[1].study.trials)


# ---------------------------------------------------------------------- the rule
def study_of(gains, direction="maximize", ranker=None, constraint=None):
    """Finished trials that stood at 0.5 at step 3, and what they gained."""
    study = optuna.create_study(direction=direction, pruner=GainPruner())
    for gain in gains:
        params, space = {"x": 0.5}, {"x": FloatDistribution(0, 1)}
        if ranker is not None:
            params["ranker"], space["ranker"] = ranker, CategoricalDistribution(("spd", "elastic"))
        attrs = {} if constraint is None else {"constraints:size": constraint}
        study.add_trial(
            optuna.create_trial(
                params=params, distributions=space, value=0.5 + gain,
                intermediate_values={3: 0.5}, system_attrs=attrs,
            )
        )  # fmt: skip
    return study


def prunes(study, value, step=3):
    trial = study.ask()
    if "ranker" in study.trials[0].params:
        trial.suggest_categorical("ranker", ("spd", "elastic"))
    trial.report(value, step)
    return trial.should_prune()


GAINS = [0.0, 0.02, 0.04, 0.02, 0.02, 0.0, 0.1, 0.04]


def test_a_trial_is_given_up_when_the_largest_gain_and_more_leaves_it_behind():
    hope = max(GAINS) + np.std(GAINS)
    assert prunes(study_of(GAINS), 0.6 - hope - 1e-9)
    assert not prunes(study_of(GAINS), 0.6 - hope + 1e-9)


def test_errors_are_mirrored():
    losses = [-g for g in GAINS]
    hope = max(GAINS) + np.std(GAINS)
    assert prunes(study_of(losses, "minimize"), 0.4 + hope + 1e-9)
    assert not prunes(study_of(losses, "minimize"), 0.4 + hope - 1e-9)


def test_too_few_or_other_trials_prune_nothing():
    assert not prunes(study_of(GAINS[:-1]), 0.0)
    assert not prunes(study_of(GAINS), 0.0, step=4)
    study = study_of(GAINS)
    assert not study.ask().should_prune()


def test_the_best_is_one_that_keeps_the_limits():
    assert not prunes(study_of(GAINS, constraint=1.0), 0.0)
    assert prunes(study_of(GAINS, constraint=0.0), 0.0)


def test_rankers_are_compared_with_their_like():
    study = study_of(GAINS, ranker="elastic")
    study.enqueue_trial({"ranker": "spd"})
    assert not prunes(study, 0.0)
    study.enqueue_trial({"ranker": "elastic"})
    assert prunes(study, 0.0)


def test_the_sampler_hears_where_a_trial_would_have_ended():
    study = study_of(GAINS)
    trial = study.ask()
    trial.report(0.2, 3)
    frozen = study.trials[-1]
    assert GainPruner().forecast(study, frozen) == pytest.approx(0.2 + np.median(GAINS))
    found = tune()
    given_up = next(t for t in found.study.trials if t.state.name == "PRUNED")
    assert given_up.user_attrs[PARTIAL_VALUE] > given_up.intermediate_values[given_up.last_step]


def test_winners_are_rarely_given_up():
    """Gains of any one distribution: a later winner is lost in less than 1 of 20 prunings."""
    rng = np.random.default_rng(0)
    pruned = lost = 0
    for _ in range(60):
        study = optuna.create_study(direction="maximize", pruner=GainPruner())
        best = -np.inf
        for _ in range(25):
            trial = study.ask()
            at, end = (final := rng.normal()) - rng.exponential(0.3), final
            trial.report(at, 0)
            if trial.should_prune():
                pruned += 1
                lost += end > best
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                best = max(best, end)
                study.tell(trial, end)
    assert pruned > 200
    assert lost < 0.05 * pruned


def test_invalid_parameters_are_refused():
    with pytest.raises(ParameterError) as caught:
        make_pruner("hope")
    assert caught.value.parameter == "pruner"
    for bad in ({"n_trials": 0}, {"slack": -0.1}):
        with pytest.raises(ParameterError) as caught:
            GainPruner(**bad)
        assert [caught.value.parameter] == list(bad)


def test_a_pruner_takes_its_own_measure():
    """One finished trial, no slack, and nothing in which trials must agree."""
    bold = {"slack": 0.0, "like": ()}
    study = study_of([0.125, 0.25], ranker="elastic")
    for value in (0.5 - 1e-9, 0.5):
        study.ask().report(value, 3)
    low, even = study.trials[-2:]
    assert GainPruner(n_trials=1, **bold).prune(study, low)
    assert GainPruner(n_trials=2, **bold).prune(study, low)
    assert not GainPruner(n_trials=3, **bold).prune(study, low)
    assert not GainPruner(n_trials=1, **bold).prune(study, even)  # it may still draw level
    assert len(GainPruner().gains(study, low)) == 0
    assert GainPruner().forecast(study, even) == 0.5  # nothing like it was seen
    losing = study_of([0.1, 0.2, 0.3], "minimize")
    losing.ask().report(0.4, 3)
    assert GainPruner().forecast(losing, losing.trials[-1]) == pytest.approx(0.6)
