"""Table 1: recall and NDCG of pointwise, pairwise and listwise learning after one pass."""

from __future__ import annotations

import sys

import numpy as np
from benchmarks.common.timing import cpu_seconds, spread
from scipy import stats

from papers.freno.log import Log
from papers.freno.methods import (
    BUDGET,
    JUDGED,
    MEASURES,
    TESTED,
    TRAINED,
    Chooser,
    described,
    expected,
    judge,
    learn,
)
from papers.runs import table

TITLE = "Table 1: one pass over a purchase log with drift"
SMOKE = {"seeds": [1, 2], "lists": 50}
QUICK = {"seeds": [1, 2, 3], "lists": 1000}
FULL = {"seeds": list(range(1, 13)), "lists": 10_000}
#: The paper's per cent over random: R@1 to R@5, NDCG.
PAPER = {
    "LR": (92.30, 57.27, 35.68, 23.17, 12.83, 18.67),
    "RankSVM": (124.54, 75.36, 47.71, 32.04, 19.80, 25.99),
    "PSGD": (128.73, 77.21, 48.62, 32.74, 20.00, 26.64),
    "FOBOS": (128.27, 75.73, 48.39, 32.04, 19.16, 26.16),
    "RDA": (129.03, 76.26, 48.37, 32.08, 19.13, 26.33),
}
OTHERS = ("LR", "RankSVM", "RankLR")
ELASTIC = ("PSGD", "FOBOS", "RDA", "TGD")
METHODS = (*OTHERS, *ELASTIC, "RDA, adaptive")
COLUMNS = (*(f"R@{k}" for k in range(1, 6)), "NDCG")


def one_log(seed, lists):
    """Measure every method on one log, in per cent over random, and its chosen setting."""
    log = Log(seed, lists, TRAINED + TESTED)
    chooser = Chooser(log)
    train, test = log.between(1, TRAINED), log.between(TRAINED + 1, TRAINED + TESTED).together()
    chance = expected(test)
    rows = {}
    for method in METHODS:
        cpu_before = chooser.tried
        setting, settled = chooser.choose(method)
        seconds, ranker = cpu_seconds(lambda s=setting: learn(s, train))
        values = judge(ranker.predict(test), test)
        rows[method] = {
            "over_random": [100 * (values[m] / chance[m] - 1) for m in MEASURES],
            "weights": int(np.count_nonzero(ranker.coef_)),
            "cpu_seconds": seconds,
            "setting": setting,
            "settled": settled,
            "tried": chooser.tried - cpu_before,
        }
        print(f"log {seed}: {method} {described(setting)}", file=sys.stderr, flush=True)
    return {"chance": chance, "methods": rows}


def measure(seeds, lists):
    """Measure all logs."""
    return gathered([one_log(seed, lists) for seed in seeds], seeds, lists)


def gathered(logs, seeds, lists):
    """Merge stored results of several logs."""
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "lists": {"train": lists * TRAINED, "test": lists * TESTED},
        "logs": logs,
        "over_random": {
            method: [
                spread(log["methods"][method]["over_random"][k] for log in logs)
                for k in range(len(MEASURES))
            ]
            for method in METHODS
        },
    }


def markdown(results):
    over = results["over_random"]
    columns = np.array([[cell["median"] for cell in over[m]] for m in METHODS])
    rows = []
    for method in over:
        weights = spread(log["methods"][method]["weights"] for log in results["logs"])["median"]
        rows.append([method, *(_cell(cell) for cell in over[method]), f"{weights:,.0f}"])
    bold = {(int(np.argmax(columns[:, k])), k + 1) for k in range(columns.shape[1])}
    paper = [[f"{m} (paper)", *(f"{v:.1f} %" for v in values), ""] for m, values in PAPER.items()]
    lists = results["lists"]
    first = results["logs"][0]["chance"]
    lines = [
        (
            f"{len(results['seeds'])} logs of {lists['train']:,} lists in {TRAINED} days of "
            "training "
            f"and {lists['test']:,} in {TESTED} days of test, one purchase a list, 5 to 15 items, "
            "40 "
            "non-zeros among 2^20 features, weights that drift from day to day "
            "(`papers/freno/log.py`). Every method makes the same one pass in the order of "
            "time. "
            f"The last {JUDGED} training days choose its parameters by NDCG; every method may take "
            f"{BUDGET} passes for that, on ladders without ends, and {_settled(results)}. It then "
            "learns from "
            "the whole training period and meets the test days once. (The paper reports the "
            "highest "
            "value over the test set.) Per cent over a random order, whose expected R@1 is "
            f"{first['recall@1']:.3f} and NDCG {first['ndcg']:.3f}: median over the logs (lowest "
            "to "
            "highest)."
        ),
        table(["method", *COLUMNS, "weights"], [*rows, *paper], bold=bold),
        _differences(results),
    ]
    return "\n\n".join(lines)


def _cell(cell):
    middle = f"{cell['median']:.1f} %"
    same = cell["high"] - cell["low"] < 0.05
    return middle if same else f"{middle} ({cell['low']:.1f} to {cell['high']:.1f})"


def _settled(results):
    runs = [run for log in results["logs"] for run in log["methods"].values()]
    converged = sum(run["settled"] for run in runs)
    return f"{converged} of {len(runs)} choices ended with no better neighbour left to try"


def interval(results, a, b, column):
    """Return the 95 % interval (Student) over the logs of how far a is ahead of b."""
    gaps = [
        log["methods"][a]["over_random"][column] - log["methods"][b]["over_random"][column]
        for log in results["logs"]
    ]
    half = stats.t.ppf(0.975, len(gaps) - 1) * np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    return float(np.mean(gaps) - half), float(np.mean(gaps) + half)


def _differences(results):
    """Compare every listwise method with RankSVM and LR in every column."""
    rows = []
    for method in (*ELASTIC, "RDA, adaptive", "RankSVM"):
        for reference in ("RankSVM", "LR"):
            if method != reference:
                cells = (interval(results, method, reference, k) for k in range(len(COLUMNS)))
                rows.append(
                    [method, reference, *(f"{low:+.1f} to {high:+.1f}" for low, high in cells)]
                )
    return (
        "Points by which one is ahead of another, log by log: 95 % intervals over "
        f"{len(results['logs'])} logs.\n\n" + table(["method", "against", *COLUMNS], rows, left=2)
    )
