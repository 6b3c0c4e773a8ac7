"""Run reliability trials: ``python -m reliability`` (with ``tests`` on the path).

    python -m reliability                             all kinds, as make reliability does
    python -m reliability --size soak --seed fresh    for hours, with new cases
    python -m reliability --only text --first 4711 --count 1 --seed 7    repeat one case

Print progress to stderr, write the figures as one JSON object, and exit with status 1 if any case
failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

SEED = 20261115
_PROGRESS_SECONDS = 5.0


def parse(arguments=None):
    """Parse the command line."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("reliability", description=__doc__, formatter_class=layout)
    parser.add_argument("--size", choices=("short", "standard", "soak"), default="standard")
    parser.add_argument("--only", help="kinds of trials to run, separated by commas")
    parser.add_argument("--skip", default="", help="kinds to leave out, separated by commas")
    parser.add_argument("--count", type=int, help="number of cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", default=str(SEED), help="a number, or 'fresh' for a new one")
    parser.add_argument("--workers", type=int, default=2, help="number of parallel processes")
    parser.add_argument("--out", type=Path, help="file for the figures (default: stdout)")
    parser.add_argument("--update", action="store_true", help="keep --out's figures of other kinds")
    parser.add_argument("--list", action="store_true", help="list the kinds and stop")
    return parser.parse_args(arguments)


def log(text: str) -> None:
    """Print a line to stderr at once."""
    print(text, file=sys.stderr, flush=True)


def main(arguments=None) -> int:
    """Run the chosen trials and return the exit status."""
    options = parse(arguments)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # Imported after the variables are set: NumPy reads them when it is loaded.
    from reliability.harness.plan import KINDS, SIZES, batches_of, warm
    from reliability.harness.report import Report
    from reliability.harness.runner import run_batches

    if options.list:
        for name, kind in KINDS.items():
            print(f"{name:16} {'/'.join(map(str, kind.counts)):>24}  {kind.what}")
        return 0
    seed = time.time_ns() % 2**32 if options.seed == "fresh" else int(options.seed)
    chosen = options.only.split(",") if options.only else list(KINDS)
    chosen = [name for name in chosen if name not in options.skip.split(",")]
    log(f"seed {seed}; {len(chosen)} kinds of trials")
    batches = []
    for name in chosen:
        count = options.count or KINDS[name].counts[SIZES.index(options.size)]
        if count > KINDS[name].batch:  # a single child loads only what it needs itself
            warm(name)
        batches += batches_of(name, seed, options.first, count)
    report = Report(options.size, seed, options.workers)
    if options.update and options.out and options.out.exists():
        report.keep_earlier(json.loads(options.out.read_text()), chosen)
    start = time.monotonic()
    last_progress = 0.0

    def on_result(result, n_left):
        nonlocal last_progress
        report.add(result.batch.kind, result.outcome, result.cpu_seconds)
        for failure in result.outcome.failures[:3]:
            log(f"FAILED {failure}")
        now = time.monotonic()
        if now - last_progress > _PROGRESS_SECONDS or n_left == 0:
            last_progress = now
            case = result.batch.first + result.batch.count
            log(f"{now - start:6.0f} s  {result.batch.kind} {case}, {n_left} batches left")

    # The longest cases first, so that the workers finish at about the same time.
    batches.sort(key=lambda batch: (KINDS[batch.kind].batch, batch.first))
    run_batches(batches, options.workers, on_result)
    figures = report.to_json()
    text = json.dumps(figures, indent=1) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    else:
        print(text)
    for name, kind in figures["kinds"].items():
        faults = {fault: n for fault, n in kind["faults"].items() if n}
        log(f"{name:16} {kind['cases']:>9} cases  {kind['cpu_seconds']:>7.1f} s CPU  "
            f"{faults or 'no fault'}")  # fmt: skip
    log(f"{figures['seconds']:.0f} s, {figures['cpu_seconds']:.0f} s of CPU")
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
