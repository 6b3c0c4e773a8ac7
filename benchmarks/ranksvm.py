"""RankSVM: training time against rows, compared with liblinear-ranksvm if given.

    python -m benchmarks.ranksvm [--sizes 1000 ... 781265] [--distinct]

``RANKINE_LIBLINEAR_RANKSVM`` names the user's own liblinear-ranksvm ``train``; it is run on the
same rows with C = 1 / (l2 N), N = m (m - 1) / 2, and our l2 is set to make the objectives equal.
Squared hinge is run until it is at or below the peer's final objective (without a peer: to a
certified gap of 2e-5), the hinge to a certified gap of 1e-3. CPU seconds, one thread, data in
memory. Without a peer, times are compared with one product X w + X^T v and one sort on the same
data.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common.machine import save
from benchmarks.common.memory import peak_above_import
from benchmarks.common.peers import program
from benchmarks.common.timing import cpu_seconds, exponent
from benchmarks.common.workloads import rcv1_like
from rankine import Dataset, RankSVM
from rankine.kernels.products import Products

LAM = 1e-5
SIZES = [1000 * 2**k for k in range(10)] + [781_265]


def unit_of_work(data):
    """Measure the CPU seconds of one product each way and one sort."""
    products = Products(data.rows, data.n_features, 1)
    w, v = np.ones(data.n_features), np.ones(data.n_rows)
    return min(
        cpu_seconds(lambda: (products.scores(w), products.transpose_times(v), np.argsort(data.y)))[
            0
        ]
        for _ in range(3)
    )


def peer_run(binary, data, C):
    """Training seconds and final objective that liblinear-ranksvm reports."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "data.svm")
        data.save(text)
        out = subprocess.run(
            [binary, "-t", "1", "-c", repr(C), str(text), str(Path(folder, "model"))],
            capture_output=True,
            text=True,
            check=True,
            env={"OMP_NUM_THREADS": "1"},
        ).stdout
    match = re.findall(r"act (\S+) .* f (\S+) ", out)
    act, value = map(float, match[-1])
    return float(re.search(r"Training-time: (\S+)", out).group(1)), value - act


def measure(data, peer=None):
    """Measure one size: squared hinge, hinge, and the peer."""
    m, pairs = data.n_rows, data.labels.n_pairs
    C = 1 / (2 * LAM * m * (m - 1) / 2)
    l2 = 1 / (C * pairs)
    entry = {"rows": m, "pairs": pairs, "unit_s": unit_of_work(data)}
    target = -np.inf
    if peer:
        entry["peer_s"], entry["peer_objective"] = peer_run(peer, data, C)
        target = entry["peer_objective"] / (C * pairs)

    def reached(progress):
        return progress.values["objective"] <= target

    squared = RankSVM(l2=l2, loss="squared_hinge", tol=1e-9 if peer else 2e-5, n_threads=1)
    entry["squared_s"], squared = cpu_seconds(
        lambda: squared.fit(data, callbacks=[reached] if peer else [])
    )
    hinge = RankSVM(l2=2 * LAM, tol=1e-3, n_threads=1)
    entry["hinge_s"], hinge = cpu_seconds(lambda: hinge.fit(data))
    entry |= {
        "squared_objective": squared.solution_.objective * C * pairs,
        "squared_iterations": squared.n_iter_,
        "hinge_iterations": hinge.n_iter_,
        "hinge_gap": hinge.solution_.certificate["gap"],
    }
    for name in ("squared", "hinge"):
        entry[f"{name}_units"] = entry[f"{name}_s"] / entry["unit_s"]
        if peer:
            entry[f"{name}_ratio"] = entry[f"{name}_s"] / entry["peer_s"]
    return entry


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--distinct", action="store_true", help="make all labels distinct")
    options = parser.parse_args(argv)
    peer = program("RANKINE_LIBLINEAR_RANKSVM")
    X, _, utility = rcv1_like(max(options.sizes))
    if options.distinct:
        utility = utility + 1e-9 * np.random.default_rng(0).random(len(utility))
    measure(Dataset.from_arrays(X[:1000], utility[:1000]))  # compile
    entries = []
    for m in options.sizes:
        entries.append(measure(Dataset.from_arrays(X[:m], utility[:m]), peer))
        print(entries[-1], flush=True)
    results = {"lam": LAM, "distinct": options.distinct, "sizes": entries}
    if len(entries) > 2:
        results["exponents"] = {
            name: exponent([e["rows"] for e in entries], [e[f"{name}_s"] for e in entries])
            for name in ("squared", "hinge")
        }
    results["memory_over_data"] = {
        loss: peak_above_import("RankSVM", {"l2": 2 * LAM, "loss": loss}, max(options.sizes))
        for loss in ("hinge", "squared_hinge")
    }
    save("ranksvm", results)
    return results


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--sizes", "1000"])


def quick():
    main(["--sizes", "4000", "16000", "64000"])


def full():
    main([])


if __name__ == "__main__":
    main()
