"""SIGKILL at random moments: no finished trial is lost, none runs for ever."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from pathlib import Path

import optuna
import pytest

pytestmark = [
    pytest.mark.reliability,
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX"),
]

sys.path.insert(0, str(Path(__file__).parent))
#: One process imports everything; the tuners are forked from it.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tuner", "optuna.storages", "alembic.context", "scipy.stats"])


def start(study, trials):
    """A tuner, and a connection that hears from it."""
    from tuner import main

    ear, mouth = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=main, args=(study, trials, mouth))
    process.start()
    mouth.close()
    return process, ear


def read_trials(study):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    loaded = optuna.load_study(study_name="rankine", storage=f"sqlite:///{study}")
    return {t.number: t for t in loaded.trials}


def kill_and_resume(study, kills, at_once, trials, seed):
    """Kill groups of tuners, then let one finish; every acknowledged trial must still be there."""
    chance = random.Random(seed)
    kept: dict[int, float] = {}
    for _ in range(kills):
        running = [start(study, trials) for _ in range(at_once)]
        # wait for a sign of life, then for a random moment of a trial's life
        running[0][1].recv()
        time.sleep(chance.random() * 0.3)
        for process, _ in running:
            process.kill()
            process.join()
        for number, trial in read_trials(study).items():
            if trial.state.name == "COMPLETE":
                kept[number] = trial.value
    last, ear = start(study, trials)
    while not isinstance(ear.recv(), float):
        pass
    last.join()
    assert last.exitcode == 0
    found = read_trials(study)
    assert all(found[n].state.name == "COMPLETE" and found[n].value == v for n, v in kept.items())
    states = [t.state.name for t in found.values()]
    assert "RUNNING" not in states
    void = [t for t in found.values() if t.user_attrs.get("rankine:abandoned")]
    counted = [t for t in found.values() if t.state.name in {"COMPLETE", "PRUNED"}]
    assert len(counted) == trials
    assert len(void) <= kills * at_once


def test_a_killed_study_is_completed(tmp_path):
    kill_and_resume(tmp_path / "s.db", kills=3, at_once=1, trials=8, seed=0)


def test_two_tuners_killed_together_leave_a_valid_study(tmp_path):
    kill_and_resume(tmp_path / "s.db", kills=1, at_once=2, trials=6, seed=1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_fifty_kills(tmp_path, seed):
    kill_and_resume(tmp_path / "s.db", kills=10, at_once=1 + seed % 2, trials=60, seed=seed)
