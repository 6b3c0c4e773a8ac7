"""Training time beside the programs a user may have: SVMrank, liblinear-ranksvm, dlib."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.common.peers import PYTHON, absent_programs, program
from benchmarks.common.timing import exponent, median_and_range, ratio, repeated, spread
from benchmarks.instead.comparison import run as run_learner
from benchmarks.instead.comparison import versions
from benchmarks.instead.data_files import write

from papers.airola.utilities import LAM, SEED, TOL, large
from papers.runs import table
from rankine import Dataset, RankSVM
from rankine.metrics import evaluate

TITLE = "Comparison with other programs"
SMOKE = {"largest": 1_000, "test": 500, "patience": 0.5, "repetitions": 1}
QUICK = {"largest": 4_000, "test": 1_000, "patience": 5.0, "repetitions": 1}
FULL = {"largest": 256_000, "test": 20_000, "patience": 60.0, "repetitions": 3}

SVM_RANK, LIBLINEAR = "RANKINE_SVM_RANK", "RANKINE_LIBLINEAR_RANKSVM"


def child_seconds(command):
    """Return a program's CPU seconds and its output."""
    usage_before = os.times()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    usage_after = os.times()
    seconds = usage_after.children_user + usage_after.children_system
    return seconds - usage_before.children_user - usage_before.children_system, out.stdout


def svm_rank(path, text, folder, m):
    """Train SVMrank; with -l 2 it counts the share of swapped pairs, so C = 1 / (2 lam)."""
    model = Path(folder, "model")
    seconds_taken, _ = child_seconds(
        [path, "-l", "2", "-c", repr(1 / (2 * LAM)), "-e", repr(TOL), str(text), str(model)]
    )
    weights = {}
    for pair in model.read_text(encoding="utf-8").splitlines()[-1].split()[1:-1]:
        feature, _, value = pair.partition(":")
        weights[int(feature) - 1] = float(value)
    return seconds_taken, weights


def liblinear(path, text, folder, m):
    """Train with C = 1 / (2 lam N), since the program counts N = m (m - 1) / 2 pairs."""
    model = Path(folder, "model")
    C = 1 / (LAM * m * (m - 1))
    seconds_taken, _ = child_seconds([path, "-t", "1", "-c", repr(C), str(text), str(model)])
    body = re.split(r"^w$", model.read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    return seconds_taken, dict(enumerate(map(float, body.split())))


PEERS = {
    "SVMrank": (SVM_RANK, svm_rank),
    "liblinear-ranksvm": (LIBLINEAR, liblinear),
}


def ours(text, task, repetitions, **parameters):
    """Train rankine from the same file, reading included."""

    def fit():
        from rankine import load

        data = load(text, n_features=task.X.shape[1])
        return RankSVM(l2=2 * LAM, tol=TOL, n_threads=1, **parameters).fit(data)

    seconds, ranker = repeated(fit, repetitions, warm=False)
    return {"seconds": seconds, "test_error": error(task, ranker.coef_)}


def error(task, coef):
    """Test pairwise error."""
    return float(evaluate("pairwise-error", task.y_test, task.X_test @ coef))


def two_grades(task, m, patience, repetitions):
    """Compare with dlib, which has only two grades: utilities above the smallest are relevant.

    dlib minimises |w|^2 / 2 + C R(w) to a gap of epsilon in the mean over pairs R; from memory.
    """
    y, y_test = (np.where(v > task.y.min(), 1.0, 0.0) for v in (task.y, task.y_test))
    task = task._replace(y=y, y_test=y_test)
    fit = partial(RankSVM(l2=2 * LAM, tol=TOL, n_threads=1).fit, task.X[:m], y[:m])
    seconds, ranker = repeated(fit, repetitions)
    results = {"rankine, hinge": {"seconds": seconds, "test_error": error(task, ranker.coef_)}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, rows in (("train", slice(m)), ("vali", slice(1))):
            write(folder, part, task.X[rows], y[rows], np.zeros(len(y[rows]), dtype=np.int64))
        write(folder, "test", task.X_test, y_test, np.zeros(len(y_test), dtype=np.int64))
        setting = {"C": 1 / (2 * LAM), "epsilon": TOL}
        runs = run_learner(folder, "dlib", [setting] * repetitions, 4 * patience, 0)
        reasons = [run["reason"] for run in runs if "reason" in run]
        if reasons:
            results["dlib"] = {"reason": reasons[0]}
        else:
            scores = np.load(folder / f"{runs[0]['id']}.test.npy")
            results["dlib"] = {
                "seconds": spread(run["cpu_seconds"] for run in runs),
                "test_error": float(evaluate("pairwise-error", y_test, scores)),
            }
    return results


def measure(largest, test, patience, repetitions):
    task = large(largest, test)
    results, slow = [], set()
    dlib = versions()["dlib"]
    for m in [1000 * 2**k for k in range(20) if 1000 * 2**k <= largest]:
        data = Dataset.from_arrays(task.X[:m], task.y[:m])
        entry = {"rows": m, "methods": {}}
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "data.svm")
            data.save(text)
            if m == 1000:
                ours(text, task, 1), ours(text, task, 1, loss="squared_hinge")  # compile
            for loss in ("hinge", "squared_hinge"):
                name = f"rankine, {loss.replace('_', ' ')}"
                entry["methods"][name] = ours(text, task, repetitions, loss=loss)
            for name, (variable, run) in PEERS.items():
                path = program(variable)
                if path is None or name in slow:
                    continue
                begun = time.monotonic()
                runs = [run(path, text, folder, m) for _ in range(repetitions)]
                elapsed, weights = (time.monotonic() - begun) / repetitions, runs[0][1]
                coef = np.zeros(task.X.shape[1])
                active = {j: v for j, v in weights.items() if j < len(coef)}
                coef[list(active)] = list(active.values())
                seconds = spread(seconds_taken for seconds_taken, _ in runs)
                entry["methods"][name] = {"seconds": seconds, "test_error": error(task, coef)}
                if 4 * elapsed > patience:
                    slow.add(name)
        if dlib and "dlib" not in slow:
            begun = time.monotonic()
            entry["two_grades"] = two_grades(task, m, patience, repetitions)
            slower = 4 * (time.monotonic() - begun) / repetitions > patience
            if slower or "reason" in entry["two_grades"]["dlib"]:
                slow.add("dlib")
        results.append(entry)
        print(entry, flush=True)
    return {
        "seeds": [SEED],
        "repetitions": repetitions,
        "sizes": results,
        "absent": [
            *absent_programs(*(variable for variable, _ in PEERS.values())),
            *([] if dlib else [f"dlib (no dlib in the Python that {PYTHON} names)"]),
        ],
    }


def cell(measured):
    """Format seconds and test error."""
    return f"{median_and_range(measured['seconds'], '.3g')}; {measured['test_error']:.4f}"


def markdown(results):
    entries = results["sizes"]
    names = ["rankine, hinge", "rankine, squared hinge"]
    names += [n for n in PEERS if n in entries[0]["methods"]]
    rows = []
    for e in entries:
        cells = []
        for name in names:
            ours_name = e["methods"].get(name)
            cells.append(cell(ours_name) if ours_name else "")
        rows.append([f"{e['rows']:,}", *cells])
    sentences = [
        (
            "CPU seconds in all, reading the text included, median (lowest to highest); then test "
            f"error; lam = {LAM:g}, tol = {TOL:g} on the mean over pairs. "
            "liblinear-ranksvm minimises the squared hinge and counts tied pairs in its C, so that "
            "it is regularised more strongly where labels are tied."
        )
    ]
    ratios = []
    for name in names[2:]:
        shown_sizes = [e for e in entries if name in e["methods"]]
        last = shown_sizes[-1]["methods"]
        ours_name = "rankine, squared hinge" if name == "liblinear-ranksvm" else "rankine, hinge"
        sentence = (
            f"{name} takes {ratio(last[name]['seconds'], last[ours_name]['seconds']):.1f} times as "
            f"long as rankine at {shown_sizes[-1]['rows']:,} rows"
        )
        grown = shown_sizes[2:] if len(shown_sizes) > 3 else shown_sizes
        if len(grown) > 1:  # a slow program is measured on few sizes
            slope = exponent(
                [e["rows"] for e in grown], [e["methods"][name]["seconds"]["median"] for e in grown]
            )
            sentence += f" (exponent {slope:.2f})"
        ratios.append(sentence)
    parts = [*sentences, table(("rows", *names), rows)]
    if ratios:
        parts.append("; ".join(ratios) + ".")
    return "\n\n".join([*parts, *words_of_two_grades(entries)])


def words_of_two_grades(entries):
    """Describe the comparison with dlib, if it was run."""
    shown_sizes = [e for e in entries if "two_grades" in e]
    if not shown_sizes:
        return []
    rows = []
    for e in shown_sizes:
        cells = []
        for name in ("rankine, hinge", "dlib"):
            ours_name = e["two_grades"][name]
            cells.append(ours_name["reason"] if "reason" in ours_name else cell(ours_name))
        rows.append([f"{e['rows']:,}", *cells])
    sentences = [
        (
            "dlib's trainer knows relevant rows and others, no utilities: here every utility "
            "above the smallest is relevant, for both. CPU seconds of training from rows in "
            "memory, and test error."
        ),
        table(("rows", "rankine, hinge", "dlib"), rows),
    ]
    measured_sizes = [e for e in shown_sizes if "reason" not in e["two_grades"]["dlib"]]
    if measured_sizes:
        last = measured_sizes[-1]
        ours, dlib = (last["two_grades"][name]["seconds"] for name in ("rankine, hinge", "dlib"))
        times = f"{ratio(dlib, ours):.1f} times"
        sentences.append(f"dlib takes {times} as long as rankine at {last['rows']:,} rows.")
    return sentences


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    figure, (ax,) = panels(width=6.0, height=3.8)
    names = ["rankine, hinge", "rankine, squared hinge", *PEERS]
    for colour, name in zip(COLOURS, names, strict=False):
        shown_sizes = [e for e in results["sizes"] if name in e["methods"]]
        if shown_sizes:
            values = [e["methods"][name]["seconds"]["median"] for e in shown_sizes]
            line(ax, [e["rows"] for e in shown_sizes], values, name, colour)
    axis(ax, "rows", "CPU s, reading included", logx=True, logy=True)
    label_lines(ax)
    return figure
