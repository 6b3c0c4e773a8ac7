"""Kill training runs with checkpoints: the resumed run must give the same model.

A run is killed several times and resumed each time; then it may finish. Its model must be exactly
that of an uninterrupted run.
"""

from __future__ import annotations

import shutil
import time

import numpy as np

import rankine
from rankine import ElasticRanker
from rankine.core.errors import CheckpointError
from rankine.distributed.journal import Journal
from reliability.harness.killable import KillableProcess
from reliability.harness.outcome import Job, Outcome
from reliability.trials import cluster

#: Kills of one run before it may finish.
KILLS = 5
PASSES = 6
VARIANTS = (
    {"solver": "rda"},
    {"solver": "psgd", "batch_lists": 3, "theta": 1e-3},
    {"solver": "rda", "shuffle_buffer": 64, "adaptive": True, "eta0": 0.2},
    {"solver": "fobos", "objective": "pairwise"},
    {"solver": "tgd", "l2": 0.0, "batch_lists": 2, "shuffle_buffer": 50},
    *({"parts": solver} for solver in cluster.SOLVERS),
)
#: Training on partitions writes its journal every few seconds; here, much more often.
JOURNAL_SECONDS = 0.01


def write_lists(path, lists=400, seed=0):
    """Write a file of small lists."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for q in range(lists):
            for _ in range(int(rng.integers(2, 6))):
                x = " ".join(f"{j}:{v:.3f}" for j, v in enumerate(rng.normal(size=6), 1))
                file.write(f"{int(rng.integers(0, 3))} qid:{q} {x}\n")
    return path


def fit(path, options, folder=None, pause=0.0, **more):
    """Train with a pause after every block or iteration, so that there is time for a kill."""
    if "parts" in options:
        return fit_parts(path, options["parts"], folder, pause, **more)
    scan = rankine.scan(path, n_features=6, block_rows=150)
    checkpoint_options = {} if folder is None else {"checkpoint": folder, "every": 29, **more}
    ranker = ElasticRanker(n_passes=PASSES, random_state=3, **options)
    return ranker.fit(scan, callbacks=[lambda _: time.sleep(pause) and None], **checkpoint_options)


def fit_parts(path, solver, folder, pause, resume=False):
    """Train on partitions with a journal of their partial results."""
    Journal.__init__.__kwdefaults__["seconds"] = JOURNAL_SECONDS
    checkpoint_options = {} if folder is None else {"checkpoint": folder, "resume": resume}
    parts = cluster.partitions(path.parent)
    slow = [lambda _: time.sleep(pause) and None]
    return cluster.make(solver).fit(parts, callbacks=slow, **checkpoint_options)


def resume_or_start(path, options, folder, pause):
    """Resume if there is a checkpoint, else start, as a supervisor would."""
    try:
        return fit(path, options, folder, pause, resume=True)
    except CheckpointError as error:
        if "no checkpoint" not in error.reason:
            raise
        return fit(path, options, folder, pause)


def trial(job: Job) -> Outcome:
    """Kill a run in each case."""
    outcome = Outcome()
    path = write_lists(job.folder / "lists.txt")
    cluster.partitions(job.folder)  # written before anybody is killed
    folder = job.folder / "checkpoint"
    expected: dict[int, str] = {}
    left, variant = 0, 0
    for case, rng in job.cases(outcome):
        if left == 0:
            variant, left = case // KILLS % len(VARIANTS), KILLS
            shutil.rmtree(folder, ignore_errors=True)
        options = VARIANTS[variant]
        ended = _kill(path, options, folder, rng.uniform(0.0, 0.25))
        while ended == 0:
            shutil.rmtree(folder)  # it was quicker than the killer: once more, from nothing
            ended = _kill(path, options, folder, rng.uniform(0.0, 0.25))
        message = f"{job.name(case)}: {options} ended with {ended}"
        outcome.require(ended is None, "lost", message)
        outcome.counts["killed at work"] += ended is None
        left -= 1
        last = case == job.first + job.count - 1
        if left and not last:
            continue
        left = 0
        if variant not in expected:
            expected[variant] = fit(path, options).to_model().digest
        try:
            found = resume_or_start(path, options, folder, 0.0).to_model().digest
        except Exception as error:
            outcome.fail("lost", f"{job.name(case)}: cannot resume {options}: {error!r}")
            continue
        outcome.counts["resumed runs"] += 1
        outcome.require(found == expected[variant], "unequal", f"{job.name(case)}: {options}")
        litter = [found for found in folder.iterdir() if found.suffix != ".checkpoint"]
        # A killed save leaves its temporary file; it must be no more than one a kill.
        outcome.require(len(litter) <= KILLS, "litter", f"{job.name(case)}: {litter}")
    return outcome


def _kill(path, options, folder, seconds) -> int | None:
    """Kill a training run after some seconds; return its status if it ended before, else None."""
    process = KillableProcess(lambda report: _work(report, path, options, folder, 0.01))
    process.receive()
    time.sleep(seconds)
    return None if process.kill() else process.status


def _work(report, path, options, folder, pause):
    report(b"1")
    resume_or_start(path, options, folder, pause)


def warm() -> None:
    """Load the compiled kernels before children are forked."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = write_lists(Path(folder) / "lists.txt", lists=40)
        for options in VARIANTS:
            fit(path, options)
