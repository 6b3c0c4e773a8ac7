"""Test the trials: each bug planted in a copy of the package must be noticed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import rankine
from reliability.harness.outcome import Job, Outcome
from reliability.seeded_bugs import BUGS, Bug, plant

PACKAGE = Path(rankine.__file__).parent
TESTS = Path(__file__).resolve().parents[2]
#: Time limit of one trial in seconds.
PATIENCE = 240.0


def notices(bug: Bug, folder: Path, seed: int = 1) -> tuple[bool, str]:
    """Return whether the trial of a bug notices it, and the end of the trial's log."""
    copy = folder / "src" / "rankine"
    shutil.rmtree(folder / "src", ignore_errors=True)
    shutil.copytree(PACKAGE, copy)  # with its bytecode: only the changed file is compiled again
    path = copy / bug.file
    path.write_text(plant(bug, path.read_text(encoding="utf-8")), encoding="utf-8")
    out = folder / "figures.json"
    out.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder / "src"), str(TESTS)]),
        "RANKINE_CACHE_DIR": str(folder / "cache"),
        "NUMBA_DISABLE_JIT": "1",  # few cases: compiling would take longer than trying
        "RELIABILITY_ONLY": bug.only,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "reliability", "--only", bug.kind, "--count", str(bug.count)]
    try:
        done = subprocess.run(
            [*command, "--seed", str(seed), "--workers", "1", "--out", str(out)],
            env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hangs" in bug.faults, "no end"
    said = done.stderr[-1500:]
    if not out.exists():
        return False, said
    faults = json.loads(out.read_text())["kinds"][bug.kind]["faults"]
    return done.returncode == 1 and any(faults[name] for name in bug.faults), said


def trial(job: Job) -> Outcome:
    """Plant a bug in each case and run its trial."""
    outcome = Outcome()
    names = list(BUGS)
    for case, _ in job.cases(outcome):
        name = names[5 * case % len(names)]  # neighbours concern the same code; a few go far
        noticed, said = notices(BUGS[name], job.folder)
        outcome.require(noticed, "accepted", f"{name}: not noticed by {BUGS[name].kind}\n{said}")
        outcome.counts["noticed"] += noticed
    return outcome
