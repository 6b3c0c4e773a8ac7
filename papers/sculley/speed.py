"""Section 4: training time on LETOR beside SVM-struct-rank (SVMrank) and an exact RankSVM."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.common.peers import absent_programs, program
from benchmarks.common.real_data import letor_collections
from benchmarks.common.timing import median_and_range, repeated, spread

from papers.airola.peers import SVM_RANK
from papers.letor_protocol import METRIC
from papers.runs import table
from papers.sculley.figure1 import AS_PRINTED, LEARNERS
from rankine import RankSVM, SPDRanker
from rankine.metrics import evaluate
from rankine.transforms.scaling import Scaling

TITLE = "Section 4: training time on LETOR"
SMOKE = {"folds": 1, "repetitions": 1, "patience": 0.5}
QUICK = {"folds": 1, "repetitions": 1, "patience": 2.0}
FULL = {"folds": 3, "repetitions": 3, "patience": 10.0}

STEPS = 100_000
#: The gap that exact solvers stop at, relative to the loss of no weights at all.
TOL = 1e-3
EXACT, STRUCT, LIGHT = "RankSVM, rankine", "SVMrank", "SVM-light"
SVM_LIGHT = "RANKINE_SVM_LIGHT"


def seconds_of(ranker, train, repetitions):
    """Measure the CPU seconds of a fit to rows in memory, index included."""
    return repeated(lambda: ranker.fit(train), repetitions)[0]["median"]


def program_seconds(variable, options, train, patience):
    """Run a program; return its own report of training time, without reading and writing.

    One that is stopped has taken at least the CPU seconds that it had by then.
    """
    with tempfile.TemporaryDirectory() as folder:
        text, model = Path(folder, "train.txt"), Path(folder, "model")
        replace(train, qid=train.queries.codes + 1, query_index=None, columns={}).save(text)
        command = [program(variable), *options, str(text), str(model)]
        usage_before = os.times().children_user
        try:
            completed = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=patience
            )
        except subprocess.TimeoutExpired:
            return os.times().children_user - usage_before, False
    reported = re.search(r"Runtime in cpu-seconds: ([\d.]+)", completed.stdout).group(1)
    return float(reported), True


def one_fold(fold, repetitions, patience):
    """Measure every method's CPU seconds; validation chooses the l2 of exact methods."""
    train, vali, _ = (Scaling("query").apply(part) for part in fold[1:])
    exact = [RankSVM(l2=l2, tol=TOL, n_threads=1).fit(train) for l2 in RankSVM().letor_grid["l2"]]
    values = [evaluate(METRIC, vali.y, one.predict(vali), vali.queries) for one in exact]
    chosen = exact[int(np.argmax(values))]
    seconds_by_method = {
        f"SPD {name}": seconds_of(
            SPDRanker(solver, n_steps=STEPS, random_state=0, **AS_PRINTED), train, repetitions
        )
        for name, solver in LEARNERS.items()
    }
    seconds_by_method[EXACT] = seconds_of(chosen, train, repetitions)
    l2, pairs, stopped = chosen.l2_, train.labels.n_pairs, []
    asked = {
        STRUCT: (SVM_RANK, ["-l", "2", "-c", repr(1 / l2), "-e", repr(TOL)]),
        LIGHT: (SVM_LIGHT, ["-z", "p", "-c", repr(1 / (l2 * pairs)), "-e", repr(TOL)]),
    }
    for name, (variable, options) in asked.items():
        if program(variable) is not None:
            seconds_by_method[name], done = program_seconds(variable, options, train, patience)
            if not done:
                stopped.append(name)
    return seconds_by_method, stopped, train.n_rows


def measure(folds, repetitions, patience):
    folders, absent = letor_collections()
    tasks = {}
    for folder in folders:
        count = min(folds, folder.n_folds)
        runs = [one_fold(folder.fold(k), repetitions, patience) for k in range(count)]
        tasks[folder.name] = {
            "rows": int(np.mean([rows for _, _, rows in runs])),
            "seconds": {
                name: spread(fold_seconds[name] for fold_seconds, _, _ in runs)
                for name in runs[0][0]
            },
            "stopped": sorted({name for _, stopped, _ in runs for name in stopped}),
        }
        print(folder.name, file=sys.stderr, flush=True)
    return {
        "seeds": [0],
        "repetitions": repetitions,
        "tasks": tasks,
        "absent": [
            *absent_programs(SVM_RANK, SVM_LIGHT),
            *(f"LETOR task {task}" for task in absent),
        ],
    }


def times_faster(task, exact=STRUCT):
    """Return the exact solver's seconds over those of the slowest SPD learner."""
    seconds = task["seconds"]
    slowest = max(seconds[f"SPD {name}"]["median"] for name in LEARNERS)
    return seconds[exact]["median"] / slowest


def markdown(results):
    how = (
        f"CPU seconds of one fit to a training part in memory: {STEPS:,} steps as printed, index "
        f"included; exact solvers to a relative gap of {TOL:g} with the l2 that validation MAP "
        "chooses in each fold (SVMrank: `-l 2 -c 1/l2`; SVM-light: `-z p`, C = 1 / (l2 x pairs); "
        "their own clocks, without reading; *stopped* after "
        f"{results['parameters']['patience']:.0f} s on the wall). Median over folds (lowest to "
        "highest)."
    )
    rows = [
        [
            f"{name}, {task['rows']:,} rows",
            method + (" (stopped)" if method in task["stopped"] else ""),
            median_and_range(task_result, ".3f"),
        ]
        for name, task in results["tasks"].items()
        for method, task_result in task["seconds"].items()
    ]
    sentences = [
        f"on {name} {'more than ' if exact in task['stopped'] else ''}"
        f"{times_faster(task, exact):.1f} times faster than {exact}"
        for name, task in results["tasks"].items()
        for exact in (STRUCT, LIGHT, EXACT)
        if exact in task["seconds"]
    ]
    return "\n\n".join([
        how,
        table(("training part", "method", "CPU s"), rows, left=2),
        (f"The slowest SPD learner is {'; '.join(sentences)} (paper: up to 5 times faster than "
        "SVM-struct-rank and 100 times than SVM-light, .2 to .3 s a fit on a laptop of 2009)."),
    ])  # fmt: skip
