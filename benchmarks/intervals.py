"""Intervals: coverage, cost, and agreement with the bootstrap.

    python -m benchmarks.intervals [coverage bands cost bootstrap] [--simulations 1000]

``coverage``: the share of intervals of 95 % that contain the weight of a training on very many
queries of the same kind, over simulated samples of 500 queries with a pair of correlated columns, a
rare column, queries of weight 1 and 3, and noise that differs between queries. ``bands``: the same
for cells of curves, and the share of whole curves inside their band. ``cost``: CPU seconds of a fit
with and without intervals, in turn. ``bootstrap``: widths and CPU seconds against 200 trainings on
queries drawn with replacement, each from the solution.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.common.machine import add
from benchmarks.common.workloads import mslr_like
from rankine import AdditiveRanker, LeastSquaresRanker, RankSVM

N_COLUMNS, LIST = 12, 10
#: Values of the columns of curves: few, so that every sample has the same cells.
N_VALUES = 10
RANKERS = {
    "squared_hinge": lambda: RankSVM(l2=0.02, loss="squared_hinge", scale=None),
    "logistic": lambda: RankSVM(l2=0.02, loss="logistic", scale=None),
    "hinge": lambda: RankSVM(l2=0.02, scale=None),
    "least_squares": lambda: LeastSquaresRanker(l2=0.02, scale=None),
}


@dataclass
class Sizes:
    """Sizes of a run."""

    simulations: int = 1000
    n_queries: int = 500
    n_true: int = 100_000
    band_simulations: int = 500
    linear_rows: int = 100_000
    table_rows: int = 60_000
    resamples: int = 200
    repeat: int = 5


def sample_lists(n_queries, rng):
    """Draw lists with correlated and rare columns, and query weights."""
    n_rows = n_queries * LIST
    X = rng.normal(size=(n_rows, N_COLUMNS))
    X += 0.5 * np.repeat(rng.normal(size=(n_queries, N_COLUMNS)), LIST, axis=0)
    X[:, 1] = 0.9 * X[:, 0] + 0.44 * X[:, 1]
    X[:, 2] = rng.random(n_rows) < 0.1
    weights = np.random.default_rng(7).normal(size=N_COLUMNS) / np.sqrt(N_COLUMNS)
    noise = 1.0 + 0.5 * np.repeat(rng.random(n_queries), LIST)
    y = np.digitize(X @ weights + noise * rng.normal(size=n_rows), [0.0, 1.0, 2.0])
    qid = np.repeat(np.arange(n_queries), LIST)
    return {"X": X, "y": y, "qid": qid, "query_weight": rng.choice([1.0, 1.0, 3.0], n_queries)}


def measure_coverage(sizes):
    """Return the coverage of each weight for each loss."""
    results = {}
    for name, make in RANKERS.items():
        large = sample_lists(sizes.n_true, np.random.default_rng(1))
        truth = make().set_params(tol=1e-7).fit(**large).coef_
        del large
        inside = np.zeros((sizes.simulations, N_COLUMNS))
        for k in range(sizes.simulations):
            lists = sample_lists(sizes.n_queries, np.random.default_rng([2, k]))
            table = make().fit(**lists, intervals=True).intervals()
            low, high = table["low"].to_numpy(), table["high"].to_numpy()
            inside[k] = (low <= truth) & (truth <= high)
        by_weight = inside.mean(axis=0)
        results[name] = {
            "coverage": float(inside.mean()),
            "correlated": float(by_weight[:2].mean()),
            "rare": float(by_weight[2]),
            "lowest": float(by_weight.min()),
            "highest": float(by_weight.max()),
        }
        print(name, results[name], flush=True)
    return results


def sample_curves(n_queries, rng):
    """Draw lists whose label is a sum of curves of discrete columns."""
    n_rows = n_queries * LIST
    codes = rng.integers(0, N_VALUES, (n_rows, 3))
    X = codes / (N_VALUES - 1.0)
    utility = np.sin(5.0 * X[:, 0]) + 2.0 * (X[:, 1] - 0.5) ** 2 + 0.3 * X[:, 2]
    y = np.digitize(utility + 0.7 * rng.normal(size=n_rows), [0.0, 0.8])
    return {"X": X, "y": y, "qid": np.repeat(np.arange(n_queries), LIST)}


def measure_bands(sizes):
    """Return the coverage of cells, and of whole curves by their bands."""

    def fit(n_queries, rng, **options):
        # J is a sum over queries: the same target has a penalty in proportion to their number.
        smooth = 2.0 * n_queries / sizes.n_queries
        ranker = AdditiveRanker(bins=N_VALUES + 1, pairs=0, smooth=smooth, anchor=smooth)
        return ranker.fit(**sample_curves(n_queries, rng), **options).to_model()

    n_true = 50 * sizes.n_queries
    truth = fit(n_true, np.random.default_rng(3)).to_dense()
    cells, curves = [], []
    for k in range(sizes.band_simulations):
        rng = np.random.default_rng([4, k])
        model = fit(sizes.n_queries, rng, intervals=True)
        X = sample_curves(sizes.n_queries, np.random.default_rng([4, k]))["X"]
        start = 0
        rows = model.intervals().to_pylist()
        for j, size in enumerate(model.bins.n_cells):
            values, counts = np.unique(X[:, j], return_counts=True)
            target = truth[start : start + len(values)]
            # Curves are relative to their mean over the rows of the sample.
            target = target - target @ counts / counts.sum()
            start += size
            of_column = [row for row in rows if row["name"] == str(j + 1)][: len(values)]
            low, high, band_low, band_high = (
                np.array([row[side] for row in of_column])
                for side in ("low", "high", "band_low", "band_high")
            )
            cells.append(np.mean((low <= target) & (target <= high)))
            curves.append(np.all((band_low <= target) & (target <= band_high)))
    result = {"cells": float(np.mean(cells)), "curves": float(np.mean(curves))}
    print("bands", result, flush=True)
    return result


def cpu_seconds(work):
    """Return the CPU seconds of a call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def median_costs(ranker, data, repeat):
    """Return CPU seconds without and with intervals, in turn, and the median extra share."""
    ranker.fit(**data, intervals=True)  # compiles
    plain, full = [], []
    for _ in range(repeat):
        plain.append(cpu_seconds(lambda: ranker.fit(**data)))
        full.append(cpu_seconds(lambda: ranker.fit(**data, intervals=True)))
    extra = np.median(np.divide(full, plain)) - 1.0
    return float(np.median(plain)), float(np.median(full)), float(extra)


def measure_cost(sizes):
    """Return CPU seconds with and without intervals, in turn, and the median ratio."""
    rng = np.random.default_rng(5)
    n_rows, n_columns = sizes.linear_rows, 50
    X = rng.normal(size=(n_rows, n_columns))
    utility = X @ rng.normal(size=n_columns) / np.sqrt(n_columns) + rng.normal(size=n_rows)
    linear = {"X": X, "y": np.digitize(utility, [-0.5, 0.5, 1.5, 2.0])}
    linear["qid"] = np.repeat(np.arange(n_rows // 20 + 1), 20)[:n_rows]
    X, y, qid = mslr_like(max(30, sizes.table_rows // 118), 41)
    X, y, qid = X[: sizes.table_rows, :46], y[: sizes.table_rows], qid[: sizes.table_rows]
    tables = {"X": np.ascontiguousarray(X), "y": y, "qid": qid}
    tasks = {
        "hinge": (RankSVM(n_threads=1), linear),
        "squared_hinge": (RankSVM(loss="squared_hinge", n_threads=1), linear),
        "logistic": (RankSVM(loss="logistic", n_threads=1), linear),
        "least_squares": (LeastSquaresRanker(n_threads=1), linear),
        "additive": (AdditiveRanker(n_threads=1, random_state=0), tables),
    }
    results = {}
    for name, (ranker, data) in tasks.items():
        repeat = min(sizes.repeat, 2) if name == "additive" else sizes.repeat
        plain, full, extra = median_costs(ranker, data, repeat)
        results[name] = {
            "without": plain,
            "with": full,
            "extra": extra,
        }
        print(name, results[name], flush=True)
    return results


def bootstrap(make, lists, weight, start, n_resamples):
    """Return the weights of trainings on queries drawn with replacement."""
    rng, n_queries, coefs = np.random.default_rng(8), len(weight), []
    for _ in range(n_resamples):
        drawn = np.bincount(rng.integers(0, n_queries, n_queries), minlength=n_queries)
        ranker = make().set_params(n_threads=1, tol=1e-5)
        coefs.append(ranker.fit(**lists, query_weight=weight * drawn, coef_init=start).coef_)
    return np.array(coefs)


def measure_bootstrap(sizes):
    """Return widths of intervals against those of a bootstrap, and the ratio of their costs."""
    results = {}
    for name, make in RANKERS.items():
        lists = sample_lists(sizes.n_queries, np.random.default_rng(6))
        weight = lists.pop("query_weight")
        ranker = make().set_params(n_threads=1).fit(**lists, query_weight=weight, intervals=True)
        errors, start = ranker.covariance_.standard_errors(), ranker.coef_
        plain, full = median_costs(ranker, {**lists, "query_weight": weight}, 5)[:2]
        begun = time.process_time()
        coefs = bootstrap(make, lists, weight, start, sizes.resamples)
        seconds = time.process_time() - begun
        results[name] = {
            "width_over_bootstrap": float((errors / coefs.std(axis=0, ddof=1)).mean()),
            "bootstrap_over_extra_cost": float(seconds / max(full - plain, 1e-4)),
        }
        print(name, results[name], flush=True)
    return results


MEASURES = {
    "coverage": measure_coverage,
    "bands": measure_bands,
    "cost": measure_cost,
    "bootstrap": measure_bootstrap,
}


def measure(sizes, names=tuple(MEASURES)):
    """Run the named measures and store the results."""
    for name in names:
        add("intervals", name, {"sizes": vars(sizes), **MEASURES[name](sizes)})


def smoke():
    """Run the smallest size, as the tests do."""
    measure(Sizes(3, 60, 300, 2, 3000, 1500, 4, 1))


def quick():
    measure(Sizes(100, 500, 20_000, 30, 20_000, 10_000, 50, 2))


def full():
    measure(Sizes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*MEASURES, []], help="only these")
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--band-simulations", type=int, default=500)
    options = parser.parse_args()
    sizes = Sizes(simulations=options.simulations, band_simulations=options.band_simulations)
    measure(sizes, options.names or tuple(MEASURES))


if __name__ == "__main__":
    main()
