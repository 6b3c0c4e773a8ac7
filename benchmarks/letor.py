"""Test MAP of two rankers by the LETOR protocol: the figures of ``rankine letor``.

    python -m benchmarks.letor

Rows are what ``rankine letor FOLDER --ranker ranksvm --ranker spd --seed SEED`` prints on MQ2008
and on OHSUMED with features scaled within lists. Needs ``RANKINE_DATA``.
"""

from __future__ import annotations

from statistics import median

from benchmarks.common.machine import save
from benchmarks.common.real_data import data_folder
from rankine import RankSVM, SPDRanker
from rankine.evaluation.letor import run_letor

FOLDERS = {"ohsumed": "ohsumed_letor3_querylevelnorm", "mq2008": "mq2008"}


def measure(folders, seeds, grids=None):
    tasks = {}
    for task, folder in folders.items():
        by_seed = [run(data_folder() / folder, seed, grids) for seed in seeds]
        tasks[task] = {name: median(found[name] for found in by_seed) for name in by_seed[0]}
        print(task, tasks[task])
    save("letor", {"seeds": seeds, "tasks": tasks})


def run(folder, seed, grids):
    """Return the mean test MAP of each ranker."""
    rankers = {"ranksvm": RankSVM(), "spd": SPDRanker()}
    (task,) = run_letor([folder], rankers, random_state=seed, grids=grids).tasks
    return {method.name: method.means["map"] for method in task.methods}


def smoke():
    """Run the smallest size, as the tests do."""
    grids = {"ranksvm": {"l2": [1.0]}, "spd": {"n_steps": [100]}}
    measure({"mq2008": FOLDERS["mq2008"]}, [0], grids)


def quick():
    """Run one collection and one seed."""
    measure({"mq2008": FOLDERS["mq2008"]}, [0])


def full():
    """Run both collections and three seeds."""
    measure(FOLDERS, [0, 1, 2])


if __name__ == "__main__":
    full()
