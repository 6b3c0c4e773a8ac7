"""CPU time per row of every operation on a partition, and the overhead of a task.

    python -m benchmarks.partitions.rows [--rows 200000] [--tasks 2000]

Row costs are the best of several runs on one partition in this process, with one thread. Task
overhead is the CPU time that client and scheduler, which share this process, spend on an empty
task. ``docs/scaling.md`` uses these figures and those of ``benchmarks.partitions.rounds``.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace

import rankine.distributed as rd
from benchmarks.common.machine import save
from benchmarks.common.timing import cpu_seconds, repeated
from benchmarks.partitions.rounds import WORKERS, true_weights, write_rows
from rankine.distributed.partition_tasks import ProblemTask
from rankine.distributed.runners import connect
from rankine.losses.least_squares import least_squares_risk
from rankine.losses.pair_queries import PairQueries, pair_risk
from rankine.transforms.scaling import Scaling


def best(work, repeats=7):
    """Return the smallest CPU seconds of several calls."""
    return repeated(work, repeats)[0]["low"]


def row_costs(n_rows):
    """Measure microseconds per row for reading, indexing and every product."""
    with tempfile.TemporaryDirectory() as folder:
        (partition,) = rd.scan(write_rows(folder, n_rows), partition_bytes=2**40).partitions
        seconds_of = {"read and decode": best(partition.load, 3)}
        data = partition.load()
    seconds_of["index of the pairs"] = best(lambda: PairQueries.from_dataset(replace(data)))
    w, plain = 0.5 * true_weights(), Scaling("none")
    hinge, squared = (
        ProblemTask(pair_risk, (None, loss, "query"), plain).build(data, 1, 0)
        for loss in ("hinge", "squared_hinge")
    )
    squares = ProblemTask(least_squares_risk, (None, "query", "all"), plain).build(data, 1, 0)
    seconds_of["risk and gradient, hinge"] = best(lambda: hinge.value_and_gradient(w))
    seconds_of["risk and gradient, squared hinge"] = best(
        lambda: squared.gradient_with_curvature(w)
    )
    seconds_of["curvature product, squared hinge"] = best(lambda: squared.curvature_product(w, w))
    seconds_of["least-squares product"] = best(lambda: squares.normal_product(w))
    return {name: 1e6 * seconds / data.n_rows for name, seconds in seconds_of.items()}


def nothing(number):
    """Return the number: an empty task."""
    return number


def task_cost(n_tasks):
    """Measure CPU milliseconds of client and scheduler for an empty task."""

    def ask(count):
        return client.gather(client.map(nothing, range(count), pure=False))

    with connect(f"local:{WORKERS}") as client:
        ask(100)
        return 1e3 * cpu_seconds(lambda: ask(n_tasks))[0] / n_tasks


def measure(n_rows, n_tasks):
    results = {"rows": n_rows, "microseconds_a_row": row_costs(n_rows)}
    results["cpu_milliseconds_a_task"] = task_cost(n_tasks)
    print(results)
    save("partition_rows", results)


def smoke():
    """Run the smallest size, as the tests do."""
    measure(2_000, 20)


def quick():
    measure(20_000, 200)


def full():
    measure(200_000, 2000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--tasks", type=int, default=2000)
    options = parser.parse_args()
    measure(options.rows, options.tasks)


if __name__ == "__main__":
    main()
