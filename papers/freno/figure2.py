"""Figure 2: NDCG@k on LETOR after one pass, beside methods that may iterate."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from itertools import islice

import numpy as np
import optuna
from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels
from benchmarks.common.real_data import letor_folders
from benchmarks.common.timing import cpu_seconds, spread
from benchmarks.common.workloads import AS_PRINTED, BlockStream
from sklearn.linear_model import Ridge

from papers.freno import implicit
from papers.runs import table
from rankine import Dataset, ElasticRanker
from rankine.core.errors import DivergenceError
from rankine.evaluation.letor_tables import PUBLISHED, read_baselines
from rankine.metrics import evaluate
from rankine.transforms.scaling import Scaling
from rankine.tuning import ThompsonSampler

TITLE = "Figure 2: NDCG@k on LETOR, one pass"
SMOKE = {"seeds": [0], "folds": 1, "evaluations": 4}
QUICK = {"seeds": [0], "folds": 1, "evaluations": 6}
FULL = {"seeds": [0, 1, 2, 3], "folds": 5, "evaluations": 30}
CUTS = tuple(range(1, 11))
SHOWN = (1, 2, 3, 4, 5, 10)
METRICS = tuple(f"letor4:ndcg@{k}" for k in CUTS)
DECIDES = "letor4:map"
#: One form of each collection: the one that published baselines use.
FOLDERS = ("mq2008", "ohsumed_letor3_querylevelnorm")
OURS, MORE, INNER, IMPLICIT = (
    "ElasticRank, one pass",
    "the same, 20 passes",
    "read once, several steps a list",
    "read once, implicit steps",
)
WAYS = (OURS, MORE, INNER, IMPLICIT)
REGRESSION = "regression"
#: Curves are drawn as differences to this public tool. Another looks mis-tuned and is not drawn.
REFERENCE, NOT_DRAWN = "SVMrank", ("SVMlight",)
SHORT = {OURS: "one pass", MORE: "20 passes", INNER: "several steps", IMPLICIT: "implicit steps"}
PASSES = 20
ALPHAS = tuple(10.0**k for k in range(-3, 5))


def suggested(trial, *, inner):
    """Suggest a setting: the paper's space, the step size, and the form of the lists."""
    setting = {
        "solver": trial.suggest_categorical("solver", ("rda", "fobos")),
        "loss": trial.suggest_categorical("loss", ("logistic", "hinge")),
        "objective": trial.suggest_categorical("objective", ("ndcg", "ndcg@10", "map", "pairwise")),
        "eta0": trial.suggest_float("eta0", 1e-3, 1e1, log=True),
        "l1": trial.suggest_float("l1", 1e-6, 1e-1, log=True),
        "l2": trial.suggest_float("l2", 1e-6, 1e-1, log=True),
    }
    shape = {"parts": 1, "repeats": 1}
    if inner:
        shape = {
            "parts": trial.suggest_categorical("parts", (1, 2, 4)),
            "repeats": trial.suggest_categorical("repeats", (1, 3, 10)),
        }
        setting["adaptive"] = (
            trial.suggest_categorical("steps", ("adaptive", "as printed")) == ("adaptive")
            and setting["solver"] == "rda"
        )
    return setting, shape


def arranged(data, seed, parts, repeats):
    """Return the lists in random order, cut into ``parts``, each repeated ``repeats`` times."""
    rng, starts = np.random.default_rng(seed), data.queries.starts
    rows, lists = [], []
    for query in rng.permutation(data.n_queries):
        members = rng.permutation(np.arange(starts[query], starts[query + 1]))
        for piece in np.array_split(members, parts):
            rows += [piece] * repeats
            lists += [len(piece)] * repeats
    rows = np.concatenate(rows)
    qid = np.repeat(np.arange(len(lists)), lists)
    return BlockStream([Dataset.from_arrays(data.X[rows], data.y[rows], qid)], data.n_features)


def learnt(train, seed, asked, shape, **more):
    """Train for one pass over the lists."""
    ranker = ElasticRanker(**{**AS_PRINTED, "random_state": seed, **asked, **more})
    return ranker.fit(arranged(train, seed, **shape))


def tuned(vali, seed, evaluations, suggest, fit):
    """Tune by Thompson sampling on validation MAP; return setting, weights and seconds."""
    study = optuna.create_study(sampler=ThompsonSampler(seed=seed), direction="maximize")
    best, seconds = (-1.0, None, None), []
    for _ in range(evaluations):
        trial = study.ask()
        setting = suggest(trial)
        try:
            spent, coef = cpu_seconds(lambda s=setting: fit(s))
        except DivergenceError:
            study.tell(trial, 0.0)
            continue
        value = float(evaluate(DECIDES, vali.y, vali.X @ coef, vali.queries))
        study.tell(trial, value)
        seconds.append(spent)
        best = max(best, (value, setting, coef), key=lambda three: three[0])
    return best[1:], seconds


def regression(train, vali, test):
    """Fit linear regression of the label; validation MAP chooses the ridge."""
    models = [Ridge(alpha).fit(train.X, train.y) for alpha in ALPHAS]
    values = [evaluate(DECIDES, vali.y, vali.X @ model.coef_, vali.queries) for model in models]
    return judged(test.X @ models[int(np.argmax(values))].coef_, test)


def one_fold(fold, seeds, evaluations):
    """Return NDCG@k on the test part by method and seed, and CPU seconds per fit."""
    train, vali, test = (Scaling("query").apply(part) for part in fold[1:])
    values, seconds = {method: [] for method in WAYS}, []
    for seed in seeds:
        best, chosen = {}, partial(tuned, vali, seed, evaluations)
        for method, inner in ((OURS, False), (INNER, True)):
            (setting, best[method]), spent = chosen(
                partial(suggested, inner=inner), lambda s, seed=seed: learnt(train, seed, *s).coef_
            )
            if method == OURS:
                seconds += spent
                options = {"n_passes": PASSES, "shuffle_buffer": train.n_queries}
                best[MORE] = learnt(train, seed, *setting, **options).coef_
        (_, best[IMPLICIT]), _ = chosen(
            implicit.suggested, lambda s, seed=seed: implicit.learnt(train, seed, **s)
        )
        for method in WAYS:
            values[method].append(judged(test.X @ best[method], test))
    print(fold.name, file=sys.stderr, flush=True)
    return values, regression(train, vali, test), seconds


def judged(scores, test):
    """Return NDCG@k for every k."""
    return [float(evaluate(m, test.y, scores, test.queries)) for m in METRICS]


def one_folder(folder, seeds, folds, evaluations):
    """Return means over the folds for each seed and k."""
    parts = [one_fold(fold, seeds, evaluations) for fold in islice(folder.folds(), folds)]
    values = {method: np.mean([part[0][method] for part in parts], axis=0) for method in WAYS}
    stored_methods = read_baselines(PUBLISHED)
    task = next((t for t in stored_methods if folder.name.lower().startswith(t)), None)
    published = stored_methods[task] if task and folds == folder.n_folds else {}
    return {
        "ways": {
            method: [spread(v[:, k]) for k in range(len(CUTS))] for method, v in values.items()
        },
        "others": {
            REGRESSION: np.mean([part[1] for part in parts], axis=0),
            **{n: [float(row[f"ndcg@{k}"]) for k in CUTS] for n, row in published.items()},
        },
        "fit_seconds": spread([s for part in parts for s in part[2]]),
    }


def measure(seeds, folds, evaluations):
    """Measure one form of every available LETOR collection."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    folders, absent = letor_folders(dense=True)
    kept = [folder for folder in folders if folder.name.lower() in FOLDERS]
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "folds": folds,
        "absent": [*absent, "the table of baselines that LETOR 3.0 itself published"],
        "tasks": {folder.name: one_folder(folder, seeds, folds, evaluations) for folder in kept},
    }


def draw(results):
    tasks = results["tasks"]
    figure, axes = panels(len(tasks), 1, width=5.6, height=3.9)
    for ax, (name, task) in zip(axes, tasks.items(), strict=True):
        # Published figures are of all folds; some folds have only the regression.
        reference = REFERENCE if REFERENCE in task["others"] else REGRESSION
        base = np.array(task["others"][reference])
        peers = [peer for peer in task["others"] if peer not in (reference, *NOT_DRAWN)]
        for peer, colour in zip(peers, COLOURS[4:], strict=False):
            line(ax, CUTS, np.array(task["others"][peer]) - base, peer, colour, marker=None,
                 style="--")  # fmt: skip
        for (way, label), colour in zip(SHORT.items(), COLOURS, strict=False):
            values = [
                {key: value[key] - base[k] for key in ("median", "low", "high")}
                for k, value in enumerate(task["ways"][way])
            ]
            line(ax, CUTS, values, label, colour)
        ax.axhline(0.0, color="black", lw=0.8)
        axis(ax, "k", f"NDCG@k minus {reference}'s", title=name)
        label_lines(ax)
        ax.set_xticks(CUTS)
    return figure


def markdown(results):
    size = results["parameters"]
    lines = [
        (
            f"{results['folds']} of 5 folds; for each of {len(results['seeds'])} seeds (the order "
            f"of the lists), {size['evaluations']} evaluations of Bayesian optimisation (Gaussian "
            "process, Thompson sampling, as in the paper) choose a setting by validation MAP. "
            "*Several steps a list* reads the lists once too, but may take a list in 2 or 4 parts, "
            "make 3 or 10 steps on each part before the next, and have a step size per weight, all "
            "chosen by the same validation MAP with as many evaluations; *implicit steps* "
            "(`papers/freno/implicit.py`) minimise the loss of a list near the last weights, "
            "may take a list in halves and average the weights of all steps or of the second half, "
            "chosen likewise. *Regression* is ridge "
            "regression of the label; the other rows are public tools re-run on the same rows, "
            "which may iterate until they converge (SVMlight's looks mis-tuned). NDCG by the "
            "rules of the LETOR 4.0 script, which is 0 for queries with fewer than k documents. "
            "Median over seeds."
        ),
    ]
    for name, task in results["tasks"].items():
        rows = [
            [way, *(f"{values[k - 1]['median']:.4f}" for k in SHOWN)]
            for way, values in task["ways"].items()
        ]
        rows += [
            [method, *(f"{values[k - 1]:.4f}" for k in SHOWN)]
            for method, values in task["others"].items()
        ]
        lines += [
            f"**{name}**, {task['fit_seconds']['median']:.3f} CPU seconds a pass",
            table(["method", *(f"@{k}" for k in SHOWN)], rows),
            outcome(task),
        ]
    return "\n\n".join(lines)


def first_five(values):
    """Return the mean of NDCG@1 to 5."""
    return float(np.mean([v["median"] if isinstance(v, dict) else v for v in values[:5]]))


def outcome(task):
    """Compare the methods by the mean of NDCG@1 to 5."""
    peers = {name: first_five(values) for name, values in task["others"].items()}
    top = max(peers, key=peers.get)
    sentences = []
    for method, values in task["ways"].items():
        ours = first_five(values)
        ahead = sum(ours > value for value in peers.values())
        sentences.append(
            f"{method}: ahead of {ahead} of {len(peers)}, {ours - peers[top]:+.4f} to {top}"
        )
    return "By the mean of NDCG@1 to 5: " + "; ".join(sentences) + "."
