"""Training on partitions: on this machine, and on the workers of a Dask cluster."""

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
    """The ranker of a solver."""
    name, options = SOLVERS[solver]
    return ranker_class(name)(random_state=0, **options)


def digest(ranker) -> str:
    """Hash of the weights."""
    return hashlib.sha256(np.ascontiguousarray(ranker.coef_, np.float64).tobytes()).hexdigest()


def partitions(folder):
    """Three files of several partitions each."""
    from reference.distributed_data import write_files

    where = folder / "parts"
    if not where.exists():
        where.mkdir()
        write_files(where, n_files=3)
    return rankine.distributed.scan(f"{where}/*.parquet", partition_bytes=8_000)


class StopError(Exception):
    """Ends a run at a moment of our choice."""


def train(solver, rng, folder, reference):
    """Hash of one run on partitions, and how it was made: quiet, or stopped and resumed."""
    if reference or rng.random() < 0.3:
        return digest(make(solver).fit(partitions(folder))), "partitions on this machine"
    kept = folder / "kept-parts"
    shutil.rmtree(kept, ignore_errors=True)
    stop = rng.randrange(1, 6)

    def stopper(progress):
        if progress.step >= stop:
            raise StopError

    try:
        ranker = make(solver).fit(partitions(folder), callbacks=[stopper], checkpoint=kept)
    except StopError:
        ranker = make(solver).fit(partitions(folder), checkpoint=kept, resume=True)
    return digest(ranker), f"partitions, stopped after step {stop} and resumed"


def warm() -> None:
    """Load the compiled kernels before children are forked."""
    import random
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        for solver in SOLVERS:
            train(solver, random.Random(0), Path(folder), True)
