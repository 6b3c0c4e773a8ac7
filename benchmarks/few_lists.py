"""How AdditiveRanker chooses strengths with few lists: five folds beside one split.

The same 60 training queries are shuffled, with a seed each, and NDCG@10 is that of fixed test
queries: first on the generated set of ``benchmarks.defaults`` with its 30 test queries, then on
fresh generated sets with 300. On other sets 60 training queries are drawn with a seed each, and the
default is compared with the default of RankSVM.

    python -m benchmarks few_lists --full
"""

from __future__ import annotations

import time
from unittest import mock

import numpy as np

from benchmarks.common.machine import save
from benchmarks.common.real_data import data_folder
from benchmarks.common.workloads import letor_like, mslr_like
from benchmarks.defaults import mslr
from rankine import AdditiveRanker, Dataset, RankSVM, load
from rankine.metrics import evaluate_on
from rankine.rankers import additive_search

N_TRAIN = 60


def fit(train, seed, *, folds):
    """Fit with folds, or with one split as for many lists; return ranker and CPU seconds."""
    limit = additive_search.MANY_LISTS if folds else 0
    with mock.patch.object(additive_search, "MANY_LISTS", limit):
        started = time.process_time()
        ranker = AdditiveRanker(random_state=seed, n_threads=1).fit(train)
        return ranker, time.process_time() - started


def ndcg(ranker, test):
    return float(evaluate_on(test, metric="ndcg@10", scores=ranker.predict(test.X)))


def stability(train, test, n_seeds):
    """Measure the test metric over orders of the training queries, and the cost."""
    values, seconds = {True: [], False: []}, {True: [], False: []}
    for seed in range(n_seeds):
        order = np.random.default_rng(seed).permutation(train.n_queries)
        lists = [train.take_queries(order[[k]]) for k in range(len(order))]
        shuffled = Dataset.from_arrays(*(np.concatenate(parts) for parts in zip(
            *((each.X, each.y, each.qid) for each in lists), strict=True)))  # fmt: skip
        for folds in (True, False):
            ranker, spent = fit(shuffled, seed, folds=folds)
            values[folds].append(ndcg(ranker, test))
            seconds[folds].append(spent)
    result = {"linear": ndcg(RankSVM().fit(train), test)}
    for name, folds in (("folds", True), ("one_split", False)):
        deviation = np.std(values[folds], ddof=1)
        result[name] = {"mean": np.mean(values[folds]), "deviation": deviation}
    result["cost"] = np.median(seconds[True]) / np.median(seconds[False])
    print(result, flush=True)
    return result


def fresh(seed):
    """Generate a set of the shape of MSLR: 60 queries to train on, 300 to test on."""
    data = Dataset.from_arrays(*mslr_like(queries=N_TRAIN + 300, seed=seed))
    return data.take_queries(np.arange(N_TRAIN)), data.take_queries(
        np.arange(N_TRAIN, N_TRAIN + 300)
    )


def straight():
    """Generate labels that are linear in columns, half of them with a long tail."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400 * 40, 40))
    X[:, ::2] = np.expm1(np.minimum(X[:, ::2], 3))
    value = (X / X.std(axis=0)) @ rng.normal(size=40) / 6 + rng.normal(size=len(X))
    y = np.searchsorted(np.quantile(value, [0.5, 0.8, 0.95]), value).astype(float)
    return Dataset.from_arrays(X, y, np.repeat(np.arange(400), 40))


def judged(folder):
    return load([str(part) for part in sorted((data_folder() / folder).glob("S*.txt.xz"))])


SETS = {
    "linear": straight,
    "generated LETOR": lambda: Dataset.from_arrays(*letor_like(queries=400, size=60)),
    "OHSUMED, raw": lambda: judged("ohsumed_letor3_min"),
    "OHSUMED, list-scaled": lambda: judged("ohsumed_letor3_querylevelnorm"),
    "MQ2008": lambda: judged("mq2008"),
}


def beside_linear(data, n_seeds):
    """Compare with RankSVM over random training queries."""
    additive, linear = [], []
    for seed in range(1000, 1000 + n_seeds):
        order = np.random.default_rng(seed).permutation(data.n_queries)
        train, test = (data.take_queries(np.sort(part)) for part in np.split(order, [N_TRAIN]))
        additive.append(ndcg(fit(train, seed, folds=True)[0], test))
        linear.append(ndcg(RankSVM().fit(train), test))
    difference = np.subtract(additive, linear)
    error = difference.std(ddof=1) / np.sqrt(n_seeds)
    result = {"additive": np.mean(additive), "linear": np.mean(linear),
              "difference": {"mean": difference.mean(), "error": error}}  # fmt: skip
    print(result, flush=True)
    return result


def run(n_seeds, seeds, names):
    ((train, _, test),) = mslr()
    fit(train, 0, folds=True)  # compiles
    sets = {"defaults": stability(train, test, n_seeds)}
    for seed in seeds:
        sets[f"fresh {seed}"] = stability(*fresh(seed), n_seeds)
    others = {name: beside_linear(SETS[name](), n_seeds) for name in names}
    save("few_lists", {"stability": sets, "beside_linear": others})


def smoke():
    """Run the smallest size, as the tests do."""
    run(2, (), ())


def quick():
    """Run the generated set of the defaults."""
    run(4, (), ("linear",))


def full():
    """Run all sets."""
    run(8, (11, 12), tuple(SETS))
