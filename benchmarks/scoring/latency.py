"""Scoring latency compared with a numpy product, scipy, onnxruntime and scikit-learn.

    python -m benchmarks.scoring.latency [--seconds 0.2] [--lists 50000]

Lists of 100 and 500 candidates, models of 4, 29 and 1,804 weights. Dense rows hold the model's
columns; sparse rows hold 40 values among 2^20 features, a third of them with a weight. Times are
CPU time, the best of 40 rounds, methods taking turns, one thread. Then, as in table 2 of Freno et
al.: what a list costs end to end when each column must be read from a feature store first, and
candidates per second.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.common.machine import save
from rankine import LinearModel, Scorer
from rankine.export import export

SIZES, CANDIDATES = (4, 29, 1804), (100, 500)
WIDE, PER_ROW = 1 << 20, 40
#: What a feature store costs per column and list, spent in a busy loop.
COLUMN_SECONDS = 5e-6
ALL_COLUMNS = 5000


def best_of(methods, seconds, rounds=40):
    """Measure each method's best CPU time in microseconds; methods take turns."""
    counts = {}
    for name, call in methods.items():
        call()
        started = time.perf_counter()
        for _ in range(3):
            call()
        counts[name] = max(1, int(3 * seconds / rounds / (time.perf_counter() - started)))
    best = dict.fromkeys(methods, float("inf"))
    for _ in range(rounds):
        for name, call in methods.items():
            started = time.process_time()
            for _ in range(counts[name]):
                call()
            best[name] = min(best[name], (time.process_time() - started) / counts[name])
    return {name: 1e6 * value for name, value in best.items()}


def dense_methods(n, k, rng):
    import onnxruntime
    from sklearn.linear_model import LinearRegression

    X, w = rng.normal(size=(n, k)), rng.normal(size=k)
    narrow = X.astype(np.float32)
    model = LinearModel.from_weights(w)
    scorer = Scorer(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        export(model, "onnx").content, options, providers=["CPUExecutionProvider"]
    )
    linear = LinearRegression(fit_intercept=False).fit(rng.normal(size=(k + 1, k)), np.ones(k + 1))
    linear.coef_ = w
    np.testing.assert_allclose(scorer.score(X), X @ w, atol=1e-9)
    return {
        "rankine": lambda: scorer.score(X),
        "rankine float32": lambda: scorer.score(narrow),
        "rankine rank k=10": lambda: scorer.rank(X, 10),
        "numpy product": lambda: X @ w,
        "onnxruntime float32": lambda: session.run(None, {"X": narrow}),
        "scikit-learn predict": lambda: linear.predict(X),
    }


def tree_methods(n, k, rng):
    from sklearn.ensemble import HistGradientBoostingRegressor

    X = rng.normal(size=(4000, k))
    trees = HistGradientBoostingRegressor(max_iter=100, early_stopping=False)
    trees.fit(X, X[:, 0] + rng.normal(size=4000))
    return {"100 trees (scikit-learn)": lambda: trees.predict(X[:n])}


def sparse_methods(n, k, rng):
    indices = np.sort(rng.choice(WIDE, k, replace=False))
    w = np.zeros(WIDE)
    w[indices] = rng.normal(size=k)
    columns = rng.integers(0, WIDE, (n, PER_ROW))
    hit = rng.random(columns.shape) < 1 / 3
    columns[hit] = rng.choice(indices, int(hit.sum()))
    columns = np.sort(columns, axis=1).astype(np.int32)
    starts = np.arange(0, n * PER_ROW + 1, PER_ROW, dtype=np.int32)
    X = sparse.csr_matrix((rng.normal(size=n * PER_ROW), columns.ravel(), starts), (n, WIDE))
    scorer = Scorer(LinearModel.from_weights(w))
    small = Scorer(LinearModel.from_weights(w), small=True)
    np.testing.assert_allclose(scorer.score(X), X @ w, atol=1e-9)
    np.testing.assert_allclose(small.score(X), X @ w, atol=1e-9)
    return {
        "rankine": lambda: scorer.score(X),
        "rankine, hash table": lambda: small.score(X),
        "scipy product": lambda: X @ w,
    }


def named_methods(n, k, rng):
    names = [f"feature_{j}" for j in range(k)]
    scorer = Scorer(LinearModel.from_weights(rng.normal(size=k), names))
    rows = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(n, k)).tolist()]
    return {"rankine, dictionaries": lambda: scorer.score(rows)}


class FeatureStore:
    """Columns of one list, each at a stated price."""

    def __init__(self, n, k, rng):
        self.columns = rng.normal(size=(k, n))

    def read(self, column):
        """Wait, then hand over the column."""
        until = time.perf_counter() + COLUMN_SECONDS
        while time.perf_counter() < until:
            pass
        return self.columns[column]


def end_to_end(n, k, rng):
    store, scorer = FeatureStore(n, k, rng), Scorer(LinearModel.from_weights(rng.normal(size=k)))
    rows = np.empty((n, k))

    def one_list():
        for j in range(k):
            rows[:, j] = store.read(j)
        return scorer.rank(rows, 10)

    return one_list


def throughput(n_lists, k, rng):
    """Measure candidates per second over many sparse lists of 100, from a pool of 200 lists."""
    w = np.zeros(WIDE)
    w[rng.choice(WIDE, k, replace=False)] = rng.normal(size=k)
    scorer = Scorer(LinearModel.from_weights(w))
    lists = []
    for _ in range(200):
        columns = np.sort(rng.integers(0, WIDE, (100, PER_ROW)), axis=1).astype(np.int32)
        starts = np.arange(0, 100 * PER_ROW + 1, PER_ROW, dtype=np.int32)
        data = rng.normal(size=100 * PER_ROW)
        lists.append(sparse.csr_matrix((data, columns.ravel(), starts), (100, WIDE)))
    started = time.process_time()
    for i in range(n_lists):
        scorer.score(lists[i % 200])
    return 100 * n_lists / (time.process_time() - started)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.2, help="per method and size")
    parser.add_argument("--lists", type=int, default=50_000, help="lists of 100 for throughput")
    options = parser.parse_args(argv)
    # More threads than free cores wait for each other busily, which counts as CPU time.
    with threadpool_limits(1):
        measure(options)


def measure(options):
    rng = np.random.default_rng(1)
    results = {"microseconds_per_list": {}, "end_to_end_ms": {}, "candidates_per_second": {}}
    for n in CANDIDATES:
        for k in SIZES:
            results_of_size = {
                "dense": best_of(dense_methods(n, k, rng), options.seconds),
                "sparse": best_of(sparse_methods(n, k, rng), options.seconds),
            }
            if k == 29:
                results_of_size["named"] = best_of(named_methods(n, k, rng), options.seconds)
                results_of_size["trees"] = best_of(tree_methods(n, k, rng), options.seconds)
            results["microseconds_per_list"][f"{n} candidates, {k} weights"] = results_of_size
            for row_type, times in results_of_size.items():
                summary = ", ".join(f"{name} {value:.1f}" for name, value in times.items())
                print(f"{n:4} x {k:4} {row_type:6} us: {summary}", flush=True)
    for k in (*SIZES, ALL_COLUMNS):
        times = best_of({"rank": end_to_end(100, k, rng)}, options.seconds, rounds=3)
        results["end_to_end_ms"][k] = times["rank"] / 1000
        print(f"end to end, 100 candidates, {k} columns: {times['rank'] / 1000:.3f} ms a list")
    for k in (*SIZES, WIDE):
        rate = throughput(options.lists, k, rng)
        results["candidates_per_second"][k] = rate
        print(f"{100 * options.lists:,} candidates, {k} weights: {rate:,.0f} a second")
    save("scoring", {"column_seconds": COLUMN_SECONDS, **results})


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--seconds", "0.001", "--lists", "20"])


def quick():
    """Run a small size."""
    main(["--seconds", "0.02", "--lists", "5000"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
