"""Kill tuning processes: no finished trial may be lost, and the study must be completed."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from reliability.harness.killable import KillableProcess
from reliability.harness.outcome import Job, Outcome
from reliability.trials.tuner import tune

#: Kills of one study before one tuner may finish it.
KILLS = 5
#: Trials of a study.
TRIALS = 24
#: Time limit for finishing, on a busy machine.
PATIENCE = 180.0
_QUERY = """
select t.number, t.state, v.value
from trials t
left join trial_values v on v.trial_id = t.trial_id
"""


def trials_of(study):
    """Return number -> (state, value, abandoned), read by plain SQL."""
    if not study.exists():
        return {}
    with closing(sqlite3.connect(f"file:{study}?mode=ro", uri=True, timeout=60)) as connection:
        try:
            rows = connection.execute(_QUERY).fetchall()
        except sqlite3.OperationalError:  # the tables are not made yet
            return {}
    # No parameters of this problem fail: only trials of killed tuners do.
    return {number: (state, value, state == "FAIL") for number, state, value in rows}


def trial(job: Job) -> Outcome:
    """Kill one tuner, or two that share a study, in each case."""
    outcome = Outcome()
    study, left, acknowledged, number, tuners = None, 0, {}, 0, 1
    for case, rng in job.cases(outcome):
        if left == 0:
            number += 1
            study, left, acknowledged = job.folder / f"study{number}.db", KILLS, {}
            tuners = rng.choice((1, 1, 2))
        running = [
            KillableProcess(lambda report, study=study: _work(report, study)) for _ in range(tuners)
        ]
        running[0].receive()
        time.sleep(rng.uniform(0.0, 0.5))
        alive = [process.kill() for process in running]
        outcome.counts["killed at work"] += alive[0]
        for found, (state, value, _) in trials_of(study).items():
            if state == "COMPLETE":
                acknowledged[found] = value
        left -= 1
        if left == 0 or case == job.first + job.count - 1:
            left = 0
            _finish(outcome, job.name(case), study, acknowledged, KILLS * tuners)
    return outcome


def _finish(outcome: Outcome, message: str, study, acknowledged, kills) -> None:
    complete = _counted(trials_of(study)) == TRIALS  # a quick machine is done before the last kill
    began = time.monotonic()
    last = KillableProcess(lambda report: _work(report, study))
    first = last.receive(PATIENCE)
    outcome.keep_maximum("restart_seconds", time.monotonic() - began)
    status = last.wait(PATIENCE)
    if status is None:
        outcome.fail("hangs", f"{message}: the study does not end")
        return
    went_on = status == 0 and (first or complete)
    outcome.require(went_on, "lost", f"{message}: the tuner ended with {status}")
    found = trials_of(study)
    for number, value in acknowledged.items():
        same = found.get(number, ("", None, False))[:2] == ("COMPLETE", value)
        outcome.require(same, "lost", f"{message}: trial {number}")
    outcome.counts["acknowledged trials"] += len(acknowledged)
    stuck = [number for number, (state, _, _) in found.items() if state == "RUNNING"]
    outcome.require(not stuck, "lost", f"{message}: trials {stuck} run for ever")
    counted = _counted(found)
    outcome.require(counted == TRIALS, "lost", f"{message}: {counted} trials of {TRIALS}")
    void = sum(abandoned for _, _, abandoned in found.values())
    outcome.require(void <= kills, "lost", f"{message}: {void} trials were given up")
    outcome.counts["completed studies"] += 1


def _counted(found) -> int:
    return sum(state in {"COMPLETE", "PRUNED"} for state, _, _ in found.values())


def _work(report, study):
    tune(study, TRIALS, lambda done: report(b"1"))


def warm() -> None:
    """Import Optuna and load the compiled kernels before children are forked."""
    import alembic.context  # noqa: F401 - imported by the first study
    import optuna.storages  # noqa: F401
    import scipy.stats  # noqa: F401

    tune(None, 2)
