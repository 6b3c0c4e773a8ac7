"""Training time beside the programs a user may have: SVMrank, liblinear-ranksvm, dlib."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.airola.utilities import LAM, SEED, TOL, generated
from benchmarks.papers import table
from benchmarks.peers import absent_programs, program
from benchmarks.timing import cpu_seconds, exponent
from rankine import Dataset, RankSVM
from rankine.data.formats import writer_for
from rankine.metrics import evaluate

TITLE = "Beside other programs"
QUICK = {"largest": 4_000, "test": 1_000, "patience": 5.0}
FULL = {"largest": 256_000, "test": 20_000, "patience": 60.0}

SVM_RANK, LIBLINEAR, DLIB = "RANKINE_SVM_RANK", "RANKINE_LIBLINEAR_RANKSVM", "RANKINE_DLIB"


def child_seconds(command):
    """CPU seconds of a program and its output."""
    before = os.times()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    after = os.times()
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system, out.stdout


def svm_rank(path, text, folder, m):
    """-l 2 counts the share of swapped pairs, so that C = 1 / (2 lam); its own test error later."""
    model = Path(folder, "model")
    taken, _ = child_seconds(
        [path, "-l", "2", "-c", repr(1 / (2 * LAM)), "-e", repr(TOL), str(text), str(model)]
    )
    weights = {}
    for pair in model.read_text(encoding="utf-8").splitlines()[-1].split()[1:-1]:
        feature, _, value = pair.partition(":")
        weights[int(feature) - 1] = float(value)
    return taken, weights


def liblinear(path, text, folder, m):
    """Squared hinge with C = 1 / (2 lam N), N = m (m - 1) / 2 as the program counts pairs."""
    model = Path(folder, "model")
    C = 1 / (LAM * m * (m - 1))
    taken, _ = child_seconds([path, "-t", "1", "-c", repr(C), str(text), str(model)])
    body = re.split(r"^w$", model.read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    return taken, dict(enumerate(map(float, body.split())))


def dlib(path, text, folder, m):
    """A program called as: program DATA MODEL LAM TOL; it writes one weight a line."""
    model = Path(folder, "model")
    taken, _ = child_seconds([path, str(text), str(model), repr(LAM), repr(TOL)])
    return taken, dict(enumerate(map(float, model.read_text(encoding="utf-8").split())))


PEERS = {
    "SVMrank": (SVM_RANK, svm_rank),
    "liblinear-ranksvm": (LIBLINEAR, liblinear),
    "dlib": (DLIB, dlib),
}


def ours(text, task, **parameters):
    """The same from the same file: reading, training and test error."""

    def fit():
        from rankine import load

        data = load(text, n_features=task.X.shape[1])
        return RankSVM(lam=LAM, tol=TOL, n_threads=1, **parameters).fit(data)

    seconds, ranker = cpu_seconds(fit)
    return {"seconds": seconds, "test_error": error(task, ranker.coef_)}


def error(task, coef):
    """Test pairwise error."""
    return float(evaluate("pairwise-error", task.y_test, task.X_test @ coef))


def measure(largest, test, patience):
    task = generated(largest, test)
    found, slow = [], set()
    for m in [1000 * 2**k for k in range(20) if 1000 * 2**k <= largest]:
        data = Dataset.from_arrays(task.X[:m], task.y[:m])
        entry = {"rows": m, "methods": {}}
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "data.svm")
            writer_for(text).write_blocks([data], text)
            if m == 1000:
                ours(text, task), ours(text, task, loss="squared_hinge")  # compile
            entry["methods"]["rankine, hinge"] = ours(text, task)
            entry["methods"]["rankine, squared hinge"] = ours(text, task, loss="squared_hinge")
            for name, (variable, run) in PEERS.items():
                path = program(variable)
                if path is None or name in slow:
                    continue
                begun = time.monotonic()
                seconds, weights = run(path, text, folder, m)
                coef = np.zeros(task.X.shape[1])
                kept = {j: v for j, v in weights.items() if j < len(coef)}
                coef[list(kept)] = list(kept.values())
                entry["methods"][name] = {"seconds": seconds, "test_error": error(task, coef)}
                if 4 * (time.monotonic() - begun) > patience:
                    slow.add(name)
        found.append(entry)
        print(entry, flush=True)
    return {
        "seeds": [SEED],
        "repetitions": 1,
        "sizes": found,
        "absent": absent_programs(*(variable for variable, _ in PEERS.values())),
    }


def words(results):
    entries = results["sizes"]
    names = ["rankine, hinge", "rankine, squared hinge"]
    names += [n for n in PEERS if n in entries[0]["methods"]]
    rows = []
    for e in entries:
        cells = []
        for name in names:
            own = e["methods"].get(name)
            cells.append(f"{own['seconds']:.2f} ({own['test_error']:.4f})" if own else "")
        rows.append([f"{e['rows']:,}", *cells])
    said = [
        (
            f"CPU seconds in all, reading the text included, and test error; lam = {LAM:g}, tol = "
            f"{TOL:g} on the mean over pairs. liblinear-ranksvm minimises the squared hinge and "
            "counts tied pairs in its C, so that it is regularised more strongly where labels "
            "are tied."
        )
    ]
    ratios = []
    for name in names[2:]:
        kept = [e for e in entries if name in e["methods"]]
        last = kept[-1]["methods"]
        own = "rankine, squared hinge" if name == "liblinear-ranksvm" else "rankine, hinge"
        grown = kept[2:] if len(kept) > 3 else kept
        slope = exponent([e["rows"] for e in grown], [e["methods"][name]["seconds"] for e in grown])
        ratios.append(
            f"{name} takes {last[name]['seconds'] / last[own]['seconds']:.1f} times as long as "
            f"rankine at {kept[-1]['rows']:,} rows (exponent {slope:.2f})"
        )
    parts = [*said, table(("rows", *names), rows)]
    return "\n\n".join([*parts, "; ".join(ratios) + "."] if ratios else parts)


def draw(results):
    from benchmarks.drawing import COLOURS, axis, label_lines, line, panels

    figure, (ax,) = panels(width=6.0, height=3.8)
    names = ["rankine, hinge", "rankine, squared hinge", *PEERS]
    for colour, name in zip(COLOURS, names, strict=False):
        kept = [e for e in results["sizes"] if name in e["methods"]]
        if kept:
            values = [e["methods"][name]["seconds"] for e in kept]
            line(ax, [e["rows"] for e in kept], values, name, colour)
    axis(ax, "rows", "CPU s, reading included", logx=True, logy=True)
    label_lines(ax)
    return figure
