"""Run the benchmarks: speed, memory, and comparisons with other libraries.

    python -m benchmarks                  # all benchmarks at their quick size (make bench)
    python -m benchmarks spd ranksvm      # two of them
    python -m benchmarks instead --full   # the comparisons with other libraries, full size

A benchmark is a module below this folder with ``smoke()``, ``quick()`` and ``full()``, or a
comparison in ``benchmarks/instead`` (see ``papers/runs.py``). The tests run the smallest size,
``smoke``. ``elastic`` runs all modules of ``benchmarks/elastic``, ``elastic.memory`` one of them.
Smoke and quick results go to ``benchmarks/results/quick``, which git ignores; ``--publish`` stores
quick results for the pages of the documentation.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import partial

from papers import runs

import benchmarks
from benchmarks import runner


def tasks_of(size, changes):
    """Map the name of every benchmark to the function that runs it."""
    tasks = {}
    for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
        name = module.name.removeprefix("benchmarks.")
        if module.ispkg or name.startswith(("_", "common.", "instead.")):
            continue
        loaded = importlib.import_module(module.name)
        if hasattr(loaded, size):
            tasks[name] = getattr(loaded, size)
    for name in runs.comparison_names():
        tasks[name] = partial(runs.run, name, size, changes)
    return tasks


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, tasks_of))
