from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import optuna
import pytest

from rankine.core.errors import CheckpointError
from rankine.tuning import study
from rankine.tuning.result import records
from rankine.tuning.study import OWNER, SharedStudy, _flat, _short, alive, own_name
from rankine.tuning.thompson import ABANDONED

ABOUT = {"data": "abc", "metric": "map", "space": {"l2": [1, 2]}}


def open_study(path, about=None):
    return SharedStudy(
        path,
        ABOUT if about is None else about,
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


def test_a_process_knows_itself_and_the_dead():
    assert alive(own_name())
    gone = subprocess.run(
        [sys.executable, "-S", "-c", "from os import *; print(getpid())"],
        capture_output=True,
        text=True,
        check=True,
    )
    pid, boot, start = own_name().split(" ", 2)
    assert not alive(f"{gone.stdout.strip()} {boot} {start}")
    assert not alive(f"{pid} {boot} 1")
    assert not alive(f"{pid} another-boot {start}")
    assert not alive("")
    assert alive(f"{pid} any unknown")  # where the system does not tell
    assert not alive("1 any unknown")


def test_a_process_is_known_where_there_is_no_proc(monkeypatch):
    monkeypatch.setattr(study.Path, "exists", lambda _: False)
    for shown, start in ((" Mon Jan  5 \n", "Mon Jan  5"), ("\n", "gone")):
        answer = SimpleNamespace(stdout=shown)
        monkeypatch.setattr(study.subprocess, "run", lambda *_, answer=answer, **__: answer)
        assert study._start(7) == start

    def absent(*_, **__):
        raise OSError

    monkeypatch.setattr(study.subprocess, "run", absent)
    assert study._start(7) == "unknown"
    assert alive(own_name())
    monkeypatch.setattr(study.Path, "read_text", absent)
    assert study._boot() == sys.platform


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="there is no /proc")  # noqa: PTH110
def test_a_process_that_ended_is_gone_though_nobody_has_asked_how():
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = f"{child.pid} {study._boot()} {study._start(child.pid)}"
        assert alive(name)
        child.stdin.close()
        end = time.monotonic() + 30
        while alive(name) and time.monotonic() < end:  # it stays as a zombie
            time.sleep(0.01)
        assert not alive(name)
        assert child.returncode is None


def test_no_more_trials_than_asked_for(tmp_path):
    first, second = open_study(tmp_path / "s.db"), open_study(tmp_path / "s.db")
    a, b = first.claim(2), second.claim(2)
    assert {a.number, b.number} == {0, 1}
    assert first.claim(2) is None
    assert second.rivals()
    finish(first, a)
    finish(second, b)
    assert not first.rivals()
    assert first.claim(2) is None
    finish(second, second.claim(3))
    assert states(first) == ["COMPLETE"] * 3
    first.close()
    second.close()


def test_trials_of_the_dead_are_queued_again_with_their_parameters(tmp_path):
    shared = open_study(tmp_path / "s.db")
    trial = shared.claim(5)
    x = trial.suggest_float("x", 0, 1)
    trial.set_user_attr(OWNER, "999999999 boot 1")
    unsigned = shared.study.ask()
    again = shared.claim(5)
    assert states(shared)[trial.number] == states(shared)[unsigned.number] == "FAIL"
    assert again.suggest_float("x", 0, 1) == x
    finish(shared, again)
    for _ in range(4):
        finish(shared, shared.claim(5))
    assert shared.claim(5) is None
    assert states(shared).count("COMPLETE") == 5
    shared.close()


def test_a_trial_that_kills_its_owner_is_not_tried_for_ever(tmp_path):
    shared = open_study(tmp_path / "s.db")
    seen = []
    for _ in range(6):
        trial = shared.claim(50)
        seen.append(trial.suggest_float("x", 0, 1))
        trial.set_user_attr(OWNER, "999999999 boot 1")
    assert seen[:4] == seen[:1] * 4  # three times again
    assert seen[4] != seen[0]
    shared.close()


def test_a_sweep_counts_the_dead_and_leaves_the_living(tmp_path):
    shared = open_study(tmp_path / "s.db")
    mine, theirs = shared.claim(9), shared.claim(9)
    theirs.set_user_attr(OWNER, "999999999 boot 1")
    assert shared.sweep() == 1
    assert states(shared) == ["RUNNING", "FAIL"]
    assert shared.study.trials[1].user_attrs[ABANDONED]
    assert shared.sweep() == 0
    finish(shared, mine)
    # an abandoned trial does not count, one that failed by itself does
    shared.study.tell(shared.claim(3), state=optuna.trial.TrialState.FAIL)
    finish(shared, shared.claim(3))
    assert shared.claim(3) is None
    shared.close()


def test_what_a_study_is_about_is_told_in_short():
    assert _flat({"a": {}, "b": {"c": 1, "d": {"e": 2}}, "f": 3}) == {
        "a": {}, "b.c": 1, "b.d.e": 2, "f": 3
    }  # fmt: skip
    for n, shown in ((198, 200), (199, 203)):
        assert len(_short("x" * n)) == shown


@pytest.mark.parametrize(
    ("key", "value"), [("data", "abd"), ("metric", "mrr"), ("space", {"l2": [1, 3]}), ("new", 1)]
)
def test_a_study_refuses_to_continue_on_something_else(tmp_path, key, value):
    open_study(tmp_path / "s.db").close()
    with pytest.raises(CheckpointError, match=key):
        open_study(tmp_path / "s.db", {**ABOUT, key: value})
    open_study(tmp_path / "s.db").close()


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.db").write_text(
        "not a data base at all, but long enough to be looked at\n" * 9
    )
    with pytest.raises(CheckpointError, match="not a study"):
        open_study(tmp_path / "text.db")
    with pytest.raises(CheckpointError, match="lock"):
        open_study(tmp_path / "absent" / "s.db")
    foreign = optuna.create_study(storage=f"sqlite:///{tmp_path}/o.db", study_name="rankine")
    foreign.optimize(lambda trial: 1.0, n_trials=1)
    with pytest.raises(CheckpointError, match="not made by rankine"):
        open_study(tmp_path / "o.db")


def test_a_study_in_memory_needs_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shared = open_study(None)
    finish(shared, shared.claim(1))
    assert shared.claim(1) is None
    assert os.listdir() == []  # noqa: PTH208


def test_trials_that_have_not_ended_hide_no_later_ones():
    kept = {"params": {}, "user_attrs": {}, "system_attrs": {}, "duration": None}
    trials = [
        SimpleNamespace(number=k, state=SimpleNamespace(name=state), value=value, **kept)
        for k, (state, value) in enumerate(
            (("COMPLETE", 0.5), ("RUNNING", None), ("COMPLETE", 0.75), ("COMPLETE", 0.25))
        )
    ]
    for maximize, best in ((True, [0.5, 0.75, 0.75]), (False, [0.5, 0.5, 0.25])):
        assert [one.best for one in records(trials, maximize=maximize)] == best
    trials[0].user_attrs = {ABANDONED: True}
    trials[2].system_attrs = {"constraints:size": 0.5}
    trials[3].system_attrs = {"constraints:size": 0.0}
    for trial in trials[2:]:
        trial.user_attrs = {"weights": 3, "seconds": 0.5, "reason": "why"}
    found = records(trials, maximize=True)
    assert [(one.number, one.best, one.feasible) for one in found] == [
        (2, None, False), (3, 0.25, True)
    ]  # fmt: skip
    assert (found[0].weights, found[0].seconds, found[0].reason) == (3, 0.5, "why")
    trials[3].state.name = "PRUNED"
    assert [(one.state, one.value) for one in records(trials, maximize=True)] == [
        ("complete", 0.75), ("pruned", None)
    ]  # fmt: skip
