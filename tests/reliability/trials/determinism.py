"""Train with the same seed and other threads, chunks, formats, blocks and resumes.

Each case is one training run. Its weights must be exactly those of the reference run of the same
solver: one thread, arrays in memory, no interruption.
"""

from __future__ import annotations

import hashlib
import os
import shutil

import numpy as np

import rankine
from rankine.rankers.registry import ranker_class
from reliability.harness.outcome import Job, Outcome
from reliability.trials import cluster

THREADS = (1, 2, 3, 4, 8)
CHUNKS = (61, 4096, 2**20)
SOLVERS = {
    "spd": ("spd", {"n_steps": 5000}),
    "spd-romma": ("spd", {"n_steps": 5000, "solver": "romma", "sampling": "indexed"}),
    "ranksvm-hinge": ("ranksvm", {"tol": 1e-2}),
    "ranksvm-squared": ("ranksvm", {"loss": "squared_hinge"}),
    "least-squares-cg": ("least-squares", {}),
    "least-squares-egdm": ("least-squares", {"solver": "egdm", "max_iter": 5}),
    "domination": ("domination", {"l1": 1.0, "tol": 1e-2}),
    "elastic": ("elastic", {"n_passes": 2, "batch_lists": 3, "shuffle_buffer": 40}),
}
QUERIES = 240
#: The environment may limit a run to some solvers.
CHOSEN = [name for name in os.environ.get("RELIABILITY_ONLY", "").split(",") if name]


def make_data() -> rankine.Dataset:
    """Make data whose numbers text holds exactly, with enough rows for every shard."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(3, 12, QUERIES)
    X = np.round(rng.normal(size=(int(sizes.sum()), 8)), 3) * (rng.random((sizes.sum(), 8)) < 0.7)
    y = (X[:, 0] + rng.normal(size=len(X)) > 0.8).astype(float)
    return rankine.Dataset.from_arrays(X + 0.0, y, np.repeat(np.arange(QUERIES), sizes))


def make(solver: str, threads: int | None):
    """Return the ranker of a solver."""
    name, options = SOLVERS[solver]
    kind = ranker_class(name)
    parameters = {"random_state": 0, **options}
    if "n_threads" in kind._get_param_names():
        parameters["n_threads"] = threads
    return kind(**parameters)


def digest(ranker) -> str:
    """Return a hash of the weights."""
    return hashlib.sha256(
        np.ascontiguousarray(ranker.coef_, dtype=np.float64).tobytes()
    ).hexdigest()


class StopError(Exception):
    """Raised by a callback to end a run."""


def train(solver: str, rng, folder, reference: bool) -> tuple[str, str]:
    """Train once; return a hash and a description of the run."""
    data = make_data()
    threads = 1 if reference else rng.choice(THREADS)
    os.environ["RANKINE_NUM_THREADS"] = str(threads)
    ranker = make(solver, None if rng.random() < 0.5 else threads)
    if solver == "elastic":
        return _stream(ranker, solver, data, rng, folder, reference, threads)
    if reference:
        return digest(ranker.fit(data)), "reference"
    chunk = rng.choice(CHUNKS)
    suffix = rng.choice(("txt", "txt.gz", "parquet"))
    path = folder / f"data.{suffix}"
    data.save(path)
    again = rankine.load(path, n_features=data.n_features, chunk_bytes=chunk, dense=True)
    return digest(ranker.fit(again)), f"{threads} threads, {suffix} in chunks of {chunk}"


def _stream(ranker, solver, data, rng, folder, reference, threads):
    path = folder / "lists.txt"
    data.save(path)
    rows = 100_000 if reference else rng.choice((7, 100, 1000, 100_000))
    chunk = 2**20 if reference else rng.choice(CHUNKS)

    def stream():
        return rankine.scan(path, n_features=data.n_features, block_rows=rows, chunk_bytes=chunk)

    how = f"blocks of {rows} rows, chunks of {chunk}"
    if reference or rng.random() < 0.5:
        return digest(ranker.fit(stream())), how
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    stop, every = rng.randrange(30, 2 * QUERIES), rng.choice((1, 17, 100))

    def stopper(progress):
        if progress.step >= stop:
            raise StopError

    try:
        ranker.fit(stream(), checkpoint=checkpoint, every=every, callbacks=[stopper])
    except StopError:
        ranker = make(solver, threads)
        resume = checkpoint.exists()  # nothing to resume from before the first checkpoint
        ranker.fit(stream(), checkpoint=checkpoint, every=every, resume=resume)
    return digest(ranker), f"{how}, stopped at list {stop}, checkpoints every {every}, resumed"


def trial(job: Job) -> Outcome:
    """Compare runs of all solvers with their references."""
    outcome = Outcome()
    names = CHOSEN or [*SOLVERS, *cluster.SOLVERS]
    expected: dict[str, str] = {}
    for case, rng in job.cases(outcome):
        solver = names[case % len(names)]
        run = cluster.train if solver in cluster.SOLVERS else train
        if solver not in expected:
            expected[solver] = run(solver, rng, job.folder, True)[0]
        found, how = run(solver, rng, job.folder, False)
        outcome.counts[f"runs of {solver}"] += 1
        outcome.require(found == expected[solver], "unequal", f"{job.name(case)} {solver}: {how}")
    return outcome


def warm() -> None:
    """Load the compiled kernels without starting threads, which would not survive a fork."""
    import random
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        for solver in CHOSEN or SOLVERS:
            train(solver, random.Random(0), Path(folder), True)
    if not CHOSEN:
        cluster.warm()
