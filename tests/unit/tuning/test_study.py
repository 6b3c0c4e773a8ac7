"""Workers share a study: none runs too many trials, those of dead workers are run again."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing

import optuna
import pytest

from rankine.core.errors import CheckpointError
from rankine.tuning import study
from rankine.tuning.study import REASON, SharedStudy, _flatten, _shorten, is_abandoned

pytestmark = [
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
    pytest.mark.filterwarnings("ignore:Heartbeat of storage"),
]

CONFIGURATION = {"data": "abc", "metric": "map", "space": {"l2": [1, 2]}}


def open_study(path, configuration=None):
    return SharedStudy(
        path,
        CONFIGURATION if configuration is None else configuration,
        maximize=True,
        sampler=optuna.samplers.RandomSampler(seed=0),
        pruner=optuna.pruners.NopPruner(),
    )


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def finish(shared, trial, value=1.0):
    trial.suggest_float("x", 0, 1)
    shared.study.tell(trial, value)


def states(shared):
    return [t.state.name for t in shared.study.trials]


def kill_worker_of(shared, trial):
    """Make the last heartbeat of a trial an hour old."""
    with closing(sqlite3.connect(shared.path)) as connection:
        connection.execute(
            "update trial_heartbeats set heartbeat = datetime('now', '-1 hour') where trial_id = ?",
            (trial._trial_id,),
        )
        connection.commit()


def test_workers_run_no_more_trials_than_requested(tmp_path):
    first, second = open_study(tmp_path / "s.db"), open_study(tmp_path / "s.db")
    a, b = first.claim(2), second.claim(2)
    assert {a.number, b.number} == {0, 1}
    assert first.claim(2) is None
    assert second.has_running_trials()
    finish(first, a)
    finish(second, b)
    assert not first.has_running_trials()
    assert first.claim(2) is None
    finish(second, second.claim(3))
    assert states(first) == ["COMPLETE"] * 3
    first.close()
    second.close()


def test_trials_of_dead_workers_are_run_again_with_the_same_parameters(tmp_path):
    shared = open_study(tmp_path / "s.db")
    trial = shared.claim(5)
    x = trial.suggest_float("x", 0, 1)
    kill_worker_of(shared, trial)
    again = shared.claim(5)
    assert states(shared)[trial.number] == "FAIL"
    assert is_abandoned(shared.study.trials[trial.number])
    assert again.suggest_float("x", 0, 1) == x
    finish(shared, again)
    for _ in range(4):
        finish(shared, shared.claim(5))
    assert shared.claim(5) is None
    assert states(shared).count("COMPLETE") == 5
    shared.close()


def test_a_worker_killed_before_its_first_heartbeat_is_found_dead(tmp_path):
    shared = open_study(tmp_path / "s.db")
    shared.study.ask()  # killed here: no heartbeat
    assert shared.has_running_trials()
    assert states(shared) == ["FAIL", "WAITING"]
    assert shared.claim(1).number == 1
    assert states(shared) == ["FAIL", "RUNNING"]
    shared.close()


def test_heartbeats_keep_a_trial_alive(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "HEARTBEAT_INTERVAL", 1)
    monkeypatch.setattr(study, "GRACE_PERIOD", 2)
    shared = open_study(tmp_path / "s.db")
    trial = shared.claim(1)
    with shared.heartbeat(trial):
        end = time.monotonic() + 4.5
        while time.monotonic() < end:
            assert shared.has_running_trials()
            time.sleep(0.3)
    assert states(shared) == ["RUNNING"]
    finish(shared, trial)
    shared.close()


def test_parameters_that_kill_their_worker_are_not_tried_for_ever(tmp_path):
    shared = open_study(tmp_path / "s.db")
    values = []
    for _ in range(6):
        trial = shared.claim(50)
        values.append(trial.suggest_float("x", 0, 1))
        kill_worker_of(shared, trial)
    assert values[:4] == values[:1] * 4  # three times again
    assert values[4] != values[0]
    shared.close()


@pytest.mark.parametrize("in_memory", [True, False])
def test_an_interrupted_trial_is_queued_again_at_once(tmp_path, in_memory):
    shared = open_study(None if in_memory else tmp_path / "s.db")
    trial = shared.claim(1)
    x = trial.suggest_float("x", 0, 1)
    shared.abandon(trial)
    assert states(shared) == ["FAIL", "WAITING"]
    assert shared.claim(1).suggest_float("x", 0, 1) == x
    shared.close()


def test_only_trials_that_failed_for_a_reason_count(tmp_path):
    shared = open_study(tmp_path / "s.db")
    alive, dead = shared.claim(9), shared.claim(9)
    kill_worker_of(shared, dead)
    assert shared.has_running_trials()
    assert states(shared)[:2] == ["RUNNING", "FAIL"]
    finish(shared, alive)
    failed = shared.claim(3)
    failed.set_user_attr(REASON, "it diverged")
    shared.study.tell(failed, state=optuna.trial.TrialState.FAIL)
    finish(shared, shared.claim(3))
    assert shared.claim(3) is None
    shared.close()


def test_configurations_are_compared_flat_and_shown_short():
    assert _flatten({"a": {}, "b": {"c": 1, "d": {"e": 2}}, "f": 3}) == {
        "a": {}, "b.c": 1, "b.d.e": 2, "f": 3
    }  # fmt: skip
    for n, length in ((198, 200), (199, 203)):
        assert len(_shorten("x" * n)) == length


@pytest.mark.parametrize(
    ("key", "value"), [("data", "abd"), ("metric", "mrr"), ("space", {"l2": [1, 3]}), ("new", 1)]
)
def test_a_study_refuses_to_continue_on_something_else(tmp_path, key, value):
    open_study(tmp_path / "s.db").close()
    with pytest.raises(CheckpointError, match=key) as caught:
        open_study(tmp_path / "s.db", {**CONFIGURATION, key: value})
    assert caught.value.file == str(tmp_path / "s.db")
    open_study(tmp_path / "s.db").close()


def test_files_that_are_no_study_are_refused(tmp_path):
    (tmp_path / "text.db").write_text("not a data base at all, but long enough to be read\n" * 9)
    with pytest.raises(CheckpointError):
        open_study(tmp_path / "text.db")
    with pytest.raises(CheckpointError):
        open_study(tmp_path / "absent" / "s.db")
    foreign = optuna.create_study(storage=f"sqlite:///{tmp_path}/o.db", study_name="rankine")
    foreign.optimize(lambda trial: 1.0, n_trials=1)
    with pytest.raises(CheckpointError):
        open_study(tmp_path / "o.db")


def test_a_study_in_memory_needs_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shared = open_study(None)
    trial = shared.claim(1)
    with shared.heartbeat(trial):
        finish(shared, trial)
    assert shared.claim(1) is None
    assert not shared.has_running_trials()
    assert os.listdir() == []  # noqa: PTH208
    shared.close()
