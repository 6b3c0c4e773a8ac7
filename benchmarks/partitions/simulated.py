"""Simulate training on up to 1,000 workers from the costs measured with two workers.

    python -m benchmarks.partitions.simulated

The costs come from the stored results of ``benchmarks.partitions.fits`` and
``benchmarks.partitions.rows``. As a check, the simulation first predicts those measured runs from
the rounds before their worker was killed. It then estimates time and cost for 10^9 and 10^11 rows
on 50 and 1,000 workers. Random quantities, all seeded:

* the duration of a task is the measured mean times a lognormal factor with the measured spread; one
  task in ``SLOW`` is a straggler and takes ``SLOWER`` times as long;
* the speed of a worker is lognormal with a spread of ``UNEVEN``;
* the lifetime of a worker is exponential with mean ``LIFE`` hours. When a worker is lost, its task
  is repeated elsewhere; it returns after the measured restart time and must read its rows again.

The scheduler is a single server that spends time on every task, including those that add partial
results. As in Dask, a worker is assigned its next task while it still works. Rounds do not overlap.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.common.machine import RESULTS, results_path, save

SEEDS = 5
SLOW, SLOWER = 200, 3.0
UNEVEN = 0.05
LIFE = 200.0
#: Stated, not measured: links between machines, storage of each worker, and what a core costs.
LINK, STORAGE, DOLLARS = 1.25e9, 200e6, 0.05
#: Rows of a partition, at most; a worker gets ``EACH`` of them at least.
PARTITION, EACH = 1_000_000, 4
#: Bytes of a row with 100 columns on disk and in memory; memory of a worker for rows.
ROW, HELD, MEMORY = 412, 520, 11e9
FAN_IN = 8
#: How often partitions of a raw log are read: to count them, to sample lists, and to learn.
READINGS = 3
SIZES, CLUSTERS = (10**9, 10**11), (50, 1000)
CURVE = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class Cluster:
    """Workers and what everything but the tasks themselves costs, in seconds."""

    workers: int
    #: Scheduler and client, a task.
    task: float
    #: From a loss until the worker is there again; mean time between losses of one worker.
    restart: float
    life: float = LIFE * 3600
    spread: float = 0.1
    uneven: float = UNEVEN
    slow: float = 1 / SLOW
    #: Bytes a second.
    link: float = LINK


@dataclass(frozen=True)
class Round:
    """A round over all partitions."""

    tasks: int
    #: Seconds of a task, and what it takes besides when its rows must be read first.
    seconds: float
    reading: float = 0.0
    #: Bytes that one answer moves, and the solver's own seconds before the next round.
    answer: float = 0.0
    between: float = 0.0


class Simulation:
    """A cluster at work; time goes on from round to round."""

    def __init__(self, cluster, seed, lost_at=()):
        self.cluster, self.now = cluster, 0.0
        self.rng = np.random.default_rng(seed)
        self.speed = np.exp(self.rng.normal(0, cluster.uneven, cluster.workers))
        self.dies = self.rng.exponential(cluster.life, cluster.workers)
        self.dies[: len(lost_at)] = lost_at
        self.ready = np.zeros(cluster.workers)
        #: Tasks that a worker must read again before it can answer.
        self.cold = np.zeros(cluster.workers, dtype=np.int64)
        self.losses = 0

    def round(self, one):
        """Simulate a round; return its seconds."""
        cluster, begun = self.cluster, self.now
        factors = np.exp(self.rng.normal(0, cluster.spread, one.tasks))
        factors[self.rng.random(one.tasks) < cluster.slow] *= SLOWER
        waiting = list(factors)
        served = begun
        # (free from, its next task was asked for at, worker)
        free = [(max(begun, self.ready[k]), begun, k) for k in range(cluster.workers)]
        heapq.heapify(free)
        end = begun
        while waiting:
            at, assigned_at, k = heapq.heappop(free)
            served = max(served, assigned_at) + cluster.task
            start, factor = max(at, served), waiting.pop()
            seconds = one.seconds
            if self.cold[k]:
                self.cold[k] -= 1
                seconds += one.reading
            stop = start + seconds * factor * self.speed[k]
            if self.dies[k] < stop:
                waiting.append(factor)
                stop = self._lose(k, max(start, self.dies[k]), one)
                start = stop
            else:
                end = max(end, stop)
            heapq.heappush(free, (stop, start, k))
        self.now = end + self._adding(one) + one.between
        return self.now - begun

    def _lose(self, k, at, one):
        """Remove a worker; return when it is back with empty memory."""
        self.losses += 1
        back = at + self.cluster.restart
        self.dies[k] = back + self.rng.exponential(self.cluster.life)
        self.cold[k] = -(-one.tasks // self.cluster.workers)
        self.ready[k] = back
        return back

    def _adding(self, one):
        """Return the seconds of adding partial results, ``FAN_IN`` at a time."""
        n_results, seconds = one.tasks, 0.0
        while n_results > FAN_IN:
            n_results = -(-n_results // FAN_IN)
            seconds += n_results * self.cluster.task
            seconds += (
                FAN_IN * one.answer / self.cluster.link * -(-n_results // self.cluster.workers)
            )
        return seconds + n_results * one.answer / self.cluster.link


def measured(name):
    """Return a stored result; the published one where the folder of results has none."""
    path = results_path(name)
    if not path.is_file():
        path = RESULTS / path.name
    return json.loads(path.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------ check
def check(fits, task, link, seeds):
    """Predict every measured run from its rounds before the kill, in seconds over the rounds."""
    table = {}
    for name, run in fits.items():
        killed = {"round": len(run["rounds"]), **(run["killed"] or {})}
        rounds_before = run["rounds"][: max(killed["round"], 1)]
        spread = float(np.median([record["task_spread"] for record in rounds_before]))
        gone = killed.get("seconds_until_replaced", run["wall"])
        cluster = Cluster(run["workers"], task, gone, 1e12, spread, 0.0, 0.0, link)
        walls = [
            predicted(run["rounds"], rounds_before, killed["round"], cluster, seed)
            for seed in range(seeds)
        ]
        wall = sum(record["wall"] for record in run["rounds"])
        expected = float(np.median(walls))
        table[name] = {"measured": wall, "simulated": expected, "error": expected / wall - 1}
    return table


def predicted(rounds, known, killed, cluster, seed):
    """Predict the seconds of all rounds; one worker dies 40 % into round ``killed``."""
    simulation = Simulation(cluster, seed)
    for number, record in enumerate(rounds):
        alike = [
            same_kind for same_kind in known if same_kind["question"] == record["question"]
        ] or [record]
        mean = float(np.mean([same_kind["task_mean"] for same_kind in alike]))
        between = float(np.mean([same_kind["solver_cpu"] for same_kind in alike]))
        if number == killed:
            simulation.dies[0] = simulation.now + 0.4 * rounds[max(number - 1, 0)]["wall"]
        simulation.round(
            Round(record["tasks"], mean, 0.0, record["bytes"] / record["tasks"], between)
        )
    return simulation.now


# ------------------------------------------------------------------------------------- jobs
def jobs(found, costs):
    """Rounds of every way to train: (name, rounds, held seconds a row, reading seconds a row)."""
    row = {name: 1e-6 * value for name, value in costs["microseconds_a_row"].items()}
    read = row["read and decode"] + row["index of the pairs"]
    # By the workers' CPU seconds: the clock of a task also counts what ran beside it.
    log, domination = found["one pass"], found["DominationRanker"]
    passed = log["worker_cpu"] / log["rows"] / READINGS
    rounds = len(domination["rounds"])
    risk = domination["worker_cpu"] / domination["rows"] / rounds - read
    return {
        "one pass over raw rows": (READINGS, 0.0, passed, 8 * 2**18),
        "RankSVM": (len(found["RankSVM"]["rounds"]), row["risk and gradient, hinge"], read, 1600),
        "LeastSquaresRanker": (
            len(found["LeastSquaresRanker"]["rounds"]),
            row["least-squares product"],
            read,
            1600,
        ),
        "DominationRanker": (rounds, max(risk, 0.0), read, 1600),
    }


def plan(rows, workers, compute, read, answer, raw):
    """Return the first round, a later one, and whether the rows fit in memory."""
    size = min(PARTITION, max(1, rows // (EACH * workers)))
    tasks = -(-rows // size)
    bytes_a_row = 16 if raw else ROW
    reading = size * max(read, bytes_a_row / STORAGE)
    in_memory = not raw and rows / workers * HELD <= MEMORY
    first = Round(tasks, size * compute + reading, 0.0, answer)
    later = Round(tasks, size * compute, reading, answer) if in_memory else first
    return first, later, in_memory


def outlook(rounds, compute, read, answer, rows, workers, cluster, seeds, raw=False):
    """Estimate the median time of a whole training over the seeds, and its cost."""
    first, later, in_memory = plan(rows, workers, compute, read, answer, raw)
    walls, losses, later_walls = [], [], []
    for seed in range(seeds):
        simulation = Simulation(replace(cluster, workers=workers), seed)
        begun = simulation.round(first)
        some = min(rounds - 1, 3)
        later_seconds = [simulation.round(later) for _ in range(some)]
        later_walls += later_seconds
        walls.append(begun + (rounds - 1) * float(np.mean(later_seconds)))
        losses.append(simulation.losses * rounds / (1 + some))
    wall, each = float(np.median(walls)), float(np.median(later_walls))
    work = later.tasks * later.seconds / workers
    scheduling = later.tasks * (1 + 1 / (FAN_IN - 1)) * cluster.task
    return {
        "rounds": rounds,
        "held": in_memory,
        "tasks": later.tasks,
        "seconds": wall,
        "round_seconds": each,
        "busy": work / each,
        "scheduler_seconds": scheduling,
        "scheduler_is_the_limit": scheduling > work,
        "losses": float(np.mean(losses)),
        "dollars": wall / 3600 * workers * DOLLARS,
    }


def limit(rows, compute, read, task):
    """Return the number of workers above which the scheduler is the bottleneck."""
    size = min(PARTITION, rows)
    return {
        "held": size * compute / (task * (1 + 1 / (FAN_IN - 1))),
        "read": size * max(read, ROW / STORAGE) / (task * (1 + 1 / (FAN_IN - 1))),
    }


def simulate(sizes=SIZES, clusters=CLUSTERS, curve=CURVE, seeds=SEEDS):
    """Check the simulation against measured fits, then estimate larger clusters."""
    fit_results, costs = measured("partitions_many"), measured("partition_rows")
    task = 1e-3 * fit_results["empty_tasks"]["wall_ms"]
    link = fit_results["link"]["bytes_a_second"]
    fits = {
        name: run for name, run in fit_results.items() if isinstance(run, dict) and "rounds" in run
    }
    restart = max(
        run["killed"]["seconds_until_replaced"]
        for run in fits.values()
        if run["killed"] and "seconds_until_replaced" in run["killed"]
    )
    spreads = [record["task_spread"] for run in fits.values() for record in run["rounds"]]
    spread = float(np.median(spreads))
    cluster = Cluster(2, task, restart, spread=spread)
    rankers = jobs(fit_results, costs)
    table = {}
    for name, (rounds, compute, read, answer) in rankers.items():
        raw = name.startswith("one pass")
        table[name] = {
            str(rows): {
                str(workers): outlook(
                    rounds, compute, read, answer, rows, workers, cluster, seeds, raw=raw
                )
                for workers in clusters
            }
            for rows in sizes
        }
    _, compute, read, answer = rankers["RankSVM"]
    curves = {}
    for rows in sizes:
        curves[str(rows)] = []
        for workers in curve:
            estimate = outlook(2, compute, read, answer, rows, workers, cluster, seeds)
            seconds = estimate["round_seconds"], estimate["scheduler_seconds"]
            curves[str(rows)].append((workers, *seconds))
    return {
        "assumed": {
            "seeds": seeds,
            "straggler": f"1 in {SLOW} tasks, {SLOWER:g} times as long",
            "uneven_workers": UNEVEN,
            "hours_between_losses_of_a_worker": LIFE,
            "link_bytes_a_second": LINK,
            "storage_bytes_a_second": STORAGE,
            "dollars_an_hour_of_a_worker": DOLLARS,
            "rows_of_a_partition": PARTITION,
            "bytes_for_rows_a_worker": MEMORY,
        },
        "measured": {"task_ms": 1e3 * task, "restart_seconds": restart, "task_spread": spread},
        "check": check(fits, task, link, seeds),
        "outlook": table,
        "limit_workers": limit(10**9, compute, read, task),
        "rounds": curves,
    }


def smoke():
    """Run the smallest size, as the tests do."""
    save("partitions_simulated", simulate(SIZES[:1], (50,), (10,), seeds=1))


def quick():
    """Simulate 10^9 rows with two seeds."""
    save("partitions_simulated", simulate(SIZES[:1], (50,), (10, 50), seeds=2))


def full():
    """Simulate all sizes and clusters."""
    save("partitions_simulated", simulate())


if __name__ == "__main__":
    full()
