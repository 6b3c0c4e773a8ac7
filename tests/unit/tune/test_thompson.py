from __future__ import annotations

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rankine.core.errors import ParameterError
from rankine.tune import ThompsonSampler
from rankine.tune.thompson import ABANDONED, Encoding, with_failures

SPACE = {
    "l2": FloatDistribution(1e-6, 1.0, log=True),
    "x": FloatDistribution(-1.0, 3.0),
    "n": IntDistribution(1, 9),
    "k": IntDistribution(1, 1000, log=True),
    "s": IntDistribution(0, 10, step=5),
    "kind": CategoricalDistribution(("a", "b", None)),
}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def paper_objective(trial):
    """The published toy: two logarithmic numbers and three categories; the optimum is 0.33."""
    l1 = trial.suggest_float("l1", 1e-6, 1e-1, log=True)
    l2 = trial.suggest_float("l2", 1e-6, 1.0, log=True)
    a = trial.suggest_categorical("solver", ["rda", "fobos", "psgd"])
    b = trial.suggest_categorical("loss", ["hinge", "logistic"])
    c = trial.suggest_categorical("metric", ["ndcg", "map", "mrr", "recall"])
    value = -0.05 * (np.log10(l1) + 4) ** 2 - 0.02 * (np.log10(l2) + 2) ** 2
    value += {"rda": 0.0, "fobos": 0.15, "psgd": 0.05}[a] + {"hinge": 0.1, "logistic": 0.0}[b]
    value += {"ndcg": 0.0, "map": 0.02, "mrr": 0.08, "recall": -0.1}[c]
    return value - 0.1 * (a == "fobos" and b == "logistic")


def run(sampler, objective, trials, direction="maximize"):
    study = optuna.create_study(sampler=sampler, direction=direction)
    study.optimize(objective, n_trials=trials, catch=(ZeroDivisionError,))
    return study


# ---------------------------------------------------------------------- encoding
def test_settings_stay_inside_the_space_and_survive_encoding():
    encoding = Encoding(SPACE)
    rng = np.random.default_rng(0)
    settings = [encoding.random(rng) for _ in range(200)]
    settings += [encoding.near(settings[0], rng) for _ in range(200)]
    for setting in settings:
        for name, dist in SPACE.items():
            assert dist._contains(dist.to_internal_repr(setting[name])), (name, setting[name])
    points = encoding.points(settings)
    assert points.shape == (400, 8)
    assert points.min() >= 0
    assert points.max() <= 1


def test_every_value_of_a_small_integer_is_equally_likely():
    encoding = Encoding({"n": SPACE["n"]})
    rng = np.random.default_rng(0)
    counts = np.bincount([encoding.random(rng)["n"] for _ in range(9000)], minlength=10)[1:]
    assert counts.min() > 850


def test_categories_are_one_apart_and_share_a_length_scale():
    encoding = Encoding(SPACE)
    settings = [{"kind": value} for value in ("a", "b", None)]
    points = encoding.points(settings)
    for i in range(3):
        for j in range(i):
            assert np.linalg.norm(points[i] - points[j]) == pytest.approx(1.0)
    assert encoding.groups.tolist() == [0, 1, 2, 3, 4, 5, 5, 5]


def test_a_parameter_that_is_not_read_does_not_move_the_point():
    encoding = Encoding(SPACE, active=lambda setting: {"kind"})
    first, second = encoding.points([{"kind": "a", "x": -1.0}, {"kind": "a", "x": 2.0}])
    np.testing.assert_array_equal(first, second)


# ---------------------------------------------------------------------- the sampler
@pytest.mark.parametrize("acquisition", ["thompson", "ei"])
def test_it_finds_the_optimum_where_random_search_does_not(acquisition):
    found = [
        run(ThompsonSampler(seed=seed, acquisition=acquisition), paper_objective, 25).best_value
        for seed in range(2)
    ]
    chance = [
        run(optuna.samplers.RandomSampler(seed=seed), paper_objective, 25).best_value
        for seed in range(2)
    ]
    assert np.mean(found) > 0.28
    assert np.mean(found) > np.mean(chance)


def test_the_same_seed_gives_the_same_trials_also_when_resumed():
    whole = run(ThompsonSampler(seed=3), paper_objective, 10)
    again = run(ThompsonSampler(seed=3), paper_objective, 7)
    again.sampler = ThompsonSampler(seed=3)
    again.optimize(paper_objective, n_trials=3)
    assert [t.params for t in whole.trials] == [t.params for t in again.trials]
    other = run(ThompsonSampler(seed=4), paper_objective, 2)
    assert other.trials[0].params != whole.trials[0].params


def test_minimising_works_too():
    study = run(
        ThompsonSampler(seed=0), lambda t: (t.suggest_float("x", -1, 1) - 0.3) ** 2, 15, "minimize"
    )
    assert study.best_params["x"] == pytest.approx(0.3, abs=0.05)


def test_failed_and_infinite_trials_are_avoided():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        if x > 0.5:
            if x > 0.75:
                raise ZeroDivisionError
            return float("inf") if x > 0.6 else float("-inf")
        return x

    study = run(ThompsonSampler(seed=1), objective, 25)
    late = [t.params["x"] for t in study.trials[15:]]
    assert np.mean(np.array(late) <= 0.5) > 0.6
    np.testing.assert_allclose(with_failures(np.array([1.0, 3.0, np.nan])), [1, 3, 0])


def test_abandoned_trials_say_nothing_about_their_parameters():
    def with_extra(extra):
        study = optuna.create_study(sampler=ThompsonSampler(seed=0), direction="maximize")
        for k in range(7):
            x = k / 7
            study.add_trial(
                optuna.create_trial(
                    params={"x": x}, distributions={"x": FloatDistribution(0, 1)}, value=-x
                )
            )
        study.add_trial(
            optuna.create_trial(
                state=optuna.trial.TrialState.FAIL,
                params={"x": 0.01},
                distributions={"x": FloatDistribution(0, 1)},
                user_attrs=extra,
            )
        )
        return study.ask().suggest_float("x", 0, 1)

    assert with_extra({ABANDONED: True}) < 0.2
    assert with_extra({}) != with_extra({ABANDONED: True})


def test_constraints_are_learned():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        trial.set_constraint("size", x - 0.4)
        return x

    study = run(ThompsonSampler(seed=0), objective, 22)
    late = [t.params["x"] for t in study.trials[12:]]
    assert np.mean(np.array(late) <= 0.45) > 0.6
    assert 0.33 < study.best_params["x"] <= 0.4


def test_parameters_outside_the_common_space_are_drawn_at_random():
    def objective(trial):
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return trial.suggest_float(f"only_{kind}", 0, 1)

    study = run(ThompsonSampler(seed=0), objective, 12)
    assert study.best_value > 0.7


def test_nonsense_is_refused():
    with pytest.raises(ParameterError, match="acquisition"):
        ThompsonSampler(acquisition="ucb")
    with pytest.raises(ParameterError, match="n_startup_trials"):
        ThompsonSampler(n_startup_trials=0)
