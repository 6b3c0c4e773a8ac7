"""One pass over raw logs beside Vowpal Wabbit: CPU seconds, memory and NDCG@10.

    RANKINE_VW_PYTHON=python-with-vowpalwabbit python -m benchmarks.elastic.raw_logs [--rows 500000]

Three generated logs (``benchmarks.common.raw_logs``). rankine reads Parquet, with the defaults of
``ElasticRanker`` and every column by its type, or as ``propose_schema`` proposes; Vowpal Wabbit
reads its text, with logistic loss and otherwise its defaults. Both read and learn once, in turn;
CPU seconds of all threads are medians, without imports and compiling. Defaults were chosen on
validation parts; the figures are those of the test parts. Memory is the peak of a process that
trains once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import rankine
from benchmarks.common.machine import add
from benchmarks.common.raw_logs import CATEGORIES, LOGS, PARTS, write_vw
from benchmarks.common.timing import spread
from rankine.metrics import evaluate

REPEATS = 5
#: Rows of the validation and test parts.
HELD_OUT = 100_000

#: Trains once after a fit to a few rows, which imports and compiles; prints CPU seconds and peak.
OURS = """
import sys, time
from pathlib import Path
import msgspec, rankine
def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
schema = msgspec.json.decode(sys.argv[3], type=rankine.logs.LogSchema)
def fit(path):
    return rankine.ElasticRanker(random_state=0).fit(rankine.logs.scan(path, schema=schema))
fit(sys.argv[2]).to_model()
begun = time.process_time()
model = fit(sys.argv[1]).to_model()
seconds = time.process_time() - begun
model.save(sys.argv[4])
print(seconds, peak())
"""
PEER = "Vowpal Wabbit"
THEIRS = """
import sys, time
from pathlib import Path
from vowpalwabbit import Workspace
def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
Workspace("--quiet").finish()
begun = time.process_time()
Workspace(f"-d {sys.argv[1]} --loss_function logistic -b 20 --quiet -f {sys.argv[2]}").finish()
print(time.process_time() - begun, peak())
Workspace(f"-t -i {sys.argv[2]} -d {sys.argv[3]} -r {sys.argv[4]} --quiet").finish()
"""


def run(python, script, *arguments):
    """Run a script; return the numbers that it prints."""
    command = [python, "-W", "ignore", "-c", script, *map(str, arguments)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [float(number) for number in out.split()]


def has_vowpal_wabbit(python):
    """Whether a Python has Vowpal Wabbit; without it, rankine is measured alone."""
    command = [python, "-c", "import vowpalwabbit"]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        return True
    print("Vowpal Wabbit is absent: name a Python that has it in RANKINE_VW_PYTHON")
    return False


def ndcg(test, scores):
    """Return NDCG@10 of the scores of a part."""
    table = pq.read_table(test, columns=["session", "clicked"])
    labels, sessions = (table[name].to_numpy() for name in ("clicked", "session"))
    return round(float(evaluate("ndcg@10", labels.astype(float), scores, sessions)), 4)


def write_log(name, rows, folder):
    """Write the parts of a log, and a few rows to warm up with; return the schemas."""
    numbers = ()
    for part in PARTS:
        table = LOGS[name](rows if part == "train" else min(rows, HELD_OUT), part)
        numbers = table.column_names[2 : -len(CATEGORIES)]
        pq.write_table(table, folder / f"{part}.parquet")
        write_vw(table, folder / f"{part}.vw", numbers)
        if part == "train":
            pq.write_table(table.slice(0, 20_000), folder / "few.parquet")
    every_column = rankine.logs.LogSchema(
        query="session", label="clicked", numeric=tuple(numbers), categorical=CATEGORIES
    )
    proposed, _ = rankine.logs.propose_schema(folder / "train.parquet")
    return {"every column": every_column, "proposed schema": proposed}


def measure(name, rows, part="test", repeats=REPEATS):
    """Train in turn; return medians of CPU seconds, peaks in MiB, and NDCG@10."""
    python = os.environ.get("RANKINE_VW_PYTHON", sys.executable)
    has_peer = has_vowpal_wabbit(python)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        schemas = write_log(name, rows, folder)
        runs = {label: [] for label in (*schemas, *([PEER] if has_peer else []))}
        for _ in range(repeats):
            for label, schema in schemas.items():
                files = folder / "train.parquet", folder / "few.parquet"
                runs[label].append(
                    run(sys.executable, OURS, *files, _to_json(schema), folder / f"{label}.rankine")
                )
            if has_peer:
                names = ("train.vw", "model.vw", f"{part}.vw", "scores.txt")
                files = [folder / file for file in names]
                runs[PEER].append(run(python, THEIRS, *files))
        test = folder / f"{part}.parquet"
        quality = {PEER: ndcg(test, np.loadtxt(folder / "scores.txt"))} if has_peer else {}
        for label in schemas:
            model = rankine.LinearModel.load(folder / f"{label}.rankine")
            data = rankine.logs.scan(test, like=model).load()
            quality[label] = ndcg(test, rankine.transforms.apply.score_dataset(model, data))
    result = {
        label: {
            "cpu_s": spread(seconds for seconds, _ in values),
            "peak_mib": round(max(peak for _, peak in values)),
            "ndcg@10": quality[label],
        }
        for label, values in runs.items()
    }
    if not has_peer:
        return {"log": name, "rows": rows, **result}
    theirs = result[PEER]["cpu_s"]["median"]
    for label in schemas:
        result[label]["cpu_ratio"] = round(result[label]["cpu_s"]["median"] / theirs, 2)
    return {"log": name, "rows": rows, **result}


def _to_json(schema):
    import msgspec

    return msgspec.json.encode(schema).decode()


def smoke():
    """Run the smallest size, as the tests do."""
    add("elastic", "raw logs", [measure("feed", 2_000, repeats=1)])


def quick():
    """Measure 50,000 rows of each log."""
    add("elastic", "raw logs", [measure(name, 50_000, repeats=1) for name in LOGS])


def full():
    """Measure 500,000 rows of each log, and 3 million of the first."""
    results = [measure(name, 500_000) for name in LOGS]
    add("elastic", "raw logs", [*results, measure("grocery", 3_000_000)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--log", choices=LOGS, action="append")
    parser.add_argument("--part", choices=PARTS, default="valid")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    asked = parser.parse_args()
    for name in asked.log or LOGS:
        print(measure(name, asked.rows, asked.part, asked.repeats), flush=True)


if __name__ == "__main__":
    main()
