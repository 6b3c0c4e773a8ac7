"""Default settings of every ranker against tuned ones and scikit-learn, on eleven data sets.

    python -m benchmarks.defaults
    python -m benchmarks.defaults --task "Reuters topics"

The defaults were chosen by the validation queries of these sets (``GRID`` holds what was tried);
its results are those of the test queries, which were looked at once.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import rankine
from benchmarks.common.machine import save
from benchmarks.common.real_data import data_folder, read_reuters
from benchmarks.common.workloads import CLICK_FEATURES, NUMBERS, click_lists, letor_like, mslr_like
from rankine import Dataset
from rankine.data.splits import split_queries
from rankine.metrics import evaluate
from rankine.rankers.registry import RANKERS, ranker_class

METRIC = "ndcg@10"
#: Ranker -> settings that are tried on validation queries, in addition to the defaults.
GRID = {
    "spd": [*({"l2": 10.0**k} for k in (-4, -3, -2, -1)), {"l2": 1e-3, "scale": "query"}],
    "ranksvm": [*({"l2": 2 * 10.0**k} for k in (-4, -2, -1)), {"l2": 2e-3, "scale": "query"}],
    "least-squares": [
        *({"l2": 2 * 10.0**k} for k in (-4, -3, -2, -1, 0)),
        *({"l2": 2 * 10.0**k, "scale": "query"} for k in (-3, -2)),
    ],
    "domination": [
        *({"l1": 0.0, "l2": l2} for l2 in (1.0, 10.0)),
        *({"l2": 0.0, "scale": scale} for scale in ("auto", "query")),
    ],
    "elastic": [
        *({"eta0": eta0} for eta0 in (0.05, 0.2, 0.8)),
        *({"eta0": eta0, "l1": 0.0, "l2": 0.0, "n_passes": 1} for eta0 in (0.05, 0.2, 0.8)),
        {"scale": "query"},
    ],
    "additive": [{"pairs": 0}],
}
#: What a ranker is not made for, and why.
UNFIT = {
    ("Reuters topics", "elastic"): "one list a topic, and it learns list by list",
    ("Reuters topics", "additive"): "a table for each of 14,793 words",
    ("generated hashed log", "additive"): "a table for each of 2^20 columns",
}

#: Shares of the queries that are trained on, chosen by, and tested on.
SHARES = (0.5, 0.25, 0.25)
#: Relevant documents of a topic of Reuters in 3,000: neither so frequent that every ranker is
#: right, nor unlearnable; and at least so many to judge by.
TOPICS, JUDGED = (15, 60), 10


def cut(data):
    """Split a data set into the three parts of a single task."""
    return [split_queries(data, SHARES, random_state=0)]


def letor(folder):
    """Load all five parts of a LETOR folder."""
    parts = sorted((data_folder() / folder).glob("S*.txt.xz"))
    return cut(rankine.load([str(part) for part in parts]))


def districts():
    """Read California's districts in lists of 20 neighbours, with grades 0 to 4 by price."""
    path = data_folder() / "california_housing" / "housing.csv.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("median_house_value", "ocean_proximity")]
    X = np.array([[float(row[name] or 0.0) for name in names] for row in rows])
    price = np.array([float(row["median_house_value"]) for row in rows])
    order = np.lexsort((X[:, 0], np.floor(2 * X[:, 1])))[: 20 * 500]
    y = np.searchsorted(np.quantile(price, [0.5, 0.75, 0.9, 0.97]), price).astype(float)
    return X[order], y[order], np.arange(len(order)) // 20


def california():
    """Load the raw columns, from incomes of a few units to tens of thousands of rooms."""
    return cut(Dataset.from_arrays(*districts()))


def california_bins():
    """Load the same columns as indicators of their deciles."""
    X, y, qid = districts()
    cells = []
    for column in X.T:
        decile = np.searchsorted(np.quantile(column, np.linspace(0.1, 0.9, 9)), column)
        cells.append(sparse.csr_matrix((np.ones(len(y)), (np.arange(len(y)), decile)),
                                       shape=(len(y), 10)))  # fmt: skip
    return cut(Dataset.from_arrays(sparse.hstack(cells, format="csr"), y, qid))


def reuters():
    """Load topics of news: each topic is one list of documents with a model of its own."""
    X, Y, _, n_train = read_reuters()
    rng = np.random.default_rng(0)
    train = rng.permutation(n_train)[:6000]
    test = n_train + rng.permutation(X.shape[0] - n_train)[:6000]
    parts = train[:3000], train[3000:], test
    least, most = TOPICS
    enough = [t for t in range(Y.shape[1]) if least <= Y[parts[0], t].sum() <= most]
    topics = [t for t in enough if min(Y[p, t].sum() for p in parts) >= JUDGED]
    return [tuple(Dataset.from_arrays(X[p], Y[p, t]) for p in parts) for t in topics]


def lightgbm():
    """Load LightGBM's ranking example: sparse columns in [0, 1], five grades."""
    folder = data_folder() / "lightgbm_lambdarank"
    parts = []
    for name in ("train", "test"):
        with lzma.open(folder / f"rank.{name}.query.xz", "rt") as file:
            group = [int(line) for line in file]
        parts.append(rankine.load(str(folder / f"rank.{name}.xz"), group=group, n_features=300))
    train, valid = split_queries(parts[0], (2, 1), random_state=0)
    return [(train, valid, parts[1])]


def generated():
    """Generate dense lists scaled to [0, 1], as in LETOR."""
    X, y, qid = letor_like(queries=200, size=60)
    return cut(Dataset.from_arrays(X, y, qid))


def mslr():
    """Generate dense raw lists with heavy tails and five grades."""
    X, y, qid = mslr_like(queries=120)
    return cut(Dataset.from_arrays(X, y, qid))


def click_log():
    """Generate purchases described by 20 numbers of different units and a few categories."""
    data = click_lists(3000)
    frequent = np.argsort(-np.bincount(data.X.indices, minlength=CLICK_FEATURES))[: 20 + 300]
    X = data.X[:, np.sort(frequent)].toarray().astype(float)
    X[:, :NUMBERS] *= 10.0 ** np.linspace(-2, 4, NUMBERS)
    return cut(Dataset.from_arrays(sparse.csr_matrix(X), data.y, data.qid))


def hashed_log():
    """Generate purchases with 20 numbers and 20 hashed categories of up to 300,000 values."""
    return cut(click_lists(5000))


SETS = {
    "OHSUMED, list-scaled": lambda: letor("ohsumed_letor3_querylevelnorm"),
    "OHSUMED, raw": lambda: letor("ohsumed_letor3_min"),
    "MQ2008": lambda: letor("mq2008"),
    "California, raw": california,
    "California, indicators": california_bins,
    "Reuters topics": reuters,
    "LightGBM's example": lightgbm,
    "generated LETOR": generated,
    "generated MSLR": mslr,
    "generated click log": click_log,
    "generated hashed log": hashed_log,
}


def baseline(kind, train):
    """Fit a regression of the labels on scaled columns; return its scoring function."""
    scaler = MaxAbsScaler() if sparse.issparse(train.X) else StandardScaler()
    regression = Ridge() if kind == "ridge" else LogisticRegression(max_iter=300)
    labels = train.y if kind == "ridge" else (train.y > np.median(train.y)).astype(int)
    if kind == "logistic" and len(set(labels.tolist())) < 2:
        labels = (train.y > 0).astype(int)
    fitted = make_pipeline(scaler, regression).fit(train.X, labels)
    return fitted.predict if kind == "ridge" else fitted.decision_function


def learned(name, setting, train):
    """Fit a ranker or a baseline; return its scoring function."""
    if name in ("ridge", "logistic"):
        return baseline(name, train)
    ranker = ranker_class(name)(**{"random_state": 0, **setting}).fit(train)
    return ranker.predict


def judged(tasks, name, setting):
    """Return the metric of every validation and test query, and the CPU seconds of training."""
    by_part, seconds = ([], []), 0.0
    for train, *parts in tasks:
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = learned(name, setting, train)
        seconds += time.process_time() - started
        for part, values in zip(parts, by_part, strict=True):
            rows = part.X if name in ("ridge", "logistic") else part
            values.append(evaluate(METRIC, part.y, score(rows), part.qid, per_query=True))
    valid, test = (np.concatenate(values) for values in by_part)
    return valid[~np.isnan(valid)], test[~np.isnan(test)], seconds


def gap(values, others):
    """Return the mean difference over the queries and its standard error."""
    difference = values - others
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))


def measure(tasks, name, plain):
    """Measure the defaults, the setting chosen on validation queries, and the baseline."""
    valid, test, seconds = judged(tasks, name, {})
    best, best_setting, tuned = valid.mean(), {}, test
    for setting in GRID[name]:
        trial = judged(tasks, name, setting)
        if trial[0].mean() > best:
            best, best_setting, tuned = trial[0].mean(), setting, trial[1]
    return {
        "default": float(test.mean()),
        "tuned": float(tuned.mean()),
        "setting": best_setting,
        "to_tuned": gap(test, tuned),
        "to_baseline": gap(test, plain),
        "seconds": round(seconds, 2),
    }


def bars(sets):
    """Return each ranker's mean loss against its tuned setting, and where defaults fail."""
    losses, missed = {}, []
    for name in RANKERS:
        by_set = {s: result["rankers"][name] for s, result in sets.items()
                 if "unfit" not in result["rankers"][name]}  # fmt: skip
        losses[name] = float(np.mean([-result["to_tuned"][0] for result in by_set.values()]))
        for task, result in by_set.items():
            for against in ("to_tuned", "to_baseline"):
                mean, error = result[against]
                if mean < -0.01 and mean < -2 * error:
                    missed.append([task, name, against, mean, error])
    return {"mean_loss": losses, "missed": missed}


def measure_set(task):
    """Measure a set's baseline and all rankers."""
    tasks = SETS[task]()
    kinds = {kind: judged(tasks, kind, {}) for kind in ("ridge", "logistic")}
    kind = max(kinds, key=lambda one: kinds[one][0].mean())
    plain = kinds[kind][1]
    result = {"baseline": kind, "value": float(plain.mean()), "queries": len(plain), "rankers": {}}
    for name in RANKERS:
        if (task, name) in UNFIT:
            result["rankers"][name] = {"unfit": UNFIT[task, name]}
        else:
            result["rankers"][name] = measure(tasks, name, plain)
    print(task, result, flush=True)
    return result


def main(names=tuple(SETS)):
    sets = {task: measure_set(task) for task in names}
    save("defaults", {"metric": METRIC, "sets": sets, **bars(sets)})


def smoke():
    """Run the smallest size, as the tests do."""
    main(("generated LETOR",))


def quick():
    """Measure two sets that need no files."""
    main(("generated LETOR", "generated hashed log"))


def full():
    """Measure all sets."""
    main()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", action="append", choices=SETS)
    asked = parser.parse_args()
    main(tuple(asked.task or SETS))
