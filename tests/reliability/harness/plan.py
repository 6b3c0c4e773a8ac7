"""List the kinds of trials: what each one tests, and the number of cases of a run of each size."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from reliability.harness.runner import Batch, Trial
from reliability.seeded_bugs import BUGS

SIZES = ("short", "standard", "soak")


class Kind(NamedTuple):
    """One kind of trial.

    Attributes
    ----------
    what
        Description for the table of figures.
    group
        Group of kinds that are added up, such as ``inputs``, ``models`` or ``kills``.
    trial
        ``module:function`` in ``reliability.trials``.
    counts
        Number of cases of a short run (part of ``make test``), of ``make reliability`` and of
        ``make soak``. A kind that tries everything in one go has one case.
    batch
        Number of cases of one forked child.
    timeout
        Time limit of one case in seconds.
    waits
        Whether it mostly waits (for disks, sockets or timers) and can run beside the others.
    """

    what: str
    group: str
    trial: str
    counts: tuple[int, int, int]
    batch: int
    timeout: float = 60.0
    waits: bool = False


KINDS: dict[str, Kind] = {
    "text": Kind(
        "mutated LETOR text in every compression and chunk size, loaded and streamed, "
        "compared with a slow strict reader",
        "inputs", "text:trial", (10_000, 150_000, 700_000), 10_000,
    ),
    "compressed": Kind(
        "gzip, bzip2, xz and zstd files damaged at random, and cut at every byte",
        "inputs", "compressed:trial", (10_000, 20_000, 100_000), 10_000,
    ),
    "tables": Kind(
        "damaged Parquet and Arrow files",
        "inputs", "tables:trial", (10_000, 30_000, 200_000), 5_000,
    ),
    "models": Kind(
        "model files with damaged bytes (the digest no longer matches)",
        "models", "models:damaged", (10_000, 200_000, 700_000), 50_000,
    ),
    "hostile-models": Kind(
        "model files changed with knowledge of the format, with the digest recomputed",
        "models", "models:hostile", (10_000, 100_000, 300_000), 10_000,
    ),
    "used-models": Kind(
        "models changed in the same way that load, and are then scored, explained, served with "
        "metrics, compared with a log, trained further and exported",
        "models", "model_use:trial", (300, 20_000, 200_000), 2_000,
    ),
    "arrays": Kind(
        "hostile sparse matrices, query ids, sizes of lists, positions, weights and model files "
        "passed to everything that fits, scores and evaluates",
        "arrays", "arrays:trial", (1_000, 100_000, 1_000_000), 5_000, 300.0,
    ),
    "checkpoints": Kind(
        "damaged checkpoints", "checkpoints", "checkpoints:trial", (2_000, 10_000, 100_000), 5_000,
    ),
    "numbers": Kind(
        "metrics, lazy updates and pair counts of small lists with many ties, compared with their "
        "definitions",
        "numbers", "numbers:trial", (500, 5_000, 100_000), 2_500, 300.0,
    ),
    "agreement": Kind(
        "valid but unusual problems: every input format and every export, definitions, changes "
        "that must not change the result, raw logs",
        "agreement", "agreement:trial", (12, 2_000, 100_000), 100, 300.0,
    ),
    "determinism": Kind(
        "training runs with other threads, formats, chunk and block sizes, partitions and resumes",
        "determinism", "determinism:trial", (22, 66, 308), 22, 300.0,
    ),
    "worker-kills": Kind(
        "kill -9 of one of two Dask workers during training",
        "workers", "worker_kills:trial", (0, 3, 100), 10, 300.0, waits=True,
    ),
    "seeded-bugs": Kind(
        "bugs planted in a copy of the package; the trial of that code must notice each one",
        "seeded", "seeded:trial", (6, len(BUGS), len(BUGS)), 1, 300.0,
    ),
    "memory": Kind(
        "loading, saving and training with 0 to 96 MB of free memory",
        "memory", "memory:trial", (28, 140, 140), 70, 120.0,
    ),
    "io-faults": Kind(
        "saves of 8 kinds of file: each write, flush, fsync, rename and close fails, is killed or "
        "is the last before a power cut; the disk is full after every kilobyte",
        "io", "io_faults:trial", (1, 1, 1), 1, 300.0,
    ),
    "save-kills": Kind(
        "kill -9 while a model is saved", "kills", "save_kills:trial", (10, 60, 1000), 30,
    ),
    "train-kills": Kind(
        "kill -9 while training with checkpoints, resumed five times",
        "kills", "train_kills:trial", (10, 40, 1000), 20, 120.0,
    ),
    "serve-kills": Kind(
        "kill -9 of a server under load and of the process that saves its model",
        "kills", "serve_kills:trial", (5, 20, 1000), 10, 120.0,
    ),
    "http": Kind(
        "fuzzed requests, 209 cases of broken framing, 500 model names that are paths of files",
        "http", "http:trial", (10_000, 20_000, 1_000_000), 5_000,
    ),
    "reloads": Kind(
        "model files replaced (1 in 4 by a damaged one) while a server answers requests",
        "reloads", "reloads:trial", (12, 40, 200), 40, 120.0, waits=True,
    ),
    "slow-clients": Kind(
        "clients that send a header or a body byte by byte, send nothing, or do not read",
        "slow", "slow_clients:trial", (200, 200, 2_000), 200, 120.0, waits=True,
    ),
    "command-lines": Kind(
        "valid command lines of every command with one to three changes: wrong and unusual values, "
        "other files, arguments left out",
        "commands", "command_lines:trial", (100, 10_000, 50_000), 2_500, 300.0,
    ),
    "tune-kills": Kind(
        "kill -9 of one tuner or two on one study",
        "kills", "tune_kills:trial", (5, 30, 1000), 10, 400.0, waits=True,
    ),
}  # fmt: skip


def trial_of(kind: str) -> Trial:
    """Return the function of a kind. Importing it loads what its children share."""
    module, _, function = KINDS[kind].trial.partition(":")
    return getattr(importlib.import_module(f"reliability.trials.{module}"), function)


def warm(kind: str) -> None:
    """Load in the parent what the forked children of a kind would each load by themselves."""
    module = KINDS[kind].trial.partition(":")[0]
    getattr(importlib.import_module(f"reliability.trials.{module}"), "warm", lambda: None)()


def batches_of(kind: str, seed: int, first: int, count: int) -> list[Batch]:
    """Split the cases of a kind into batches."""
    plan, trial = KINDS[kind], trial_of(kind)
    return [
        Batch(kind, trial, seed, start, min(plan.batch, first + count - start),
              plan.timeout, plan.waits)
        for start in range(first, first + count, plan.batch)
    ]  # fmt: skip
