"""AdditiveRanker compared with LightGBM and XGBoost: quality and CPU seconds on the same splits.

    python -m benchmarks.additive [PART ...] [--share 1.0] [--bench FOLDER]

Parts: california_random, california_cells, letor (OHSUMED and MQ2008), mslr (rows of MSLR's shape),
bench (those of another generator, ``FOLDER/mslr_train.npz``), three_way (a generator of effects of
three columns, where trees must win), speed. Settings of all systems are chosen on validation
queries: trees by early stopping and the best of their settings, ours along its path. Real data:
five splits, means with paired standard errors. Every system runs on one thread. Rows are shuffled,
so that equal scores follow no order of the file.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import lzma
import time
import tracemalloc
import warnings
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.common.machine import add
from benchmarks.common.peers import absent_packages
from benchmarks.common.real_data import data_folder, letor_folders
from benchmarks.common.timing import cpu_seconds, exponent
from benchmarks.common.workloads import mslr_like
from rankine import AdditiveRanker, Dataset, RankSVM, Scorer
from rankine.data.splits import split_queries
from rankine.metrics import evaluate
from rankine.serve.handlers import ScoringHandler, decode_request
from rankine.serve.limits import Limits
from rankine.serve.registry import Registry, ServedModel
from rankine.serve.schemas import ScoreRequest

METRIC = "ndcg@10"
SPLITS = 5
#: Settings of the peers; rounds end by early stopping on the validation queries.
LIGHTGBM = ({"num_leaves": 15}, {"num_leaves": 63})
XGBOOST = ({"max_depth": 4}, {"max_depth": 8})
ROUNDS, PATIENCE, RATE = 1000, 50, 0.1
#: On more rows than these ours has one setting, and its path chooses the rest.
FEW_ROWS = 50_000


def judge(part, scores):
    """Return the mean NDCG@10 over the queries that have a relevant row."""
    codes = part.queries.codes
    rows = (np.bincount(codes, part.y > 0) > 0)[codes]
    return float(evaluate(METRIC, part.y[rows], scores[rows], part.qid[rows]))


# ------------------------------------------------------------------------------ systems
def by_query(part):
    """Group the rows by query; return matrix, labels, rows per query and the order."""
    order = np.argsort(part.queries.codes, kind="stable")
    sizes = np.bincount(part.queries.codes)
    return part.X[order], part.y[order].astype(int), sizes, order


def ungrouped(scores, order):
    """Scores in the order of the rows."""
    out = np.empty(len(scores))
    out[order] = scores
    return out


def lightgbm(parts, setting):
    """Train LambdaMART with LightGBM and early stopping; return seconds and scores."""
    import lightgbm as peer

    sets = [by_query(part) for part in parts]
    options = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "verbosity": -1,
               "learning_rate": RATE, "num_threads": 1, "seed": 0, "deterministic": True,
               **setting}  # fmt: skip

    def fit():
        train = peer.Dataset(sets[0][0], sets[0][1], group=sets[0][2])
        valid = train.create_valid(sets[1][0], sets[1][1], group=sets[1][2])
        stop = peer.early_stopping(PATIENCE, verbose=False)
        return peer.train(options, train, ROUNDS, valid_sets=[valid], callbacks=[stop])

    seconds, model = cpu_seconds(fit)
    return seconds, [ungrouped(model.predict(s[0], num_threads=1), s[3]) for s in sets]


def xgboost(parts, setting):
    """Train LambdaMART with XGBoost and early stopping; return seconds and scores."""
    import xgboost as peer

    sets = [by_query(part) for part in parts]
    options = {"objective": "rank:ndcg", "eval_metric": "ndcg@10", "eta": RATE, "nthread": 1,
               "tree_method": "hist", "seed": 0, **setting}  # fmt: skip
    tables = [peer.DMatrix(s[0], s[1], group=s[2], nthread=1) for s in sets]
    reporting = {"evals": [(tables[1], "valid")], "verbose_eval": False}

    def fit():
        return peer.train(options, tables[0], ROUNDS, early_stopping_rounds=PATIENCE, **reporting)

    seconds, model = cpu_seconds(fit)
    rounds = (0, model.best_iteration + 1)
    part_scores = [model.predict(t, iteration_range=rounds) for t in tables]
    return seconds, [ungrouped(f, s[3]) for f, s in zip(part_scores, sets, strict=True)]


def additive(parts, setting):
    """Train AdditiveRanker; its path of strengths counts as training time."""
    train, valid, _ = parts
    ranker = AdditiveRanker(n_threads=1, random_state=0, **setting)
    seconds, _ = cpu_seconds(lambda: ranker.fit(train, eval_set=valid))
    return seconds, [ranker.predict(part) for part in parts], ranker


def ranksvm(parts, setting):
    """Train RankSVM, the linear reference."""
    ranker = RankSVM(loss="squared_hinge", scale="standard", **setting)
    seconds, _ = cpu_seconds(lambda: ranker.fit(parts[0]))
    return seconds, [ranker.predict(part) for part in parts]


SYSTEMS = {
    "additive": (additive, ({}, {"loss": "softmax"})),
    "ranksvm": (ranksvm, tuple({"l2": l2} for l2 in (2e-5, 2e-4, 2e-3, 2e-2))),
    "lightgbm": (lightgbm, LIGHTGBM),
    "xgboost": (xgboost, XGBOOST),
}


def contest(parts, systems):
    """Test NDCG and CPU seconds of each system at the setting that validation queries choose."""
    results = {}
    for name in systems:
        run, settings = SYSTEMS[name]
        if name == "additive" and parts[0].n_rows > FEW_ROWS:
            settings = settings[:1]
        tried = [(setting, *run(parts, setting)) for setting in settings]
        best = max(tried, key=lambda trial: judge(parts[1], trial[2][1]))
        results[name] = {
            "test": judge(parts[2], best[2][2]),
            "seconds": best[1],
            "all_seconds": sum(trial[1] for trial in tried),
            "setting": best[0],
        }
        if name == "additive":
            ranker = best[3]
            again = AdditiveRanker(
                smooth=ranker.strengths_.smooth, anchor=ranker.strengths_.anchor,
                pairs=len(ranker.pairs_), n_threads=1, loss=ranker.loss,
            )  # fmt: skip
            if ranker.pairs_:
                again.set_params(pair_smooth=ranker.strengths_.pair_smooth)
            results[name]["single_seconds"] = cpu_seconds(partial(again.fit, parts[0]))[0]
            results[name]["pairs"] = len(ranker.pairs_)
    return results


def over_splits(splits, systems):
    """Compare on several splits; return means and paired differences to AdditiveRanker."""
    runs = [contest(parts, systems) for parts in splits]
    tests = {name: np.array([run[name]["test"] for run in runs]) for name in systems}
    summary = {
        name: {
            "test": float(tests[name].mean()),
            "seconds": float(np.median([run[name]["seconds"] for run in runs])),
        }
        for name in systems
    }
    singles = [run["additive"]["single_seconds"] for run in runs]
    summary["additive"]["single_seconds"] = float(np.median(singles))
    for name in systems:
        gap = tests["additive"] - tests[name]
        error = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else None
        summary[name]["additive_minus"] = {"mean": float(gap.mean()), "error": error}
    return {"systems": summary, "splits": len(runs), "runs": runs}


# --------------------------------------------------------------------------------- data
def shuffled(X, y, qid, seed):
    """Return the rows in random order, so that ties do not follow the order of the file."""
    order = np.random.default_rng(seed).permutation(len(y))
    return Dataset.from_arrays(X[order], y[order], qid[order])


def california(cells, seed):
    """Read house values as grades, in lists of 40 random rows or in grid cells of 10 to 60 rows.

    Missing numbers of bedrooms are the median: not all systems take them.
    """
    with lzma.open(data_folder() / "california_housing" / "housing.csv.xz") as file:
        text = io.TextIOWrapper(file, encoding="ascii")
        names = text.readline().strip().split(",")
        rows = [line.strip().split(",") for line in text]
    columns = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    column_names = ("longitude", "latitude", "housing_median_age", "total_rooms", "total_bedrooms",
              "population", "households", "median_income")  # fmt: skip
    X = np.array([[float(x) if x else np.nan for x in columns[name]] for name in column_names]).T
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    value = np.array(columns["median_house_value"], dtype=float)
    y = np.searchsorted(np.quantile(value, [0.4, 0.7, 0.9, 0.97]), value).astype(float)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    if not cells:
        qid = np.empty(len(y), dtype=np.int64)
        qid[order] = np.arange(len(y)) // 40
        return shuffled(X, y, qid, seed)
    cell = (np.floor(X[:, 0] * 2) * 1000 + np.floor(X[:, 1] * 2)).astype(np.int64)
    qid, in_list, lists = np.full(len(y), -1), np.zeros(len(y), dtype=bool), 0
    for cell_id in np.unique(cell):
        inside = order[cell[order] == cell_id]
        for part in np.array_split(inside, -(-len(inside) // 60)):
            if len(part) >= 10:
                qid[part], in_list[part], lists = lists, True, lists + 1
    return shuffled(X[in_list], y[in_list], qid[in_list], seed)


def three_way(queries=400, size=60, seed=20261116):
    """Generate a utility that depends on a product of three signs, so that trees must win."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * size, 12)).astype(np.float32)
    utility = 1.5 * np.sign(X[:, 0] * X[:, 1] * X[:, 2]) + X[:, 3] ** 2 - 1
    utility = utility + 0.5 * X[:, 4] + 0.5 * rng.normal(size=len(X))
    y = np.searchsorted(np.quantile(utility, [0.5, 0.8, 0.95]), utility).astype(float)
    return Dataset.from_arrays(X, y, np.repeat(np.arange(queries), size))


def in_three(data, seed):
    """Split by query: 60 % to train, 20 % to validate, 20 % to test."""
    return split_queries(data, (0.6, 0.2, 0.2), random_state=seed)


# -------------------------------------------------------------------------------- parts
def run_california(options, systems, *, cells):
    splits = (in_three(california(cells, seed), seed) for seed in range(options.splits))
    return over_splits(splits, systems)


def run_letor(options, systems):
    by_folder = {}
    for folder in letor_folders()[0]:
        if "null" in folder.name.lower() or "norm" in folder.name.lower():
            continue
        splits = []
        for fold in list(folder.folds())[: options.splits]:
            parts = [getattr(fold, name) for name in ("train", "vali", "test")]
            splits.append([shuffled(p.X, p.y, p.qid, 0) for p in parts])
        by_folder[folder.name] = over_splits(splits, systems)
    return by_folder


def run_mslr(options, systems):
    X, y, qid = mslr_like(queries=int(2000 * options.share))
    return over_splits([in_three(Dataset.from_arrays(X, y, qid), 0)], systems)


def run_bench(options, systems):
    if options.bench is None:
        return {"absent": "name the folder of generate.py mslrlike with --bench"}
    with np.load(Path(options.bench) / "mslr_train.npz") as z:
        X, y, qid = z["X"], z["y"].astype(float), z["qid"]
    selected = qid <= np.unique(qid)[min(int(2000 * options.share), len(np.unique(qid))) - 1]
    data = Dataset.from_arrays(X[selected].astype(np.float32), y[selected], qid[selected])
    return over_splits([in_three(data, 0)], systems)


def run_three_way(options, systems):
    data = three_way(queries=int(400 * options.share))
    return over_splits([in_three(data, 0)], systems)


def run_speed(options, _systems):
    """Measure training time by number of rows, scoring latency and time per table look-up."""
    from rankine.kernels.binned import BinnedProducts
    from rankine.transforms.bins import BinCoder, layout_of

    results = {"rows": [], "seconds": []}
    ranker = AdditiveRanker(smooth=1.0, pair_smooth=1.0, pairs=30, n_threads=1)
    for rows in [int(rows * options.share) for rows in (30_000, 100_000, 300_000, 1_000_000)]:
        X, y, qid = mslr_like(queries=max(rows // 119, 10))
        data = Dataset.from_arrays(X, y, qid)
        if not results["rows"]:
            ranker.fit(data)  # compiles
        seconds, _ = cpu_seconds(lambda data=data: ranker.fit(data))
        results["rows"].append(data.n_rows)
        results["seconds"].append(seconds)
    results["exponent"] = exponent(results["rows"], results["seconds"])
    results["bytes_a_row"] = bytes_a_row(ranker, data)
    few = data.take_queries(np.arange(min(data.n_queries, 1000)))
    model = AdditiveRanker(smooth=1.0, pairs=50, n_threads=1).fit(few).to_model()
    scorer = Scorer(model)
    # Other rows at every call: the same ones again would be foreseen, branch by branch.
    lists = [np.ascontiguousarray(X[k : k + 100], dtype=np.float64) for k in range(0, 6000, 100)]
    results["score_100_us"] = microseconds(scorer.score, lists, 3000)
    results["served_ms"] = served_milliseconds(model, lists)
    grids = model.transforms[1]
    products = BinnedProducts(BinCoder(model.bins, 1).code(X), layout_of(model.bins, grids), 1)
    table = model.to_dense()
    look_ups = len(X) * (X.shape[1] + len(grids.pairs))
    products.scores(table)
    results["ns_a_look_up"] = min(
        1e9 * cpu_seconds(lambda: products.scores(table))[0] / look_ups for _ in range(5)
    )
    return results


def microseconds(function, lists, repetitions):
    """Measure the median and the smallest time of a call, cycling through lists."""
    times = []
    for k in range(repetitions):
        begun = time.perf_counter()
        function(lists[k % len(lists)])
        times.append(time.perf_counter() - begun)
    return {"median": 1e6 * float(np.median(times)), "low": 1e6 * min(times)}


def bytes_a_row(ranker, data):
    """Measure the peak of numpy's allocations during training, above one byte per cell."""
    tracemalloc.start()
    ranker.fit(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / data.n_rows - data.n_features


def served_milliseconds(model, lists):
    """Measure the time to handle ``/v1/score``, with and without decoding the request."""
    registry = Registry()
    registry.put(ServedModel("m", model))
    worker = ScoringHandler(registry, Limits())
    names = [str(j + model.base) for j in range(lists[0].shape[1])]
    bodies = [
        json.dumps(
            {"items": [{"features": dict(zip(names, row, strict=True))} for row in rows.tolist()]}
        ).encode()
        for rows in lists[:20]
    ]
    decoder, scorer = msgspec.json.Decoder(ScoreRequest), Scorer(model)

    def decode(body):
        request, _ = decode_request(decoder, body, Limits())
        return scorer.features([item.features for item in request.items])

    gc.freeze()  # as the server does once its models are loaded
    times = []
    for k in range(400):
        marks = [time.perf_counter()]
        for function in (decode, lambda body: worker.score(body, False)):
            function(bodies[k % len(bodies)])
            marks.append(time.perf_counter())
        times.append(np.diff(marks))
    gc.unfreeze()
    decoded, answered = 1e3 * np.array(times).T
    return {
        "above_decoding": float(np.median(answered - decoded)),
        "decoding": float(np.median(decoded)),
    }


PARTS = {
    "california_random": lambda o, s: run_california(o, s, cells=False),
    "california_cells": lambda o, s: run_california(o, s, cells=True),
    "letor": run_letor,
    "three_way": run_three_way,
    "mslr": run_mslr,
    "bench": run_bench,
    "speed": run_speed,
}


def smoke():
    """Run the smallest size, as the tests do."""
    main(["three_way", "--share", "0.02"])


def quick():
    """Run the part that ``make bench`` runs."""
    main(["three_way", "--share", "0.2"])


def full():
    """Run all parts."""
    main([])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="default: all")
    parser.add_argument("--share", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--bench", help="folder of the other generator's rows")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    options = parser.parse_args(arguments)
    absent = absent_packages("lightgbm", "xgboost")
    systems = [n for n in options.systems if not any(a.startswith(n) for a in absent)]
    # Kernels are compiled before anything is timed.
    contest(in_three(three_way(20, 20), 0), ["additive", "ranksvm"])
    for part in options.parts or PARTS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = PARTS[part](options, systems)
        add("additive", part, {**result, "absent": absent} if absent else result)


if __name__ == "__main__":
    main()
