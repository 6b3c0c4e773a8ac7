"""Figure 2: the RankSVM objective against the number of steps, on training and test data."""

from __future__ import annotations

import sys

import numpy as np
from benchmarks.common.real_data import letor_folders
from benchmarks.common.timing import spread
from benchmarks.common.workloads import letor_like

from papers.runs import table
from rankine import Dataset, RankSVM, SPDRanker
from rankine.core.errors import DivergenceError
from rankine.evaluation.letor import Fold
from rankine.losses.all_pairs import MeanPairLoss, PairMean
from rankine.losses.pairwise.hinge import Hinge
from rankine.metrics import evaluate

TITLE = "Figure 2: objective against steps"
SMOKE = {"steps": 10**3, "longest": 10**3, "seeds": [1]}
QUICK = {"steps": 10**5, "longest": 10**5, "seeds": [1]}
FULL = {"steps": 10**7, "longest": 10**8, "seeds": [1, 2, 3]}

#: The paper's task, then what stands in for it.
TASKS = ("hp2003", "ohsumed_letor3_querylevelnorm", "mq2008")
HAND_OVER = 10_000
LEARNERS = {
    "SGD-SVM": {"solver": "sgd_svm"},
    "Pegasos": {"solver": "pegasos"},
    "passive-aggressive": {"solver": "passive_aggressive"},
    "ROMMA, plain": {"solver": "romma", "norm_guard": False},
    "ROMMA, guarded": {"solver": "romma"},
    "hybrid": {"solver": "hybrid", "hybrid_steps": HAND_OVER},
}
#: Learners whose points are separate runs, of 10^6 steps at most.
APART = {
    "logistic": {"solver": "logistic", "average": False},
    "Pegasos, averaged": {"solver": "pegasos"},
}
GENERATED = "generated, shape of hp2003"


def tasks():
    """Load fold 1 of the paper's task or of a substitute, and generate data."""
    folders, _ = letor_folders()
    folder = next(f for name in (*TASKS, "") for f in folders if f.name.startswith(name))
    X, y, qid = letor_like(150)
    data = Dataset(X, y, qid)
    parts = [data.take_queries(range(*ends)) for ends in ((0, 75), (75, 100), (100, 150))]
    return {
        f"{folder.name}, Fold1": next(iter(folder.folds())),
        GENERATED: Fold("generated", *parts),
    }


def best(rankers, fold):
    """Return the ranker with the best validation MAP."""
    fitted = [ranker.fit(fold.train) for ranker in rankers]
    values = [
        evaluate("letor4:map", fold.vali.y, ranker.predict(fold.vali), fold.vali.queries)
        for ranker in fitted
    ]
    return fitted[int(np.argmax(values))]


def recorded(fold, steps, seed, parameters):
    """Record objectives of both parts at half decades of steps, while weights are finite."""
    at = [int(s) for s in 10 ** np.arange(2, np.log10(steps) + 0.25, 0.5)]
    while True:
        ranker = SPDRanker(
            n_steps=at[-1], average=False, record_at=at, random_state=seed, **parameters
        )
        try:
            ranker.fit(fold.train, eval_set=fold.test)
        except DivergenceError:
            at.pop()
        else:
            return ranker.record_


def apart(fold, steps, seed, parameters):
    """Return the hinge objectives of runs of different lengths."""
    objectives = []
    for n in [int(s) for s in 10 ** np.arange(2, np.log10(steps) + 0.25, 0.5)]:
        ranker = SPDRanker(n_steps=n, random_state=seed, **parameters).fit(fold.train)
        objectives.append({
            "step": n,
            "objective": objective(ranker.coef_, fold.train, ranker.l2),
            "eval_objective": objective(ranker.coef_, fold.test, ranker.l2),
        })  # fmt: skip
    return objectives


def objective(coef, data, lam):
    """Return lam/2 |w|^2 + mean over queries of their mean hinge."""
    mean = MeanPairLoss(Hinge(), PairMean.QUERIES)
    mean.add(data, data.X @ coef, np.ones(data.n_queries))
    return float(0.5 * lam * (coef @ coef) + mean.value)


def measure(steps, longest, seeds):
    results = {name: one_task(fold, steps, longest, seeds) for name, fold in tasks().items()}
    paper = any(name.startswith(TASKS[0]) for name in results)
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "tasks": results,
        "absent": [] if paper else [f"the paper's task {TASKS[0]}"],
    }


def one_task(fold, steps, longest, seeds):
    """Compute the optimum and the curves of all learners; the first seed runs longest."""
    exact = best([RankSVM(l2=2 * 10.0**-k, tol=1e-4, n_threads=1) for k in range(1, 6)], fold)
    exact = RankSVM(l2=exact.l2_, tol=1e-6, max_iter=5000, n_threads=1).fit(fold.train)
    lam = exact.l2_
    pa = [
        SPDRanker("passive_aggressive", aggressiveness=10.0**-k, random_state=0) for k in range(6)
    ]
    C = best(pa, fold).aggressiveness
    curves, diverged = {}, {}
    for name, learner_curves in LEARNERS.items():
        parameters = {**learner_curves, "l2": lam}
        if learner_curves["solver"] in ("passive_aggressive", "hybrid"):
            parameters["aggressiveness"] = C
        lengths = [longest, *([steps] * (len(seeds) - 1))]
        runs = [recorded(fold, n, s, parameters) for n, s in zip(lengths, seeds, strict=True)]
        curves[name] = joined(runs)
        ends = zip(runs, lengths, strict=True)
        diverged[name] = sum(2 * run[-1]["step"] < length for run, length in ends)
        print(name, file=sys.stderr, flush=True)
    for name, learner_curves in APART.items():
        runs = [apart(fold, min(steps, 10**6), s, {**learner_curves, "l2": lam}) for s in seeds]
        curves[name] = joined(runs)
    return {
        "lam": lam,
        "C": C,
        "optimum": exact.solution_.objective,
        "optimum_gap": exact.solution_.certificate["gap"],
        "optimum_on_test": objective(exact.coef_, fold.test, lam),
        "curves": curves,
        "diverged": diverged,
    }


def joined(runs):
    """Return steps and the spread over seeds of both objectives."""
    longest = max(runs, key=len)
    curve = {"step": [row["step"] for row in longest], "train": [], "test": []}
    for k in range(len(longest)):
        for part, key in (("train", "objective"), ("test", "eval_objective")):
            curve[part].append(spread(run[k][key] for run in runs if k < len(run)))
    return curve


def excess(found, name, step):
    """Return the median of J / J* - 1 on training data at a step, or None if not reached."""
    curve = found["curves"][name]
    if step not in curve["step"]:
        return None
    return curve["train"][curve["step"].index(step)]["median"] / found["optimum"] - 1


def markdown(results):
    parts = [
        (
            "lam is RankSVM's and C passive-aggressive's choice by validation MAP. Curves are "
            f"of last iterates; the hybrid hands over after {HAND_OVER:,} steps; points of the "
            "logistic and averaged curves are separate runs, at the same hinge objective."
        )
    ]
    for task, task_result in results["tasks"].items():
        steps = task_result["curves"]["Pegasos"]["step"]
        shown = [s for s in (10**k for k in range(2, 9)) if s in steps]
        parts.append(
            f"**{task}**: lam = {task_result['lam']:g}, C = {task_result['C']:g}, optimum "
            f"{task_result['optimum']:.6f}, certified to {task_result['optimum_gap']:.1e}"
        )
        rows = []
        for name in task_result["curves"]:
            values = [excess(task_result, name, s) for s in shown]
            rows.append([name, *("" if v is None else f"{100 * v:.3g} %" for v in values)])
        header = ("above the optimum at step", *(f"10^{round(np.log10(s))}" for s in shown))
        parts += [table(header, rows), outcome(task_result)]
    return "\n\n".join(parts)


def outcome(found):
    """Check the paper's observations."""
    sentences, late = [], []
    for name in ("SGD-SVM", "Pegasos", "Pegasos, averaged"):
        at = excess(found, name, 10**6)
        if at is None:
            continue
        reached = "within" if at <= 0.01 else "not within"
        told = f"{name} is {reached} 1 % of the optimum at 10^6 steps ({100 * at:.2g} %)"
        if at > 0.01:
            late.append(name)
        after = [s for s in found["curves"][name]["step"] if s >= 10**6]
        if at <= 0.01 and len(after) > 1:
            worst = max(excess(found, name, s) for s in after)
            told += f" and never above {100 * worst:.2g} % from there to {after[-1]:,}"
        sentences.append(told)
    if late:
        sentences.append(
            "the bound on the error of such steps is of the order of 1 / (lam steps), here "
            f"{1 / (found['lam'] * 10**6):.2g} after 10^6 with an optimum of "
            f"{found['optimum']:.2g}: with so small a lam {first_within(found, late)}"
        )
    for name in ("passive-aggressive", "ROMMA, plain"):
        steps = found["curves"][name]["step"]
        gaps = [excess(found, name, step) - excess(found, "Pegasos", step) for step in steps]
        ahead = [step for step, gap in zip(steps, gaps, strict=True) if gap < 0]
        when = f"up to {ahead[-1]:,} steps" if ahead else "at no step"
        told = f"{name} is ahead of Pegasos {when}"
        worse = "behind" if gaps[-1] > 0 else "not behind"
        sentences.append(f"{told} (the paper: below 10^5) and {worse} at {steps[-1]:,}")
    sentences += [
        f"the weights of {name} stopped being finite in {count} of its runs, whose curves end there"
        for name, count in found["diverged"].items()
        if count
    ]
    return "; ".join(sentences) + "."


def first_within(found, names):
    """Describe when learners first come, and remain, within 1 % of the optimum."""
    said = []
    for name in names:
        steps = found["curves"][name]["step"]
        good = [s for s in steps if all(excess(found, name, t) <= 0.01 for t in steps if t >= s)]
        said.append(f"{name} from {good[0]:,} steps on" if good else f"{name} not at all")
    return "1 % is reached by " + ", ".join(said)


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    figure, axes = panels(2, len(results["tasks"]), width=5.2, height=4.0)
    for row, (task, task_result) in enumerate(results["tasks"].items()):
        above, test = axes[2 * row : 2 * row + 2]
        for colour, (name, curve) in zip(COLOURS, task_result["curves"].items(), strict=True):
            relative = [
                {
                    key: max(s[key] / task_result["optimum"] - 1, 1e-9)
                    for key in ("median", "low", "high")
                }
                for s in curve["train"]
            ]
            line(above, curve["step"], relative, name, colour, marker=".")
            line(test, curve["step"], curve["test"], name, colour, marker=".")
        above.axhline(0.01, color="black", lw=0.9, ls=":")
        above.text(110, 0.009, "1 % above the optimum", va="top", fontsize=8)
        axis(above, "steps", "J / J* - 1 on training data", title=task, logx=True, logy=True)
        above.set_ylim(1e-5, 1e2)
        optimum = task_result["optimum_on_test"]
        test.axhline(optimum, color="black", lw=0.9, ls=":")
        test.text(110, 0.99 * optimum, "RankSVM's optimum", va="top", fontsize=8)
        axis(test, "steps", "J on test data", title=task, logx=True, logy=True)
        test.set_ylim(0.85 * optimum, 30 * optimum)
        label_lines(above)
        label_lines(test)
    return figure
