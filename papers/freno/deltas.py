"""What Delta should measure: recall or NDCG, at the model's ranking or at the target ranking."""

from __future__ import annotations

import numpy as np
from benchmarks.common.timing import spread

from papers.freno.log import Log
from papers.freno.methods import (
    ETAS,
    NOTHING,
    TESTED,
    TRAINED,
    Chooser,
    judge,
    learn,
    settings,
)
from papers.runs import table

TITLE = "Deltas of recall and of NDCG, at the model's and at the target ranking"
SMOKE = {"seeds": [1, 2], "lists": 50}
QUICK = {"seeds": [1, 2, 3], "lists": 1000}
FULL = {"seeds": [1, 2, 3, 4, 5], "lists": 10_000}
OBJECTIVES = ("ndcg", "recall@1", "recall@4")
SHOWN = ("recall@1", "recall@4", "ndcg")
REFERENCE = "rda ndcg model"
SOLVERS = ("rda", "fobos")


def one_log(seed, lists):
    """Test values of every combination, its step chosen on the last training days."""
    log = Log(seed, lists, TRAINED + TESTED)
    chooser = Chooser(log)
    train, test = log.between(1, TRAINED), log.between(TRAINED + 1, TRAINED + TESTED).together()
    found = {}
    for solver in SOLVERS:
        for objective in OBJECTIVES:
            for delta in ("model", "target"):
                fixed = {**NOTHING, "solver": solver, "objective": objective, "delta": delta}
                setting = chooser.best(settings(fixed, {"eta0": ETAS}))
                values = judge(learn(setting, train).predict(test), test, SHOWN)
                found[f"{solver} {objective} {delta}"] = {**values, "eta0": setting["eta0"]}
    return found


def measure(seeds, lists):
    """Measure all logs, and differences to NDCG's ranking within each."""
    logs = [one_log(seed, lists) for seed in seeds]
    differences = {
        name: {m: spread(log[name][m] - log[REFERENCE][m] for log in logs) for m in SHOWN}
        for name in logs[0]
    }
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "lists": lists,
        "logs": logs,
        "values": {n: {m: spread(log[n][m] for log in logs) for m in SHOWN} for n in logs[0]},
        "differences": differences,
    }


def markdown(results):
    rows = []
    for name, values in results["values"].items():
        solver, objective, delta = name.split()
        gaps = results["differences"][name]
        cells = [solver.upper(), objective.replace("recall", "R").replace("ndcg", "NDCG"), delta]
        cells += [f"{values[m]['median']:.4f}" for m in SHOWN]
        rows.append([*cells, *(_gap(gaps[m]) for m in ("recall@1", "ndcg"))])
    lists = results["lists"]
    header = ["optimiser", "Delta of", "measured at", "R@1", "R@4", "NDCG"]
    return "\n\n".join(
        [
            (
                f"{len(results['seeds'])} logs of {lists * TRAINED:,} training lists as in table "
                "1, "
                "one pass, logistic loss, no penalty, `eta0` chosen for each row on the last "
                "training "
                "days. The last two columns are differences to the first row log by log, median "
                "(lowest to highest)."
            ),
            table([*header, "R@1 - first row", "NDCG - first row"], rows, left=3),
            _verdict(results["logs"]),
        ]
    )


def _gap(gap):
    if gap["low"] == gap["high"]:
        return f"{gap['median']:+.4f}"
    return f"{gap['median']:+.4f} ({gap['low']:+.4f} to {gap['high']:+.4f})"


def _verdict(logs):
    recall = _mean_gap(logs, "recall@1", {"ndcg": ("recall@1", "recall@4")})
    target = np.mean(
        [
            log[f"{o} {m} target"]["recall@1"] - log[f"{o} {m} model"]["recall@1"]
            for log in logs
            for o in SOLVERS
            for m in OBJECTIVES
        ]
    )
    paper = "as the paper found" if recall > 0 else "where the paper found recall slightly better"
    return (
        f"Deltas of recall instead of NDCG change R@1 by {recall:+.4f} on average, {paper}. "
        f"Measuring Delta at the target ranking instead of the model's changes R@1 by "
        f"{target:+.4f} on average; the target ranking keeps the loss convex."
    )


def _mean_gap(logs, measure_name, against):
    gaps = [
        log[f"{o} {log_value} {d}"][measure_name] - log[f"{o} {base} {d}"][measure_name]
        for log in logs
        for o in SOLVERS
        for d in ("model", "target")
        for base, log_values in against.items()
        for log_value in log_values
    ]
    return float(np.mean(gaps))
