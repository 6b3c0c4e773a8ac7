"""Table 1: ROC area and CPU seconds on 781,265 x 47,236 rows with rare topics."""

from __future__ import annotations

import sys

from benchmarks.common.timing import median_and_range
from benchmarks.common.workloads import TOPIC, large_text, linear_topics

from papers.runs import table
from papers.sculley import rare

TITLE = "Table 1: ROC area and training time on a large collection"
SMOKE = {"rows": 8_000, "test": 5_000, "topics": 1, "tune_rows": 4_000, "repetitions": 1}
QUICK = {"rows": 20_000, "test": 5_000, "topics": 2, "tune_rows": 6_000, "repetitions": 2}
FULL = {"rows": 781_265, "test": 23_149, "topics": 21, "tune_rows": 20_000, "repetitions": 3}

SEED = 1
#: The paper's figures on topic E311 of RCV1: ROC area, CPU seconds (2009).
PAPER = {
    "SVM-struct-rank": (0.9992, 30_716.33),
    "SVM-perf-roc": (0.9992, 31.92),
    "SPD passive-aggressive": (0.9990, 0.22),
    "SPD SGD-SVM": (0.9992, 0.20),
    "SPD Pegasos": (0.9992, 0.20),
}


def measure(rows, test, topics, tune_rows, repetitions):
    """Measure every topic; the first one with repeated timings."""
    text = large_text(rows + test, topics - 1)
    X, labels = text.X, {TOPIC: text.binary, **text.topics}
    if text.name == "generated":
        made = linear_topics(X, topics - 1, 0.002, SEED)
        labels = {f"topic {t}": y for t, y in enumerate([text.binary, *made])}
    by_topic = {}
    for t, (name, y) in enumerate(labels.items()):
        print(name, file=sys.stderr, flush=True)
        by_topic[name] = rare.one_topic(
            (X[:rows], y[:rows]),
            (X[rows:], y[rows:]),
            tune_rows=tune_rows,
            seed=SEED,
            repetitions=repetitions if t == 0 else 1,
        )
    return {
        "seeds": [SEED],
        "repetitions": repetitions,
        "collection": text.name,
        "topics": by_topic,
        "summary": rare.compared(by_topic),
    }


def markdown(results):
    size = results["parameters"]
    first = next(iter(results["topics"].values()))
    slowest = first["RankSVM"]["seconds"]["median"]
    rows = []
    for name, by_topic in first.items():
        paper = PAPER.get(name.removesuffix(", as printed"))
        rows.append([
            name,
            f"{by_topic['roc_area']:.4f}",
            median_and_range(by_topic["seconds"], ".2f"),
            f"{by_topic['seconds']['median'] / slowest:.3f}",
            f"{paper[0]:.4f}, {paper[1]:.2f} s" if paper else "",
        ])  # fmt: skip
    exact = PAPER["SVM-perf-roc"]
    return "\n\n".join([
        (f"{size['rows']:,} rows of {47_236:,} features ({results['collection']}), 0.2 % positive, "
        f"{size['test']:,} test rows, 100,000 steps; lam, C and class weights by three-fold "
        f"cross-validation on {size['tune_rows']:,} training rows. CPU seconds are of the final "
        "fit from a matrix in memory, index or conversion included."),
        table(("method", "ROC area", "CPU s", "over RankSVM", "paper, E311 of RCV1"), rows),
        f"(The paper's exact peer, SVM-perf-roc: {exact[0]:.4f}, {exact[1]:.2f} s.)",
        f"Over {len(results['topics'])} rare topics of the same rows:",
        rare.summary_table(results["summary"]),
        rare.outcome(results),
        rare.REMARK,
    ])  # fmt: skip
