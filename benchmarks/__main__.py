"""Run the benchmarks: speed, memory, and comparisons with other libraries.

    python -m benchmarks                  # all benchmarks at their quick size (make bench)
    python -m benchmarks spd ranksvm      # two of them
    python -m benchmarks instead --full   # the comparisons with other libraries, full size

A benchmark is a module of this folder with ``quick()`` and ``full()``, or a comparison in
``benchmarks/instead`` (see ``papers/runs.py``). Quick results go to ``benchmarks/results/quick``,
which git ignores; ``--publish`` stores them for the pages of the documentation.
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
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if not module.name.startswith("_") and not module.ispkg:
            loaded = importlib.import_module(f"benchmarks.{module.name}")
            if hasattr(loaded, size):
                tasks[module.name] = getattr(loaded, size)
    for name in runs.comparison_names():
        tasks[name] = partial(runs.run, name, size, changes)
    return tasks


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, tasks_of))
