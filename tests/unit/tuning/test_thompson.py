from __future__ import annotations

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from error_checks import raises_for
from rankine.core.errors import ParameterError
from rankine.tuning import ThompsonSampler
from rankine.tuning.thompson import (
    PARTIAL_VALUE,
    Encoding,
    _constraint_values,
    _from_unit,
    _informative,
    _to_unit,
    _value,
    with_failures,
)

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


@pytest.mark.parametrize(
    ("dist", "value", "place"),
    [
        (SPACE["x"], -1.0, 0.0),
        (SPACE["x"], 1.0, 0.5),
        (SPACE["l2"], 1e-3, 0.5),
        (SPACE["n"], 1, 0.5 / 9),  # a whole number owns the half unit on either side
        (SPACE["n"], 9, 8.5 / 9),
        (SPACE["s"], 5, 0.5),
        (SPACE["s"], 0, 2.5 / 15),
        (SPACE["k"], 10, np.log(20) / np.log(2001)),
        (FloatDistribution(0.0, 1.0, step=0.25), 0.75, 0.75),
        (FloatDistribution(2.0, 2.0), 2.0, 0.5),
    ],
)
def test_places_by_hand(dist, value, place):
    assert _to_unit(dist, value) == pytest.approx(place)
    found = _from_unit(dist, place)
    assert found == pytest.approx(value)
    assert type(found) is type(value)
    for end in (0.0, 1.0):
        assert _from_unit(dist, end) == pytest.approx(dist.high if end else dist.low)


def test_steps_are_met_and_nearest():
    dist = FloatDistribution(0.5, 2.0, step=0.5)
    assert [_from_unit(dist, p) for p in (0.0, 0.1, 0.2, 0.6, 0.9)] == [0.5, 0.5, 1.0, 1.5, 2.0]
    assert [_from_unit(SPACE["s"], p) for p in (0.3, 0.34, 0.65, 0.7)] == [0, 5, 5, 10]


def test_near_is_a_tenth_of_the_range_and_most_categories_stay():
    encoding = Encoding({"x": SPACE["x"], "l2": SPACE["l2"], "kind": SPACE["kind"]})
    rng = np.random.default_rng(0)
    near = [encoding.near({"x": 1.0, "kind": "b"}, rng) for _ in range(3000)]
    moves = np.array([one["x"] - 1.0 for one in near]) / 4
    assert moves.std() == pytest.approx(0.1, rel=0.1)
    assert abs(moves.mean()) < 0.01
    assert np.mean([one["kind"] == "b" for one in near]) == pytest.approx(0.8 + 0.2 / 3, abs=0.03)
    afresh = np.log10([one["l2"] for one in near])  # not known: anywhere
    assert np.histogram(afresh, 6, (-6, 0))[0].min() > 400


def test_what_is_read_and_known_decides_the_point():
    encoding = Encoding(SPACE, active=lambda setting: {"x", "kind"})
    point = encoding.points([{"x": 3.0, "kind": "b", "n": 9}, {"kind": "unheard of"}, {"n": 1}])
    root = np.sqrt(0.5)
    assert point[0].tolist() == [0.5, 1.0, 0.5, 0.5, 0.5, 0.0, root, 0.0]
    assert point[1].tolist() == point[2].tolist() == [0.5] * 5 + [0.0] * 3
    assert Encoding(SPACE).points([]).shape == (0, 8)


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


@pytest.mark.parametrize("n_startup", [1, 4])
def test_the_first_trials_are_drawn_and_later_ones_proposed(n_startup):
    space = {"x": FloatDistribution(0, 1), "one": FloatDistribution(2, 2)}
    sampler = ThompsonSampler(seed=-5, n_startup_trials=n_startup, search_space=space)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    assert set(sampler.infer_relative_search_space(study, None)) == {"x"}
    drawn = Encoding({"x": space["x"]})
    for number in range(n_startup + 1):
        trial = study.ask(space)
        chance = drawn.random(np.random.default_rng([5, number]))
        assert (trial.params["x"] == chance["x"]) == (number < n_startup)
        study.tell(trial, 1.0 + number)
    fresh = optuna.create_study(sampler=sampler, direction="maximize")
    for number in range(n_startup + 1):  # nothing is learnt where nothing has a value
        trial = fresh.ask(space)
        assert trial.params["x"] == drawn.random(np.random.default_rng([5, number]))["x"]
        fresh.tell(trial, state=optuna.trial.TrialState.FAIL)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize(
    ("sizes", "best", "at"),
    [
        ((1.0, 0.0, -1.0), 3.0, 0.4),  # a size of 0 is within the limit
        ((1.0, 2.0, 0.5), 5.0, 0.2),  # none is
        ((None, 1.0, -1.0), 5.0, 0.2),  # one that was not measured may be
        ((), 5.0, 0.2),
    ],
)
def test_candidates_lie_anywhere_and_near_the_best_that_keeps_the_limits(
    monkeypatch, direction, sizes, best, at
):
    seen = {}

    def chosen(acquisition, process, limits, points, value, rng):
        seen.update(points=points, value=value, limits=limits, process=process)
        return 7

    monkeypatch.setattr("rankine.tuning.thompson.choose", chosen)
    space = {"x": FloatDistribution(0, 1)}
    sampler = ThompsonSampler(seed=0, n_startup_trials=1, n_candidates=20, n_local=30)
    study = optuna.create_study(sampler=sampler, direction=direction)
    sign = 1.0 if direction == "maximize" else -1.0
    for k, value in enumerate((5.0, 3.0, 2.0)):
        attrs = {"constraints:size": sizes[k]} if sizes and sizes[k] is not None else {}
        made = {"params": {"x": 0.2 * (k + 1)}, "distributions": space, "system_attrs": attrs}
        study.add_trial(optuna.create_trial(value=sign * value, **made))
    study.add_trial(optuna.create_trial(state=optuna.trial.TrialState.FAIL, params={"x": 0.9},
                                        distributions=space))  # fmt: skip
    x = study.ask(space).params["x"]
    assert x == seen["points"][7, 0]
    assert seen["points"].shape == (50, 1)
    assert seen["value"] == best
    assert np.ptp(seen["points"][:20]) > 0.6
    assert np.abs(seen["points"][20:] - at).max() < 0.5
    assert abs(np.median(seen["points"][20:]) - at) < 0.08
    assert [len(gp.y) for gp in seen["limits"]] == [3 - sizes.count(None)] * bool(sizes)
    assert len(seen["process"].y) == 4
    study.ask(space)  # the trial that is under way counts as if it had ended as expected
    assert len(seen["process"].y) == 5
    assert [len(gp.y) for gp in seen["limits"]] == [4 - sizes.count(None)] * bool(sizes)


def test_what_the_sampler_learns_from_a_trial():
    states = optuna.trial.TrialState
    space = {"x": FloatDistribution(0, 1)}

    def made(state, params=None, **more):
        given = {"x": 0.5} if params is None else params
        dists = {name: space[name] for name in given}
        return optuna.create_trial(state=state, params=given, distributions=dists, **more)

    done = made(states.COMPLETE, value=3.0)
    told = made(states.PRUNED, user_attrs={PARTIAL_VALUE: 2.0}, intermediate_values={1: 1.0})
    reported = made(states.PRUNED, intermediate_values={1: 1.0, 4: 1.5})
    silent, failed = made(states.PRUNED), made(states.FAIL)
    assert [_value(t) for t in (done, told, reported)] == [3.0, 2.0, 1.5]
    assert np.isnan([_value(silent), _value(failed)]).all()
    usable = [done, told, silent, failed]
    assert _informative(usable) == usable
    assert _informative([made(states.FAIL, {}), made(states.RUNNING)]) == []
    old = made(states.COMPLETE, value=1.0, system_attrs={"constraints": (0.5, -1.0)})
    new = made(states.COMPLETE, value=1.0, system_attrs={"constraints:size": 2.0, "other:size": 9})
    table = _constraint_values([done, old, new])
    assert np.isnan(table).tolist() == [[True] * 3, [False, False, True], [True, True, False]]
    assert table[1, :2].tolist() == [0.5, -1.0]
    assert table[2, 2] == 2.0
    assert _constraint_values([done]).shape == (1, 0)


def test_failures_stand_below_the_worst():
    assert with_failures(np.array([2.0, np.inf, 2.0])).tolist() == [2.0, 1.0, 2.0]
    assert with_failures(np.array([2.0, 6.0, np.nan])).tolist() == [2.0, 6.0, 0.0]


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


def test_trials_that_optuna_runs_again_carry_no_information():
    def proposal(retried):
        study = optuna.create_study(sampler=ThompsonSampler(seed=0), direction="maximize")
        x_range = {"x": FloatDistribution(0, 1)}
        for k in range(7):
            study.add_trial(
                optuna.create_trial(params={"x": k / 7}, distributions=x_range, value=-k / 7)
            )
        failed = optuna.create_trial(
            state=optuna.trial.TrialState.FAIL, params={"x": 0.01}, distributions=x_range
        )
        study.add_trial(failed)
        again = {"retry_history": [7]} if retried else {}
        study.add_trial(
            optuna.create_trial(
                params={"x": 0.9}, distributions=x_range, value=-0.9, system_attrs=again
            )
        )
        return study.ask().suggest_float("x", 0, 1)

    assert proposal(retried=True) < 0.2
    assert proposal(retried=False) != proposal(retried=True)


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


def test_invalid_parameters_are_refused():
    with raises_for("acquisition"):
        ThompsonSampler(acquisition="ucb")
    for bad in ({"n_startup_trials": 0}, {"n_candidates": 0}, {"n_local": -1}):
        with pytest.raises(ParameterError) as caught:
            ThompsonSampler(**bad)
        assert [caught.value.parameter] == list(bad)
    least = ThompsonSampler(n_startup_trials=1, n_candidates=1, n_local=0)
    assert (least.n_startup_trials, least.n_candidates, least.n_local) == (1, 1, 0)


def test_steps_count_from_the_lower_end():
    dist = FloatDistribution(0.05, 1.05, step=0.25)
    for x, value in ((0.0, 0.05), (0.12, 0.05), (0.13, 0.3), (0.5, 0.55), (1.0, 1.05)):
        assert _from_unit(dist, x) == pytest.approx(value, abs=1e-12)
    whole = IntDistribution(3, 11, step=4)
    assert {_from_unit(whole, x) for x in np.linspace(0, 1, 50)} == {3, 7, 11}
