"""Section 5: training time against the number of rows; SPD's is flat."""

from __future__ import annotations

import numpy as np
from benchmarks.common.timing import cpu_seconds, exponent, median_and_range, spread
from benchmarks.common.workloads import large_text

from papers.runs import table
from rankine import Dataset, RankSVM, SPDRanker
from rankine.samplers.draw import pair_sampler
from rankine.solvers.pair_sgd import Span, solve_pairs

TITLE = "Section 5: training time against data size"
SMOKE = {"sizes": [1_000, 2_000], "rows": 2_000, "repetitions": 1}
QUICK = {"sizes": [2_000, 6_000, 20_000], "rows": 20_000, "repetitions": 2}
FULL = {
    "sizes": [3_000, 10_000, 30_000, 100_000, 300_000, 781_265],
    "rows": 781_265,
    "repetitions": 3,
}

SEED = 1
LEARNERS = ("pegasos", "sgd-svm", "passive-aggressive", "romma", "hybrid")
STEPS = 100_000
#: Below so many rows the few positives are soon separated, and RankSVM has hardly anything to do.
MANY = 100_000


def one_fit(X, y, learner):
    """Measure the CPU seconds of the index and of the steps."""
    ranker = SPDRanker(learner.replace("-", "_"), random_state=SEED)
    data = Dataset(X, y, np.ones(len(y), dtype=np.int64))
    indexing, sampler = cpu_seconds(lambda: pair_sampler(data, np.ones(1)))
    phases, spans = ranker.plan().phases(STEPS), [Span(data.rows, sampler, STEPS)]
    start = np.zeros(data.n_features)
    stepping, _ = cpu_seconds(lambda: solve_pairs(spans, phases, start, SEED))
    return indexing, stepping


def measure(sizes, rows, repetitions):
    text = large_text(rows)
    X, y = text.X, text.binary
    RankSVM(l2=2e-5, n_threads=1).fit(Dataset.from_arrays(X[: sizes[0]], y[: sizes[0]]))
    rows_of_size = []
    for size in sizes:
        Xs, ys = X[:size], y[:size]
        entry = {"rows": size, "learners": {}}
        for learner in LEARNERS:
            one_fit(Xs, ys, learner)
            runs = [one_fit(Xs, ys, learner) for _ in range(repetitions)]
            entry["learners"][learner] = spread(steps for _, steps in runs)
            entry["index"] = spread(index for index, _ in runs)
        data = Dataset.from_arrays(Xs, ys)
        entry["ranksvm"] = spread(
            cpu_seconds(lambda d=data: RankSVM(l2=2e-5, n_threads=1).fit(d))[0]
            for _ in range(1 + (size < 200_000))
        )
        rows_of_size.append(entry)
        print(entry, flush=True)
    return {
        "seeds": [SEED],
        "repetitions": repetitions,
        "collection": text.name,
        "sizes": rows_of_size,
    }


def growth(entries, pick):
    """Return the exponent of time in rows, from the medians."""
    return exponent([e["rows"] for e in entries], [pick(e)["median"] for e in entries])


def markdown(results):
    entries = results["sizes"]
    header = ("rows", "index s", *LEARNERS, "RankSVM, hinge")
    rows = [
        [
            f"{e['rows']:,}",
            f"{e['index']['median']:.4f}",
            *(median_and_range(e["learners"][name], ".3f") for name in LEARNERS),
            f"{e['ranksvm']['median']:.2f}",
        ]
        for e in entries
    ]
    large = [e for e in entries if e["rows"] >= MANY]
    exact = f"{growth(entries, lambda e: e['ranksvm']):.2f}"
    if len(large) > 1:
        exact += (
            f" over all sizes, {growth(large, lambda e: e['ranksvm']):.2f} from {MANY:,} rows on "
            "(with fewer, the handful of positives is separated after a few iterations)"
        )
    exponents = {name: growth(entries, lambda e, n=name: e["learners"][n]) for name in LEARNERS}
    return "\n\n".join([
        (f"CPU seconds of {STEPS:,} steps on rows with a rare topic (0.2 % positive; "
        f"{results.get('collection', 'generated')}), "
        "and of an exact RankSVM (lam = 1e-5, gap 1e-3) on the same rows."),
        table(header, rows),
        "Exponent of time in the number of rows: "
        + ", ".join(f"{name} {value:.2f}" for name, value in exponents.items())
        + f"; the index {growth(entries, lambda e: e['index']):.2f}; RankSVM {exact}. "
        "Steps touch rows at random, so that "
        "what growth there is comes from the caches: a small collection stays in them.",
    ])  # fmt: skip


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    entries = results["sizes"]
    sizes = [e["rows"] for e in entries]
    figure, (ax,) = panels(width=6.4, height=4.2)
    for colour, name in zip(COLOURS, LEARNERS, strict=False):
        line(ax, sizes, [e["learners"][name] for e in entries], f"SPD {name}", colour)
    line(ax, sizes, [e["index"] for e in entries], "SPD, index", "grey", style="--")
    line(ax, sizes, [e["ranksvm"] for e in entries], "RankSVM", "black")
    axis(ax, "rows", f"CPU seconds ({STEPS:,} steps)", logx=True, logy=True)
    label_lines(ax)
    return figure
