"""What a result was measured on, and how results are kept."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def describe():
    """Processor, memory, system and the versions that matter."""
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
        "system": platform.platform(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("rankine", "numpy", "scipy", "numba", "scikit-learn")},
    }


def save(name, results):
    """Write results beside the machine's description and say where."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(
        json.dumps({"machine": describe(), **results}, indent=1) + "\n", encoding="utf-8"
    )
    print(f"written: {path}")


def add(name, part, results):
    """Replace one part of the results ``name`` and keep the others."""
    path = RESULTS / f"{name}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known.pop("machine", None)
    save(name, {**known, part: results})
