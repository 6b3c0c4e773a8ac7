"""Section 6: acquisition functions on real tuning problems."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import optuna
from benchmarks.common.real_data import letor_folders
from benchmarks.common.workloads import AS_PRINTED
from benchmarks.tune.samplers import SAMPLERS, suggest

from papers.freno.figure2 import FOLDERS
from papers.runs import table
from rankine import ElasticRanker
from rankine.core.errors import DivergenceError
from rankine.metrics import evaluate
from rankine.transforms.scaling import Scaling

TITLE = "Section 6: acquisition functions on real tuning problems"
SMOKE = {"seeds": [0], "folds": 1, "evaluations": 2}
QUICK = {"seeds": [0], "folds": 1, "evaluations": 8}
FULL = {"seeds": [0, 1, 2, 3], "folds": 5, "evaluations": 30}
METRIC = "ndcg@10"
NAMES = {"thompson": "Thompson sampling", "ei": "expected improvement", "random": "random",
         "tpe": "TPE (Optuna)"}  # fmt: skip


def fitted(train, l1, l2, solver, loss, metric):
    """Train for one pass with a setting of the paper's space."""
    strength = {"theta": l1, "l1": 0.0} if solver == "psgd" else {"l1": l1}
    parameters = {"solver": solver, "loss": loss, "objective": metric, "l2": l2, **strength}
    return ElasticRanker(**{**AS_PRINTED, "random_state": 0, **parameters}).fit(train)


def one_study(parts, sampler, seed, evaluations):
    """Run a study; return its best validation value and the test value of that setting."""
    train, vali, test = parts
    study = optuna.create_study(sampler=SAMPLERS[sampler](seed), direction="maximize")
    best = -1.0, 0.0
    for _ in range(evaluations):
        trial = study.ask()
        try:
            ranker = fitted(train, *suggest(trial))
        except DivergenceError:
            study.tell(trial, 0.0)
            continue
        value = float(evaluate(METRIC, vali.y, ranker.predict(vali), vali.queries))
        study.tell(trial, value)
        if value > best[0]:
            best = value, float(evaluate(METRIC, test.y, ranker.predict(test), test.queries))
    return {"vali": best[0], "test": best[1]}


def measure(seeds, folds, evaluations):
    """Run every sampler on every fold of every collection."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    folders, absent = letor_folders(dense=True)
    problems = []
    for folder in (f for f in folders if f.name.lower() in FOLDERS):
        for fold in list(folder.folds())[:folds]:
            parts = [Scaling("query").apply(part) for part in fold[1:]]
            for seed in seeds:
                values = {s: one_study(parts, s, seed, evaluations) for s in SAMPLERS}
                problems.append({"set": folder.name, "fold": fold.name, "seed": seed, **values})
            print(folder.name, fold.name, file=sys.stderr, flush=True)
    return {"seeds": seeds, "repetitions": len(seeds), "absent": absent, "problems": problems}


def difference(results, other, part):
    """Return Thompson sampling minus another sampler, with a 95 % interval over problems."""
    gaps = np.array([p["thompson"][part] - p[other][part] for p in results["problems"]])
    rng = np.random.default_rng(0)
    means = gaps[rng.integers(len(gaps), size=(10_000, len(gaps)))].mean(axis=1)
    return float(gaps.mean()), tuple(float(q) for q in np.quantile(means, (0.025, 0.975)))


def markdown(results):
    problems = results["problems"]
    rows = []
    for sampler, name in NAMES.items():
        means = [np.mean([p[sampler][part] for p in problems]) for part in ("vali", "test")]
        cells = [name, *(f"{mean:.4f}" for mean in means)]
        if sampler == "thompson":
            cells += ["", ""]
        else:
            for part in ("vali", "test"):
                mean, (low, high) = difference(results, sampler, part)
                cells.append(f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]")
        rows.append(cells)
    sets = " and ".join(sorted({p["set"] for p in problems}))
    return "\n\n".join([
        (f"{len(problems)} problems (folds of {sets}, "
         f"{len(results['seeds'])} seeds each): one pass of ElasticRank, "
         f"{results['parameters']['evaluations']} evaluations in the paper's space of l1 or theta, "
         "l2, optimiser, loss and metric, judged by NDCG@10 on validation queries; the setting "
         "found is judged once on test queries. Differences are Thompson sampling minus the other, "
         "problems resampled."),
        table(("acquisition", "best on validation", "on test", "Thompson - other, validation",
               "on test"), rows),
    ])  # fmt: skip
