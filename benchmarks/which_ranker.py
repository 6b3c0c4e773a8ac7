"""All six rankers on four kinds of data, each tuned on validation data: quality, time and size.

    python -m benchmarks.which_ranker [--share 1.0]

The decision table of the documentation (``docs/which-ranker.md``) is made of this. A setting is
chosen by the metric on the validation part; it is then trained once more, timed, and judged on the
test part. Times are CPU seconds of the last training, compiled before.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from benchmarks.common.machine import save
from benchmarks.common.timing import cpu_seconds
from benchmarks.common.workloads import click_lists, letor_like, rcv1_like
from rankine import (
    AdditiveRanker,
    Dataset,
    DominationRanker,
    ElasticRanker,
    LeastSquaresRanker,
    RankSVM,
    SPDRanker,
)
from rankine.data.splits import split_queries
from rankine.metrics import evaluate

#: Ranker -> settings that are tried; l1 of domination rank is a share of the smallest that gives 0.
GRID = {
    "spd": [{"l2": l2} for l2 in (1e-5, 1e-4, 1e-3, 1e-2)],
    "ranksvm": [{"l2": l2, "loss": "squared_hinge"} for l2 in (2e-6, 2e-5, 2e-4, 2e-3)],
    "least-squares": [{"l2": l2} for l2 in (2e-5, 2e-4, 2e-3, 2e-2)],
    "domination": [{"share": share} for share in (0.1, 0.03, 0.01)],
    "elastic": [{"eta0": eta0, "l1": l1} for eta0 in (0.05, 0.2, 0.8) for l1 in (0.0, 1e-5, 1e-4)],
    # Strengths are chosen on a fifth of the training lists, within the training.
    "additive": [{"loss": loss} for loss in ("squared_hinge", "softmax")],
}


#: What a ranker is not made for, and why.
_WIDE = "one table a column serves up to about 1,000 columns"
UNFIT = {
    ("click lists", "additive"): _WIDE,
    ("one rare topic", "additive"): _WIDE,
    ("real-valued labels", "additive"): _WIDE,
    ("one rare topic", "elastic"): "one pass over lists needs many lists",
    ("real-valued labels", "elastic"): "one pass over lists needs many lists",
    ("real-valued labels", "domination"): "one level for every distinct label costs too much",
}


def make(name, setting, strongest=None):
    """Create the ranker with one setting of the grid."""
    if name == "spd":
        return SPDRanker(random_state=0, **setting)
    if name == "ranksvm":
        return RankSVM(**setting)
    if name == "least-squares":
        return LeastSquaresRanker(**setting)
    if name == "domination":
        return DominationRanker(l1=setting["share"] * strongest)
    if name == "additive":
        return AdditiveRanker(n_threads=1, random_state=0, **setting)
    return ElasticRanker(adaptive=True, l2=0.0, objective="ndcg", random_state=0, **setting)


def rows_in_three(X, y):
    """Split the rows of one query: 60 % to train, 20 % to validate, 20 % to test."""
    order = np.random.default_rng(0).permutation(len(y))
    cuts = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    return [Dataset.from_arrays(X[rows], y[rows]) for rows in cuts]


def tasks(share):
    """Return (training, validation and test part, metric) by name of the task."""
    X, binary, utility = rcv1_like(int(60_000 * share))
    Xg, yg, qg = letor_like(queries=int(400 * share), size=100)
    lists = click_lists(int(8000 * share))
    graded = Dataset.from_arrays(Xg, yg, qg)
    return {
        "graded lists": (split_queries(graded, (0.6, 0.2, 0.2), random_state=0), "ndcg@10"),
        "click lists": (split_queries(lists, (0.6, 0.2, 0.2), random_state=0), "ndcg@10"),
        "one rare topic": (rows_in_three(X, (binary > 0).astype(float)), "map"),
        "real-valued labels": (rows_in_three(X, utility), "kendall"),
    }


def measure(parts, metric, name):
    """Choose a setting on validation data, train it again, time and test it."""
    train, valid, test = parts
    strongest = None
    if name == "domination":
        strongest = DominationRanker(l1=None, tol=1.0).fit(train).l1_max_

    def judged(ranker, part):
        return float(evaluate(metric, part.y, ranker.predict(part), part.qid))

    tried = []
    for setting in GRID[name]:
        ranker = make(name, setting, strongest).fit(train)
        tried.append((judged(ranker, valid), setting))
    best = max(tried, key=lambda pair: pair[0])[1]
    seconds, ranker = cpu_seconds(lambda: make(name, best, strongest).fit(train))
    return {
        "test": judged(ranker, test),
        "seconds": seconds,
        "weights": int(np.count_nonzero(ranker.coef_)),
        "features": train.n_features,
        "setting": best,
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the full size")
    options = parser.parse_args(arguments)
    results = {}
    for task, (parts, metric) in tasks(options.share).items():
        result = {"metric": metric, "rows": parts[0].n_rows, "rankers": {}}
        for name in GRID:
            if (task, name) in UNFIT:
                result["rankers"][name] = {"unfit": UNFIT[task, name]}
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result["rankers"][name] = measure(parts, metric, name)
            print(task, name, result["rankers"][name], flush=True)
        results[task] = result
    save("which_ranker", {"tasks": results})


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--share", "0.05"])


def quick():
    """Measure a tenth of the rows."""
    main(["--share", "0.1"])


def full():
    """Measure all rows."""
    main([])


if __name__ == "__main__":
    main()
