"""Command line that ``python -m benchmarks`` and ``python -m papers`` share."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from benchmarks.common.machine import FOLDER, QUICK
from benchmarks.common.provenance import SIZE


def main(package, description, tasks_of, arguments=None):
    """Run the selected tasks of a package and return the exit code.

    ``tasks_of(size, changes)`` maps names to functions without arguments; ``size`` is "smoke",
    "quick" or "full", and ``changes`` are parameters to replace. Several tasks run one after the
    other, each in a process of its own, so that neither a setting nor a crash of one reaches the
    next. Each one's time and CPU time are printed, of its own processes too. Those that fail are
    named at the end, and the exit code is 1.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_true", help="run the full sizes, which takes hours")
    sizes.add_argument("--smoke", action="store_true", help="run the smallest sizes")
    parser.add_argument("names", nargs="*", help="run only these tasks or folders")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=JSON",
        help="replace a parameter of the one named result",
    )
    options = parser.parse_args(arguments)
    if options.set and len(options.names) != 1:
        raise SystemExit("--set changes one result: name it")
    changes = [(key, json.loads(value)) for key, value in (s.split("=", 1) for s in options.set)]
    size = "quick"
    if options.full:
        size = "full"
    elif options.smoke:
        size = "smoke"
    os.environ[SIZE] = size
    if size != "full":
        os.environ.setdefault(FOLDER, str(QUICK))
    tasks = select(tasks_of(size, changes), options.names)
    if list(tasks) == options.names and len(tasks) == 1:
        tasks[options.names[0]]()
        return 0
    return run_all(package, size, tasks)


def run_all(package, size, names):
    """Run tasks in processes of their own, name those that fail, and return the exit code."""
    flags = {"quick": [], "smoke": ["--smoke"], "full": ["--full"]}[size]
    failed = []
    for name in names:
        print(f"\n=== {name}", flush=True)
        started, cpu = time.monotonic(), children_seconds()
        command = [sys.executable, "-m", package, *flags, name]
        status = subprocess.run(command, check=False).returncode
        if status != 0:
            failed.append(f"{name} (exit status {status})")
        wall, cpu = time.monotonic() - started, children_seconds() - cpu
        print(f"    {wall:.1f} s, CPU {cpu:.1f} s", flush=True)
    if failed:
        print("failed: " + ", ".join(failed), flush=True)
    return 1 if failed else 0


def children_seconds():
    """Return the CPU seconds of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def select(tasks, names):
    """Return the tasks with one of the given names, or in one of the given folders."""
    selected = {}
    for name in names:
        matching = [task for task in tasks if task == name or task.startswith(f"{name}.")]
        if not matching:
            raise SystemExit(f"there is no task {name!r}; choose from: {', '.join(tasks)}")
        selected |= {task: tasks[task] for task in matching}
    return selected or tasks
