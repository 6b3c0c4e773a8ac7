"""NDCG@10 of 10,000 queries x 100 documents: CPU time against ranx and scikit-learn.

    python -m benchmarks.metrics [--repeat 7]

Every tool evaluates the same labels (0-4, exponential gain) and scores in a process of its own, on
one core, best of ``--repeat`` by CPU time after a warm-up that compiles; rounds alternate between
tools, so that a busy machine hits all alike. Building ranx's dictionaries is not counted. The
values must agree. ranx is measured where the Python that ``RANKINE_PEERS_PYTHON`` names has it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from benchmarks.common.machine import save
from benchmarks.common.peers import peers_python

DOCUMENTS = 100

DATA = """
import json, sys, time
import numpy as np
rng = np.random.default_rng(0)
y = rng.integers(0, 5, ({queries}, {documents}))
s = rng.normal(size=({queries}, {documents}))
"""

TOOLS = {
    "rankine": """
from rankine.metrics import evaluate
labels, scores = y.ravel().astype(float), s.ravel()
qid = np.repeat(np.arange(len(y)), y.shape[1])
work = lambda: evaluate("ndcg@10", labels, scores, qid)
""",
    "ranx": """
from ranx import Qrels, Run, evaluate
docs = [f"d{i}" for i in range(y.shape[1])]
qrels = Qrels({f"q{q}": dict(zip(docs, row.tolist())) for q, row in enumerate(y)})
run = Run({f"q{q}": dict(zip(docs, row.tolist())) for q, row in enumerate(s)})
work = lambda: evaluate(qrels, run, "ndcg_burges@10")
""",
    "scikit-learn": """
from sklearn.metrics import ndcg_score
gains = 2.0**y - 1
work = lambda: ndcg_score(gains, s, k=10, ignore_ties=True)
""",
}

CHILD = """
value = work()
seconds = []
for _ in range(3):
    start = time.process_time()
    work()
    seconds.append(time.process_time() - start)
print(json.dumps([min(seconds), float(value)]))
"""


def run(tool, python, queries):
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "RANKINE_NUM_THREADS": "1"}
    data = DATA.format(queries=queries, documents=DOCUMENTS)
    command = [python, "-W", "ignore", "-c", data + TOOLS[tool] + CHILD]
    completed = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False
    )
    if completed.returncode:
        raise SystemExit(f"{tool}: {completed.stderr[-2000:]}")
    return json.loads(completed.stdout.strip().splitlines()[-1])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--queries", type=int, default=10_000)
    arguments = parser.parse_args(argv)
    pythons = {"rankine": sys.executable, "scikit-learn": sys.executable}
    ranx = peers_python("ranx")
    if ranx:
        pythons["ranx"] = ranx
    best, values = {}, {}
    for turn in range(arguments.repeat):
        for tool, python in pythons.items():
            if tool == "ranx" and turn > 1:
                continue  # its dictionaries take half a minute to build
            seconds, values[tool] = run(tool, python, arguments.queries)
            best[tool] = min(seconds, best.get(tool, seconds))
    assert max(values.values()) - min(values.values()) < 1e-9, values
    results = {
        "lists": f"{arguments.queries} x {DOCUMENTS}",
        "cpu_ms": {tool: round(1e3 * seconds, 2) for tool, seconds in best.items()},
        "times_faster": {
            tool: round(seconds / best["rankine"], 1)
            for tool, seconds in best.items()
            if tool != "rankine"
        },
        "value": values["rankine"],
    }
    print(json.dumps(results))
    save("metrics", results)


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--repeat", "1", "--queries", "100"])


def quick():
    """Run a small size."""
    main(["--repeat", "2", "--queries", "2000"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
