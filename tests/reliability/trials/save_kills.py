"""kill -9 at random moments while models are saved one over the other, again and again."""

from __future__ import annotations

import os
import signal
import time

from reliability.harness.outcome import Job, Outcome
from reliability.trials.savers import Judge, model_saver


def trial(job: Job) -> Outcome:
    """Kill a child that saves in a loop; the file must be one of the two models."""
    outcome = Outcome()
    saver = model_saver()
    judge = Judge(saver, job.folder)
    for case, rng in job.cases(outcome):
        ear, mouth = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(mouth, b"1")
            while True:
                saver.save_new(judge.path)
                saver.save_old(judge.path)
        os.read(ear, 1)
        time.sleep(rng.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ear)
        os.close(mouth)
        found = judge.verdict()
        outcome.require(found != "torn", "torn", job.name(case))
        outcome.counts[f"found {found}"] += 1
    return outcome
