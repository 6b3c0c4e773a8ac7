"""Rankers as they come, the additive one among them, beside boosted trees on every set at hand."""

from __future__ import annotations

import sys
import warnings

import numpy as np
from papers.runs import table

from benchmarks.additive import LIGHTGBM, XGBOOST, lightgbm, shuffled, xgboost
from benchmarks.common.peers import absent_packages
from benchmarks.common.timing import cpu_seconds
from benchmarks.common.workloads import letor_like
from benchmarks.defaults import SETS, UNFIT, learned
from rankine import Dataset
from rankine.metrics import evaluate
from rankine.rankers.registry import RANKERS

TITLE = "Defaults, the additive ranker and trees on every set"
SMOKE = {"sets": ["generated LETOR"]}
QUICK = {"sets": ["generated LETOR"]}
FULL = {"sets": list(SETS)}

METRIC = "ndcg@10"
TREES = {"LightGBM": (lightgbm, LIGHTGBM), "XGBoost": (xgboost, XGBOOST)}
#: Trees on a million hashed columns are in the table of the purchase log, with their time.
TOO_WIDE = ("generated hashed log",)


def default(name, tasks):
    """Return values of validation and test queries and CPU seconds of a ranker's defaults."""
    query_values, total = ([], []), 0.0
    for train, *parts in tasks:
        seconds, score = cpu_seconds(lambda t=train: learned(name, {}, t))
        total += seconds
        for part, values in zip(parts, query_values, strict=True):
            values.append(per_query(part, score(part)))
    return *map(np.concatenate, query_values), total


def tuned(name, tasks):
    """Return the same of early-stopped trees with the better of two settings."""
    run, settings = TREES[name]
    query_values, total = ([], []), 0.0
    for parts in tasks:
        tried = []
        for setting in settings:
            seconds, scores = run(parts, setting)
            total += seconds
            tried.append([per_query(p, s) for p, s in zip(parts[1:], scores[1:], strict=True)])
        best = max(tried, key=lambda values: np.nanmean(values[0]))
        for values, best_trial in zip(best, query_values, strict=True):
            best_trial.append(values)
    return *map(np.concatenate, query_values), total


def per_query(part, scores):
    """Return NDCG@10 of every query; NaN where nothing is relevant."""
    return np.asarray(evaluate(METRIC, part.y, scores, part.qid, per_query=True), dtype=float)


def one_set(name, peers):
    """Measure every system on one set, and its differences to the better trees."""
    tasks = [[shuffled(part.X, part.y, part.qid, 0) for part in task] for task in SETS[name]()]
    runs = {r: default(r, tasks) for r in RANKERS if (name, r) not in UNFIT}
    ours = max(runs, key=lambda r: np.nanmean(runs[r][0]))
    if name not in TOO_WIDE:
        runs |= {peer: tuned(peer, tasks) for peer in peers}
    trees = [peer for peer in peers if peer in runs]
    rival = max(trees, key=lambda r: np.nanmean(runs[r][0])) if trees else ""
    figures = {
        "rows": max(train.n_rows for train, *_ in tasks),
        "queries": int(np.sum(~np.isnan(runs[ours][1]))),
        "ours": ours,
        "trees": rival,
    }
    figures["systems"] = {
        system: {"test": float(np.nanmean(test)), "seconds": seconds,
                 **({"minus_trees": interval(test - runs[rival][1])} if rival else {})}
        for system, (_, test, seconds) in runs.items()
    }  # fmt: skip
    print(name, figures, file=sys.stderr, flush=True)
    return figures


def interval(gaps):
    """Return the mean of paired differences and its 95 % interval from resampled queries."""
    gaps = gaps[~np.isnan(gaps)]
    draws = np.random.default_rng(0).integers(len(gaps), size=(4000, len(gaps)))
    low, high = np.quantile(gaps[draws].mean(axis=1), (0.025, 0.975))
    return {"mean": float(gaps.mean()), "low": float(low), "high": float(high)}


def measure(sets):
    """Measure every set, after one untimed fit of every ranker that compiles the kernels."""
    absent = absent_packages("lightgbm", "xgboost")
    peers = [name for name in TREES if not any(a.startswith(name.lower()) for a in absent)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y, qid = letor_like(queries=20, size=30)
        for name in RANKERS:
            learned(name, {}, Dataset.from_arrays(X, y, qid))
        result = {name: one_set(name, peers) for name in sets}
    return {"seeds": [0], "repetitions": 1, "absent": absent, "sets": result}


def verdict(gap):
    """Return which side wins, according to the interval."""
    return "trees" if gap["high"] < 0 else "rankine" if gap["low"] > 0 else "neither"


def headline(results):
    """Count the sets on which trees win and on which rankine wins."""
    sets = {name: found for name, found in results["sets"].items() if found["trees"]}
    if not sets:
        return "**No trees were installed, so nothing was compared.**"
    wins = {name: verdict(s["systems"][s["ours"]]["minus_trees"]) for name, s in sets.items()}
    lost, won = ([n for n, winner in wins.items() if winner == w] for w in ("trees", "rankine"))
    sizes = [found["rows"] for found in sets.values()]
    return (
        f"**Trees win on {len(lost)} of {len(sets)} sets of {min(sizes):,} to {max(sizes):,} "
        f"training rows** ({', '.join(lost) or 'none'}), a ranker of rankine as it comes on "
        f"{len(won)} ({', '.join(won) or 'none'}); on the others the interval holds zero."
    )


def markdown(results):
    sets = results["sets"]
    systems = [
        *RANKERS,
        *(name for name in TREES if any(name in s["systems"] for s in sets.values())),
    ]
    rows, against = [], []
    for name, result in sets.items():
        values = result["systems"]
        cells = (f"{values[s]['test']:.3f}" if s in values else "" for s in systems)
        rows.append([name, f"{result['rows']:,}", str(result["queries"]), *cells])
        if not result["trees"]:
            continue
        cells = [name, result["trees"]]
        for system in (result["ours"], "additive"):
            if system in values:
                gap = values[system]["minus_trees"]
                cells += [system, f"{gap['mean']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]",
                          verdict(gap)]  # fmt: skip
            else:
                cells += ["", "", ""]
        times = [values[s]["seconds"] for s in (result["ours"], result["trees"])]
        against.append([*cells[:5], *cells[6:], f"{times[0]:.2g} / {times[1]:.2g}"])
    return "\n\n".join([
        headline(results),
        ("NDCG@10 on test queries: every ranker with its defaults "
         "and nothing tuned, trees early-stopped on validation queries with the better of two "
         "sizes. Splits are those of `benchmarks.defaults`, whose defaults were chosen by the "
         "validation queries of the same sets. Rows are shuffled, so that equal scores follow no "
         "order of the file."),
        table(("set", "training rows", "test queries", *systems), rows),
        ("The default ranker that validation queries prefer, and the additive ranker, minus the "
         "trees that they prefer: paired differences with 95 % intervals, queries resampled. CPU "
         "seconds are of training; trees' are of both sizes."),
        table(("set", "trees", "ours", "minus trees", "wins", "additive minus trees", "wins",
               "CPU s, ours / trees"), against, left=3),
    ])  # fmt: skip
