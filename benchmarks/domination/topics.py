"""Many topics over one matrix: time against one topic, and memory against the data.

    python -m benchmarks.domination.topics [--rows 128000] [--topics 100] [--npz FILE]

A topic is a frequent word; its positives are the tenth of the word's documents in which it weighs
most. ``topics`` of them are learnt on two threads, and ten of them one at a time on one thread.
Memory is the peak of a process of its own, which only imports, compiles on a toy and reads the
matrix by columns (the data: values, row numbers, column starts): ``peak`` is everything above the
imported interpreter, the data included, over the size of the data. A CSR matrix adds one copy by
columns to this. Wall time counts on an idle machine alone; the CPU seconds do on any.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.common.machine import save
from benchmarks.common.workloads import rcv1_like
from rankine import fit_topics

OPTIONS = {"absent": "zero", "tol": 1e-3}
ALONE = 10


def heaviest(column):
    """Mark the tenth of a word's documents in which its weight is largest."""
    return (column > np.quantile(column.data, 0.9)).astype(float)


def write(folder, X, count):
    """Store a matrix by columns and its topics, for the measured process to read."""
    columns = sparse.csc_matrix(X)
    word_columns = np.argsort(-np.diff(columns.indptr))[200 : 200 + count]
    topics = sparse.hstack([heaviest(columns[:, [word]]) for word in word_columns]).tocsc()
    for name, matrix in (("X", columns), ("Y", topics)):
        for part in ("data", "indices", "indptr"):
            np.save(folder / f"{name}_{part}.npy", getattr(matrix, part))
        np.save(folder / f"{name}_shape.npy", np.array(matrix.shape))


def read(folder, name):
    """Read a stored matrix without copying."""
    parts = [np.load(folder / f"{name}_{part}.npy") for part in ("data", "indices", "indptr")]
    matrix = sparse.csc_matrix(tuple(np.load(folder / f"{name}_shape.npy")))
    matrix.data, matrix.indices, matrix.indptr = parts
    return matrix


def resident():
    """Return the resident memory of this process in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


class Peak:
    """Largest resident size while the block runs, looked at every 5 ms."""

    def __enter__(self):
        self.largest, self.running = resident(), True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self):
        while self.running:
            self.largest = max(self.largest, resident())
            time.sleep(0.005)

    def __exit__(self, *_):
        self.running = False
        self.thread.join()


def timed(X, Y, threads):
    """Measure the wall and CPU seconds of ``fit_topics``."""
    wall, cpu = time.perf_counter(), time.process_time()
    fit_topics(X, Y, n_threads=threads, **OPTIONS)
    return time.perf_counter() - wall, time.process_time() - cpu


def measured(folder):
    """Measure time and memory in this process."""
    rng = np.random.default_rng(0)
    dtype = np.load(folder / "X_data.npy", mmap_mode="r").dtype
    toy = sparse.csc_matrix(rng.random((60, 8)).astype(dtype))
    fit_topics(toy, sparse.csc_matrix((rng.random((60, 3)) < 0.2) * 1.0), n_threads=2, **OPTIONS)
    empty = resident()
    X, Y = read(folder, "X"), read(folder, "Y")
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    with Peak() as peak:
        wall, cpu = timed(X, Y, 2)
    step = max(1, Y.shape[1] // ALONE)
    alone = np.array([timed(X, Y[:, [t]], 1) for t in range(0, Y.shape[1], step)])
    one_wall, one_cpu = alone.mean(axis=0).tolist()
    return {
        "rows": X.shape[0],
        "topics": Y.shape[1],
        "positives_per_topic": Y.nnz / Y.shape[1],
        "data_bytes": size,
        "peak": (peak.largest - empty) / size,
        "wall_all": wall,
        "cpu_all": cpu,
        "wall_one": one_wall,
        "cpu_one": one_cpu,
        "wall_ratio": wall / one_wall,
        "cpu_ratio": cpu / one_cpu,
    }


def main(argv=None):
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=128_000)
    arguments.add_argument("--topics", type=int, default=100)
    arguments.add_argument("--npz", help="data, indices, indptr, shape; else generated")
    arguments.add_argument("--name", default="domination_topics", help="of the result file")
    arguments.add_argument("--measure", help=argparse.SUPPRESS)
    options = arguments.parse_args(argv)
    if options.measure:
        print(json.dumps(measured(Path(options.measure))))
        return
    if options.npz:
        with np.load(options.npz) as z:
            X = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=z["shape"])
        X = X[: options.rows]
    else:
        X = rcv1_like(options.rows)[0]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), X, options.topics)
        command = [sys.executable, "-m", "benchmarks.domination.topics", "--measure", folder]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    results = json.loads(output)
    for name, value in results.items():
        print(f"{name:20s} {value}")
    save(options.name, results)


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--rows", "1000", "--topics", "3"])


def quick():
    """Run a small size."""
    main(["--rows", "16000"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
