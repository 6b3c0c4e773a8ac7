"""Table 2: time to score a candidate against the number of weights."""

from __future__ import annotations

import time

import numpy as np
from benchmarks.common.drawing import COLOURS, axis, line, panels
from benchmarks.common.timing import median_and_range, spread
from scipy import sparse

from papers.freno.log import Log
from papers.freno.methods import TESTED, TRAINED, judge, learn
from papers.runs import table
from rankine import LinearModel, Scorer

TITLE = "Table 2: latency against the number of weights"
SMOKE = {"seeds": [1], "lists": 50, "candidates": 5_000, "repetitions": 1}
QUICK = {"seeds": [1], "lists": 1000, "candidates": 50_000, "repetitions": 3}
FULL = {"seeds": [1], "lists": 4000, "candidates": 5_000_000, "repetitions": 5}
SIZES = (4, 29, 1804)
#: The paper's milliseconds a recommendation.
PAPER = {4: 0.0062, 29: 0.0087, 1804: 0.0109}
#: Candidates of one request.
REQUEST = 100
SETTING = {"solver": "rda", "eta0": 1.0, "l1": 0.0, "l2": 0.0, "objective": "ndcg"}


def requests(data):
    """Cut the rows into requests of ``REQUEST`` candidates."""
    X = data.X
    count = X.shape[0] // REQUEST
    return [X[k * REQUEST : (k + 1) * REQUEST] for k in range(count)]


def scored(scorer, lists, candidates):
    """Measure CPU microseconds per candidate while cycling through the lists."""
    rounds = max(candidates // REQUEST, 1)
    scorer.score(lists[0])
    begun = time.process_time()
    for k in range(rounds):
        scorer.score(lists[k % len(lists)])
    return 1e6 * (time.process_time() - begun) / (rounds * REQUEST)


def forms(coef, lists):
    """Return scorer and lists: whole sparse rows, and only the columns that the model needs."""
    model_columns = np.flatnonzero(coef)
    narrow = LinearModel.from_weights(coef[model_columns])
    scorers = {"whole rows": (Scorer(LinearModel.from_weights(coef)), lists)}
    if len(model_columns) <= max(SIZES):
        rows = [
            np.ascontiguousarray(sparse.csc_matrix(x)[:, model_columns].toarray()) for x in lists
        ]
        scorers["the model's columns"] = (Scorer(narrow), rows)
    return scorers


def measure(seeds, lists, candidates, repetitions):
    """Train models of several sizes on one log and measure their latency in turns."""
    log = Log(seeds[0], lists, TRAINED + TESTED)
    test = log.between(TRAINED + 1, TRAINED + TESTED).together()
    train = log.between(1, TRAINED)
    some = requests(test)[:50]
    everything = int(np.count_nonzero(learn(SETTING, train).coef_))
    rows = {}
    calls = {}
    for size in (*SIZES, everything):
        coef = learn({**SETTING, "max_nonzero": size}, train).coef_
        rows[size] = {"quality": judge(test.X @ coef, test, ["recall@1", "recall@4"])}
        for form, (scorer, request_rows) in forms(coef, some).items():
            calls[size, form] = (scorer, request_rows)
    times = {key: [] for key in calls}
    for _ in range(repetitions):
        for key, (scorer, request_rows) in calls.items():
            times[key].append(scored(scorer, request_rows, candidates))
    for (size, form), values in times.items():
        rows[size][form] = spread(values)
    return {
        "seeds": seeds,
        "repetitions": repetitions,
        "candidates": candidates,
        "request": REQUEST,
        "everything": everything,
        "models": rows,
    }


def draw(results):
    figure, (ax,) = panels(1, 1, width=5.2, height=3.3)
    forms_of = ("whole rows", "the model's columns")
    for form, colour in zip(forms_of, COLOURS, strict=False):
        sizes = [int(k) for k, row in results["models"].items() if form in row]
        values = [results["models"][str(k)][form] for k in sizes]
        line(ax, sizes, values, f"rankine, {form}", colour)
    paper = [1000 * PAPER[k] for k in SIZES]
    line(ax, SIZES, paper, "paper (other machine and scope)", "black", style="--")
    axis(ax, "weights", "microseconds a candidate", logx=True, logy=True)
    ax.legend(fontsize=8.5, frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.88))
    return figure


def markdown(results):
    rows = []
    for size, row in results["models"].items():
        whole, narrow = row["whole rows"], row.get("the model's columns")
        published = PAPER.get(int(size))
        rows.append(
            [
                f"{int(size):,}",
                median_and_range(whole),
                f"{1e6 / whole['median']:,.0f}",
                "" if narrow is None else median_and_range(narrow),
                "" if narrow is None else f"{1e6 / narrow['median']:,.0f}",
                "" if published is None else f"{1000 * published:.1f}",
                f"{row['quality']['recall@1']:.4f}",
            ]
        )
    small, large = (results["models"][str(k)] for k in (SIZES[0], SIZES[-1]))
    form = "the model's columns"
    growth = large[form]["median"] / small[form]["median"]
    flat = large["whole rows"]["median"] / small["whole rows"]["median"]
    header = ["weights", "us, whole rows", "a second", "us, model's columns", "a second"]
    return "\n\n".join(
        [
            (
                "RDA after one pass over the log of table 1, cut to the numbers of weights of the "
                f"paper's table; CPU microseconds a candidate over {results['candidates']:,} "
                f"candidates in requests of {REQUEST}, one thread, median (lowest to highest). "
                "*Whole "
                "rows* are the 40 non-zeros of each candidate among 2^20 features; *model's "
                "columns* "
                "are dense rows of just the features with a weight, as a server fetches them."
            ),
            table([*header, "us, paper", "R@1"], rows),
            (
                f"From {SIZES[0]} to {SIZES[-1]:,} weights a candidate costs {growth:.0f} times as "
                f"much by the model's columns and {flat:.1f} times as much by whole rows, whose "
                "cost "
                "is that of reading their non-zeros. The paper's microseconds (its scope is not "
                "given; a growth of 1.8) are larger than either, so that fetching features, not "
                "arithmetic, is what sparsity saves: "
                "`benchmarks/scoring/latency.py` measures a list end to end when each column has a "
                "price."
            ),
        ]
    )
