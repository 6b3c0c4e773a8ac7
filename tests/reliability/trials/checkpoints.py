"""Read damaged checkpoints: each must be refused with a typed error."""

from __future__ import annotations

import numpy as np

from rankine.core.errors import CheckpointError
from rankine.solvers.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from reference.byte_mutants import mutate
from reliability.harness.outcome import Job, Outcome


def trial(job: Job) -> Outcome:
    """Read byte mutants of a checkpoint."""
    outcome = Outcome()
    path = job.folder / "step.checkpoint"
    arrays = {"state": np.arange(12.0).reshape(6, 2), "clock": np.ones(3)}
    write_checkpoint(path, Checkpoint("one_pass", 7, arrays, {"seed": 1, "rows_seen": 5}))
    good = path.read_bytes()
    for case, rng in job.cases(outcome):
        data = mutate(good, rng, tail=200)
        if data == good:
            continue
        path.write_bytes(data)
        try:
            checkpoint = read_checkpoint(path)
        except CheckpointError as error:
            outcome.counts["refused"] += 1
            placed = error.fix and error.file == str(path)
            outcome.require(placed, "misplaced", f"{job.name(case)}: {error}")
        except Exception as error:
            outcome.fail("crashes", f"{job.name(case)}: {error!r} for {data!r}")
        else:
            same = checkpoint.step == 7 and np.array_equal(
                checkpoint.arrays["state"], arrays["state"]
            )
            outcome.require(same, "accepted", f"{job.name(case)}: {data!r}")
            outcome.counts["same"] += same
    return outcome
