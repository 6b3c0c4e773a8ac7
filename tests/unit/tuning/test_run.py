from __future__ import annotations

import builtins
import sys
import threading
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import rankine
from error_checks import raises_for
from rankine.core.errors import (
    CheckpointError,
    DivergenceError,
    MissingExtraError,
    ParameterError,
)
from rankine.rankers.base import BaseRanker
from rankine.rankers.registry import Choice, Number
from rankine.solvers.base import Solution
from rankine.tuning.folds import make_folds
from rankine.tuning.objective import CostLimits, TrialMonitor
from rankine.tuning.run import _candidates, _load, _raise_if_all_fail
from rankine.tuning.study import is_abandoned


class Means(BaseRanker):
    """Weights by differences of means; ``keep`` the largest of them."""

    system = "means"
    search_space: ClassVar = {"power": Number(0.1, 10.0, log=True), "flip": Choice((False, True))}

    def __init__(
        self, power=1.0, flip=False, keep=99, breaks=None, metric="map", scale="none",
        early_stopping=None, warm_start=False, random_state=None,
    ):  # fmt: skip
        self.power, self.flip, self.keep, self.breaks = power, flip, keep, breaks
        self.metric, self.scale, self.early_stopping = metric, scale, early_stopping
        self.warm_start, self.random_state = warm_start, random_state

    def _check(self):
        pass

    def _solve(self, task):
        return task.run(lambda start, callbacks: self._means(task.source.data))

    def _means(self, data):
        if self.breaks == "always" or (self.breaks == "flipped" and self.flip):
            raise DivergenceError("weights left the finite numbers")
        if self.breaks == "interrupt":
            raise KeyboardInterrupt
        X, y = np.asarray(data.X), data.y
        coef = X[y > 0].mean(0) - X[y <= 0].mean(0)
        coef[np.argsort(-np.abs(coef))[int(self.keep) :]] = 0.0
        coef = np.sign(coef) * np.abs(coef) ** self.power
        return Solution(-coef if self.flip else coef, 0.0, {}, 1, [], "done")


def make_data(seed=0, n_queries=24):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10 * n_queries, 4))
    y = (X @ [1.0, -0.5, 0.1, 0.0] + 0.3 * rng.normal(size=len(X)) > 0.4).astype(int)
    days = np.repeat(np.arange(n_queries), 10)
    return rankine.Dataset.from_arrays(X, y, days, columns={"day": days[::-1]})


def tune(data=None, **options):
    given = {"ranker": Means(), "metric": "map", "folds": 3, "trials": 8, **options}
    return rankine.tune(make_data() if data is None else data, **given)


def test_the_result_holds_the_best_model_and_how_it_was_found():
    found = tune(trials=12)
    assert found.best_params["flip"] is False
    values = [r.value for r in found.trace if r.value is not None]
    assert found.best_value == max(values) == found.trace[-1].best
    assert len(found.trace) == 12
    again = Means(**found.best_params, random_state=0).fit(make_data())
    np.testing.assert_array_equal(found.model.to_dense(), again.coef_)
    assert set(found.importances) == {"power", "flip"}
    assert found.to_dict()["trials"][0]["state"] == "complete"
    assert found.test is None


def test_progress_reports_every_trial_and_the_best_so_far():
    calls = []
    found = tune(trials=5, progress=lambda *given: calls.append(given))
    assert [call[:2] for call in calls] == [(k, 5) for k in range(1, 6)]
    assert [call[2] for call in calls] == [record.best for record in found.trace]
    plain = found.to_dict()
    assert all("reason" not in trial for trial in plain["trials"])
    assert plain["weights"] == np.count_nonzero(found.model.to_dense())
    assert found.ranker.training_["fingerprint"] == make_data().fingerprint
    assert all(0 < record.seconds < 60 for record in found.trace)
    assert all(record.weights == 4 for record in found.trace)


def test_candidates_share_metric_seed_and_threads(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    several = _candidates("auto", "map", 7, 3)
    assert {(one.metric, one.random_state) for one in several.values()} == {("map", 7)}
    threads = [one.n_threads for one in several.values() if hasattr(one, "n_threads")]
    assert threads
    assert set(threads) == {2}
    for workers, cores, n_threads in ((1, 8, None), (9, 8, 1), (2, None, 1)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        (one,) = _candidates("ranksvm", "map", 7, workers).values()
        assert one.n_threads == n_threads
    own = rankine.RankSVM(random_state=3, n_threads=5)
    ((name, one),) = _candidates(own, "map", 7, 2).items()
    assert (name, one.random_state, one.n_threads) == ("ranksvm", 3, 5)
    assert one is not own
    (seeded,) = _candidates(rankine.RankSVM(), "map", 7, 1).values()
    assert seeded.random_state == 7

    class Nameless(Means):
        system = ""

    assert list(_candidates(Nameless(), "map", 7, 1)) == ["Nameless"]


def test_data_may_be_a_file_or_anything_that_loads(tmp_path):
    whole = make_data()
    data = rankine.Dataset.from_arrays(whole.X, whole.y, whole.qid)
    data.save(tmp_path / "d.txt")
    assert _load(tmp_path / "d.txt", 9).n_features == 9
    assert _load(data) is data

    class Lazy:
        def load(self):
            return data

    assert _load(Lazy()) is data


class Uneven(Means):
    """Keeps one weight more for every query number below ``low``."""

    search_space: ClassVar = {"low": Number(0, 9, integer=True), "power": Number(0.5, 2.0)}

    def __init__(
        self, low=0, power=1.0, metric="map", scale="none", early_stopping=None,
        warm_start=False, random_state=None,
    ):  # fmt: skip
        self.low, self.power = low, power
        self.metric, self.scale, self.early_stopping = metric, scale, early_stopping
        self.warm_start, self.random_state = warm_start, random_state

    def _means(self, data):
        self.flip, self.breaks = False, None
        self.keep = 1 + min(3, len(set(data.qid.tolist()) & set(range(int(self.low)))))
        return super()._means(data)


def test_the_most_weights_of_all_folds_count():
    found = tune(ranker=Uneven(), trials=12, max_nonzero=3, pruner="none")
    data, pairs = make_data(), make_folds(make_data(), None, 3, None, None, 0).pairs
    states = set()
    for record, trial in zip(found.trace, found.study.trials, strict=True):
        low = set(range(record.parameters["low"]))
        sizes = [1 + min(3, len(set(train.qid.tolist()) & low)) for train, _ in pairs]
        # a trial ends with the first fold that breaks the limit, unless it is the last
        end = next((k for k, size in enumerate(sizes) if size > 3), 2)
        assert record.state == ("complete" if end == 2 else "pruned")
        assert record.weights == max(sizes[: end + 1])
        assert trial.system_attrs["constraints:weights"] == pytest.approx(
            np.log(max(sizes[: end + 1]) / 3)
        )
        assert record.feasible == (max(sizes[: end + 1]) <= 3)
        states.add(record.state)
    assert "complete" in states
    assert np.count_nonzero(Uneven(**found.best_params).fit(data).coef_) <= 3


def test_the_value_is_the_mean_over_folds():
    found = tune(trials=2, pruner="none")
    first = found.trace[0]
    expected = rankine.cross_validate(
        Means(**first.parameters), make_data(), cv=3, metric="map", random_state=0
    )
    assert first.value == pytest.approx(expected.mean, abs=1e-12)


def test_errors_are_minimised():
    found = tune(metric="pairwise-error")
    assert found.best_value == min(r.value for r in found.trace if r.value is not None)
    assert found.best_params["flip"] is False


def test_trials_is_a_total_and_a_resumed_study_goes_on_the_same_way(tmp_path):
    whole = tune(trials=9)
    tune(trials=4, study=tmp_path / "s.db")
    resumed = tune(trials=9, study=tmp_path / "s.db")
    assert [r.parameters for r in resumed.trace] == [r.parameters for r in whole.trace]
    assert resumed.best_value == whole.best_value
    assert len(tune(trials=3, study=tmp_path / "s.db").trace) == 9


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"data": make_data(1)}, "data"),
        ({"metric": "mrr"}, "metric"),
        ({"space": {"power": "0.5..2"}}, r"space\.searched\.power"),
        ({"parameters": {"flip": False}}, "flip"),
        ({"folds": 4}, "folds"),
        ({"random_state": 1}, "seed"),
        ({"ranker": Means(keep=2)}, "keep"),
        ({"max_nonzero": 3}, "limits"),
    ],
)
def test_a_study_is_not_continued_on_something_else(tmp_path_factory, change, named):
    folder = tmp_path_factory.getbasetemp() / "refusals"
    folder.mkdir(exist_ok=True)
    tune(trials=1, study=folder / "s.db")
    with pytest.raises(CheckpointError, match=named):
        tune(**{"trials": 1, "study": folder / "s.db", **change})


def test_two_workers_give_a_valid_study(tmp_path):
    found = tune(trials=10, workers=2, study=tmp_path / "s.db")
    assert len(found.trace) == 10
    assert {r.state for r in found.trace} <= {"complete", "pruned"}


class Meeting(Means):
    """A trial that waits for another one where several are to run at the same time."""

    barrier = threading.Barrier(2, timeout=30)
    threads: ClassVar = set()
    several = False

    def _means(self, data):
        here = threading.current_thread()
        Meeting.threads.add(here)
        if self.several and here is not threading.main_thread():
            self.barrier.wait()
        return super()._means(data)


def test_two_workers_train_at_the_same_time_and_one_in_this_thread():
    given = {"ranker": Meeting(), "valid": make_data(1), "folds": None, "trials": 2}
    for workers, threads in ((1, 1), (2, 3)):  # the best setting is fitted here in the end
        Meeting.threads.clear()
        Meeting.several = workers > 1
        tune(workers=workers, **given)
        assert len(Meeting.threads) == threads


# Filters of warnings are global: one search ends them for the other.
@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_two_searches_at_once_share_a_study(tmp_path):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(tune(trials=8, study=tmp_path / "s.db")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert results[0].best_value == results[1].best_value
    assert len(results[0].trace) == len(results[1].trace) == 8


def test_bad_settings_fail_alone():
    found = tune(ranker=Means(breaks="flipped"), trials=12)
    failed = [r for r in found.trace if r.state == "failed"]
    assert failed
    assert all(r.parameters["flip"] and "finite" in r.reason for r in failed)
    assert found.best_params["flip"] is False


def test_diverged_trials_fail_and_the_study_goes_on_and_resumes(tmp_path):
    """Many step sizes are far too large: those trials fail with a reason, and the others do not."""
    given = {
        "ranker": "elastic",
        "space": {"eta0": "1e-4..1e8:log"},
        "parameters": {
            "solver": "tgd",
            "loss": "squared",
            "objective": "pairwise",
            "scale": "none",
        },
        "study": tmp_path / "study.db",
    }
    tune(trials=4, **given)
    result = tune(trials=8, **given)
    failed = [record for record in result.trace if record.state == "failed"]
    assert 0 < len(failed) < len(result.trace) == 8
    assert all("zero weights" in r.reason or "finite" in r.reason for r in failed)
    assert 0 < result.best_value <= 1


def test_a_search_in_which_everything_fails_says_why():
    with pytest.raises(DivergenceError):
        tune(ranker=Means(breaks="always"), trials=30)
    with raises_for("space"):
        tune(ranker=Means(breaks="always"), trials=5)

    class Wrong(Means):
        fits = 0

        def _means(self, data):
            Wrong.fits += 1
            raise OverflowError("beside the point")

    with raises_for("space"):
        tune(ranker=Wrong(), trials=30)
    assert Wrong.fits == 6  # as many as are drawn before anything is learnt


def test_failures_count_that_have_a_reason():
    def refuse(*states, reason="why"):
        trials = [
            SimpleNamespace(
                state=SimpleNamespace(name=name), user_attrs={"reason": reason} if known else {}
            )
            for name, known in states
        ]
        sampler = SimpleNamespace(n_startup_trials=2)
        study = SimpleNamespace(get_trials=lambda **_: trials, sampler=sampler)
        _raise_if_all_fail(study, DivergenceError("no"))

    refuse(("FAIL", True))
    refuse(("FAIL", True), ("FAIL", False), ("RUNNING", False))
    refuse(("FAIL", True), ("FAIL", True), ("PRUNED", False))
    refuse(("FAIL", True), ("RUNNING", True))
    with pytest.raises(DivergenceError):
        refuse(("FAIL", True), ("FAIL", True))
    given = {"valid": make_data(1), "folds": None, "max_nonzero": 1, "trials": 8}
    with pytest.raises(ParameterError, match="respects the limits"):  # though some failed
        tune(ranker=Means(breaks="flipped"), **given)


def test_an_interrupted_trial_is_queued_again(tmp_path):
    study = tmp_path / "s.db"
    with pytest.raises(KeyboardInterrupt):
        tune(ranker=Interrupted(), study=study, trials=4)
    Interrupted.armed = False
    found = tune(ranker=Interrupted(), study=study, trials=4)
    assert [r.state for r in found.trace].count("complete") >= 1
    assert len(found.trace) == 4
    started = found.study.trials[0]
    assert is_abandoned(started)
    assert found.trace[0].parameters == started.params


class Interrupted(Means):
    armed = True

    def _solve(self, job):
        if self.armed:
            raise KeyboardInterrupt
        return super()._solve(job)


def test_limits_on_weights_are_kept():
    space = {"keep": "1..4"}
    free = tune(space=space, trials=12)
    found = tune(space=space, trials=12, max_nonzero=2)
    assert max(r.weights for r in free.trace) > 2
    assert found.model.nnz <= 2
    assert not all(r.feasible for r in found.trace)
    with pytest.raises(ParameterError, match=r"none of 3 trials.*max_nonzero=1, max_latency=None"):
        tune(max_nonzero=1, trials=3)


def test_a_limit_on_latency_is_kept():
    assert tune(max_latency=1e3, trials=2).best_value > 0.2
    assert CostLimits(max_latency=0.009).respected({"latency": 4e-5})
    assert not CostLimits(max_latency=4e-5).respected({"latency": 0.009})
    assert CostLimits(max_nonzero=1).respected({"weights": 0.0})
    assert not CostLimits(max_nonzero=1).respected({"weights": 2.0})
    with pytest.raises(ParameterError, match="max_latency"):
        tune(max_latency=1e-8, trials=2)


def test_a_split_in_three_is_tested_once():
    found = tune(folds=None, split="time:0.5,0.25,0.25", time_column="day", trials=3)
    assert 0 < found.test <= 1


def test_validation_data_judges_and_does_not_train():
    data, valid = make_data(), make_data(1)
    found = tune(data, valid=valid, folds=None, trials=3)
    fitted = Means(**found.best_params, metric="map").fit(data)
    assert found.best_value == pytest.approx(fitted.score(valid))
    np.testing.assert_array_equal(found.model.to_dense(), fitted.coef_)


def test_all_rankers_at_once():
    fast = {"spd.n_steps": [500], "ranker": ["spd", "least-squares"]}
    found = tune(ranker="auto", space=fast, trials=4)
    assert found.best_params["ranker"] in {"spd", "least-squares"}
    assert type(found.ranker).system == found.best_params["ranker"]


def test_tables_are_judged_after_each_fold(monkeypatch):
    reported = []
    monkeypatch.setattr(TrialMonitor, "__call__", lambda *_: reported.append("training"))
    monkeypatch.setattr(TrialMonitor, "end_fold", lambda *_: reported.append("fold"))
    tune(ranker="additive", parameters={"pairs": 0}, trials=2, folds=3)
    assert reported == ["fold"] * 4


def test_drawing(tmp_path):
    from rankine.plot import save_axes

    found = tune(trials=3)
    save_axes(rankine.plot.trials(found), str(tmp_path / "trace.svg"))
    assert "<svg" in (tmp_path / "trace.svg").read_text()
    assert rankine.plot.trials(found).get_xlabel() == "trial"
    with raises_for("plot"):
        save_axes(rankine.plot.trials(found), str(tmp_path / "trace.xyz"))
    assert len(list(tmp_path.iterdir())) == 1


def test_tune_is_a_function_beside_the_package_of_the_sampler():
    assert rankine.tune is sys.modules["rankine.tuning.run"].tune
    assert rankine.tuning.ThompsonSampler is sys.modules["rankine.tuning.thompson"].ThompsonSampler
    with pytest.raises(AttributeError, match="absent"):
        _ = rankine.tuning.absent


def test_without_optuna_the_error_says_what_to_install(monkeypatch):
    from rankine.tuning import import_optuna

    real = builtins.__import__

    def without(name, *arguments, **options):
        if name == "optuna":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError):
        import_optuna()


def test_invalid_parameters_are_refused():
    for bad in ({"trials": 0}, {"workers": 0}):
        with pytest.raises(ParameterError) as caught:
            tune(**bad)
        assert [caught.value.parameter] == list(bad)
    with raises_for("ranker"):
        tune(ranker="forest")
    with raises_for("max_nonzero"):
        tune(max_nonzero=0)


def test_an_error_in_one_worker_ends_all():
    with pytest.raises(KeyboardInterrupt):
        tune(ranker=Means(breaks="interrupt"), trials=50, workers=2)


@pytest.mark.parametrize(("valid_sign", "wins"), [(0.0, False), (-1.0, True)])
def test_no_weights_win_only_if_every_other_setting_is_worse_than_chance(valid_sign, wins):
    rng = np.random.default_rng(3)
    X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(60), 10)
    y = (X[:, 0] + rng.normal(size=600) > 0.5).astype(int)
    y_valid = (valid_sign * X[:, 0] + rng.normal(size=600) > 0.5).astype(int)
    train, valid = (rankine.Dataset.from_arrays(X, labels, qid) for labels in (y, y_valid))
    result = rankine.tune(train, valid=valid, ranker=Means(), space={"keep": [0, 99]},
                           parameters={"flip": False}, trials=6)  # fmt: skip
    assert (result.model.nnz == 0) == wins
    assert {trial.weights for trial in result.trace} == {0, 3}


def test_a_new_search_starts_with_the_defaults_and_never_ends_below(tmp_path):
    choices = ("solver", "loss", "objective", "scale")
    defaults = rankine.ElasticRanker().get_params(deep=False)
    given = {
        "ranker": "elastic",
        "parameters": {name: defaults[name] for name in choices},
        "study": tmp_path / "study.db",
    }
    first = tune(trials=1, **given)
    assert first.best_params == {name: defaults[name] for name in first.best_params}
    result = tune(trials=4, **given)
    assert result.trace[0] == first.trace[0]
    assert [record.parameters for record in result.trace].count(first.best_params) == 1
    assert result.best_value >= first.best_value
