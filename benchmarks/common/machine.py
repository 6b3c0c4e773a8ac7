"""Describe the machine of a measurement, and store results with it and with their code."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.common.provenance import record

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
    """Write results with a description of their machine and code, and print the path."""
    write(name, {"machine": describe(), "measured": record(name), **results})


def add(name, part, results):
    """Replace one part of the results ``name`` and keep the others with their own records."""
    path = results_path(name)
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    parts = {**stored.get("measured", {}), part: {"machine": describe(), **record(name)}}
    write(name, {**stored, "machine": describe(), "measured": parts, part: results})


def write(name, results):
    """Write results and print and return the path. An interrupted write leaves the old file."""
    path = results_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)
    print(f"written: {path}")
    return path


def records(results):
    """Return the records of a stored result by part; the part "" is the whole result.

    A part that has none was stored before records were kept.
    """
    measured = results.get("measured", {})
    if "commit" in measured or not measured:
        return {"": measured}
    parts = [key for key in results if key not in ("machine", "measured")]
    return {part: measured.get(part, {}) for part in parts}
