"""ElasticRank: CPU seconds of one pass from memory, passes over files, the LETOR protocol.

    python -m benchmarks.elastic.speed speed [--lists 1000000] [--train NPZ]
    python -m benchmarks.elastic.speed stream FILE ... [--n-features 1048576]
    python -m benchmarks.elastic.speed letor FOLDER [--script letor3]

Quality on purchase lists is in ``benchmarks.elastic.purchases``, memory in
``benchmarks.elastic.memory``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np

import rankine
from benchmarks.common.machine import add
from benchmarks.common.workloads import AS_PRINTED, BlockStream, click_lists
from benchmarks.elastic.purchases import PLAIN, part, read_npz
from rankine import ElasticRanker
from rankine.data.save import save
from rankine.metrics import evaluate

SETTING = {**AS_PRINTED, **PLAIN, "eta0": 0.2, "random_state": 1}
REPEATS = 3


def speed(train):
    """Measure the CPU seconds of ``fit`` three times, with one thread."""
    ElasticRanker(**SETTING).fit(part(train, 0, 50))  # compiles
    seconds = []
    for _ in range(REPEATS):
        begun = time.process_time()
        ElasticRanker(**SETTING).fit(train)
        seconds.append(round(time.process_time() - begun, 2))
    us_a_row = round(min(seconds) / train.n_rows * 1e6, 3)
    return {"rows": train.n_rows, "cpu_s": seconds, "us_a_row": us_a_row}


def timed(work):
    """Measure the wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def stream(file, n_features):
    """Measure passes over a file that only read, and passes that also learn.

    ``ratio`` compares wall times. ``ratio_one_core`` compares CPU seconds: what would be left if
    reading and learning had to share one core.
    """
    scan = rankine.scan(file, n_features=n_features, dtype="float32")
    ElasticRanker(**SETTING).fit(BlockStream([next(iter(scan))], n_features))  # compiles
    reading, learning, rows = [], [], []
    for _ in range(REPEATS):
        reading.append(timed(lambda: rows.append(sum(block.n_rows for block in scan))))
        learning.append(timed(lambda: ElasticRanker(**SETTING).fit(scan)))
    read, learn = np.min(reading, axis=0), np.min(learning, axis=0)
    return {
        "format": Path(file).suffix,
        "megabytes": round(Path(file).stat().st_size / 1e6, 1),
        "rows": rows[0],
        "read_wall_cpu_s": read.round(3).tolist(),
        "learn_wall_cpu_s": learn.round(3).tolist(),
        "ratio": round(float(read[0] / learn[0]), 3),
        "ratio_one_core": round(float(read[1] / learn[1]), 3),
    }


def letor(folder, script):
    """Follow the LETOR protocol with one pass and ten seeds; validation MAP chooses the setting."""
    names = [f"{script}:{m}" for m in ("map", *(f"ndcg@{k}" for k in range(1, 6)))]
    keys = list(ElasticRanker.letor_grid)
    grid = [dict(zip(keys, v, strict=True)) for v in product(*ElasticRanker.letor_grid.values())]
    values = np.zeros((10, 5, len(names)))
    for fold in range(1, 6):
        fold_folder = Path(folder) / f"Fold{fold}"
        train = rankine.load(fold_folder / "train.txt", dense=True)
        width = train.n_features
        vali = rankine.load(fold_folder / "vali.txt", n_features=width, dense=True)
        test = rankine.load(fold_folder / "test.txt", n_features=width, dense=True)
        for seed in range(10):
            rankers = [
                ElasticRanker(**{**AS_PRINTED, "random_state": seed, **g}).fit(train) for g in grid
            ]
            best = max(rankers, key=lambda r, v=vali: measure(names[0], r, v))
            values[seed, fold - 1] = [measure(name, best, test) for name in names]
    means = values.mean(axis=1)
    return [
        {"metric": name, "mean": float(m.mean()), "sd_over_seeds": float(m.std(ddof=1))}
        for name, m in zip(names, means.T, strict=True)
    ]


def measure(name, ranker, data):
    return float(evaluate(name, data.y, ranker.predict(data), data.queries))


def generated(lists):
    """Measure the speed on generated lists, from memory and from files of two formats."""
    train = click_lists(lists, seed=1)
    add("elastic", "speed", speed(train))
    few = part(train, 0, min(lists, 100_000))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"lists.{suffix}" for suffix in ("txt", "parquet")]
        for path in paths:
            save(few, path)
        add("elastic", "stream", [stream(path, few.n_features) for path in paths])


def smoke():
    """Run the smallest size, as the tests do."""
    generated(1_000)


def quick():
    """Measure a tenth of the lists."""
    generated(100_000)


def full():
    """Measure a million lists."""
    generated(1_000_000)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    sub = parts.add_parser("speed")
    sub.add_argument("--lists", type=int, default=1_000_000)
    sub.add_argument("--train")
    sub = parts.add_parser("stream")
    sub.add_argument("files", nargs="+")
    sub.add_argument("--n-features", type=int, default=2**20)
    sub = parts.add_parser("letor")
    sub.add_argument("folder")
    sub.add_argument("--script", default="letor3")
    options = parser.parse_args()
    if options.part == "speed":
        train_path = options.train
        result = speed(read_npz(train_path) if train_path else click_lists(options.lists, seed=1))
    elif options.part == "stream":
        result = [stream(file, options.n_features) for file in options.files]
    else:
        result = letor(options.folder, options.script)
    print(result)
    name = f"{options.part} {options.script}" if options.part == "letor" else options.part
    add("elastic", name, result)


if __name__ == "__main__":
    main()
