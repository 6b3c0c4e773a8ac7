"""Speed and peak memory of loading LETOR text, compared with scikit-learn and XGBoost.

    python -m benchmarks.reading.text [FILE ...] [--repeat 5] [--no-docids]

Without files two are generated: sparse (47,236 features, 73 per row) and dense (64 features). Each
line has a query id and a document id; a document id is also added to given files unless
``--no-docids``. Every loader reads the same file in a separate process on one core. The smallest
CPU time of ``--repeat`` rounds after a warm-up is reported; loaders alternate, so that other load
on the machine affects all alike. XGBoost is measured where the Python that
``RANKINE_PEERS_PYTHON`` names has it. Results of given files are printed only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import workloads
from benchmarks.common.machine import save
from benchmarks.common.peers import peers_python
from rankine import Dataset
from rankine.data.writers import write_letor

LOADERS = {
    "rankine": "import rankine; load = rankine.load",
    "rankine float32": (
        "import rankine, functools; load = functools.partial(rankine.load, dtype='float32')"
    ),
    "scikit-learn": (
        "from sklearn.datasets import load_svmlight_file\n"
        "load = lambda path: load_svmlight_file(path, query_id=True, zero_based=False)"
    ),
    "xgboost": (
        "import warnings, xgboost; warnings.simplefilter('ignore')\n"
        "xgboost.set_config(verbosity=0)\n"
        "load = lambda path: xgboost.DMatrix(path + '?format=libsvm', nthread=1)"
    ),
}

#: Runs in the child: warm up on a few lines, then time, and measure the peak of one more load.
CHILD = """
import json, sys, time
{setup}
load(sys.argv[2])
seconds = []
for _ in range({rounds}):
    start = time.process_time()
    data = load(sys.argv[1])
    seconds.append(time.process_time() - start)
    del data
def status(key):
    text = open('/proc/self/status').read()
    return int(text.split(key + ':')[1].split()[0]) * 1024
peak = arrays = None
if {measure} and sys.platform == 'linux':
    before = status('VmRSS')
    open('/proc/self/clear_refs', 'w').write('5')
    data = load(sys.argv[1])
    peak = status('VmHWM') - before
    X = data.X
    parts = [X.data, X.indices, X.indptr] if hasattr(X, 'indptr') else [X]
    parts += [data.y, data.qid] + ([] if data.docid is None else [data.docid])
    arrays = sum(part.nbytes for part in parts)
print(json.dumps([min(seconds), peak, arrays]))
"""


def generate(folder: Path, n_rows: int) -> list[Path]:
    """Write the generated workloads as text, with numbers of up to five digits."""
    X, _, utility = workloads.rcv1_like(n_rows)
    X.data = X.data.astype(np.float64).round(5)
    sparse = Dataset.from_arrays(X, utility.round(6), np.arange(n_rows) // 100)
    X, y, qid = workloads.letor_like(queries=max(1, n_rows // 1200))
    dense = Dataset.from_arrays(X.astype(np.float64).round(4), y, qid)
    write_letor([sparse], folder / "sparse.txt")
    write_letor([dense], folder / "dense.txt", zeros=True)
    return [folder / "sparse.txt", folder / "dense.txt"]


def with_docids(path: Path, folder: Path) -> Path:
    target = folder / f"{path.stem}.docids.txt"
    with path.open("rb") as source, target.open("wb") as out:
        for row, line in enumerate(source):
            out.write(b"%s #docid = GX%07d\n" % (line.rstrip(), row))
    return target


def run(loader: str, python: str, path: Path, head: Path, rounds: int, *, measure: bool) -> list:
    code = CHILD.format(setup=LOADERS[loader], rounds=rounds, measure=measure)
    command = [python, "-c", code, str(path), str(head)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    completed = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False
    )
    if completed.returncode:
        raise SystemExit(f"{loader}: {completed.stderr[-2000:]}")
    return json.loads(completed.stdout.strip().splitlines()[-1])


def compare(path: Path, pythons: dict[str, str], repeat: int, folder: Path) -> dict:
    head = folder / "head.txt"
    with path.open("rb") as file:
        head.write_bytes(b"".join(file.readline() for _ in range(50)))
    megabytes = path.stat().st_size / 1e6
    best: dict[str, float] = {}
    memory = {}
    for turn in range(repeat):
        for loader, python in pythons.items():
            if loader == "scikit-learn" and turn:
                continue  # slow enough to be steady
            measure = loader.startswith("rankine") and turn == 0
            seconds, peak, arrays = run(loader, python, path, head, 2, measure=measure)
            best[loader] = min(seconds, best.get(loader, seconds))
            if peak is not None:
                memory[loader] = round(peak / arrays, 2)
    rates = {loader: round(megabytes / seconds, 1) for loader, seconds in best.items()}
    return {
        "megabytes": round(megabytes, 1),
        "megabytes_per_cpu_second": rates,
        "times_faster": {
            loader: round(rates["rankine"] / rate, 2)
            for loader, rate in rates.items()
            if not loader.startswith("rankine")
        },
        "peak_memory_over_arrays": memory,
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--rows", type=int, default=60_000, help="of the generated sparse set")
    parser.add_argument("--no-docids", action="store_true")
    options = parser.parse_args(argv)
    pythons = {name: sys.executable for name in LOADERS if name != "xgboost"}
    xgboost = peers_python("xgboost")
    if xgboost:
        pythons["xgboost"] = xgboost
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = options.files or generate(folder, options.rows)
        if not options.no_docids:
            files = [with_docids(path, folder) for path in files]
        results = {p.name: compare(p, pythons, options.repeat, folder) for p in files}
    print(json.dumps(results, indent=1))
    if not options.files:
        save("parsing", {"files": results})


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--repeat", "1", "--rows", "500"])


def quick():
    """Run a small size."""
    main(["--repeat", "1"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
