"""Run reliability trials: ``python -m reliability`` (with ``tests`` on the path).

    python -m reliability                             every kind, as make reliability does
    python -m reliability --size soak --seed fresh    for hours
    python -m reliability --only text --first 4711 --count 1 --seed 7    one case again

Prints progress on stderr, writes one JSON object of figures, and ends with status 1 when anything
went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

SEED = 20261115


def parse(arguments=None):
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("reliability", description=__doc__, formatter_class=layout)
    parser.add_argument("--size", choices=("short", "standard", "soak"), default="standard")
    parser.add_argument("--only", help="kinds, separated by commas")
    parser.add_argument("--skip", default="", help="kinds to leave out, separated by commas")
    parser.add_argument("--count", type=int, help="cases of each kind, instead of the size's")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", default=str(SEED), help="a number, or 'fresh'")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="file for the figures; default: standard output")
    parser.add_argument("--update", action="store_true", help="keep --out's figures of other kinds")
    parser.add_argument("--list", action="store_true", help="list the kinds and stop")
    return parser.parse_args(arguments)


def main(arguments=None) -> int:
    options = parse(arguments)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from reliability.harness.lanes import run_tasks
    from reliability.harness.plan import KINDS, SIZES, tasks_of, warm
    from reliability.harness.report import Report

    if options.list:
        for name, kind in KINDS.items():
            print(f"{name:16} {'/'.join(map(str, kind.counts)):>24}  {kind.what}")
        return 0
    seed = time.time_ns() % 2**32 if options.seed == "fresh" else int(options.seed)
    chosen = options.only.split(",") if options.only else list(KINDS)
    chosen = [name for name in chosen if name not in options.skip.split(",")]
    tell = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    tell(f"seed {seed}; {len(chosen)} kinds of trials")
    tasks = []
    for name in chosen:
        count = options.count or KINDS[name].counts[SIZES.index(options.size)]
        if count > KINDS[name].batch:  # a single child loads what it needs, and no more
            warm(name)
        tasks += tasks_of(name, seed, options.first, count)
    report = Report(options.size, seed, options.workers)
    if options.update and options.out and options.out.exists():
        report.keep(json.loads(options.out.read_text()), chosen)
    began, said = time.monotonic(), [0.0]

    def told(result, left):
        report.add(result.task.kind, result.outcome, result.cpu_seconds)
        for story in result.outcome.failures[:3]:
            tell(f"FAILED {story}")
        now = time.monotonic()
        if now - said[0] > 5 or left == 0:
            said[0] = now
            done = result.task.first + result.task.count
            tell(f"{now - began:6.0f} s  {result.task.kind} {done}, {left} batches left")

    # The longest first, so that the lanes end together.
    tasks.sort(key=lambda task: (KINDS[task.kind].batch, task.first))
    run_tasks(tasks, options.workers, told)
    found = report.plain()
    text = json.dumps(found, indent=1) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    else:
        print(text)
    for name, one in found["kinds"].items():
        faults = {fault: n for fault, n in one["faults"].items() if n}
        tell(f"{name:16} {one['cases']:>9} cases  {one['cpu_seconds']:>7.1f} s CPU  "
             f"{faults or 'no fault'}")  # fmt: skip
    tell(f"{found['seconds']:.0f} s, {found['cpu_seconds']:.0f} s of CPU")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
