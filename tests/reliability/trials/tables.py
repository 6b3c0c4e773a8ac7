"""Read mutated Parquet and Arrow files: no crash, no hang, no changed numbers.

Parquet pages have checksums, so a file that can be read must give the original numbers. Arrow files
have none: there, rankine must read the same numbers as pyarrow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import rankine
from corpus.found_tables import FOUND, damaged
from rankine.core.errors import DataError
from rankine.data import Dataset
from reference.byte_mutants import mutate
from reliability.harness.outcome import Job, Outcome, peak_mb

LAYOUTS = (
    ("parquet", {"layout": "columns", "row_group_rows": 20}),
    ("sparse.parquet", {"layout": "sparse", "compression": "none", "row_group_rows": 20}),
    ("arrow", {"layout": "sparse"}),
    ("arrows", {"layout": "columns", "compression": "zstd"}),
)
#: Memory limit for reading files of a few kilobytes.
GROWTH_MB = 400


def seed_data() -> Dataset:
    """Make a small data set with every kind of column."""
    rng = np.random.default_rng(7)
    X = np.round(rng.normal(size=(60, 5)), 2) * (rng.random((60, 5)) < 0.6) + 0.0
    return Dataset.from_arrays(
        X,
        rng.integers(0, 3, 60),
        np.repeat([f"query-{k}" for k in range(12)], 5),
        docid=[f"doc{k}" for k in range(60)],
        feature_names=[f"name {j}" for j in range(5)],
        weight=rng.random(60) + 0.5,
    )


def write_seeds(folder: Path) -> list[Path]:
    """Write the good files that are mutated."""
    data = seed_data()
    paths = []
    for suffix, options in LAYOUTS:
        path = folder / f"seed.{suffix}"
        data.save(path, **options)
        paths.append(path)
    return paths


def numbers(found: Dataset) -> tuple:
    """Return what must be exactly equal: features, labels and queries."""
    X = found.X if isinstance(found.X, np.ndarray) else found.X.toarray()
    return X.shape, (X.astype(np.float64) + 0.0).tobytes(), found.y.tobytes(), found.qid.tolist()


def arrow_numbers(path: Path) -> tuple | None:
    """Return the same numbers of an Arrow file by pyarrow alone; None if it cannot read them."""
    kind = pa.ipc.open_file if path.suffix == ".arrow" else pa.ipc.open_stream
    try:
        with pa.memory_map(str(path)) as file:
            table = kind(file).read_all()
        y = np.asarray(table["label"].to_pylist(), dtype=np.float64)
        qid = table["qid"].to_pylist()
        if "indices" in table.column_names:
            width = len(seed_data().feature_names)
            X = np.zeros((len(y), width))
            for k, (at, values) in enumerate(
                zip(table["indices"].to_pylist(), table["values"].to_pylist(), strict=True)
            ):
                if min(at, default=1) < 1:  # features count from 1 in files
                    return None
                X[k, [j - 1 for j in at]] = values
        else:
            others = {"label", "qid", "docid", "weight"}
            names = [name for name in table.column_names if name not in others]
            X = np.column_stack([np.asarray(table[name].to_pylist(), float) for name in names])
    except (pa.ArrowException, ValueError, TypeError, IndexError, KeyError, OSError):
        return None
    return X.shape, (np.ascontiguousarray(X) + 0.0).tobytes(), y.tobytes(), qid


def trial(job: Job) -> Outcome:
    """Write mutants and read them; the first are those that failed before."""
    outcome = Outcome()
    good = numbers(seed_data())
    seeds = write_seeds(job.folder)
    contents = {path: path.read_bytes() for path in seeds}
    for suffix, *change in FOUND:
        seed = job.folder / f"seed.{suffix}"
        path = job.folder / f"found{seed.suffix}"
        path.write_bytes(damaged(contents[seed], *change))
        _read(outcome, path, good, f"{seed.name} {change}", read_is_a_fault=True)
    before = peak_mb()
    for case, rng in job.cases(outcome):
        seed = rng.choice(seeds)
        path = job.folder / f"mutant{seed.suffix}"
        path.write_bytes(mutate(contents[seed], rng))
        _read(outcome, path, good, f"{job.name(case)} {seed.name}")
    outcome.keep_maximum("memory_growth_mb", peak_mb() - before)
    grown = outcome.measurements["memory_growth_mb"]
    outcome.require(grown < GROWTH_MB, "crashes", f"memory followed a number: {grown:.0f} MB")
    return outcome


def _read(
    outcome: Outcome, path: Path, good: tuple, message: str, *, read_is_a_fault: bool = False
) -> None:
    try:
        found = numbers(rankine.load(path, max_memory=2**30))
    except DataError as error:
        placed = error.fix and (error.file or error.code == "empty")
        outcome.require(placed, "misplaced", f"{message}: {error}")
        outcome.counts["refused"] += 1
    except Exception as error:
        outcome.fail("crashes", f"{message}: {error!r}")
    else:
        if read_is_a_fault:
            outcome.fail("accepted", message)
        elif found == good:
            outcome.counts["same"] += 1
        elif path.suffix.startswith(".arrow") and found == arrow_numbers(path):
            outcome.counts["no checksum"] += 1
        else:
            outcome.fail("misread", message)
