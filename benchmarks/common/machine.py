"""Describe the machine of a measurement, and store results."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

#: Results of full size, which the results page is made of.
RESULTS = Path(__file__).parent.parent / "results"
#: Results of ``make bench``: quick sizes, kept out of the repository.
QUICK = RESULTS / "quick"
#: Names the folder that results are written to.
FOLDER = "RANKINE_BENCH_RESULTS"


def describe():
    """Return processor, memory, operating system and the versions of the main packages."""
    model = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        pass
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": memory(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("rankine", "numpy", "scipy", "numba", "scikit-learn")},
    }


def memory():
    """Return the GiB of main memory, or 0 if unknown."""
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
    return round(pages * size / 2**30)


def results_path(name):
    """Return the path that the result ``name`` is written to; ``FOLDER`` overrides the folder."""
    return Path(os.environ.get(FOLDER, RESULTS)) / f"{name}.json"


def save(name, results):
    """Write results with a description of the machine and print the path."""
    path = results_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"machine": describe(), **results}, indent=1) + "\n", encoding="utf-8"
    )
    print(f"written: {path}")


def add(name, part, results):
    """Replace one part of the results ``name`` and keep the others."""
    path = results_path(name)
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    stored.pop("machine", None)
    save(name, {**stored, part: results})
