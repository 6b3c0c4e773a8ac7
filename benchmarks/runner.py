"""Command line that ``python -m benchmarks`` and ``python -m papers`` share."""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback

from benchmarks.common.machine import FOLDER, QUICK


def main(description, tasks_of):
    """Run the selected tasks and return the exit code.

    ``tasks_of(size, changes)`` maps names to functions without arguments; ``size`` is "smoke",
    "quick" or "full", and ``changes`` are parameters to replace. A task that fails does not stop
    the others: its name is printed at the end, and the exit code is 1.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_true", help="run the full sizes, which takes hours")
    sizes.add_argument("--smoke", action="store_true", help="run the smallest sizes")
    parser.add_argument("--publish", action="store_true", help="store quick results for the pages")
    parser.add_argument("names", nargs="*", help="run only these tasks or folders")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=JSON",
        help="replace a parameter of the one named result",
    )
    options = parser.parse_args()
    if options.set and len(options.names) != 1:
        raise SystemExit("--set changes one result: name it")
    changes = [(key, json.loads(value)) for key, value in (s.split("=", 1) for s in options.set)]
    size = "quick"
    if options.full:
        size = "full"
    elif options.smoke:
        size = "smoke"
    if size == "smoke" or (size == "quick" and not options.publish):
        os.environ.setdefault(FOLDER, str(QUICK))
    tasks = tasks_of(size, changes)
    failed = []
    for name, task in select(tasks, options.names).items():
        print(f"\n=== {name}", flush=True)
        started = time.monotonic()
        try:
            task()
        except Exception:
            traceback.print_exc()
            failed.append(name)
        print(f"    {time.monotonic() - started:.1f} s", flush=True)
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


def select(tasks, names):
    """Return the tasks with one of the given names, or in one of the given folders."""
    selected = {}
    for name in names:
        matching = [task for task in tasks if task == name or task.startswith(f"{name}.")]
        if not matching:
            raise SystemExit(f"there is no task {name!r}; choose from: {', '.join(tasks)}")
        selected |= {task: tasks[task] for task in matching}
    return selected or tasks
