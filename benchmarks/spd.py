"""SPD: nanoseconds a step, index time, and time against data size, compared with sofia-ml if given.

    RANKINE_SOFIA_ML=sofia-ml python -m benchmarks.spd [--rows 781265] [--text FILE]

``RANKINE_SOFIA_ML`` names the user's own sofia-ml binary; ``--text`` a LETOR file with the same
rows. CPU time, best of several runs, one thread.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common.machine import save
from benchmarks.common.peers import program
from benchmarks.common.workloads import letor_like, rcv1_like
from rankine import Dataset, SPDRanker
from rankine.metrics import evaluate
from rankine.samplers.draw import pair_sampler
from rankine.solvers.pair_sgd import Span, solve_pairs

LEARNERS = ("pegasos", "sgd-svm", "passive-aggressive", "logistic", "hybrid", "romma")


def measure(data, steps, repeats, **parameters):
    """Measure the best CPU seconds of the index and of the steps."""
    ranker = SPDRanker(n_steps=steps, random_state=1, **parameters)
    best_index, best_steps = np.inf, np.inf
    for _ in range(repeats + 1):
        copy = Dataset(data.X, data.y, data.qid)
        begun = time.process_time()
        sampler = pair_sampler(copy, np.ones(copy.n_queries), sampling=ranker.sampling)
        indexed = time.process_time()
        spans, phases = [Span(copy.rows, sampler, steps)], ranker.plan().phases(steps)
        solution = solve_pairs(spans, phases, np.zeros(data.n_features), 1)
        ended = time.process_time()
        best_index = min(best_index, indexed - begun)
        best_steps = min(best_steps, ended - indexed)
    return best_index, best_steps, solution.coef


def sofia_seconds(binary, text, learner, steps):
    """Run sofia-ml; return the CPU seconds that it reports for its roc loop, and its weights."""
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run(
            [
                binary, "--learner_type", learner, "--loop_type", "roc", "--lambda", "0.0001",
                "--iterations", str(steps), "--dimensionality", "50000",
                "--training_file", text, "--model_out", f"{folder}/m",
            ],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        weights = np.array(Path(folder, "m").read_text(encoding="utf-8").split(), dtype=float)
    return float(re.search(r"complete training: ([0-9.e-]+)", out).group(1)), weights[1:]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=781_265)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--text")
    options = parser.parse_args(argv)
    X, binary, utility = rcv1_like(options.rows + 20_000)
    held_X, held_y = X[options.rows :], binary[options.rows :]
    X, binary, utility = X[: options.rows], binary[: options.rows], utility[: options.rows]
    qid = np.ones(options.rows, dtype=np.int64)
    results = {"rows": options.rows, "steps": options.steps, "learners": {}, "sizes": {}}
    tasks = {
        "rare topic": Dataset(X, binary, qid),
        "real-valued": Dataset(X, utility, qid),
        "letor": Dataset(*letor_like()),
    }
    for task, data in tasks.items():
        for learner in LEARNERS:
            index, seconds, coef = measure(
                data, options.steps, options.repeats, solver=learner.replace("-", "_")
            )
            short = measure(data, 100_000, options.repeats, solver=learner.replace("-", "_"))
            entry = {
                "index_s": index,
                "ns_per_step": 1e9 * seconds / options.steps,
                "index_and_100k_steps_s": short[0] + short[1],
            }
            if task == "rare topic":
                entry["roc_area"] = float(evaluate("roc_area", held_y, held_X @ coef))
            results["learners"][f"{task} {learner}"] = entry
            print(task, learner, {k: round(v, 5) for k, v in entry.items()}, flush=True)
    for size in (10_000, 30_000, 100_000, 300_000, options.rows):
        part = Dataset(X[:size], binary[:size], qid[:size])
        index, seconds, _ = measure(part, 100_000, options.repeats)
        results["sizes"][size] = {"index_s": index, "steps_s": seconds}
        print(size, results["sizes"][size], flush=True)
    sofia = program("RANKINE_SOFIA_ML")
    if sofia:
        compare_with_sofia(sofia, options, tasks["rare topic"], held_X, held_y, results)
    save("spd", results)


def compare_with_sofia(binary, options, data, held, held_y, results):
    """Train sofia-ml and rankine on the same rows with the same number of steps."""
    with tempfile.TemporaryDirectory() as folder:
        text = options.text or f"{folder}/train.txt"
        if not options.text:
            data.save(text)
        results["sofia"] = {}
        for learner in ("pegasos", "sgd-svm", "passive-aggressive", "romma"):
            theirs = min(
                (sofia_seconds(binary, text, learner, options.steps) for _ in range(2)),
                key=lambda pair: pair[0],
            )
            _, ours, _ = measure(
                data,
                options.steps,
                options.repeats,
                solver=learner.replace("-", "_"),
                average=False,
            )
            weights = np.zeros(data.n_features)
            weights[: min(len(theirs[1]), data.n_features)] = theirs[1][: data.n_features]
            results["sofia"][learner] = {
                "theirs_ns": 1e9 * theirs[0] / options.steps,
                "ours_ns": 1e9 * ours / options.steps,
                "ratio": ours / theirs[0],
                "their_roc_area": float(evaluate("roc_area", held_y, held @ weights)),
            }
            print("sofia", learner, results["sofia"][learner], flush=True)


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--rows", "2000", "--steps", "2000", "--repeats", "1"])


def quick():
    """Measure a tenth of the rows."""
    main(["--rows", "60000", "--steps", "200000", "--repeats", "2"])


def full():
    """Measure the papers' size."""
    main([])


if __name__ == "__main__":
    main()
