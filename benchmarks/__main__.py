"""``make bench``: every benchmark at its quick size; ``--full`` at its full one.

    python -m benchmarks                          # all, quick
    python -m benchmarks sculley.figure1 --full   # one table or figure of a paper
    python -m benchmarks sculley tas              # all of two papers

A benchmark is a module of this folder with ``quick()`` and ``full()``, or a result of a paper (see
``benchmarks/papers.py``). One that fails is named at the end and makes the run fail; none is left
out silently. Quick results go to ``benchmarks/results/quick``, which git ignores; ``--publish``
writes them where the results page reads them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
import time
import traceback
from functools import partial

import benchmarks
from benchmarks import papers
from benchmarks.machine import FOLDER, QUICK


def found(size, changes=()):
    """Name -> what runs it, in alphabetical order: subjects first, then papers."""
    tasks = {}
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if not module.name.startswith("_") and not module.ispkg:
            loaded = importlib.import_module(f"benchmarks.{module.name}")
            if hasattr(loaded, size):
                tasks[module.name] = getattr(loaded, size)
    return {**tasks, **{name: partial(papers.run, name, size, changes) for name in papers.names()}}


def chosen(tasks, wanted):
    """The tasks with one of the given names, or in one of the given folders."""
    kept = {}
    for name in wanted:
        matching = [task for task in tasks if task == name or task.startswith(f"{name}.")]
        if not matching:
            raise SystemExit(f"no benchmark is called {name}; there are: {', '.join(tasks)}")
        kept |= {task: tasks[task] for task in matching}
    return kept or tasks


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the papers' sizes; hours")
    parser.add_argument("--publish", action="store_true", help="quick, for the results page")
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=JSON", help="a parameter of one result"
    )
    options = parser.parse_args()
    if options.set and len(options.names) != 1:
        raise SystemExit("--set changes one result: name it")
    changes = [(key, json.loads(value)) for key, value in (s.split("=", 1) for s in options.set)]
    if not options.full and not options.publish:
        os.environ.setdefault(FOLDER, str(QUICK))
    failed = []
    tasks = found("full" if options.full else "quick", changes)
    for name, run in chosen(tasks, options.names).items():
        print(f"\n=== {name}", flush=True)
        started = time.monotonic()
        try:
            run()
        except Exception:
            traceback.print_exc()
            failed.append(name)
        print(f"    {time.monotonic() - started:.1f} s", flush=True)
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
