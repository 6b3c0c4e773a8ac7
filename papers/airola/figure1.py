"""Figure 1: time of an oracle call, total training time and test error against rows."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from benchmarks.common.peers import absent_programs, program
from benchmarks.common.timing import cpu_seconds, exponent, repeated

from papers.airola.peers import SVM_RANK, error, svm_rank
from papers.airola.utilities import LAM, SEED, TOL, large, mostly_zero, reuters
from papers.runs import table
from rankine import Dataset, RankSVM
from rankine.losses.active_pairs import HingeRisk
from rankine.losses.pair_queries import PairQueries, query_omega
from rankine.losses.pairwise.hinge import Hinge
from rankine.metrics import evaluate

TITLE = "Figure 1: oracle, training time and test error against rows"
SMOKE = {"largest": 1_000, "test": 500, "reuters_test": 500, "patience": 0.05, "whole": 0.1}
QUICK = {
    "largest": 8_000, "test": 2_000, "reuters_test": 4_000, "patience": 0.3, "whole": 1.0
}  # fmt: skip
FULL = {
    "largest": 512_000, "test": 20_000, "reuters_test": 4_840, "patience": 4.0, "whole": 80.0
}  # fmt: skip

ORACLES = ("tree", "levels", "pairs")
REPETITIONS = 3
PAPER = (
    "The paper, 512,000 rows of RCV1 on a processor of 2006: 18 minutes with the tree, 83 hours "
    "with SVMrank, 122 hours over all pairs."
)


def oracle_times(data, scores, known, patience):
    """Measure the CPU seconds of one call of each oracle; slow ones stop at smaller sizes."""
    queries = PairQueries.from_dataset(data, np.ones(1))
    omega = query_omega("pair", queries.totals, queries)
    seconds = {}
    for name in ORACLES:
        # Four times the last call is what a doubling costs at worst.
        if known and (name not in known or 4 * known[name]["median"] > patience):
            continue
        risk = HingeRisk(Hinge(), queries, omega, name, 1)
        seconds[name], _ = repeated(lambda r=risk: r.evaluate(scores), REPETITIONS, warm=not known)
    return seconds


def fit_and_test(data, task, **parameters):
    """Fit once; return seconds, iterations, gap, test error and weights."""
    seconds, ranker = cpu_seconds(
        lambda: RankSVM(l2=2 * LAM, tol=TOL, n_threads=1, **parameters).fit(data)
    )
    return {
        "seconds": seconds,
        "iterations": int(ranker.n_iter_),
        "gap": ranker.solution_.certificate["gap"],
        "test_error": float(evaluate("pairwise-error", task.y_test, task.X_test @ ranker.coef_)),
    }, ranker.coef_


def curve(task, patience, whole):
    """Measure all sizes of one task; slow oracles stop when the next fit may exceed ``whole`` s."""
    sizes = [1000 * 2**k for k in range(20) if 1000 * 2**k <= len(task.y)]
    entries, results, slow = [], {}, {"levels": True, "pairs": whole > 0}
    for m in sizes:
        data = Dataset.from_arrays(task.X[:m], task.y[:m])
        entry = {"rows": m, "levels": len(np.unique(data.y)), "fit": {}}
        entry["fit"]["tree"], coef = fit_and_test(data, task)
        results = oracle_times(data, data.X @ coef, results, patience)
        entry["oracle"] = results
        entry["fit"]["squared hinge"], _ = fit_and_test(data, task, loss="squared_hinge")
        for name, limit in (("levels", min(whole, 30.0)), ("pairs", whole)):
            if not slow[name]:
                continue
            entry["fit"][name], _ = fit_and_test(data, task, oracle=name)
            slow[name] = 4.5 * entry["fit"][name]["seconds"] < limit
        entries.append(entry)
        print(entry, file=sys.stderr, flush=True)
    return entries


def svm_rank_curve(task, whole):
    """Measure SVMrank on files of the same rows, up to ``whole`` s; one run each."""
    path, results = program(SVM_RANK), []
    while path and (not results or 4.5 * results[-1]["seconds"] < whole):
        m = 1000 * 2 ** len(results)
        if m > len(task.y):
            break
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "data.svm")
            Dataset.from_arrays(task.X[:m], task.y[:m]).save(text)
            seconds, weights = svm_rank(path, text, folder, m)
        coef = np.zeros(task.X.shape[1])
        coef[list(weights)] = list(weights.values())
        results.append({"rows": m, "seconds": seconds, "test_error": error(task, coef)})
        print(results[-1], file=sys.stderr, flush=True)
    return results


def measure(largest, test, reuters_test, patience, whole):
    first = large(largest, test)
    tasks = (first, mostly_zero(first), reuters(largest, reuters_test))
    warm = Dataset.from_arrays(first.X[:1000], first.y[:1000])
    for name in ORACLES:  # compile
        fit_and_test(warm, first, oracle=name)
    fit_and_test(warm, first, loss="squared_hinge")
    return {
        "seeds": [SEED],
        "repetitions": REPETITIONS,
        "absent": absent_programs(SVM_RANK),
        "SVMrank": svm_rank_curve(first, whole),
        "test_rows": {task.name: len(task.y_test) for task in tasks},
        "zeros": {task.name: float(np.mean(task.y == 0)) for task in tasks},
        "tasks": {
            task.name: curve(task, patience, whole if task is first else min(whole, 10.0))
            for task in tasks
        },
    }


def growth(entries, kind, name, field=None):
    """Return the exponent of time over sizes from 4,000 rows on; smaller ones measure overhead."""
    large_sizes = [e for e in entries if e["rows"] >= 4000 and name in e[kind]]
    if len(large_sizes) < 2:
        return None
    values = [e[kind][name][field or "median"] for e in large_sizes]
    return exponent([e["rows"] for e in large_sizes], values)


def markdown(results):
    size = results["parameters"]
    parts = [
        (
            f"lam = {LAM:g}, stop at a certified gap of {TOL:g}; oracle calls are timed at the "
            "scores that training ends with. An oracle is no longer called where a call would take "
            f"{size['patience']:g} s, and trained with no longer where a fit would take "
            f"{size['whole']:g} s on the first set (10 s on the others; by levels 30 s). Times are "
            "CPU seconds from a matrix in memory."
        )
    ]
    for row_index, (task, entries) in enumerate(results["tasks"].items()):
        rows = []
        for e in entries:
            has_peer = e["oracle"]
            calls = [f"{1e3 * has_peer[n]['median']:.3g}" if n in has_peer else "" for n in ORACLES]
            fits = [
                f"{e['fit'][n]['seconds']:.3g}" if n in e["fit"] else ""
                for n in (*ORACLES, "squared hinge")
            ]
            errors = [f"{e['fit'][n]['test_error']:.4f}" for n in ("tree", "squared hinge")]
            rows.append([f"{e['rows']:,}", f"{e['levels']:,}", *calls, *fits, *errors])
        header = ("rows", "labels", *(f"{n}, ms a call" for n in ORACLES),
                  *(f"{n}, s" for n in (*ORACLES, "squared hinge")), "test error, hinge",
                  "test error, squared hinge")  # fmt: skip
        ranked = {e["rows"]: e for e in results["SVMrank"]} if row_index == 0 else {}
        if ranked:
            header = (*header, "SVMrank, s", "test error, SVMrank")
            cells = (ranked.get(e["rows"]) for e in entries)
            rows = [
                [*row, *((f"{c['seconds']:.3g}", f"{c['test_error']:.4f}") if c else ("", ""))]
                for row, c in zip(rows, cells, strict=True)
            ]
        parts += [
            (
                f"**{task}**, test error on {results['test_rows'][task]:,} rows; "
                f"{100 * results['zeros'][task]:.2g} % of the utilities are 0"
            ),
            table(header, rows),
            exponents(entries),
        ]
    return "\n\n".join([*parts, PAPER])


def exponents(entries):
    """Describe the growth of calls and of training."""
    sentences = []
    for kind, names, field in (
        ("oracle", ORACLES, None),
        ("fit", ("tree", "squared hinge"), "seconds"),
    ):
        for name in names:
            value = growth(entries, kind, name, field)
            if value is not None:
                what = "a call of" if kind == "oracle" else "training with"
                sentences.append(f"{what} {name} {value:.2f}")
    return "Exponents of time in rows, from 4,000 rows on: " + ", ".join(sentences) + "."


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    colours = dict(zip((*ORACLES, "squared hinge"), COLOURS, strict=False))
    tasks = results["tasks"]
    figure, axes = panels(3, len(tasks), width=4.1, height=3.1)
    for row, (task, entries) in enumerate(tasks.items()):
        calls, fits, errors = axes[3 * row : 3 * row + 3]
        for name in ORACLES:
            points = [e for e in entries if name in e["oracle"]]
            line(calls, [e["rows"] for e in points], [e["oracle"][name] for e in points], name,
                 colours[name])  # fmt: skip
        for name, colour in colours.items():
            points = [e for e in entries if name in e["fit"]]
            x = [e["rows"] for e in points]
            line(fits, x, [e["fit"][name]["seconds"] for e in points], name, colour)
            if name in ("tree", "squared hinge"):
                labels = "hinge" if name == "tree" else name
                line(errors, x, [e["fit"][name]["test_error"] for e in points], labels, colour)
        axis(calls, "rows", "CPU s an oracle call", title=task, logx=True, logy=True)
        axis(fits, "rows", "CPU s of training", title=task, logx=True, logy=True)
        axis(errors, "rows", "test pairwise error", title=task, logx=True, logy=True)
        for ax in (calls, fits, errors):
            label_lines(ax, apart=0.075)
    return figure
