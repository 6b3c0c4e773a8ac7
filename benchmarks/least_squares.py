"""LeastSquaresRanker: time to a relative residual of 1e-4, compared with RLScore if installed.

    python -m benchmarks.least_squares [--rows 781265]

CPU seconds, one thread, data in memory. Without RLScore, times are given in units of one product
X w + X^T v on the same data.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.common.machine import save
from benchmarks.common.memory import peak_above_import
from benchmarks.common.peers import absent_packages
from benchmarks.common.timing import cpu_seconds
from benchmarks.common.workloads import rcv1_like
from rankine import Dataset, LeastSquaresRanker
from rankine.kernels.products import Products

GAMMA = 1e-5


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=781_265)
    options = parser.parse_args(argv)
    X, _, y = rcv1_like(options.rows)
    data = Dataset.from_arrays(X, y)
    products = Products(data.rows, data.n_features, 1)
    w, v = np.ones(data.n_features), np.ones(data.n_rows)
    unit = min(
        cpu_seconds(lambda: (products.scores(w), products.transpose_times(v)))[0] for _ in range(4)
    )
    results = {"rows": options.rows, "gamma": GAMMA, "unit_s": unit, "solvers": {}}
    path = [2 * GAMMA * 10.0**k for k in range(5)]
    runs = {
        "cg": {"l2": 2 * GAMMA},
        "egdm": {"l2": 2 * GAMMA, "random_state": 0, "solver": "egdm"},
        "cg, 5 gammas": {"l2": path},
    }
    for name, parameters in runs.items():
        ranker = LeastSquaresRanker(tol=1e-4, n_threads=1, **parameters)
        ranker.fit(Dataset.from_arrays(X[:2000], y[:2000]))  # compile
        seconds, ranker = cpu_seconds(lambda ranker=ranker: ranker.fit(data))
        results["solvers"][name] = {
            "s": seconds,
            "units": seconds / unit,
            "iterations": ranker.n_iter_,
            "residual": ranker.solution_.certificate["residual"],
        }
        print(name, results["solvers"][name], flush=True)
    if not absent_packages("rlscore"):
        from rlscore.learner import CGRankRLS

        seconds, _ = cpu_seconds(lambda: CGRankRLS(X, y, regparam=GAMMA * options.rows))
        results["rlscore_s"] = seconds
        results["ratio"] = results["solvers"]["cg"]["s"] / seconds
        print("CGRankRLS", seconds, "ratio", results["ratio"])
    results["memory_over_data"] = peak_above_import(
        "LeastSquaresRanker", {"l2": 2 * GAMMA, "tol": 1e-4}, options.rows
    )
    save("least_squares", results)
    return results


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--rows", "2000"])


def quick():
    main(["--rows", "64000"])


def full():
    main([])


if __name__ == "__main__":
    main()
