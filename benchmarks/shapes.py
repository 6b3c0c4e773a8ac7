"""Shapes: violations over all cells and by a probe, beside other libraries, and what shapes cost.

Made data sets have an increasing, a decreasing and a convex effect, and pairs in which the first
two take part; every second one has missing values. The probe takes random pairs of rows that differ
in one of the first two columns alone, and counts those whose scores go in the wrong direction.
Other libraries get the same constraints (they have none for convex effects). ``lost`` is what
shapes cost in NDCG@10 on other lists, ``time`` the CPU time beside the fit without shapes, on one
thread.

    python -m benchmarks shapes --full
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.common.machine import save
from benchmarks.common.peers import absent_packages
from rankine import AdditiveRanker, Dataset
from rankine.metrics import evaluate_on
from rankine.model.shapes import certify

SHAPES = {0: "increasing", 1: "decreasing", 2: "convex"}
SIGNS = (1, -1, 0, 0, 0, 0)
LENGTH = 20


def made(seed, n_lists):
    """Return lists whose labels have the shapes, to train and to test on."""
    rng = np.random.default_rng(seed)
    n = 2 * n_lists * LENGTH
    X = rng.normal(size=(n, 6)) * np.exp(rng.normal(size=6))
    if seed % 3 == 0:
        X[:, 0] = np.round(X[:, 0], 1)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    value = np.exp(Z[:, 0] / 2) - np.maximum(Z[:, 1], 0) * (1 + (Z[:, 3] > 0))
    value += 0.7 * Z[:, 2] ** 2 + np.maximum(Z[:, 0], 0) * (Z[:, 4] > 0) + np.sin(2 * Z[:, 5])
    if seed % 2:
        X[rng.random(X.shape) < 0.05] = np.nan
    y = np.digitize(value + 0.7 * rng.normal(size=n), [0, 1, 2, 3])
    data = Dataset.from_arrays(X, y, np.repeat(np.arange(2 * n_lists), LENGTH))
    return data.take_queries(np.arange(n_lists)), data.take_queries(np.arange(n_lists, 2 * n_lists))


def violations(predict, X, n_pairs):
    """Count pairs of rows that differ in one column and are scored in the wrong order."""
    rng = np.random.default_rng(0)
    count = 0
    for j in (0, 1):
        lower = X[rng.integers(0, len(X), n_pairs // 2)]
        higher = lower.copy()
        higher[:, j] = X[rng.integers(0, len(X), len(lower)), j]
        change = SIGNS[j] * (predict(higher) - predict(lower))
        # Comparisons with missing values are False.
        wrong = (higher[:, j] > lower[:, j]) & (change < 0)
        wrong |= (higher[:, j] < lower[:, j]) & (change > 0)
        count += int(wrong.sum())
    return count


def peers():
    """Return functions that train other libraries, by name."""
    makers = {}
    if not absent_packages("lightgbm"):
        from lightgbm import LGBMRanker

        makers["LightGBM"] = lambda signs: LGBMRanker(
            n_jobs=1, verbose=-1, monotone_constraints=list(signs)
        )
    if not absent_packages("xgboost"):
        from xgboost import XGBRanker

        makers["XGBoost"] = lambda signs: XGBRanker(n_jobs=1, monotone_constraints=tuple(signs))
    if not absent_packages("catboost"):
        from catboost import CatBoostRanker

        makers["CatBoost"] = lambda signs: CatBoostRanker(
            thread_count=1, verbose=0, iterations=100, allow_writing_files=False,
            monotone_constraints=list(signs),
        )  # fmt: skip
    return makers


def fit_peer(name, ranker, train):
    if name == "LightGBM":
        return ranker.fit(train.X, train.y, group=train.queries.sizes)
    if name == "XGBoost":
        return ranker.fit(train.X, train.y, qid=train.qid)
    return ranker.fit(train.X, train.y, group_id=train.qid)


def ndcg(test, scores):
    return evaluate_on(test, scores=np.asarray(scores, dtype=np.float64), metric="ndcg@10")


def cpu(function, *arguments):
    started = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - started


def measure(seed, n_lists, n_pairs):
    """Return what one data set shows."""
    train, test = made(seed, n_lists)
    values, seconds, given_seconds = [], [], []
    for shapes in (None, SHAPES):
        options = {"shapes": shapes, "random_state": 0, "n_threads": 1}
        ranker, spent = cpu(AdditiveRanker(**options).fit, train)
        values.append(ndcg(test, ranker.predict(test.X)))
        seconds.append(spent)
        given, spent = cpu(AdditiveRanker(smooth=1.0, pairs=10, **options).fit, train)
        given_seconds.append(spent)
    proofs = [*certify(ranker.to_model()), *certify(given.to_model())]
    counts = {"AdditiveRanker": violations(ranker.predict, test.X, n_pairs)}
    for name, make in peers().items():
        peer = fit_peer(name, make(SIGNS), train)
        counts[name] = violations(peer.predict, test.X, n_pairs)
    print(seed, np.round(values, 4), counts, flush=True)
    return {
        "lost": values[0] - values[1],
        "time": seconds[1] / seconds[0],
        "given": given_seconds[1] / given_seconds[0],
        "unproved": sum(not proof.holds for proof in proofs),
        "violations": counts,
    }


def summarise(sets, n_lists, n_pairs):
    """Store the figures of all data sets."""
    lost = [each["lost"] for each in sets]
    counts = {
        name: sum(each["violations"][name] for each in sets) for name in sets[0]["violations"]
    }
    save("shapes", {
        "sets": len(sets), "rows": n_lists * LENGTH, "pairs": len(sets) * n_pairs,
        "unproved": sum(each["unproved"] for each in sets), "violations": counts,
        "lost": {"mean": np.mean(lost), "error": np.std(lost) / np.sqrt(len(sets)), "all": lost},
        "time": {
            "median": np.median([each["time"] for each in sets]),
            "given": np.median([each["given"] for each in sets]),
        },
        "absent": absent_packages("lightgbm", "xgboost", "catboost"),
    })  # fmt: skip


def run(n_sets, n_lists, n_pairs):
    measure(0, 10, 20)  # compiles
    sets = [measure(seed, n_lists, n_pairs) for seed in range(n_sets)]
    summarise(sets, n_lists, n_pairs)


def smoke():
    """Run the smallest size, as the tests do."""
    run(1, 20, 200)


def quick():
    """Run a few data sets."""
    run(6, 100, 20_000)


def full():
    """Run 50 data sets."""
    run(50, 100, 20_000)
