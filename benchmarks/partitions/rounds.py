"""Training on partitions: what a round costs, and a set larger than the workers' memory.

    python -m benchmarks.partitions.rounds [--rows 3000000] [--gigabytes 8] [--limit 1GB]

The first part holds the rows in the memory of two workers and measures, for RankSVM's risk and
gradient: seconds a row costs (in a task, decoded and not), the time of a round against the sum of
its tasks' own seconds, bytes on the loopback device a round, and rounds to a certified gap. The
second part trains on generated Parquet files whose size is ``--gigabytes`` while every worker may
use ``--limit``; it reports the largest resident memory of a worker, and how far the weights are
from those that made the labels. ``docs/scaling.md`` is derived from these figures.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rankine.distributed as rd
from benchmarks.common.machine import save
from rankine import LeastSquaresRanker, RankSVM
from rankine.distributed.partition_tasks import ProblemTask, RawRowsTask
from rankine.distributed.runners import connect
from rankine.losses.pair_queries import PairTotals, pair_risk, pair_totals
from rankine.transforms.scaling import Scaling

WIDTH = 100
LIST = 20
GROUP_ROWS = 50_000
WORKERS = 2
LAM = 1e-3


def true_weights():
    return np.random.default_rng(7).normal(size=WIDTH) / np.sqrt(WIDTH)


def write_rows(folder, n_rows, file_rows=1_000_000):
    """Write lists of 20 rows with 100 float32 features and labels 0 to 4 from a noisy score."""
    w = true_weights()
    first = 0
    schema = pa.schema(
        [("label", pa.float32()), ("qid", pa.int64())]
        + [(f"f{j:03d}", pa.float32()) for j in range(WIDTH)]
    )
    while first < n_rows:
        rows = min(file_rows, n_rows - first)
        path = Path(folder) / f"{first:012d}.parquet"
        with pq.ParquetWriter(path, schema, compression=None, use_dictionary=False) as out:
            for start in range(first, first + rows, GROUP_ROWS):
                out.write_table(group(start, min(GROUP_ROWS, first + rows - start), w, schema))
        first += rows
    return f"{folder}/*.parquet"


def group(start, n_rows, w, schema):
    rng = np.random.default_rng([11, start])
    X = rng.standard_normal((WIDTH, n_rows), dtype=np.float32)
    score = w.astype(np.float32) @ X + 0.3 * rng.standard_normal(n_rows, dtype=np.float32)
    label = np.clip(np.round(score + 2), 0, 4).astype(np.float32)
    qid = (start + np.arange(n_rows)) // LIST
    return pa.table([label, qid, *X], schema=schema)


class TimedTask(ProblemTask):
    """The risk, with the seconds that each task spent on it."""

    def build(self, data, threads, number):
        """Build the partition's problem and add a timed risk."""
        part = super().build(data, threads, number)
        part.timed_risk = lambda w: timed(part, w)
        return part


def timed(part, w):
    cpu = time.thread_time()
    value, gradient = part.value_and_gradient(w)
    return value, gradient, time.thread_time() - cpu


def loopback_bytes():
    """Return the bytes that the loopback device has carried, or 0 if unknown."""
    try:
        lines = Path("/proc/net/dev").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    counters = next((line for line in lines if line.strip().startswith("lo:")), "lo: 0")
    return int(counters.split(":")[1].split()[0])


def round_costs(client, data, repeats=7):
    """Measure several rounds; return the best one's seconds and bytes."""
    from distributed import get_task_stream

    parts = [float(x) for x in data.worker_pool(RawRowsTask()).total("apply", pair_totals)]
    totals = PairTotals(parts[0], parts[1], int(parts[2]))
    pool = data.worker_pool(
        TimedTask(pair_risk, (None, "hinge", "query", "tree", totals), Scaling("none"))
    )
    w = 0.5 * true_weights()
    pool.total("timed_risk", w)
    rounds = []
    for _ in range(repeats):
        bytes_before, started = loopback_bytes(), used(client)
        with client.as_current(), get_task_stream(client=client) as stream:
            begun = time.perf_counter()
            _, _, cpu = pool.total("timed_risk", w)
            wall = time.perf_counter() - begun
        everything = used(client) - started
        task_seconds = [seconds(task) for task in stream.data if "timed_risk" in task["key"]]
        rounds.append(
            {
                "wall": wall,
                "own": sum(task_seconds),
                "cpu": cpu,
                "cpu_of_all_processes": everything,
                "slowest_task": max(task_seconds),
                "bytes": loopback_bytes() - bytes_before,
            }
        )
    best = min(rounds, key=lambda record: record["wall"] * WORKERS / record["own"])
    return {
        **best,
        "tasks": data.n_partitions,
        "overhead": best["wall"] * WORKERS / best["own"] - 1.0,
        "cpu_overhead": min(record["cpu_of_all_processes"] / record["cpu"] for record in rounds)
        - 1.0,
        "bytes": min(record["bytes"] for record in rounds),
        "seconds_a_task": best["own"] / data.n_partitions,
    }


def seconds(task):
    """Return the seconds that a task computed, as its worker measured them."""
    return sum(s["stop"] - s["start"] for s in task["startstops"] if s["action"] == "compute")


def used(client):
    """Return the CPU seconds of this process, which runs the scheduler, and of the workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


def load_costs(data):
    """Measure CPU and wall seconds per row to read and decode one partition."""
    partition = data.partitions[0]
    partition.load()
    begun, cpu = time.perf_counter(), time.process_time()
    rows = partition.load().n_rows
    return {"wall": (time.perf_counter() - begun) / rows, "cpu": (time.process_time() - cpu) / rows}


def costs(n_rows, partition_mb):
    """Measure a round and a training, with rows held in memory and read every round."""
    result = {"rows": n_rows, "features": WIDTH, "workers": WORKERS, "held": {}, "read": {}}
    with tempfile.TemporaryDirectory() as folder:
        pattern = write_rows(folder, n_rows)
        for how, cache in (("held", 2**32), ("read", 0)):
            env = {"RANKINE_PARTITION_CACHE": str(cache)}
            with connect(f"local:{WORKERS}", memory_limit="6GB", env=env) as client:
                for megabytes in partition_mb:
                    data = rd.scan(pattern, client=client, partition_bytes=megabytes * 2**20)
                    round_cost = round_costs(client, data)
                    result[how][str(megabytes)] = round_cost
                    print(how, megabytes, "MiB", json.dumps(round_cost), flush=True)
                if how == "held":
                    result["training"] = training(data)
        result["seconds_a_row"] = min(record["cpu"] for record in result["held"].values()) / n_rows
        result["load_seconds_a_row"] = load_costs(rd.scan(pattern))
    return result


def training(data):
    """Rounds and seconds of RankSVM to gaps of 1e-2 and 1e-3."""
    results = {}
    for loss, gap in (("hinge", 1e-2), ("hinge", 1e-3), ("squared_hinge", 1e-3)):
        rounds = count_rounds(data.runner)
        begun = time.perf_counter()
        ranker = RankSVM(l2=2 * LAM, loss=loss, tol=gap).fit(data)
        results[f"{loss} {gap:g}"] = {
            "iterations": ranker.n_iter_,
            "rounds": rounds(),
            "seconds": time.perf_counter() - begun,
            "objective": ranker.solution_.objective,
            "cosine": cosine(ranker.coef_),
        }
        print(loss, gap, json.dumps(results[f"{loss} {gap:g}"]))
    return results


def count_rounds(runner):
    """Count the sums that the runner computes; return a function that reads the counter."""
    count, total = [0], type(runner).total

    def counted(*arguments):
        count[0] += 1
        return total(runner, *arguments)

    runner.total = counted
    return lambda: count[0]


def cosine(coef):
    w = true_weights()
    return float(coef @ w / np.linalg.norm(coef) / np.linalg.norm(w))


class Watcher(threading.Thread):
    """Largest resident memory of the workers, and their process ids."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client = client
        self.largest, self.seen, self.done = 0, set(), False

    def run(self):
        """Sample once a second."""
        while not self.done:
            time.sleep(1.0)
            try:
                pids = set(self.client.run(os.getpid, on_error="ignore").values())
            except OSError:
                continue
            self.seen |= pids
            for pid in pids:
                try:
                    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
                except OSError:
                    continue
                size = next(line for line in text.splitlines() if line.startswith("VmRSS"))
                self.largest = max(self.largest, int(size.split()[1]) * 1024)


def large(gigabytes, limit, folder=None):
    """Train on files larger than the memory of the workers; files of the folder are used again."""
    n_rows = int(gigabytes * 1e9 / (4 * WIDTH + 12)) // LIST * LIST
    with tempfile.TemporaryDirectory(dir=folder) as room:
        data_folder = Path(room if folder is None else folder)
        if not list(data_folder.glob("*.parquet")):
            write_rows(data_folder, n_rows)
        return train_large(data_folder, limit)


def train_large(folder, limit):
    """Train least squares on all files of a folder: few rounds, each of which reads everything."""
    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    with connect(f"local:{WORKERS}", memory_limit=limit) as client:
        pattern = f"{folder}/*.parquet"
        watcher = Watcher(client)
        watcher.start()
        data = rd.scan(pattern, client=client, timeout=1800)
        rounds = count_rounds(data.runner)
        begun = time.perf_counter()
        ranker = LeastSquaresRanker(2 * LAM, tol=1e-3)
        ranker.fit(data, callbacks=[lambda p: print(p.step, dict(p.values), flush=True)])
        seconds = time.perf_counter() - begun
        watcher.done = True
        watcher.join()
    return {
        "rows": int(ranker.training_["rows"]),
        "bytes": size,
        "partitions": data.n_partitions,
        "limit": limit,
        "workers": WORKERS,
        "largest_resident": watcher.largest,
        "worker_processes": len(watcher.seen),
        "seconds": seconds,
        "rounds": rounds(),
        "iterations": ranker.n_iter_,
        "certificate": {k: float(v) for k, v in ranker.solution_.certificate.items()},
        "stop_reason": ranker.solution_.stop_reason,
        "cosine": cosine(ranker.coef_),
    }


def smoke():
    """Run the smallest size, as the tests do."""
    save("partitions", {"costs": costs(2_000, [1])})


def quick():
    save("partitions", {"costs": costs(200_000, [16, 64])})


def full():
    save("partitions", {"costs": costs(3_000_000, [64, 256, 640])})
    save("partitions_large", {"large": large(8.0, "1GB")})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="rows of the first part")
    parser.add_argument("--partitions", type=int, nargs="+", default=[64, 256, 640], help="MiB")
    parser.add_argument("--gigabytes", type=float, help="size of the second part")
    parser.add_argument("--limit", default="1GB", help="memory of a worker")
    parser.add_argument("--folder", help="where to write the files of the second part")
    parser.add_argument("--json", help="write the second part's result to this file as well")
    options = parser.parse_args()
    if options.rows:
        save("partitions", {"costs": costs(options.rows, options.partitions)})
    if options.gigabytes:
        result = large(options.gigabytes, options.limit, options.folder)
        print(json.dumps(result, indent=1))
        if options.json:
            Path(options.json).write_text(json.dumps(result), encoding="utf-8")
        else:
            save("partitions_large", {"large": result})


if __name__ == "__main__":
    main()
