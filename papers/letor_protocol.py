"""The LETOR protocol with the average precision of every test query, for paired tests.

Per fold each setting of a grid is trained on the training part, the best validation MAP is kept,
and it alone ranks the test part (MAP by the LETOR 4.0 script). Features are divided by their range
within each query first, which changes nothing where they already are.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from benchmarks.common.real_data import letor_collections
from sklearn.base import clone

from papers.claims import MARGIN
from papers.runs import table
from rankine.evaluation.letor import settings
from rankine.evaluation.significance import bootstrap_means, holm, paired_tests
from rankine.metrics import evaluate
from rankine.transforms.scaling import Scaling

METRIC = "letor4:map"
RESAMPLES = 10_000


class ScoredSystem(NamedTuple):
    """A ranker, the settings that validation data chooses from, and what it needs of the data."""

    ranker: Any
    grid: dict[str, list[Any]] | None = None  # the ranker's own by default
    random: bool = True  # whether the seed matters
    prepare: Any = None  # dataset -> dataset


def over_collections(contestants, reference, seeds, folds):
    """Compare all contestants on every available LETOR collection."""
    folders, absent = letor_collections()
    tasks = {
        folder.name: summarise(run(folder, contestants, seeds, folds), reference)
        for folder in folders
    }
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "folds": folds,
        "tasks": tasks,
        "absent": [f"LETOR task {task}" for task in absent],
    }


def task_tables(tasks, reference):
    """Return a heading and a table of comparisons for each task."""
    parts = []
    for task, comparison in tasks.items():
        parts.append(f"**{task}**, {comparison['queries']} test queries")
        parts.append(table(COMPARISON_HEADER, comparison_rows(comparison["methods"], reference)))
    return parts


def run(folder, contestants, seeds, n_folds=5):
    """Run every contestant on one folder; return average precision, choices and seconds."""
    runs_by_name = {name: [[] for _ in seeds] for name in contestants}
    for fold in itertools.islice(folder.folds(), n_folds):
        parts = [Scaling("query").apply(part) for part in fold[1:]]
        for name, contestant in contestants.items():
            prepared = [contestant.prepare(p) for p in parts] if contestant.prepare else parts
            for k, seed in enumerate(seeds if contestant.random else seeds[:1]):
                runs_by_name[name][k].append(_one(prepared, contestant, seed))
        print(f"{folder.name} {fold.name}", file=sys.stderr, flush=True)
    return {name: [runs for runs in by_seed if runs] for name, by_seed in runs_by_name.items()}


def _one(parts, contestant, seed):
    train, vali, test = parts
    best, seconds = (-1.0, None, None), []
    for setting in settings(contestant.ranker, contestant.grid):
        ranker = clone(contestant.ranker).set_params(random_state=seed, **setting)
        begun = time.process_time()
        ranker.fit(train)
        seconds.append(time.process_time() - begun)
        value = float(evaluate(METRIC, vali.y, ranker.predict(vali), vali.queries))
        if value > best[0]:
            best = value, ranker, setting
    scores = best[1].predict(test)
    values = evaluate(METRIC, test.y, scores, test.queries, per_query=True)
    return {
        "values": np.asarray(values, dtype=float),
        "map": float(np.mean(values)),
        "chosen": best[2],
        "seconds": float(np.median(seconds)),
    }


def summarise(found, reference):
    """Return means over folds by seed, and paired differences to the reference with tests.

    A query's value is its average precision averaged over the seeds.
    """
    values = {
        name: np.mean([np.concatenate([f["values"] for f in folds]) for folds in runs], axis=0)
        for name, runs in found.items()
    }
    other_names = [name for name in found if name != reference]
    tests = [paired_tests(values[n] - values[reference], RESAMPLES, 0) for n in other_names]
    adjusted = holm([test.randomisation for test in tests])
    drawn = bootstrap_means(np.column_stack(list(values.values())), RESAMPLES, 0)
    drawn = dict(zip(values, drawn.T, strict=True))
    summary = {}
    for name, runs in found.items():
        low, high = np.quantile(drawn[name], [0.025, 0.975])
        summary[name] = {
            "map_by_seed": [float(np.mean([f["map"] for f in folds])) for folds in runs],
            "map_by_fold": np.mean([[f["map"] for f in folds] for folds in runs], axis=0),
            "interval": [float(low), float(high)],
            "chosen": [folds_chosen(folds) for folds in runs],
            "fit_seconds": float(np.median([f["seconds"] for folds in runs for f in folds])),
        }
    for name, test, p in zip(other_names, tests, adjusted, strict=True):
        low, high = np.quantile(drawn[name] - drawn[reference], [0.025, 0.975])
        summary[name]["against_reference"] = {
            "difference": float(np.mean(values[name] - values[reference])),
            "interval": [float(low), float(high)],
            "p_t": test.t_test,
            "p_randomisation": test.randomisation,
            "p_wilcoxon": test.wilcoxon,
            "p_holm": p,
            "equivalent": bool(low > -MARGIN and high < MARGIN),
            "verdict": verdict(low, high, p),
        }
    return {"queries": len(values[reference]), "margin": MARGIN, "methods": summary}


def folds_chosen(folds):
    """Format the setting that each fold chose."""
    return [", ".join(f"{k}={v:g}" for k, v in f["chosen"].items()) for f in folds]


def verdict(low, high, p):
    """Return the verdict of ``rankine compare`` at 95 %."""
    inside = low > -MARGIN and high < MARGIN
    if p < 0.05:
        return ("better" if low > 0 else "worse") + (", within the margin" if inside else "")
    return "equivalent" if inside else "undecided"


def comparison_rows(methods, reference):
    """Return the rows of a comparison table."""
    rows = []
    for name, method in methods.items():
        by_seed = method["map_by_seed"]
        mean = f"{np.mean(by_seed):.4f}"
        over = f"{min(by_seed):.4f} to {max(by_seed):.4f}" if len(by_seed) > 1 else "-"
        cells = [name, mean, over]
        if name == reference:
            cells += ["", "", "reference"]
        else:
            paired = method["against_reference"]
            low, high = paired["interval"]
            cells += [
                f"{paired['difference']:+.4f} [{low:+.4f}, {high:+.4f}]",
                f"{paired['p_holm']:.3f}",
                paired["verdict"],
            ]
        rows.append([*cells, f"{method['fit_seconds']:.3f}"])
    return rows


COMPARISON_HEADER = (
    "method", "MAP", "over seeds", "difference [95 %]", "p (Holm)", "verdict", "CPU s a fit",
)  # fmt: skip
