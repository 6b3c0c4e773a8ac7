"""Mutated Parquet, Arrow and npz files, read one after the other in this process.

Run as a script by ``tests/reliability/test_table_fuzz.py``: a crash must not take the tests along.
Each line of output is the seed of a case that is about to be read; the last line counts outcomes.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from pathlib import Path

import numpy as np

import rankine
from rankine.core.errors import DataError
from rankine.data import Dataset


def seed_data() -> Dataset:
    """Small, with every kind of column."""
    rng = np.random.default_rng(7)
    X = np.round(rng.normal(size=(60, 5)), 2) * (rng.random((60, 5)) < 0.6)
    return Dataset.from_arrays(
        X,
        rng.integers(0, 3, 60),
        np.repeat([f"query-{k}" for k in range(12)], 5),
        docid=[f"doc{k}" for k in range(60)],
        feature_names=[f"name {j}" for j in range(5)],
        weight=rng.random(60) + 0.5,
    )


def write_seeds(folder: Path) -> list[Path]:
    """The good files that are mutated."""
    data = seed_data()
    paths = []
    for suffix, options in (
        ("parquet", {"layout": "columns", "row_group_rows": 20}),
        ("sparse.parquet", {"layout": "sparse", "compression": "none", "row_group_rows": 20}),
        ("arrow", {"layout": "sparse"}),
        ("arrows", {"layout": "columns", "compression": "zstd"}),
        ("npz", {"layout": "sparse"}),
        ("deflate.npz", {"layout": "columns", "compression": "deflate"}),
    ):
        path = folder / f"seed.{suffix}"
        data.save(path, **options)
        paths.append(path)
    return paths


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to three changes, half of them near the end, where footers stand."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        size = len(changed)
        place = rng.randrange(size) if rng.random() < 0.5 else max(0, size - 1 - rng.randrange(800))
        kind = rng.randrange(6)
        if kind == 0:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[place] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            changed[place : place + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"))
        elif kind == 3:
            del changed[place : place + rng.randint(1, 16)]
        elif kind == 4:
            other = rng.randrange(size)
            changed[place : place + 8] = changed[other : other + 8]
        else:
            del changed[place:]
        changed = changed or bytearray(b"\0")
    return bytes(changed)


def outcome(path: Path, good: Dataset) -> str:
    """What the reader made of a mutant: refused, the same numbers, or others."""
    try:
        found = rankine.load(path, max_memory=2**30)
    except DataError as error:
        placed = error.fix and (error.file or error.code == "empty")
        return "refused" if placed else f"bare error: {error}"
    same = (
        found.X.shape == good.X.shape
        and np.array_equal(
            found.X if isinstance(found.X, np.ndarray) else found.X.toarray(), good.X
        )
        and np.array_equal(found.y, good.y)
        and found.qid.tolist() == good.qid.tolist()
    )
    return "same" if same else "other"


def main() -> None:
    """Read mutants number ``first`` to ``last`` in a folder."""
    folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    good = seed_data()
    seeds = [path for path in write_seeds(folder) if len(sys.argv) < 5 or sys.argv[4] in path.name]
    counts: dict[str, dict[str, int]] = {path.name: {} for path in seeds}
    for number in range(first, last):
        print(number, flush=True)
        rng = random.Random(number)
        seed = rng.choice(seeds)
        path = folder / f"mutant{seed.suffix}"
        path.write_bytes(mutate(seed.read_bytes(), rng))
        result = outcome(path, good)
        counts[seed.name][result] = counts[seed.name].get(result, 0) + 1
        if result not in {"refused", "same"}:
            print(f"{number} {seed.name} {result}", file=sys.stderr, flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"counts": counts, "peak_mb": peak}))


if __name__ == "__main__":
    main()
