"""Train on partitions, on this machine and on the workers of a Dask cluster."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np

import rankine
import rankine.distributed
from rankine.rankers.registry import ranker_class

#: Solvers that train on partitions; their runs join the determinism trials.
SOLVERS: dict[str, tuple[str, dict]] = {
    "ranksvm-hinge-parts": ("ranksvm", {"tol": 1e-2}),
    "ranksvm-squared-parts": ("ranksvm", {"loss": "squared_hinge", "tol": 1e-6}),
    "least-squares-cg-parts": ("least-squares", {"tol": 1e-12, "max_iter": 30}),
}


def make(solver):
    """Return the ranker of a solver."""
    name, options = SOLVERS[solver]
    return ranker_class(name)(random_state=0, **options)


def digest(ranker) -> str:
    """Return a hash of the weights."""
    return hashlib.sha256(np.ascontiguousarray(ranker.coef_, np.float64).tobytes()).hexdigest()


def partitions(folder):
    """Write three files and return their partitions."""
    from reference.distributed_data import write_files

    where = folder / "parts"
    if not where.exists():
        where.mkdir()
        write_files(where, n_files=3)
    return rankine.distributed.scan(f"{where}/*.parquet", partition_bytes=8_000)


class StopError(Exception):
    """Raised by a callback to end a run."""


def train(solver, rng, folder, reference):
    """Train on partitions, perhaps stop and resume; return a hash and a description."""
    if reference or rng.random() < 0.3:
        return digest(make(solver).fit(partitions(folder))), "partitions on this machine"
    checkpoint = folder / "checkpoint-parts"
    shutil.rmtree(checkpoint, ignore_errors=True)
    stop = rng.randrange(1, 6)

    def stopper(progress):
        if progress.step >= stop:
            raise StopError

    try:
        ranker = make(solver).fit(partitions(folder), callbacks=[stopper], checkpoint=checkpoint)
    except StopError:
        ranker = make(solver).fit(partitions(folder), checkpoint=checkpoint, resume=True)
    return digest(ranker), f"partitions, stopped after step {stop} and resumed"


def warm() -> None:
    """Load the compiled kernels before children are forked."""
    import random
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        for solver in SOLVERS:
            train(solver, random.Random(0), Path(folder), True)
