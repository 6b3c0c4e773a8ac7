"""Section 5: training time against data size, and on rows of LETOR's shape."""

from __future__ import annotations

from benchmarks.common.timing import cpu_seconds, exponent, median_and_range, repeated, spread
from benchmarks.common.workloads import large_text, letor_like

from papers.runs import table
from papers.sculley.figure1 import AS_PRINTED, LEARNERS
from rankine import Dataset, RankSVM, SPDRanker

TITLE = "Section 5: training time against data size"
SMOKE = {"sizes": [1_000, 2_000], "rows": 2_000, "letor_queries": 5, "repetitions": 1}
QUICK = {"sizes": [2_000, 6_000, 20_000], "rows": 20_000, "letor_queries": 20, "repetitions": 2}
FULL = {
    "sizes": [3_000, 10_000, 30_000, 100_000, 300_000, 781_265],
    "rows": 781_265,
    "letor_queries": 75,
    "repetitions": 3,
}

SEED = 1
#: Algorithm 1 as printed and our defaults. Fits include the index of rows by label.
KINDS = {"as printed": AS_PRINTED, "rankine": {}}
PRINTED = "as printed"
STEPS = 100_000
#: Below so many rows the few positives are soon separated, and RankSVM has hardly anything to do.
MANY = 100_000


def fits(data, repetitions):
    """Return CPU seconds of a fit by kind and learner."""
    by_kind = {}
    for kind, parameters in KINDS.items():
        by_kind[kind] = {}
        for name, solver in LEARNERS.items():
            ranker = SPDRanker(solver, n_steps=STEPS, random_state=SEED, **parameters)
            by_kind[kind][name], _ = repeated(lambda r=ranker: r.fit(data), repetitions)
    return by_kind


def measure(sizes, rows, letor_queries, repetitions):
    text = large_text(rows)
    X, y = text.X, text.binary
    RankSVM(l2=2e-5, n_threads=1).fit(Dataset.from_arrays(X[: sizes[0]], y[: sizes[0]]))
    rows_of_size = []
    for size in sizes:
        data = Dataset.from_arrays(X[:size], y[:size])
        exact = spread(
            cpu_seconds(lambda d=data: RankSVM(l2=2e-5, n_threads=1).fit(d))[0]
            for _ in range(1 + (size < 200_000))
        )
        rows_of_size.append({"rows": size, "spd": fits(data, repetitions), "ranksvm": exact})
        print(rows_of_size[-1], flush=True)
    small = Dataset.from_arrays(*letor_like(letor_queries))
    return {
        "seeds": [SEED],
        "repetitions": repetitions,
        "collection": text.name,
        "sizes": rows_of_size,
        "letor": {"rows": small.n_rows, "spd": fits(small, repetitions)},
    }


def growth(entries, pick):
    """Return the exponent of time in rows, from the medians."""
    return exponent([e["rows"] for e in entries], [pick(e)["median"] for e in entries])


def seconds_of(entry, kind):
    """Return the spread of the slowest learner of a kind."""
    return max(entry["spd"][kind].values(), key=lambda measured: measured["median"])


def markdown(results):
    entries, letor = results["sizes"], results["letor"]
    header = ("rows", *(f"{name}, {kind}" for kind in KINDS for name in LEARNERS), "RankSVM, hinge")
    rows = [
        [
            f"{entry['rows']:,}",
            *(median_and_range(entry["spd"][k][name], ".3f") for k in KINDS for name in LEARNERS),
            f"{entry['ranksvm']['median']:.2f}",
        ]
        for entry in entries
    ]
    cells = (median_and_range(letor["spd"][k][name], ".3f") for k in KINDS for name in LEARNERS)
    rows.append([f"{letor['rows']:,}, dense, LETOR's shape", *cells, ""])
    large = [e for e in entries if e["rows"] >= MANY]
    exact = f"{growth(entries, lambda e: e['ranksvm']):.2f}"
    if len(large) > 1:
        exact += (
            f" over all sizes, {growth(large, lambda e: e['ranksvm']):.2f} from {MANY:,} rows on "
            "(with fewer, the handful of positives is separated after a few iterations)"
        )
    exponents = {kind: growth(entries, lambda e, k=kind: seconds_of(e, k)) for kind in KINDS}
    return "\n\n".join([
        (f"CPU seconds of fits of {STEPS:,} steps, index included, on rows with a rare topic "
        f"(0.2 % positive; {results['collection']}), and of an exact RankSVM (lam = 1e-5, gap "
        "1e-3) on the same rows. *As printed* is algorithm 1 with the indexed sampler, the last "
        "iterate and features as they are; *rankine* has our defaults. The last row is a dense "
        "collection of LETOR's shape, 64 features."),
        table(header, rows),
        "Exponent of the slowest learner's time in the number of rows: "
        + ", ".join(f"{kind} {value:.2f}" for kind, value in exponents.items())
        + f"; RankSVM {exact}. Steps touch rows at random, so that what growth there is comes from "
        "the index and from the caches: a small collection stays in them.",
    ])  # fmt: skip


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    entries, letor = results["sizes"], results["letor"]
    sizes = [e["rows"] for e in entries]
    figure, (ax,) = panels(width=6.4, height=4.2)
    for colour, kind in zip(COLOURS, KINDS, strict=False):
        line(ax, sizes, [seconds_of(e, kind) for e in entries], f"SPD, {kind}", colour)
        here = seconds_of(letor, kind)["median"]
        ax.plot(letor["rows"], here, "s", color=colour, label="_LETOR's shape")
    line(ax, sizes, [e["ranksvm"] for e in entries], "RankSVM", "black")
    axis(ax, "rows (squares: dense rows of LETOR's shape)", f"CPU seconds ({STEPS:,} steps)",
         logx=True, logy=True)  # fmt: skip
    label_lines(ax)
    return figure
