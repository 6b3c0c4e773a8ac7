"""Figure 2: one pass of RDA beside our RankSVM, query by query."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from itertools import islice

import numpy as np
import optuna
from benchmarks.common.drawing import COLOURS, axis, panels
from benchmarks.common.real_data import letor_folders

from papers.claims import margin_of, paired
from papers.freno.figure2 import DECIDES, FOLDERS, learnt, tuned
from papers.runs import table
from rankine import RankSVM
from rankine.metrics import evaluate
from rankine.transforms.scaling import Scaling

TITLE = "Figure 2: one pass beside RankSVM, query by query"
SMOKE = {"seeds": [0], "folds": 1, "evaluations": 3}
QUICK = {"seeds": [0], "folds": 1, "evaluations": 6}
FULL = {"seeds": [0, 1, 2, 3, 4, 5], "folds": 5, "evaluations": 60}
CUTS = (1, 2, 3, 4, 5)
MEAN = "mean of 1 to 5"
ONE_LIST = {"parts": 1, "repeats": 1}


def suggested(trial):
    """Suggest a setting of RDA; small steps are allowed, because one list has many pairs."""
    return {
        "solver": "rda",
        "loss": trial.suggest_categorical("loss", ("logistic", "hinge")),
        "objective": trial.suggest_categorical("objective", ("ndcg", "ndcg@10", "pairwise")),
        "eta0": trial.suggest_float("eta0", 1e-5, 1e1, log=True),
        "l1": trial.suggest_float("l1", 1e-6, 1e-1, log=True),
        "l2": trial.suggest_float("l2", 1e-6, 1e-1, log=True),
    }


def ndcg(scores, test):
    """Return NDCG@k of every test query, one column per cut."""
    metrics = (f"letor4:ndcg@{k}" for k in CUTS)
    columns = [evaluate(m, test.y, scores, test.queries, per_query=True) for m in metrics]
    return np.column_stack(columns).astype(float)


def exact(train, vali):
    """Return RankSVM with the l2 that validation MAP prefers."""
    fits = [RankSVM(l2=l2, n_threads=1).fit(train) for l2 in RankSVM.letor_grid["l2"]]
    values = [evaluate(DECIDES, vali.y, each.predict(vali), vali.queries) for each in fits]
    return fits[int(np.argmax(values))]


def one_fold(fold, seeds, evaluations):
    """Return NDCG of every test query by RDA, averaged over the seeds, and by RankSVM."""
    train, vali, test = (Scaling("query").apply(part) for part in fold[1:])
    by_seed = []
    for seed in seeds:

        def fit(setting, seed=seed):
            return learnt(train, seed, setting, ONE_LIST).coef_

        (_, coef), _ = tuned(vali, seed, evaluations, suggested, fit)
        by_seed.append(ndcg(test.X @ coef, test))
    print(fold.name, file=sys.stderr, flush=True)
    return np.mean(by_seed, axis=0), ndcg(exact(train, vali).predict(test), test)


def compared(ours, reference):
    """Return means and the paired difference over queries."""
    return {
        "ours": float(ours.mean()),
        "ranksvm": float(reference.mean()),
        "paired": paired(ours - reference),
    }


def one_folder(folder, seeds, folds, evaluations):
    """Compare on all test queries of a collection."""
    parts = [one_fold(fold, seeds, evaluations) for fold in islice(folder.folds(), folds)]
    ours, reference = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    by_cut = {str(k): compared(ours[:, c], reference[:, c]) for c, k in enumerate(CUTS)}
    both = compared(ours.mean(axis=1), reference.mean(axis=1))
    return {"queries": len(ours), "ndcg": {**by_cut, MEAN: both}}


def measure(seeds, folds, evaluations):
    """Compare on one form of every available LETOR collection."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    folders, absent = letor_folders(dense=True)
    run = partial(one_folder, seeds=seeds, folds=folds, evaluations=evaluations)
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "absent": absent,
        "tasks": {f.name: run(f) for f in folders if f.name.lower() in FOLDERS},
    }


def markdown(results):
    evaluations = results["parameters"]["evaluations"]
    how = (
        f"RDA, one pass over the lists in random order; {evaluations} evaluations of Bayesian "
        "optimisation (Thompson sampling) choose loss, objective, l1, l2 and eta0 from 1e-5 on by "
        f"validation MAP; a query's value is its NDCG@k averaged over {len(results['seeds'])} "
        "seeds. RankSVM's l2 is chosen by validation MAP. 95 % intervals resample test queries."
    )
    parts = [how]
    for name, task in results["tasks"].items():
        rows = []
        for cut, found in task["ndcg"].items():
            low, high = found["paired"]["interval"]
            difference = f"{found['paired']['difference']:+.4f} [{low:+.4f}, {high:+.4f}]"
            rows.append([cut, f"{found['ours']:.4f}", f"{found['ranksvm']:.4f}", difference])
        parts.append(f"**{name}**, {task['queries']} test queries")
        parts.append(table(("NDCG@", "RDA, one pass", "RankSVM", "difference"), rows))
    return "\n\n".join(parts)


def draw(results):
    tasks = results["tasks"]
    figure, axes = panels(len(tasks), width=3.9, height=3.0)
    for ax, (name, task) in zip(axes, tasks.items(), strict=True):
        for place, found in enumerate(task["ndcg"].values()):
            ax.plot([place, place], found["paired"]["interval"], color=COLOURS[0], lw=1.8)
            ax.plot(place, found["paired"]["difference"], "o", color=COLOURS[0])
        margin = margin_of(task["ndcg"][MEAN]["ranksvm"])
        ax.axhspan(-margin, margin, color="black", alpha=0.08, lw=0)
        ax.axhline(0.0, color="black", lw=0.8)
        ax.set_xticks(range(len(task["ndcg"])), [*map(str, CUTS), "mean"])
        axis(ax, "k", "NDCG@k minus RankSVM's, 95 %", title=f"{name}\n{task['queries']} queries")
    return figure
