"""``make bench``: every benchmark at its quick size; ``--full`` at its full one.

A benchmark is a module of this folder with ``quick()`` and ``full()``. One that fails is named at
the end and makes the run fail; none is left out silently.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
import traceback

import benchmarks


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the papers' sizes; hours")
    parser.add_argument("names", nargs="*", help="only these")
    options = parser.parse_args()
    failed = []
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name.startswith("_") or (options.names and module.name not in options.names):
            continue
        loaded = importlib.import_module(f"benchmarks.{module.name}")
        run = getattr(loaded, "full" if options.full else "quick", None)
        if run is None:
            continue
        print(f"\n=== {module.name}", flush=True)
        started = time.monotonic()
        try:
            run()
        except Exception:
            traceback.print_exc()
            failed.append(module.name)
        print(f"    {time.monotonic() - started:.1f} s", flush=True)
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
