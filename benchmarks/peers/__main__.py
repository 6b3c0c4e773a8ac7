"""Install other libraries in an environment of their own and run all comparisons with them.

    python -m benchmarks.peers                      # quick sizes, environment in build/peers
    python -m benchmarks.peers --full               # the sizes of README
    python -m benchmarks.peers --full additive metrics

The environment holds rankine and every library of ``PACKAGES`` that can be installed. Programs that
are no packages (SVMrank, sofia-ml, liblinear-ranksvm) are named in variables, see
``benchmarks/common/peers.py``. Every task runs once, rankine and the others in the same run, and
``peers.json`` gets their ratios. What cannot be installed or run is named at the end; a task that
fails makes the exit status 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

from benchmarks.common.machine import FOLDER, QUICK, save
from benchmarks.common.peers import PYTHON
from benchmarks.common.provenance import ROOT, SIZE
from benchmarks.peers.ratios import ratios, shown

PACKAGES = (
    "lightgbm", "xgboost", "catboost", "interpret-core", "vowpalwabbit", "onnxruntime", "ranx",
    "ir-measures", "pandas", "pyarrow", "fastapi", "uvicorn", "orjson", "dlib", "rlscore",
)  # fmt: skip
#: Task -> the package that runs it with ``python -m``.
TASKS = {
    "reading.text": "benchmarks",
    "spd": "benchmarks",
    "ranksvm": "benchmarks",
    "least_squares": "benchmarks",
    "domination.fit": "benchmarks",
    "elastic.speed": "benchmarks",
    "instead.click_log": "benchmarks",
    "scoring.latency": "benchmarks",
    "metrics": "benchmarks",
    "additive": "benchmarks",
    "instead.real_sets": "benchmarks",
    "history_offline": "benchmarks",
    "serving_peer": "benchmarks",
    "airola.peers": "papers",
}


def install(folder):
    """Create the environment where there is none; return its Python and what is missing."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--editable", f"{ROOT}[all]"], check=True)
    # One by one: a package that cannot be built must not keep the others away.
    failed = [name for name in PACKAGES if subprocess.run([*pip, name], check=False).returncode]
    return python, failed


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environment", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--full", action="store_true", help="run the sizes of README")
    parser.add_argument("tasks", nargs="*", help="run only these tasks")
    options = parser.parse_args(argv)
    unknown = set(options.tasks) - set(TASKS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(TASKS)}")
    python, missing = install(options.environment)
    os.environ[PYTHON] = str(python)
    os.environ[SIZE] = "full" if options.full else "quick"
    if not options.full:
        os.environ.setdefault(FOLDER, str(QUICK))
    started = time.time()
    flags, failed = (["--full"] if options.full else []), []
    for name in options.tasks or TASKS:
        print(f"\n=== {name}", flush=True)
        command = [str(python), "-m", TASKS[name], *flags, name]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    rows, unmeasured = ratios(started)
    save("peers", {"rows": rows, "unmeasured": unmeasured, "not_installed": missing})
    print(shown(rows))
    for what, names in (("not installed", missing), ("without figures", unmeasured),
                        ("failed", failed)):  # fmt: skip
        if names:
            print(f"{what}: {', '.join(names)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
