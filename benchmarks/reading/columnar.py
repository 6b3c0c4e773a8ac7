"""Parquet and Arrow: what every check costs on top of the bare decoders.

    python -m benchmarks.reading.columnar [FILE.npz ...] [--folder DIR] [--repeat 3]

Each data set is written in both layouts and read in one thread: by ``pyarrow.parquet.read_table``
alone (columns left in Arrow's memory, nothing checked), by ``rankine.load`` (checked, assembled
into one matrix) and by one pass of ``rankine.scan`` (query-aligned blocks). MB are those of the
matrix in memory; times are CPU seconds, the best of several.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rankine
from benchmarks.common import machine, workloads
from rankine.data import Dataset


def datasets(paths, n_rows):
    """Yield the given files, or a dense and a sparse data set of the shapes of LETOR and RCV1."""
    for path in paths:
        yield Path(path).stem, rankine.load(path)
    if paths:
        return
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(n_rows, 136)), 3).astype(np.float32)
    yield (
        f"dense {n_rows:,} x 136",
        Dataset.from_arrays(X, np.zeros(n_rows), np.arange(n_rows) // 100),
    )
    n_sparse = n_rows // 2
    rows = workloads.rcv1_like(n_sparse)
    yield (
        f"sparse {n_sparse:,} x 47k",
        Dataset.from_arrays(rows[0], rows[1], np.arange(n_sparse) // 100),
    )


def best(action, repeat):
    """Return the smallest CPU time of several runs."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def readers(path):
    """Return the actions that read one file, by name."""
    actions = {
        "load": lambda: rankine.load(path),
        "scan": lambda: sum(block.n_rows for block in rankine.scan(path)),
    }
    if path.suffix == ".parquet":
        actions = {"read_table": lambda: pq.read_table(path, use_threads=False), **actions}
    else:
        actions = {"read_all": lambda: pa.ipc.open_file(str(path)).read_all(), **actions}
    return actions


def measure(name, data, folder, repeat):
    """Yield one row of results per format and layout."""
    size = data.X.nbytes if isinstance(data.X, np.ndarray) else data.X.data.nbytes
    size += 0 if isinstance(data.X, np.ndarray) else data.X.indices.nbytes
    for suffix, layout in (
        ("parquet", "columns"), ("parquet", "sparse"), ("arrow", "sparse"),
    ):  # fmt: skip
        if layout == "columns" and data.n_features > 1000:
            continue
        path = folder / f"data.{suffix}"
        start = time.process_time()
        data.save(path, layout=layout)
        row = {
            "data": name, "format": suffix, "layout": layout, "rows": data.n_rows,
            "file_mb": round(path.stat().st_size / 1e6, 1), "matrix_mb": round(size / 1e6, 1),
            "write_s": round(time.process_time() - start, 3),
        }  # fmt: skip
        actions = readers(path)
        bare = None
        for reader, action in actions.items():
            seconds = best(action, repeat)
            bare = bare or seconds
            row[f"{reader}_s"] = round(seconds, 3)
            row[f"{reader}_mb_per_s"] = round(size / 1e6 / seconds)
            row[f"{reader}_rows_per_s"] = round(data.n_rows / seconds)
            row[f"{reader}_vs_bare"] = round(seconds / bare, 2)
        print(row)
        yield row


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--folder")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rows", type=int, default=200_000, help="of the generated dense set")
    arguments = parser.parse_args(argv)
    pa.set_cpu_count(1)
    results = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name, data in datasets(arguments.files, arguments.rows):
            results += measure(name, data, Path(folder), arguments.repeat)
    machine.save("columnar", {"results": results})


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--repeat", "1", "--rows", "1000"])


def quick():
    """Run a small size."""
    main(["--repeat", "1"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
