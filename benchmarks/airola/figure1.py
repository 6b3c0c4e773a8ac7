"""Figure 1: time of an oracle call, total training time and test error against rows."""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.airola.utilities import LAM, SEED, TOL, distinct, generated, reuters
from benchmarks.papers import table
from benchmarks.timing import cpu_seconds, exponent, repeated
from rankine import Dataset, RankSVM
from rankine.losses import Hinge
from rankine.losses.active_pairs import HingeRisk
from rankine.losses.pair_queries import PairQueries, pair_scale
from rankine.metrics import evaluate

TITLE = "Figure 1: oracle, training time and test error against rows"
QUICK = {"largest": 8_000, "test": 2_000, "reuters_test": 4_000, "patience": 0.3}
FULL = {"largest": 512_000, "test": 20_000, "reuters_test": 4_840, "patience": 2.0}

ORACLES = ("tree", "levels", "pairs")
REPETITIONS = 3
PAPER = (
    "The paper, 512,000 rows of RCV1 on a processor of 2006: 18 minutes with the tree, 83 hours "
    "with SVMrank, 122 hours over all pairs."
)


def oracle_times(data, known, patience):
    """CPU seconds of one call by each oracle at random scores; those too slow stop growing."""
    queries = PairQueries.build(data, np.ones(1))
    omega = pair_scale("pair", queries.totals, queries)
    scores = np.random.default_rng(SEED).normal(size=data.n_rows)
    found = {}
    for name in ORACLES:
        # Four times the last call is what a doubling costs at worst.
        if known and (name not in known or 4 * known[name]["median"] > patience):
            continue
        risk = HingeRisk(Hinge(), queries, omega, name, 1)
        found[name], _ = repeated(lambda r=risk: r.evaluate(scores), REPETITIONS)
    return found


def fit_and_test(data, task, **parameters):
    """Seconds, iterations, gap and test error of a fit."""
    seconds, ranker = cpu_seconds(
        lambda: RankSVM(l2=2 * LAM, tol=TOL, n_threads=1, **parameters).fit(data)
    )
    return {
        "seconds": seconds,
        "iterations": int(ranker.n_iter_),
        "gap": ranker.solution_.certificate["gap"],
        "test_error": float(evaluate("pairwise-error", task.y_test, task.X_test @ ranker.coef_)),
    }


def curve(task, patience):
    """All sizes of one task."""
    sizes = [1000 * 2**k for k in range(20) if 1000 * 2**k <= len(task.y)]
    entries, known = [], {}
    slow = {"levels": True, "pairs": True}  # oracles whose whole fits are still run
    for m in sizes:
        data = Dataset.from_arrays(task.X[:m], task.y[:m])
        known = oracle_times(data, known, patience)
        entry = {"rows": m, "levels": len(np.unique(data.y)), "oracle": known, "fit": {}}
        entry["fit"]["tree"] = fit_and_test(data, task)
        entry["fit"]["squared hinge"] = fit_and_test(data, task, loss="squared_hinge")
        for name in ("levels", "pairs"):
            calls = entry["fit"]["tree"]["iterations"]
            slow[name] = slow[name] and name in known
            if slow[name] and calls * known[name]["median"] < 4 * patience:
                entry["fit"][name] = fit_and_test(data, task, oracle=name)
            else:
                slow[name] = False
        entries.append(entry)
        print(entry, file=sys.stderr, flush=True)
    return entries


def measure(largest, test, reuters_test, patience):
    tasks = {
        "generated": generated(largest, test),
        "all labels distinct": distinct(largest, test),
        "Reuters-21578": reuters(largest, reuters_test),
    }
    warm = Dataset.from_arrays(tasks["generated"].X[:1000], tasks["generated"].y[:1000])
    for name in ORACLES:  # compile
        fit_and_test(warm, tasks["generated"], oracle=name)
    fit_and_test(warm, tasks["generated"], loss="squared_hinge")
    return {
        "seeds": [SEED],
        "repetitions": REPETITIONS,
        "test_rows": {name: len(task.y_test) for name, task in tasks.items()},
        "tasks": {name: curve(task, patience) for name, task in tasks.items()},
    }


def growth(entries, kind, name, field=None):
    """Exponent over the sizes from 4,000 rows on (smaller ones measure overhead)."""
    kept = [e for e in entries if e["rows"] >= 4000 and name in e[kind]]
    if len(kept) < 2:
        return None
    values = [e[kind][name][field or "median"] for e in kept]
    return exponent([e["rows"] for e in kept], values)


def words(results):
    parts = [
        (
            f"lam = {LAM:g}, stop at a certified gap of {TOL:g}; oracle calls are timed at random "
            f"scores. A method is no longer run where a call or a whole fit would take too long "
            f"({results['parameters']['patience']:g} s a call). Times are CPU seconds from a "
            "matrix in memory."
        )
    ]
    for task, entries in results["tasks"].items():
        rows = []
        for e in entries:
            known = e["oracle"]
            calls = [f"{1e3 * known[n]['median']:.3g}" if n in known else "" for n in ORACLES]
            fits = [
                f"{e['fit'][n]['seconds']:.3g}" if n in e["fit"] else ""
                for n in (*ORACLES, "squared hinge")
            ]
            errors = [f"{e['fit'][n]['test_error']:.4f}" for n in ("tree", "squared hinge")]
            rows.append([f"{e['rows']:,}", f"{e['levels']:,}", *calls, *fits, *errors])
        header = ("rows", "labels", *(f"{n}, ms a call" for n in ORACLES),
                  *(f"{n}, s" for n in (*ORACLES, "squared hinge")), "test error, hinge",
                  "test error, squared hinge")  # fmt: skip
        parts += [
            f"**{task}**, test error on {results['test_rows'][task]:,} rows",
            table(header, rows),
            exponents(entries),
        ]
    return "\n\n".join([*parts, PAPER])


def exponents(entries):
    """Growth of calls and of training."""
    said = []
    for kind, names, field in (
        ("oracle", ORACLES, None),
        ("fit", ("tree", "squared hinge"), "seconds"),
    ):
        for name in names:
            value = growth(entries, kind, name, field)
            if value is not None:
                what = "a call of" if kind == "oracle" else "training with"
                said.append(f"{what} {name} {value:.2f}")
    return "Exponents of time in rows, from 4,000 rows on: " + ", ".join(said) + "."


def draw(results):
    from benchmarks.drawing import COLOURS, axis, label_lines, line, panels

    colours = dict(zip((*ORACLES, "squared hinge"), COLOURS, strict=False))
    tasks = results["tasks"]
    figure, axes = panels(3, len(tasks), width=4.1, height=3.1)
    for row, (task, entries) in enumerate(tasks.items()):
        calls, fits, errors = axes[3 * row : 3 * row + 3]
        for name in ORACLES:
            kept = [e for e in entries if name in e["oracle"]]
            line(calls, [e["rows"] for e in kept], [e["oracle"][name] for e in kept], name,
                 colours[name])  # fmt: skip
        for name, colour in colours.items():
            kept = [e for e in entries if name in e["fit"]]
            x = [e["rows"] for e in kept]
            line(fits, x, [e["fit"][name]["seconds"] for e in kept], name, colour)
            if name in ("tree", "squared hinge"):
                shown = "hinge" if name == "tree" else name
                line(errors, x, [e["fit"][name]["test_error"] for e in kept], shown, colour)
        axis(calls, "rows", "CPU s an oracle call", title=task, logx=True, logy=True)
        axis(fits, "rows", "CPU s of training", title=task, logx=True, logy=True)
        axis(errors, "rows", "test pairwise error", title=task, logx=True, logy=True)
        for ax in (calls, fits, errors):
            label_lines(ax, apart=0.075)
    return figure
