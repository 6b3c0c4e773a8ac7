"""ElasticRank on purchase lists: time and quality of one pass, sparsity, streams, memory, LETOR.

    python -m benchmarks.elastic clicks [--lists 100000] [--train NPZ --test NPZ]
    python -m benchmarks.elastic stream FILE [--n-features 1048576]
    python -m benchmarks.elastic memory [--megabytes 2000]
    python -m benchmarks.elastic letor FOLDER [--script letor3]

``clicks`` makes lists of about 10 items with 40 non-zeros in 2^20 hashed features, or takes two
npz files (``data``, ``indices``, ``indptr``, ``y``, ``qid``). One thread, CPU seconds.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
from scipy import sparse

import rankine
from benchmarks.machine import save
from benchmarks.workloads import click_lists
from rankine import Dataset, ElasticRanker, SPDRanker
from rankine.metrics import evaluate

#: Settings of the rows of the table.
DENSE = {"adaptive": True, "eta0": 0.2, "l1": 0.0, "l2": 0.0, "random_state": 1}
VARIANTS = {
    "rda adaptive ndcg": DENSE,
    "rda adaptive ndcg l1=1e-5": {**DENSE, "l1": 1e-5},
    "rda adaptive ndcg l1=3e-5": {**DENSE, "l1": 3e-5},
    "rda adaptive ndcg n_nonzero=2000": {**DENSE, "n_nonzero": 2000},
    "rda adaptive pairwise": {**DENSE, "objective": "pairwise"},
    "rda adaptive pointwise": {**DENSE, "objective": "pointwise"},
    "rda ndcg": {**DENSE, "adaptive": False, "eta0": 3.0},
    "fobos ndcg": {**DENSE, "adaptive": False, "optimizer": "fobos", "eta0": 2.0},
}


def read_npz(path):
    with np.load(path) as file:
        shape = tuple(file["shape"]) if "shape" in file else (len(file["y"]), 2**20)
        X = sparse.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=shape)
        return Dataset.from_arrays(X, file["y"].astype(float), file["qid"])


def recalls(ranker, test):
    scores = ranker.predict(test)
    return [float(evaluate(f"recall@{k}", test.y, scores, test.queries)) for k in (1, 4)]


def clicks(train, test):
    """CPU seconds, weights and recall of one pass, beside SPD."""
    few = train.take_queries(np.arange(50))
    rows = []
    for name, parameters in VARIANTS.items():
        ElasticRanker(**parameters).fit(few)  # compiles
        begun = time.process_time()
        ranker = ElasticRanker(**parameters).fit(train)
        seconds = time.process_time() - begun
        r1, r4 = recalls(ranker, test)
        row = {
            "model": name,
            "cpu_s": round(seconds, 2),
            "us_a_row": round(seconds / train.n_rows * 1e6, 3),
            "weights": int(np.count_nonzero(ranker.coef_)),
            "recall@1": r1,
            "recall@4": r4,
        }
        rows.append(row)
        print(row, flush=True)
    for lam in (1e-6, 1e-5, 1e-4):
        ranker = SPDRanker(n_iter=1_000_000, lam=lam, random_state=1).fit(train)
        r1, r4 = recalls(ranker, test)
        rows.append({"model": f"spd 1M steps lam={lam:g}", "recall@1": r1, "recall@4": r4})
        print(rows[-1], flush=True)
    return rows


class Blocks:
    """Blocks as a stream."""

    def __init__(self, blocks, n_features):
        self.blocks, self.n_features = blocks, n_features

    def __iter__(self):
        return iter(self.blocks)


def stream(file, n_features):
    """Wall seconds of a pass that only reads, and of one that also learns."""
    scan = rankine.scan(file, n_features=n_features, dtype="float32")
    ElasticRanker(**DENSE).fit_stream(Blocks([next(iter(scan))], n_features))  # compiles
    begun = time.perf_counter()
    rows = sum(block.n_rows for block in scan)
    reading = time.perf_counter() - begun
    begun = time.perf_counter()
    ElasticRanker(**DENSE).fit_stream(scan)
    learning = time.perf_counter() - begun
    return [{"rows": rows, "read_s": reading, "learn_s": learning, "ratio": reading / learning}]


def memory(megabytes):
    """Peak memory above the imported interpreter while learning from a long generated file."""
    few = click_lists(500, seed=3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lists.txt"
        cells = zip(few.X.indices.reshape(-1, 40), few.X.data.reshape(-1, 40), strict=True)
        tails = [" ".join(f"{j + 1}:{v:g}" for j, v in zip(*row, strict=True)) for row in cells]
        rows = [f"{y:g} qid:{{q}} {tail}\n" for y, tail in zip(few.y, tails, strict=True)]
        size = sum(map(len, rows))
        lists = few.qid.tolist()
        with path.open("w", encoding="utf-8") as file:
            for k in range(int(megabytes * 2**20 / size) + 1):
                numbered = zip(rows, lists, strict=True)
                file.write("".join(r.replace("{q}", str(q + 1000 * k), 1) for r, q in numbered))
        del few, cells, tails, rows
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        scan = rankine.scan(path, n_features=2**20, dtype="float32")
        ranker = ElasticRanker(**DENSE).fit_stream(scan)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return [{"rows": ranker.training_["rows"], "above_import_mb": (after - before) / 1024}]


def letor(folder, script):
    """One pass, ten seeds, parameters chosen on validation MAP; mean and spread over the seeds."""
    names = [f"{script}:{m}" for m in ("map", *(f"ndcg@{k}" for k in range(1, 6)))]
    keys = list(ElasticRanker.letor_grid)
    grid = [dict(zip(keys, v, strict=True)) for v in product(*ElasticRanker.letor_grid.values())]
    found = np.zeros((10, 5, len(names)))
    for fold in range(1, 6):
        place = Path(folder) / f"Fold{fold}"
        train = rankine.load(place / "train.txt", dense=True)
        width = train.n_features
        vali = rankine.load(place / "vali.txt", n_features=width, dense=True)
        test = rankine.load(place / "test.txt", n_features=width, dense=True)
        for seed in range(10):
            rankers = [ElasticRanker(random_state=seed, **g).fit(train) for g in grid]
            best = max(rankers, key=lambda r, v=vali: measure(names[0], r, v))
            found[seed, fold - 1] = [measure(name, best, test) for name in names]
    means = found.mean(axis=1)
    return [
        {"metric": name, "mean": float(m.mean()), "sd_over_seeds": float(m.std(ddof=1))}
        for name, m in zip(names, means.T, strict=True)
    ]


def measure(name, ranker, data):
    return float(evaluate(name, data.y, ranker.predict(data), data.queries))


def quick():
    """A tenth of the lists."""
    save("elastic", {"clicks": clicks(click_lists(100_000, seed=1), click_lists(20_000, seed=2))})


def full():
    """The size of the peers' figures (takes about 8 GB of memory)."""
    save("elastic", {"clicks": clicks(click_lists(1_000_000, seed=1), click_lists(20_000, seed=2))})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    sub = parts.add_parser("clicks")
    sub.add_argument("--lists", type=int, default=100_000)
    sub.add_argument("--train")
    sub.add_argument("--test")
    sub = parts.add_parser("stream")
    sub.add_argument("file")
    sub.add_argument("--n-features", type=int, default=2**20)
    sub = parts.add_parser("memory")
    sub.add_argument("--megabytes", type=float, default=2000)
    sub = parts.add_parser("letor")
    sub.add_argument("folder")
    sub.add_argument("--script", default="letor3")
    options = parser.parse_args()
    if options.part == "clicks" and options.train:
        rows = clicks(read_npz(options.train), read_npz(options.test))
    elif options.part == "clicks":
        rows = clicks(click_lists(options.lists, seed=1), click_lists(20_000, seed=2))
    elif options.part == "stream":
        rows = stream(options.file, options.n_features)
    elif options.part == "memory":
        rows = memory(options.megabytes)
    else:
        rows = letor(options.folder, options.script)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
