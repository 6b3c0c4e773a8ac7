"""Kill a worker of a Dask cluster during training: the model must not change.

Each case is one kill at a random moment of a run on a cluster of two worker processes.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np

from reliability.harness.outcome import Job, Outcome
from reliability.trials import cluster

__all__ = ["trial", "warm"]

warm = cluster.warm


def kill_one(client, chance) -> None:
    """Kill a worker process."""
    pids: list[int] = []
    while not pids:
        pids = [pid for pid in client.run(os.getpid, on_error="ignore").values() if pid]
    os.kill(chance.choice(pids), signal.SIGKILL)


def trial(job: Job) -> Outcome:
    """Start a cluster for the batch and kill a worker in each run."""
    from rankine.distributed.runners import connect

    outcome = Outcome()
    np.seterr(all="warn")
    parts = cluster.partitions(job.folder)
    expected = {}
    names = list(cluster.SOLVERS)
    with connect("local:2", memory_limit="1GB") as client:
        on_cluster = parts.on(client, timeout=100)
        for case, rng in job.cases(outcome):
            solver = names[case % len(names)]
            if solver not in expected:
                expected[solver] = cluster.digest(cluster.make(solver).fit(parts))
            at, delay = rng.randrange(1, 5), rng.uniform(0.0, 0.2)

            def killer(progress, at=at, delay=delay, rng=rng):
                if progress.step == at:  # from a thread: the round goes on meanwhile
                    threading.Thread(
                        target=lambda: (time.sleep(delay), kill_one(client, rng)), daemon=True
                    ).start()
                    outcome.counts["killed at work"] += 1

            try:
                ranker = cluster.make(solver).fit(on_cluster, callbacks=[killer])
            except Exception as error:
                outcome.fail("lost", f"{job.name(case)} {solver}: {error!r}")
                continue
            same = cluster.digest(ranker) == expected[solver]
            outcome.require(same, "unequal", f"{job.name(case)} {solver}, step {at}")
    return outcome
