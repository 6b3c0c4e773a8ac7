"""Fronts of several goals: the cost of 21 points, and the area beside LightGBM on mixed labels.

``costs`` compares the CPU time of 21 points with that of one fit, on 100,000 rows of 50 columns
that are independent or correlated; both goals are fitted alone in turn with the front. ``shops``
simulates a shop whose margins are independent of relevance, or rise or fall with it, draws clicks,
and trains fronts of clicks and of the money they earn. LightGBM's lambdarank has no second goal:
its 21 models learn a label that is the same mixture of the two, in 31 grades of linear gain, with
its own defaults. All are evaluated on other lists by the true probabilities, NDCG@10 of clicks and
the discounted money of the first ten; hypervolumes are above a random order. Everything runs on one
thread.

    python -m benchmarks pareto --full
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from benchmarks.common.machine import save
from benchmarks.common.peers import absent_packages
from rankine import AdditiveRanker, Dataset, LeastSquaresRanker, RankSVM, split_queries
from rankine.evaluation.pareto import hypervolume
from rankine.metrics import evaluate_on, random_expectation
from rankine.rankers.goals import simplex_grid

RANKERS = {
    "least squares": lambda: LeastSquaresRanker(n_threads=1),
    "least squares, l2 given": lambda: LeastSquaresRanker(l2=2e-3, n_threads=1),
    "RankSVM": lambda: RankSVM(n_threads=1),
    "RankSVM, squared hinge": lambda: RankSVM(loss="squared_hinge", n_threads=1),
    "additive": lambda: AdditiveRanker(smooth=1.0, pairs=0, n_threads=1),
    "additive, softmax": lambda: AdditiveRanker(
        smooth=1.0, pairs=0, loss="softmax", normalization="pair", n_threads=1
    ),
    "additive, 5 pairs": lambda: AdditiveRanker(smooth=1.0, pairs=5, n_threads=1),
}
#: Those that are compared with LightGBM.
SHOP_RANKERS = ("least squares", "RankSVM", "additive", "additive, softmax")
MARGINS = {"independent": 0.0, "rising": 0.6, "falling": -0.6}
GOALS = ("clicked", "clicked*margin")
METRICS = ("ndcg@10:gain=relevance", "dcg@10:gain=money")
#: Grades of LightGBM's label.
GRADES = 31


def shop(n_lists, *, length=20, n_columns=50, correlation=0.0, correlated=False, seed=0):
    """Simulate lists of a shop; ``correlation`` is that of log margin and taste."""
    rng = np.random.default_rng(seed)
    n = n_lists * length
    X = rng.normal(size=(n, n_columns))
    if correlated:
        X = X @ (
            0.3 * np.eye(n_columns)
            + rng.normal(size=(n_columns,) * 2) * np.linspace(0.05, 1, n_columns)
        )
    taste, other = (X @ rng.normal(size=n_columns) for _ in range(2))
    # Tastes are not quite linear: reviews saturate, prices repel at both ends.
    taste = _standardise(taste) + 0.3 * np.sin(2.0 * X[:, 0]) - 0.2 * np.abs(X[:, 1])
    taste = _standardise(taste)
    mixed = correlation * taste + np.sqrt(1 - correlation**2) * _standardise(other)
    margin = np.exp(0.5 * mixed)
    relevance = 1.0 / (1.0 + np.exp(2.0 - 1.5 * taste))
    clicked = (rng.random(n) < relevance).astype(np.float64)
    columns = {"clicked": clicked, "margin": margin, "relevance": relevance}
    columns["money"] = relevance * margin
    return Dataset.from_arrays(X, clicked, np.repeat(np.arange(n_lists), length), columns=columns)


def _standardise(values):
    return (values - values.mean()) / values.std()


def cpu(function, *arguments):
    """Return the CPU seconds of a call, and its result."""
    started = time.process_time()
    result = function(*arguments)
    return time.process_time() - started, result


def labels_of(data):
    clicked = data.columns["clicked"]
    return dict(zip(GOALS, (clicked, clicked * data.columns["margin"]), strict=True))


def front_of(ranker, data, n_points):
    fits = ranker.goal_fits(data, labels_of(data))
    fits.solve(simplex_grid(2, n_points))
    return fits


def costs(n_lists, repeats, n_points, names):
    """Measure fronts beside fits to one goal, in turn."""
    results = {}
    for correlated in (False, True):
        data = shop(n_lists, correlated=correlated)
        small = data.take_queries(np.arange(min(n_lists, 100)))
        rows = [replace(data, y=y, query_index=data.queries) for y in labels_of(data).values()]
        for name in names:
            make = RANKERS[name]
            front_of(make(), small, n_points)  # compiles
            make().fit(small)
            runs = []
            for _ in range(repeats):
                fits = [cpu(make().fit, goal)[0] for goal in rows]
                seconds, front = cpu(front_of, make(), data, n_points)
                runs.append((np.mean(fits), seconds, seconds / np.mean(fits)))
            fit_seconds, front_seconds, ratio = np.median(runs, axis=0)
            results[f"{name}{', correlated' if correlated else ''}"] = {
                "fit_cpu": fit_seconds,
                "front_cpu": front_seconds,
                "ratio": ratio,
                "ratios": [run[2] for run in runs],
                "largest_relative_gap": max(fit.relative_gap for fit in front.fits),
                "tol": make().tol,
            }
            print(
                f"{name:26s} {fit_seconds:7.2f} s a fit, {ratio:5.2f} times for {n_points} points"
            )
    return results


def shops(n_lists, n_points, names):
    """Compare hypervolumes and CPU seconds on the three shops."""
    results = {}
    for name, correlation in MARGINS.items():
        data = shop(n_lists, n_columns=20, correlation=correlation, seed=1)
        train, test = split_queries(data, (3, 1), 0)
        reference = np.array(
            [random_expectation(m, test.y, test.queries, columns=test.columns) for m in METRICS]
        )
        compared = {}
        for ranker in SHOP_RANKERS:
            if ranker not in names:
                continue
            seconds, fits = cpu(front_of, RANKERS[ranker](), train, n_points)
            values = [
                [evaluate_on(test, model=model, metric=m) for m in METRICS]
                for model in map(fits.fitted, fits.fits)
            ]
            compared[ranker] = _describe(values, reference, seconds)
        if not absent_packages("lightgbm"):
            compared["LightGBM"] = _lightgbm(train, test, reference, n_points)
        for system, result in compared.items():
            print(f"{name:12s} {system:15s} {result['hypervolume']:.4f} {result['cpu']:7.2f} s CPU")
        results[name] = compared
    return results


def _describe(values, reference, seconds):
    values = np.array(values)
    return {
        "hypervolume": hypervolume(values, reference),
        "cpu": seconds,
        "best": values.max(axis=0).tolist(),
        "values": values.tolist(),
    }


def _lightgbm(train, test, reference, n_points):
    import lightgbm

    scaled = [y / y.max() for y in labels_of(train).values()]
    sizes = train.queries.sizes

    def fit_all():
        models = []
        for first, second in simplex_grid(2, n_points):
            mixed = first * scaled[0] + second * scaled[1]
            label = np.rint((GRADES - 1) * mixed / mixed.max()).astype(int)
            model = lightgbm.LGBMRanker(n_jobs=1, label_gain=list(range(GRADES)), verbose=-1)
            models.append(model.fit(train.X, label, group=sizes))
        return models

    seconds, models = cpu(fit_all)
    values = []
    for model in models:
        scores = model.predict(test.X)
        values.append([evaluate_on(test, scores=scores, metric=metric) for metric in METRICS])
    return {**_describe(values, reference, seconds), "version": lightgbm.__version__}


def run(cost_lists, repeats, shop_lists, n_points=21, names=tuple(RANKERS)):
    save("pareto", {
        "rows": 20 * cost_lists, "columns": 50, "points": n_points,
        "costs": costs(cost_lists, repeats, n_points, names),
        "shop_rows": 20 * shop_lists, "shop_columns": 20,
        "absent": absent_packages("lightgbm"),
        "shops": shops(shop_lists, n_points, names),
    })  # fmt: skip


def smoke():
    """Run the smallest size, as the tests do."""
    run(60, 1, 60, 3, ("least squares",))


def quick():
    """Measure a tenth of the rows."""
    run(500, 1, 500)


def full():
    """Measure 100,000 rows, twice."""
    run(5_000, 2, 5_000)
