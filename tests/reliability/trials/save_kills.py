"""Kill a process with SIGKILL at random moments while it saves models over each other."""

from __future__ import annotations

import os
import signal
import time

from reliability.harness.outcome import Job, Outcome
from reliability.trials.savers import FileChecker, model_saver


def trial(job: Job) -> Outcome:
    """Kill a child that saves in a loop; the file must be one of the two models."""
    outcome = Outcome()
    saver = model_saver()
    checker = FileChecker(saver, job.folder)
    for case, rng in job.cases(outcome):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write_end, b"1")
            while True:
                saver.save_new(checker.path)
                saver.save_old(checker.path)
        os.read(read_end, 1)
        time.sleep(rng.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read_end)
        os.close(write_end)
        state = checker.state()
        outcome.require(state != "torn", "torn", job.name(case))
        outcome.counts[f"found {state}"] += 1
    return outcome
