"""Domination rank: time to a duality gap, growth with the number of rows.

    python -m benchmarks.domination.fit [--rows 781265] [--share 0.03]
        [--npz FILE --labels FILE --test FILE]

One core; CPU seconds; compilation excluded.
``--npz`` (data, indices, indptr, shape), ``--labels`` (y) and ``--test`` replace the generator.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import sparse

from benchmarks.common.machine import save
from benchmarks.common.timing import cpu_seconds, exponent
from benchmarks.common.workloads import rcv1_like
from rankine import Dataset, DominationRanker
from rankine.metrics import evaluate


def read(path):
    """Read a CSR matrix and labels from an npz file."""
    with np.load(path) as z:
        X = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=z["shape"])
        return X, z["y"]


def fit(X, y, share, tol=1e-3):
    """Fit once; return the CPU seconds, conversion to columns included, and the ranker."""
    data = Dataset.from_arrays(X, y)
    largest = DominationRanker(tol=1.0, n_threads=1).fit(data).l1_max_
    ranker = DominationRanker(share * largest, tol=tol, n_threads=1)
    return cpu_seconds(lambda: ranker.fit(Dataset.from_arrays(X, y)))


def growth(X, y, share):
    """Measure the time at doubling sizes; return the seconds and the fitted exponent."""
    sizes = [size for size in (10_000, 20_000, 40_000, 80_000, 160_000, 320_000) if size < len(y)]
    sizes = sizes or [len(y) // 2]
    seconds = {size: fit(X[:size], y[:size], share)[0] for size in (*sizes, len(y))}
    return seconds, exponent(list(seconds), list(seconds.values()))


def main(argv=None):
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=781_265)
    arguments.add_argument("--share", type=float, default=0.03, help="l1 / largest l1")
    arguments.add_argument("--npz")
    arguments.add_argument("--labels")
    arguments.add_argument("--test")
    options = arguments.parse_args(argv)
    if options.npz:
        X = read(options.npz)[0]
        with np.load(options.labels) as z:
            y = z["y"]
        X, y = X[: options.rows], y[: options.rows]
    else:
        X, y, _ = rcv1_like(options.rows)
    fit(X[:2000], np.where(np.arange(2000) % 50 == 0, 1.0, -1.0), 0.1)
    seconds, ranker = fit(X, y, options.share)
    certificate = ranker.solution_.certificate
    results = {
        "rows": X.shape[0],
        "seconds": seconds,
        "l1": ranker.l1_,
        "nonzero_percent": 100 * float(np.mean(ranker.coef_ != 0)),
        "gap_over_zero": certificate["relative_gap"],
        "gap_over_objective": certificate["gap"] / ranker.solution_.objective,
        "train_auc": float(evaluate("auc", y, X @ ranker.coef_)),
    }
    if options.test:
        Xt, yt = read(options.test)
        results["test_auc"] = float(evaluate("auc", yt, Xt @ ranker.coef_))
    results["growth"], results["exponent"] = growth(X, y, options.share)
    for name, value in results.items():
        print(f"{name:20s} {value}")
    save("domination", results)


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--rows", "4000"])


def quick():
    """Run a small size."""
    main(["--rows", "60000"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
