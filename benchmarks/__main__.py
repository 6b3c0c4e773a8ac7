"""Run the benchmarks: speed, memory, and comparisons with other libraries.

    python -m benchmarks                  # all benchmarks at their quick size (make bench)
    python -m benchmarks spd ranksvm      # two of them
    python -m benchmarks instead --full   # the comparisons with other libraries, full size

A benchmark is a module below this folder with ``smoke()``, ``quick()`` and ``full()``, or a
comparison in ``benchmarks/instead`` (see ``papers/runs.py``). The tests run the smallest size,
``smoke``. ``elastic`` runs all modules of ``benchmarks/elastic``, ``elastic.memory`` one of them.
Smoke and quick results go to ``benchmarks/results/quick``, which git ignores; the pages of the
documentation show results of the full size only.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path

from papers import runs

from benchmarks import runner


def tasks_of(size, changes):
    """Map the name of every benchmark to the function that runs it.

    Modules are imported when they run, so that one that cannot be imported fails alone.
    """
    folder, tasks = Path(__file__).parent, {}
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        if f"\ndef {size}(" in path.read_text(encoding="utf-8"):
            tasks[name] = partial(run_module, name, size)
    for name in runs.comparison_names():
        tasks[name] = partial(runs.run, name, size, changes)
    return tasks


def run_module(name, size):
    """Run one benchmark."""
    getattr(importlib.import_module(f"benchmarks.{name}"), size)()


if __name__ == "__main__":
    sys.exit(runner.main("benchmarks", __doc__, tasks_of))
