"""Speedup by a second thread, and whether one and two threads give the same bits.

    python -m benchmarks.threads [NAME ...] [--rows 781265] [--repeat 3]

Rows are those of ``rcv1_like`` (sparse, one list, or lists of 20 for the metrics), and of
``mslr_like`` for the additive ranker, which bins columns. One and two threads take turns, the best
of ``--repeat`` counts. Wall time: it says something on an idle machine alone. ``serial`` is the
share of the work that two threads do not share, by Amdahl's law: 2 / speedup - 1.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time

import numpy as np
from scipy import sparse

from benchmarks.common.machine import save
from benchmarks.common.workloads import linear_topics, mslr_like, stored_rcv1_like
from rankine import (
    AdditiveRanker,
    Dataset,
    DominationRanker,
    LeastSquaresRanker,
    RankSVM,
    fit_topics,
)
from rankine.metrics import evaluate

ROWS = 781_265
WANTED = 1.7
WANTED_TOPICS = 1.9
TOPICS = 6
LIST = 20
METRICS = ("ndcg@10", "map", "auc", "err@10")


def on(threads, work):
    """Run work with the number of threads set in the environment."""
    os.environ["RANKINE_NUM_THREADS"] = str(threads)
    try:
        return work()
    finally:
        del os.environ["RANKINE_NUM_THREADS"]


def fits(ranker, data):
    """Return a function that fits with a number of threads and returns the weights."""
    return lambda threads: ranker.set_params(n_threads=threads).fit(data).coef_


def topics(X, rows):
    """Return sparse labels of several topics."""
    Y = np.column_stack([y > 0 for y in linear_topics(X[:rows], TOPICS, 0.002, 5)])
    return sparse.csc_matrix(Y * 1.0)


def domination_l1(data):
    """Return 3 % of the l1 that makes all weights 0, as in ``benchmarks.domination.fit``."""
    return 0.03 * DominationRanker(tol=1.0).fit(data).l1_max_


def measure_metrics(utility, score):
    """Return a function that computes several metrics on lists of 20."""
    rows = len(utility) // LIST * LIST
    y = np.searchsorted(np.quantile(utility, [0.5, 0.8, 0.95]), utility[:rows]).astype(float)
    qid = np.repeat(np.arange(rows // LIST), LIST)

    def values(threads):
        return on(threads, lambda: np.array([evaluate(m, y, score[:rows], qid) for m in METRICS]))

    return values


def subjects(rows, names):
    """Map names to constructors of the measured functions."""
    X, binary, utility = stored_rcv1_like(rows)
    real = Dataset.from_arrays(X, utility)
    two = Dataset.from_arrays(X, binary)
    score = X @ np.random.default_rng(3).normal(size=X.shape[1])

    def additive():
        lists = max(60, rows // 118)
        dense, y, qid = mslr_like(lists, 40)
        data = Dataset.from_arrays(dense[:rows], y[:rows], qid[:rows])
        return fits(AdditiveRanker(smooth=1.0, pairs=10, random_state=0), data)

    def many():
        columns, Y = sparse.csc_matrix(X), topics(X, rows)
        return lambda threads: np.concatenate(
            [
                np.concatenate([model.indices, model.values])
                for model in fit_topics(
                    columns, Y, absent="zero", tol=1e-3, n_threads=threads
                ).values()
            ]
        )

    constructors = {
        "ranksvm_hinge": lambda: fits(RankSVM(l2=2e-5, tol=1e-3), real),
        "ranksvm_squared": lambda: fits(RankSVM(l2=2e-5, loss="squared_hinge", tol=2e-5), real),
        "least_squares": lambda: fits(LeastSquaresRanker(2e-5, tol=1e-4), real),
        "domination": lambda: fits(DominationRanker(domination_l1(two), tol=1e-3), two),
        "additive": additive,
        "metrics": lambda: measure_metrics(utility, score),
        "fit_topics": many,
    }
    return {name: make for name, make in constructors.items() if not names or name in names}


def compare(work, repeat):
    """Measure one and two threads in turn; return the best wall seconds and whether bits agree."""
    wall, bits = {1: [], 2: []}, set()
    for _ in range(repeat):
        for threads in (1, 2):
            begun = time.perf_counter()
            result = work(threads)
            wall[threads].append(time.perf_counter() - begun)
            bits.add(hashlib.sha256(np.ascontiguousarray(result).tobytes()).hexdigest())
    single, both = min(wall[1]), min(wall[2])
    return {
        "one": single,
        "two": both,
        "speedup": single / both,
        "serial": 2 * both / single - 1,
        "same_bits": len(bits) == 1,
    }


def measure(rows, names=(), repeat=3):
    """Compile on few rows, then measure every subject; store the results after each."""
    for make in subjects(2000, names).values():
        make()(2)
    results = {}
    for name, make in subjects(rows, names).items():
        results[name] = compare(make(), repeat)
        results[name]["wanted"] = WANTED_TOPICS if name == "fit_topics" else WANTED
        print(name, results[name], flush=True)
        save("threads", {"rows": rows, "repeat": repeat, "subjects": results})


def smoke():
    """Run the smallest size, as the tests do."""
    measure(500, repeat=1)


def quick():
    measure(20_000, repeat=1)


def full():
    measure(ROWS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    measure(options.rows, options.names, options.repeat)


if __name__ == "__main__":
    main()
