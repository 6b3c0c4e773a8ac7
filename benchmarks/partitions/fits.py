"""Many machines: every ranker that trains on partitions, with two Dask workers, one of them killed.

    unshare -n sh -c 'ip link set lo up; python -m benchmarks.partitions.fits'
        [--log-rows 100000000] [--rows 10000000] [--folder DIR] [NAME ...]

One pass by averaging over a raw log of impressions (lists of 10; 3 text and 3 number columns, about
16 bytes a row), and ``RankSVM``, ``LeastSquaresRanker``, ``AdditiveRanker`` and
``DominationRanker`` on rows with 100 dense float32 columns, workers limited to 1 GB. In the middle
of each fit one worker is killed with SIGKILL. Of every round over the partitions are kept: wall
seconds, the seconds of its tasks, CPU seconds of the workers, of the thread that runs Dask's
scheduler and client, and of the solver, and the bytes that the loopback device carried: in a
network namespace of its own, as above, those of this program alone.
``benchmarks.partitions.simulated`` is made from these figures.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import wait

import rankine.distributed as rd
from benchmarks.common.machine import add
from benchmarks.partitions.rounds import Watcher, loopback_bytes, seconds, write_rows
from rankine import (
    AdditiveRanker,
    DominationRanker,
    ElasticRanker,
    LeastSquaresRanker,
    RankSVM,
)
from rankine.distributed.runners import connect
from rankine.logs import scan as scan_log

WORKERS, LIMIT = 2, "1GB"
#: Impressions of a list, rows of a row group, and of a file.
SHOWN, GROUP, FILE = 10, 200_000, 2_000_000
TEXTS = {"product": 50_000, "seller": 2_000, "category": 200}
NUMBERS = ("price", "age", "rating")
HASH_BITS = 18
#: Of the raw log: rankers, what each is made of, and how the rows are found.
LOG = {"one pass": ElasticRanker(n_passes=1, scale="none", random_state=0)}
ROWS = {
    "RankSVM": RankSVM(l2=2e-3, tol=1e-2),
    "LeastSquaresRanker": LeastSquaresRanker(2e-3, tol=1e-3),
    "AdditiveRanker": AdditiveRanker(smooth=1.0, pairs=0, max_iter=5, random_state=0),
    "DominationRanker": DominationRanker(l2=1.0, tol=1e-3, max_iter=12),
}
EMPTY_TASKS = 1500
#: Bytes of a large answer, and how many are brought.
LARGE, LARGE_TASKS = 2**25, 16


# ------------------------------------------------------------------------------------- rows
def shown_rows(seed=5):
    """Generate one row group of impressions: texts, numbers, and one click in each list of ten."""
    rng = np.random.default_rng(seed)
    taste = {name: rng.normal(0, 0.7, count) for name, count in TEXTS.items()}
    codes = {n: (count * rng.random(GROUP) ** 2).astype(np.int32) for n, count in TEXTS.items()}
    numbers = {name: rng.standard_normal(GROUP, dtype=np.float32) for name in NUMBERS}
    score = sum(taste[name][code] for name, code in codes.items())
    score = score - numbers["price"] + 0.5 * numbers["rating"]
    heard = (score + rng.gumbel(size=GROUP)).reshape(-1, SHOWN)
    clicked = np.zeros_like(heard, dtype=np.int8)
    clicked[np.arange(len(heard)), heard.argmax(axis=1)] = 1
    texts = {
        name: pa.DictionaryArray.from_arrays(code, [f"{name[0]}{k}" for k in range(TEXTS[name])])
        for name, code in codes.items()
    }
    return {"clicked": clicked.ravel(), **texts, **numbers}


def write_log(folder, n_rows):
    """Write files that repeat the same impressions with increasing session numbers."""
    columns = shown_rows()
    session = np.arange(GROUP) // SHOWN
    schema = pa.table({"session": session, **columns}).schema
    first = 0
    while first < n_rows:
        path = Path(folder) / f"{first:012d}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd") as out:
            for start in range(first, min(first + FILE, n_rows), GROUP):
                rows = min(GROUP, n_rows - start)
                part = pa.table({"session": session + start // SHOWN, **columns})
                out.write_table(part.slice(0, rows))
        first += FILE
    return f"{folder}/*.parquet"


# ----------------------------------------------------------------------------------- rounds
class Ledger:
    """What every round over the partitions cost, and a worker that dies in one of them."""

    def __init__(self, client, data, kill_at):
        self.client, self.runner, self.kill_at = client, data.runner, kill_at
        self.rounds, self.killed, self._processes = [], None, {}
        self._loop_thread = self._find_loop()
        for name in ("total", "each"):
            self._watch(name, getattr(self.runner, name))

    def _find_loop(self):
        """Return the id of the thread that runs the scheduler and the client's event loop."""
        thread_ids, ready = [], threading.Event()
        self.client.loop.add_callback(
            lambda: (thread_ids.append(threading.get_native_id()), ready.set())
        )
        ready.wait()
        return thread_ids[0]

    def _watch(self, name, method):
        def watched(placed, question, arguments):
            return self._round(method, placed, question, arguments)

        setattr(self.runner, name, watched)

    def _round(self, method, placed, question, arguments):
        from distributed import get_task_stream

        if len(self.rounds) == self.kill_at:
            wait = 0.4 * self.rounds[-1]["wall"] if self.rounds else 1.0
            threading.Timer(wait, self._kill).start()
        costs_before, begun = self.costs(), time.perf_counter()
        with self.client.as_current(), get_task_stream(client=self.client) as stream:
            answer = method(placed, question, arguments)
        wall = time.perf_counter() - begun
        task_seconds = sorted(
            seconds(task) for task in stream.data if f"-{question}-" in task["key"]
        )
        costs = {name: value - costs_before[name] for name, value in self.costs().items()}
        self.rounds.append(
            {"question": question, "tasks": len(placed), "wall": wall, "own": task_seconds, **costs}
        )
        return answer

    def _kill(self):
        """Kill one worker and wait until it is replaced."""
        pids = list(self.client.run(os.getpid, on_error="ignore").values())
        os.kill(pids[0], signal.SIGKILL)
        self.killed, begun = {"round": len(self.rounds)}, time.perf_counter()
        running = pids
        while len(running) < WORKERS or pids[0] in running:
            time.sleep(0.1)
            running = list(self.client.run(os.getpid, on_error="ignore").values())
        self.killed["seconds_until_replaced"] = time.perf_counter() - begun

    def costs(self):
        """Return CPU seconds of workers, scheduler thread and the rest, and bytes so far."""
        for child in psutil.Process().children(recursive=True):
            try:
                spent = child.cpu_times()
            except psutil.Error:
                continue
            self._processes[child.pid] = spent.user + spent.system
        fields = Path(f"/proc/self/task/{self._loop_thread}/stat").read_text("ascii").split(") ")[1]
        ticks = [int(field) for field in fields.split()[11:13]]
        loop = sum(ticks) / os.sysconf("SC_CLK_TCK")
        return {
            "worker_cpu": sum(self._processes.values()),
            "scheduler_cpu": loop,
            "solver_cpu": time.process_time() - loop,
            "bytes": loopback_bytes(),
        }

    def told(self):
        """Return all rounds with the statistics of their tasks, and the killed worker."""
        for record in self.rounds:
            task_seconds = np.array(record.pop("own") or [0.0])
            record |= {
                "task_mean": float(task_seconds.mean()),
                "task_spread": float(np.log(np.maximum(task_seconds, 1e-4)).std()),
                "task_largest": float(task_seconds.max()),
            }
        return {"rounds": self.rounds, "killed": self.killed}


def measure(name, ranker, data, client, kill_at):
    """Fit one ranker and record its rounds."""
    ledger = Ledger(client, data, kill_at)
    watcher = Watcher(client)
    watcher.start()
    costs_before, begun = ledger.costs(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some budgets end before the tolerance
        ranker.fit(data)
    wall = time.perf_counter() - begun
    spent = {key: value - costs_before[key] for key, value in ledger.costs().items()}
    watcher.done = True
    watcher.join()
    cpu = spent["worker_cpu"] + spent["scheduler_cpu"] + spent["solver_cpu"]
    result = {
        "rows": int(ranker.training_["rows"]),
        "partitions": data.n_partitions,
        "file_bytes": sum(Path(path).stat().st_size for path in data.sources),
        "iterations": int(ranker.n_iter_),
        "stop_reason": ranker.solution_.stop_reason,
        "certificate": {k: float(v) for k, v in ranker.solution_.certificate.items()},
        "wall": wall,
        **spent,
        "scheduler_share": spent["scheduler_cpu"] / cpu,
        "largest_resident": watcher.largest,
        "digest": ranker.to_model().digest,
        **ledger.told(),
    }
    print(name, {k: v for k, v in result.items() if k != "rounds"}, flush=True)
    return result


def nothing(number):
    """Return the number: an empty task."""
    return number


def empty_tasks(client):
    """Measure wall and CPU milliseconds of an empty task."""
    client.gather(client.map(nothing, range(100), pure=False))
    cpu, begun = time.process_time(), time.perf_counter()
    client.gather(client.map(nothing, range(EMPTY_TASKS), pure=False))
    wall = time.perf_counter() - begun
    return {
        "tasks": EMPTY_TASKS,
        "wall_ms": 1e3 * wall / EMPTY_TASKS,
        "cpu_ms": 1e3 * (time.process_time() - cpu) / EMPTY_TASKS,
    }


def large_answer(number):
    """Return a large array."""
    return np.full(LARGE // 8, float(number))


def link(client):
    """Measure the bytes per second at which results travel from workers to client."""
    client.gather(client.map(large_answer, range(2), pure=False))
    futures = client.map(large_answer, range(LARGE_TASKS), pure=False)
    with client.as_current():
        wait(futures)
    begun = time.perf_counter()
    client.gather(futures)
    return {"bytes_a_second": LARGE * LARGE_TASKS / (time.perf_counter() - begun)}


def costs_of_dask():
    """Measure the overhead of tasks and the speed of the connection."""
    with connect(f"local:{WORKERS}", memory_limit=LIMIT) as client:
        add("partitions_many", "empty_tasks", empty_tasks(client))
        add("partitions_many", "link", link(client))


def run(log_rows, rows, folder, names, kill=True):
    """Fit all rankers; results are stored one by one."""
    costs_of_dask()
    for sort, rankers, write, count in (
        ("log", LOG, write_log, log_rows),
        ("rows", ROWS, write_rows, rows),
    ):
        chosen = {name: one for name, one in rankers.items() if not names or name in names}
        if not chosen:
            continue
        kept = Path(folder) / f"{sort}-{count}"
        if not kept.exists():
            kept.mkdir(parents=True)
            cpu = time.process_time()
            write(kept, count)
            add("partitions_many", f"writing {sort}", {"cpu": time.process_time() - cpu})
        for name, ranker in chosen.items():
            with connect(f"local:{WORKERS}", memory_limit=LIMIT) as client:
                data = partitions(sort, f"{kept}/*.parquet", client)
                kill_at = (1 if sort == "log" else 4) if kill else None
                result = measure(name, ranker, data, client, kill_at)
            add("partitions_many", name, {**result, "limit": LIMIT, "workers": WORKERS})


def partitions(sort, pattern, client):
    """Open the files as partitions."""
    if sort == "log":
        pattern = scan_log(
            pattern,
            query="session",
            label="clicked",
            categorical=list(TEXTS),
            numeric=list(NUMBERS),
            hash_bits=HASH_BITS,
        )
    return rd.scan(pattern, client=client, timeout=1800)


def smoke():
    """Run the smallest size, as the tests do."""
    with tempfile.TemporaryDirectory() as folder:
        run(2_000, 1_000, folder, ("least squares",), kill=False)


def quick():
    with tempfile.TemporaryDirectory() as folder:
        run(1_000_000, 100_000, folder, ())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these fits")
    parser.add_argument("--log-rows", type=int, default=100_000_000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", help="where files are written, and used again")
    parser.add_argument("--dask-alone", action="store_true", help="only what Dask itself costs")
    parser.add_argument("--no-kill", action="store_true", help="let all workers live")
    options = parser.parse_args()
    if options.dask_alone:
        costs_of_dask()
        return
    with tempfile.TemporaryDirectory() as room:
        run(
            options.log_rows,
            options.rows,
            options.folder or room,
            options.names,
            kill=not options.no_kill,
        )


def full():
    with tempfile.TemporaryDirectory() as folder:
        run(100_000_000, 10_000_000, folder, ())


if __name__ == "__main__":
    main()
