"""Runs every learner in processes of its own, chooses its setting on validation rows, compares.

A learner has a process that forks for each setting; NDCG@10 on the validation rows chooses one; the
chosen setting is trained again until it was measured ``repetitions`` times, and its scores of the
test rows count. Peers come from the Python that RANKINE_PEERS_PYTHON names (this one by default). A
peer that is not there, fails or runs out of time is named in the table with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common.peers import PYTHON, peers_python
from benchmarks.common.timing import spread
from benchmarks.instead.data_files import PARTS
from benchmarks.instead.learners import LEARNERS
from benchmarks.instead.rankine_rankers import NAMES
from benchmarks.instead.worker import read
from rankine import Dataset
from rankine.metrics import evaluate

METRIC = "ndcg@10"
ADDITIVE = "rankine additive"
TREES = ("XGBoost trees", "LightGBM lambdarank", "CatBoost YetiRank")
RESAMPLES = 4_000
FIGURES = ("cpu_seconds", "peak_mb", "model_bytes", "us_per_candidate")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
ONE_THREAD = dict.fromkeys(THREADS, "1")
WORKER = Path(__file__).parent / "worker.py"


def versions():
    """Return the version of each package in the peers' Python, None if absent."""
    packages = sorted({package for _, package in LEARNERS.values()})
    code = (
        "import importlib, json, sys\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        module = importlib.import_module(name)\n"
        "        found[name] = str(getattr(module, '__version__', 'of unknown version'))\n"
        "    except ImportError:\n"
        "        found[name] = None\n"
        "print(json.dumps(found))\n"
    )
    out = subprocess.run(
        [peers_python(), "-c", code, *packages], check=True, capture_output=True, text=True
    )
    return json.loads(out.stdout)


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of this program
    """Why a learner has no figures."""


def run(folder, name, settings, limit, first):
    """Train each setting; return its figures, or ``{"reason": ...}``."""
    python = sys.executable if name in NAMES else peers_python()
    ids = [f"run{first + k}" for k in range(len(settings))]
    job = {"name": name, "settings": settings, "ids": ids, "limit": limit}
    path = os.pathsep.join(entry for entry in sys.path if entry) if name in NAMES else ""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": path}
    environment["RANKINE_WORKER_FOLDER"] = str(folder)
    command = [python, str(WORKER), str(folder), json.dumps(job)]
    completed = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False
    )
    error_lines = completed.stderr.strip().splitlines() or [f"exit code {completed.returncode}"]
    if completed.returncode != 0:
        raise Refusal(f"failed: {error_lines[-1][:160]}")
    results = json.loads(completed.stdout.strip().splitlines()[-1])
    reasons = [line.removeprefix("REASON ") for line in error_lines if line.startswith("REASON ")]
    for result in results:
        if result.get("reason") == "failed":
            result["reason"] = f"failed: {reasons.pop(0)}"
    return results


def quality(folder, identity, part, truth):
    """Return NDCG@10 of stored scores for every query; NaN where it is undefined."""
    scores = np.load(folder / f"{identity}.{part}.npy")
    return np.asarray(
        evaluate(METRIC, truth[part].y, scores, truth[part].queries, per_query=True), dtype=float
    )


def one_learner(folder, name, settings, truth, repetitions, limit):
    """Choose a setting and measure it; return NDCG@10 of every test query and the figures."""
    trials = run(folder, name, settings, limit, 0)
    good = [
        (result, setting)
        for result, setting in zip(trials, settings, strict=True)
        if "id" in result
    ]
    if not good:
        raise Refusal(trials[0]["reason"])
    values = [float(np.nanmean(quality(folder, result["id"], "vali", truth))) for result, _ in good]
    first, setting = good[int(np.argmax(values))]
    by_query = quality(folder, first["id"], "test", truth)
    again = [setting] * (repetitions - 1)
    runs = [first, *(run(folder, name, again, limit, len(settings)) if again else [])]
    if any("reason" in result for result in runs):
        raise Refusal(next(result["reason"] for result in runs if "reason" in result))
    print(f"{name} {setting} {max(values):.4f}", file=sys.stderr, flush=True)
    return by_query, {
        "setting": {key: value for key, value in setting.items() if key != "seed"},
        "settings_tried": len(settings),
        "settings_refused": [result["reason"] for result in trials if "reason" in result],
        "validation": max(values),
        "test": float(np.nanmean(by_query)),
        **{figure: spread(result[figure] for result in runs) for figure in FIGURES},
    }


def differences(learners, values):
    """Compare all with rankine's ranker of the best validation value, and with the additive one."""
    ours = [name for name in learners if name in NAMES]
    reference = max(ours, key=lambda name: learners[name]["validation"])
    for name, figures in learners.items():
        figures["against_ours"] = mean_difference(values[name], values[reference])
        if ADDITIVE in values and name not in NAMES:
            figures["against_additive"] = mean_difference(values[name], values[ADDITIVE])
    return reference


def mean_difference(values, others):
    """Return the mean of paired differences with its 95 % interval, queries resampled."""
    gap = values - others
    gap = gap[~np.isnan(gap)]
    draws = np.random.default_rng(0).integers(len(gap), size=(RESAMPLES, len(gap)))
    low, high = np.quantile(gap[draws].mean(axis=1), (0.025, 0.975))
    return {
        "mean": float(gap.mean()),
        "standard_error": float(gap.std(ddof=1) / np.sqrt(len(gap))),
        "low": float(low),
        "high": float(high),
    }


def compare(write_rows, grids, *, seeds, repetitions, limit, most):
    """Measure every learner on the rows that ``write_rows(folder)`` writes."""
    installed = versions()
    learners, values, refused, absent = {}, {}, {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = write_rows(folder)
        truth = {part: Dataset.from_arrays(*read(folder, part)) for part in PARTS[1:]}
        for learner, settings in grids.items():
            package = LEARNERS[learner][1] if learner in LEARNERS else None
            if package is not None and installed[package] is None:
                absent.append(f"{learner} (no {package} in the Python that {PYTHON} names)")
                continue
            seeded = [{**setting, "seed": seeds[0]} for setting in settings[:most]]
            try:
                values[learner], learners[learner] = one_learner(
                    folder, learner, seeded, truth, repetitions, limit
                )
            except Refusal as reason:
                refused[learner] = str(reason)
                print(learner, reason, file=sys.stderr, flush=True)
    return {
        "seeds": seeds,
        "repetitions": repetitions,
        "limit_seconds": limit,
        "rows": sizes,
        "versions": {package: version for package, version in installed.items() if version},
        "ours": differences(learners, values),
        "learners": learners,
        "refused": refused,
        "absent": absent,
    }
