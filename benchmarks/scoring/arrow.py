"""Rows a second of the Arrow scorer, on one core, for 30 numeric columns.

    python -m benchmarks.scoring.arrow [--rows 2000000] [--spark]

Batches of 10,000 rows (Spark's default) and 65,536 rows, lists of 20 rows, without and with ranks;
the id of each row is kept. CPU time, the best of 5 passes. ``--spark`` also measures ``mapInArrow``
with one worker in wall time, and beside it Spark's own cost: a pass that only copies columns.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common.machine import save
from rankine import LinearModel, arrow

N_COLUMNS, LIST_ROWS, PASSES = 30, 20, 5


def make_table(n_rows):
    rng = np.random.default_rng(0)
    columns = {f"f{j}": rng.normal(size=n_rows) for j in range(N_COLUMNS)}
    return pa.table({"qid": np.arange(n_rows) // LIST_ROWS, "item": np.arange(n_rows), **columns})


def best_seconds(call, clock):
    times = []
    for _ in range(PASSES):
        started = clock()
        call()
        times.append(clock() - started)
    return min(times)


def measure_spark(table, score):
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "4g").getOrCreate()
    schema = "qid long, item long, score double, rank int"

    def copy(batches):
        for batch in batches:
            zeros = pa.array(np.zeros(batch.num_rows))
            columns = [*batch.columns[:2], zeros, zeros.cast(pa.int32())]
            yield pa.RecordBatch.from_arrays(columns, ["qid", "item", "score", "rank"])

    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, f"{folder}/rows.parquet")
        frame = session.read.parquet(f"{folder}/rows.parquet").coalesce(1)
        rates = {}
        for name, function in (("spark", score), ("spark_copy", copy)):
            noop = frame.mapInArrow(function, schema).write.format("noop").mode("overwrite")
            rates[name] = table.num_rows / best_seconds(noop.save, time.perf_counter)
    session.stop()
    return rates


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--spark", action="store_true")
    arguments = parser.parse_args(argv)
    table = make_table(arguments.rows)
    names = tuple(f"f{j}" for j in range(N_COLUMNS))
    model = LinearModel.from_weights(np.random.default_rng(1).normal(size=N_COLUMNS), names)
    rates = {}
    for query in (None, "qid"):
        score = arrow.scorer(model, query=query, keep=["item"])
        for size in (10_000, 65_536):
            batches = table.to_batches(max_chunksize=size)
            list(score(batches[:2]))
            name = f"{'scores' if query is None else 'ranks'}_{size}"
            seconds = best_seconds(lambda s=score, b=batches: list(s(b)), time.process_time)
            rates[name] = arguments.rows / seconds
    if arguments.spark:
        rates |= measure_spark(table, arrow.scorer(model, query="qid", keep=["item"]))
    for name, rate in rates.items():
        print(f"{name:>14}: {rate / 1e6:.2f} million rows/s")
    save("arrow-scorer", {"rows": arguments.rows, "rows_per_second": rates})


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--rows", "2000"])


def quick():
    """Run a small size."""
    main(["--rows", "200000"])


def full():
    """Run the full size."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    os.environ["RANKINE_NUM_THREADS"] = "1"
    main([])


if __name__ == "__main__":
    main()
